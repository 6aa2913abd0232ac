"""The structs of ``forge_runtime.h`` as generated code sees them: offsets of fields on a 64-bit machine."""

from __future__ import annotations

from collections.abc import Sequence

from forge.codegen.llvm import IRBuilder

ABI_VERSION = 4
MAX_RANK = 8

DTYPE_CODES: dict[str, int] = {
    name: code for code, name in enumerate((
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
        "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
        "float8_e8m0fnu", "float4_e2m1fn", "int2", "uint2", "int4", "uint4", "string", "sequence", "optional"))
}
"""``forge_dtype``."""

HOST_OFFSETS = {"abi_version": 0, "state": 8, "alloc": 16, "free": 24, "parallel_for": 32, "report_error": 40,
                "call_registered": 48, "run_control": 56, "heap_alloc": 64, "proceed": 72}
"""``forge_call_host``, which begins with a ``forge_host``."""

CALL_OFFSETS = {"inputs": 0, "outputs": 8, "weights": 16, "arena": 24, "symbols": 32, "host": 40, "out": 48}
"""``forge_call``."""

TENSOR_OFFSETS = {"data": 0, "dtype": 8, "ndim": 12, "shape": 16, "capacity": 16 + 8 * MAX_RANK}
"""``forge_tensor``."""

TENSOR_BYTES = 24 + 8 * MAX_RANK
STATUS_INPUT, STATUS_MEMORY, STATUS_VALUE = 1, 2, 5
"""``forge_status``."""


def field(builder: IRBuilder, base: str, offset: int) -> str:
    """The pointer stored ``offset`` bytes after ``base``."""
    slot = builder.value(f"getelementptr i8, ptr {base}, i64 {offset}")
    return builder.value(f"load ptr, ptr {slot}, align 8")


def host_function(builder: IRBuilder, host: str, name: str) -> str:
    """A function of the host's table."""
    return field(builder, host, HOST_OFFSETS[name])


def tensor(builder: IRBuilder, table: str, number: int) -> str:
    """The pointer to a descriptor of an array of them."""
    return builder.value(f"getelementptr i8, ptr {table}, i64 {TENSOR_BYTES * number}")


def tensor_field(builder: IRBuilder, descriptor: str, name: str, position: int = 0) -> str:
    """The pointer to a field; to element ``position`` of the shape."""
    return builder.value(f"getelementptr i8, ptr {descriptor}, i64 {TENSOR_OFFSETS[name] + 8 * position}")


def store_shape(builder: IRBuilder, descriptor: str, extents: Sequence[str] | None) -> None:
    """Stores rank and extents; None: any rank."""
    rank = -1 if extents is None else len(extents)
    builder.effect(f"store i32 {rank}, ptr {tensor_field(builder, descriptor, 'ndim')}, align 4")
    for axis, extent in enumerate(extents or ()):
        builder.effect(f"store i64 {extent}, ptr {tensor_field(builder, descriptor, 'shape', axis)}, align 8")
