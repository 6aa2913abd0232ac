"""The list of PyTorch's operators that ``forge support torch`` prints, and how much of Core ATen is converted."""

from __future__ import annotations

from typing import Any

import pytest

from forge.frontends.support import CONVERTER, MISSING
from forge.frontends.torch.coverage import CORE_ATEN, coverage, missing_core

REFUSED = frozenset((
    "atan2.out", "resize_.default",  # they write to memory that they are given
    "as_strided.default", "sym_is_contiguous.default",  # of strides
))  # fmt: skip


def test_core_aten_is_converted() -> None:
    assert set(missing_core()) <= REFUSED


def test_every_overload_is_listed_once() -> None:
    rows = [(row.domain, row.op) for row in coverage()]
    assert len(rows) == len(set(rows))
    how = {row.op: row.how for row in coverage() if not row.domain}
    assert (how["add.Tensor"], how["sym_size.int"], how["atan2.out"]) == (CONVERTER, CONVERTER, CONVERTER)
    assert missing_core() == [op for op in CORE_ATEN if how[op] == MISSING] == []


def test_core_aten_is_what_torch_says() -> None:
    torch = pytest.importorskip("torch")

    def overload(schema: Any) -> Any:
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        return getattr(packet, schema.overload_name or "default", None)

    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    core = {
        f"{s.name.removeprefix('aten::')}.{s.overload_name or 'default'}"
        for s in schemas
        if torch.Tag.core in getattr(overload(s), "tags", ())
    }
    assert core == set(CORE_ATEN)
