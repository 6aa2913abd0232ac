"""Native instructions of AArch64."""

from __future__ import annotations

from typing import Final

from forge.codegen.isa.rows import Row, Table

TABLE: Final = Table(
    rows=(Row("dot_u8s8", "int32", 4, ("i8mm",), "aarch64.neon.usdot.v4i32.v16i8"),),
    clock='read_volatile_register.i64(metadata !{!"CNTVCT_EL0"})')
