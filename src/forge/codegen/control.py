"""Nodes that the host runs, in the entry: descriptors of their tensors on the stack, and a call of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge.codegen import abi
from forge.codegen.functions import FunctionEmitter
from forge.tir import expr as tir
from forge.tir import stmt
from forge.tir.library import Control

KINDS = (
    "if", "loop", "scan", "sequence_map", "sequence_construct", "sequence_insert", "sequence_erase", "sequence_at",
    "sequence_length", "sequence_split", "sequence_concat", "optional_has", "optional_get", "call_registered",
)
TRIPS, CONDITION = 1, 2
NEW_AXIS, DROP_AXIS = 1, 2
"""``forge_control_kind``, the flags of loops, and those of sequence_concat and sequence_split."""


def constants(control: Control, symbol: str, models: Sequence[str], pointer: Callable[[str], str]) -> list[str]:
    """Definitions of the ``forge_control`` called ``symbol`` of descriptors ``models``; ``pointer`` gives one to a string."""
    lines, backwards = [], "ptr null"
    if any(control.backwards):
        backwards = f"ptr {symbol}.backwards"
        values = ", ".join(f"i8 {b:d}" for b in control.backwards)
        lines.append(f"{symbol}.backwards = internal constant [{len(control.backwards)} x i8] [{values}]")
    flags = TRIPS * control.has_trips + CONDITION * control.has_condition
    flags += NEW_AXIS * control.adds_axis + DROP_AXIS * control.drops_axis
    function = pointer(control.function) if control.function else "ptr null"
    last = [pointer(control.name), f"i32 {control.axis}", function]
    regions = [f"ptr {m}" for m in models] + ["ptr null"] * (2 - len(models))
    numbers = [f"i32 {n}" for n in (KINDS.index(control.kind), flags, control.carried, control.scanned)]
    lines.append(f"{symbol} = internal constant {{ i32, i32, i32, i32, ptr, ptr, ptr, ptr, i32, ptr }} "
                 f"{{ {', '.join([*numbers, backwards, *regions, *last])} }}, align 8")
    return lines


class ControlCalls:
    """Result descriptors of the entry's nodes that the host runs; without data at the start."""

    def __init__(self, f: FunctionEmitter, host: str, nodes: Sequence[stmt.RunControl]) -> None:
        self.f = f
        self.host = host
        self._tables: dict[int, str] = {}  # by control
        self.descriptors: dict[int, str] = {}  # by number of the result
        for node in nodes:
            self._reserve(node)

    def _reserve(self, node: stmt.RunControl) -> None:
        b = self.f.builder
        table = self._tables[node.control] = b.alloca(f"[{max(1, abi.TENSOR_BYTES * len(node.results))} x i8]", 8)
        for position, result in enumerate(node.results):
            if result.address is None:
                descriptor = b.pure(f"getelementptr i8, ptr {table}, i64 {abi.TENSOR_BYTES * position}")
                self.descriptors[result.number] = descriptor
                b.effect(f"store ptr null, ptr {descriptor}, align 8")

    def slot(self, number: int) -> tuple[str, str]:
        """Where a result's pointer and number of bytes are."""
        return self.descriptors[number], abi.tensor_field(self.f.builder, self.descriptors[number], "capacity")

    def shape(self, number: int) -> str:
        """The pointer to a result's extents."""
        return abi.tensor_field(self.f.builder, self.descriptors[number], "shape")

    def run(self, node: stmt.RunControl, control: str, weights: str, pointer: Callable[[stmt.Address], str],
            scalar: Callable[[tir.Expr], str]) -> None:
        """Fills the descriptors and calls the host."""
        b = self.f.builder
        operands = b.alloca(f"[{max(1, abi.TENSOR_BYTES * len(node.operands))} x i8]", 8)
        for position, operand in enumerate(node.operands):
            tensor = abi.tensor(b, operands, position)
            if operand.result is not None:
                self._copy(self.descriptors[operand.result], tensor)
                continue
            data = "null" if operand.address is None else pointer(operand.address)
            b.effect(f"store ptr {data}, ptr {tensor}, align 8")
            self._describe(tensor, operand.dtype, [scalar(x) for x in operand.shape])
        for position, result in enumerate(node.results):
            tensor = abi.tensor(b, self._tables[node.control], position)
            if result.address is not None:
                b.effect(f"store ptr {pointer(result.address)}, ptr {tensor}, align 8")
            extents = None if result.shape is None else ["-1" if x is None else scalar(x) for x in result.shape]
            self._describe(tensor, result.dtype, extents)
        function = abi.host_function(b, self.host, "run_control")
        self.f.check_status(b.value(
            f"call i32 {function}(ptr {self.host}, ptr {control}, ptr {weights}, ptr {operands}, i32 {len(node.operands)}, "
            f"ptr {self._tables[node.control]}, i32 {len(node.results)})"))

    def move(self, number: int, tensor: str) -> None:
        """Hands a result over to another descriptor."""
        self._copy(self.descriptors[number], tensor)
        self.f.builder.effect(f"store ptr null, ptr {self.descriptors[number]}, align 8")

    def _copy(self, source: str, target: str) -> None:
        whole = f"[{abi.TENSOR_BYTES // 8} x i64]"
        value = self.f.builder.value(f"load {whole}, ptr {source}, align 8")
        self.f.builder.effect(f"store {whole} {value}, ptr {target}, align 8")

    def _describe(self, tensor: str, dtype: str, extents: Sequence[str] | None) -> None:
        b = self.f.builder
        b.effect(f"store i32 {abi.DTYPE_CODES[dtype]}, ptr {abi.tensor_field(b, tensor, 'dtype')}, align 4")
        abi.store_shape(b, tensor, extents)
