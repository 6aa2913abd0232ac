"""Random graphs over all operators: of any rank, element type and size, with symbolic dimensions and empty tensors.

``AnyNetwork`` evaluates what it builds at once, so that only bounded, finite values become operands again. Steps are those
of ``tests.passes.random_graphs``, the ones below, and every row of ``tests/ops/cases``, whose operands become earlier values
where these can be brought into the row's shape and range.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import MISSING
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.errors import TypeInferenceError
from forge.ir.graph import Graph
from forge.ir.interp import bind_symbols, evaluate, run_graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Kind, OpDef, Trait, all_ops
from forge.ir.types import TensorType
from forge.ops.core.op import Op
from tests.error_model import is_inexact, widened
from tests.ops.case import Case, Constant, Draw, Fixed
from tests.passes.random_graphs import Network

DTYPES = (
    *["float32"] * 6, "float64", "float64", "float16", "float16", "bfloat16", "int64", "int64", "int32", "int32", "int16", "int8",
    "uint8", "uint8", "uint16", "uint32", "uint64", "bool", "bool", "complex64", "complex128",
)
STORAGE_DTYPES = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4", "int2", "uint2", "float4_e2m1fn",
)
"""Element types that are moved and cast only."""

EXTENTS = (0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 13, 17)
LARGEST_SIZE = 2048
LARGEST_VALUE = 64.0
LARGEST_RANK = 8


class AnyNetwork(Network):
    """A graph of arbitrary operators, with the contents of all values."""

    depth = 2
    """How deep control flow may be nested."""

    def __init__(self, seed: int, cases: list[Case]) -> None:
        super().__init__(seed)
        self.cases = cases
        self.symbolic = bool(self.rng.random() < 0.4)
        self.inputs: list[np.ndarray] = []
        self.arrays: dict[Value, Any] = {}
        self.stored: list[Value] = []
        self.symbols: dict[str, int] = {}

    def value(self, rank: int | None = None, dtype: str | None = "float32") -> Value:
        """A recent value; steps of the base class ask for float32 ones whose sizes after the first dimension are known."""
        fitting = [v for v in self.values if dtype in (None, v.dtype) and (v.rank == rank or (rank is None and v.rank > 0))]
        fitting = [v for v in fitting if dtype is None or dims.is_static(*v.shape[1:])]
        if not fitting:
            raise TypeInferenceError("there is such a value")
        return fitting[-1 - int(self.rng.integers(min(5, len(fitting))))]

    def any_value(self) -> Value:
        return self.values[-1 - int(self.rng.integers(min(8, len(self.values))))]

    def movable_value(self) -> Value:
        """Any value, or one of an element type that is only moved and cast."""
        return self.pick(*self.stored[-4:]) if self.stored and self.rng.random() < 0.3 else self.any_value()

    def shape(self, value: Value) -> tuple[int, ...]:
        """The sizes that a value has in this run, whatever its type knows."""
        return tuple(self.arrays[value].shape)

    def input(self, array: np.ndarray, symbolic: bool) -> Value:
        """A new input; a symbol's name tells its size, so that equal names have equal sizes."""
        shape = tuple(dims.symbol(f"s{d}") if symbolic and self.rng.random() < 0.5 else d for d in array.shape)
        value = self.builder.input(TensorType(shape, dtypes.canonical(array.dtype)), f"in{len(self.inputs)}")
        self.inputs.append(array)
        self.arrays[value] = array
        bind_symbols(value, array, self.symbols)
        self.offer(value)
        return value

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return Draw(shape, dtype, low=-4, high=4).array(self.rng)

    def offer(self, value: Value) -> None:
        """Lets a value become an operand, if it is bounded."""
        array = self.arrays[value]
        if array.size > LARGEST_SIZE:
            return
        if value.dtype in STORAGE_DTYPES:
            self.stored.append(value)
        elif value.dtype in DTYPES and (not is_inexact(value.dtype) or np.all(np.abs(widened(array)) <= LARGEST_VALUE)):
            self.values.append(value)

    def extend(self, steps: Sequence[Any], count: int) -> None:
        """Tries ``count`` steps."""
        for _ in range(count):
            before = len(self.builder.graph.nodes)
            with contextlib.suppress(TypeInferenceError):
                self.pick(*steps)(self)
            self.evaluate(list(self.builder.graph.nodes)[before:])

    def computed(self, op: str, *operands: Value | None, **attributes: Any) -> Value:
        """A new value whose contents are known at once."""
        value = self.call(op, *operands, **attributes)
        assert value.producer is not None
        self.evaluate([value.producer])
        return value

    def known_constant(self, contents: Any) -> Value:
        value = self.builder.constant(contents)
        assert value.producer is not None
        self.evaluate([value.producer])
        return value

    def add(self, op: str, operands: Sequence[Value | None], attributes: dict[str, Any], regions: Sequence[Graph]) -> None:
        """Adds a node with regions."""
        self.builder.node(op, operands, attributes, regions)

    def evaluate(self, nodes: Sequence[Node]) -> None:
        """Computes what ``nodes`` give; takes them back, and those after, from the first one of too high a rank."""
        nodes = [n for n in nodes if n.results[0] not in self.arrays]
        for k, node in enumerate(nodes):
            if any(v.rank > LARGEST_RANK for v in node.results):
                for late in reversed(nodes[k:]):
                    self.builder.graph.remove(late)
                return
            operands = [None if v is None else self.arrays[v] for v in node.operands]
            results = evaluate(node, operands, self.symbols, self.run_region)
            for value, result in zip(node.results, results, strict=True):
                self.arrays[value] = result
                bind_symbols(value, result, self.symbols)
                self.offer(value)

    def run_region(self, region: Graph, operands: Sequence[Any]) -> list[Any]:
        return run_graph(region, operands, self.symbols)

    def finish(self) -> Graph:
        """Exposes everything, or leaves out at random what ``hideable`` allows."""
        hidden_share = self.pick(0.0, 0.7)
        results = [v for n in self.builder.graph.nodes if n.op != "constant" for v in n.results]
        outputs = [v for v in results if not (hideable(v) and self.rng.random() < hidden_share)]
        for k, value in enumerate(outputs):
            value.name = f"out{k}"
        return self.builder.output(*outputs)


def hideable(value: Value) -> bool:
    """Whether a value may stay inside."""
    return bool(value.uses)


def is_drawn(op: OpDef[Any]) -> bool:
    """Whether random graphs contain the operator: it has native code, and gives the same every time."""
    known = isinstance(op, Op) and not op.lowering_missing and not op.destination_passing and op.kernel != "extern"
    return known and not op.regions and not op.traits & (Trait.HOST | Trait.RANDOM | Trait.STATEFUL)


def _elementwise(arity: int) -> list[str]:
    ops = [op for op in all_ops() if isinstance(op, Op) and op.kind is Kind.ELEMENTWISE and is_drawn(op)]
    return [op.name for op in ops if len(op.operands) == arity and all(f.default is not MISSING for f in op.attribute_fields())]


UNARY, BINARY = _elementwise(1), [n for n in _elementwise(2) if "." not in n and n not in ("cast_like", "power")]
REDUCTIONS = ("sum", "mean", "max", "min", "all", "any", "logsumexp", "variance", "argmax", "argmin", "prod")


def _unary(net: AnyNetwork) -> Any:
    return net.call(net.pick(*UNARY), net.any_value())


def _binary(net: AnyNetwork) -> Any:
    x = net.any_value()
    others = [v for v in net.values if v.dtype == x.dtype and _broadcasts(net.shape(v), net.shape(x))]
    if net.rng.random() < 0.5:
        return net.call(net.pick(*BINARY), x, others[net.rng.integers(len(others))])
    kept = int(net.rng.integers(x.rank + 1))
    shape = tuple(net.pick(1, d) if isinstance(d, int) else 1 for d in x.shape[x.rank - kept :])
    operands = [x, net.builder.constant(net.array(shape, x.dtype))]
    if net.rng.random() < 0.3:
        operands.reverse()
    return net.call(net.pick(*BINARY), *operands)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b)))


def _reduce(net: AnyNetwork) -> Any:
    x, op = net.any_value(), net.pick(*REDUCTIONS)
    if op in ("argmax", "argmin") and 0 in net.shape(x):
        raise TypeInferenceError("nothing has no extreme element")
    if op in ("argmax", "argmin"):
        return net.call(op, x, axis=net.pick(None, *range(x.rank)), keepdims=net.pick(False, True))
    axes = tuple(k for k in range(x.rank) if net.rng.random() < 0.5)
    return net.call(op, x, axis=net.pick(None, axes), keepdims=net.pick(False, True))


def _reshape(net: AnyNetwork) -> Any:
    x = net.any_value()
    size = int(np.prod(net.shape(x)))
    shape: list[int] = []
    while size > 1 and len(shape) < 4 and x.tensor_type.is_static:
        factor = net.pick(*(f for f in range(1, size + 1) if size % f == 0))
        shape.append(factor)
        size //= factor
    if 0 in net.shape(x):
        return net.call("reshape", x, newshape=(1, *x.shape), allowzero=True)
    return net.call("reshape", x, newshape=(*shape, -1))


def _move(net: AnyNetwork) -> Any:
    x = net.movable_value()
    axis = int(net.rng.integers(max(1, x.rank)))
    op, attrs = net.pick(
        ("transpose", {"axes": tuple(int(a) for a in net.rng.permutation(x.rank))}),
        ("expand_dims", {"axis": axis}),
        ("squeeze", {"axis": tuple(k for k, d in enumerate(x.shape) if d == 1 and net.rng.random() < 0.7)}),
        ("repeat", {"repeats": net.pick(1, 2, 3), "axis": axis}),
        ("tile", {"reps": tuple(net.pick(1, 1, 2) for _ in range(x.rank))}),
        ("reverse", {"axis": axis}),
        ("cast", {"dtype": net.pick(*DTYPES)}),
        ("nn.pad", {"pad_width": tuple((net.pick(0, 1), net.pick(0, 2)) for _ in range(x.rank)),
                    "pad_mode": net.pick("constant", "edge", "reflect") if 0 not in net.shape(x) else "constant"}),
        ("broadcast_to", {"shape": (net.pick(1, 2, 3), *x.shape)}),
        ("cumsum", {"axis": axis, "exclusive": net.pick(False, True)}),
    )
    return net.call(op, x, **attrs)


def _store(net: AnyNetwork) -> Any:
    """Through an element type without arithmetic, and back."""
    return net.call("cast", net.any_value(), dtype=net.pick(*STORAGE_DTYPES))


def _restore(net: AnyNetwork) -> Any:
    if not net.stored:
        return _store(net)
    return net.call("cast", net.pick(*net.stored[-4:]), dtype=net.pick("float32", "float32", *DTYPES))


def _cut(net: AnyNetwork) -> Any:
    x = net.value(dtype=None)
    axis = int(net.rng.integers(x.rank))
    extent = net.shape(x)[axis]
    begin, end = (int(k) for k in net.rng.integers(-extent - 1, extent + 2, 2))
    return net.call("strided_slice", x, begin=(begin,), end=(end,), strides=(net.pick(1, 1, 2, -1, -2),), axes=(axis,))


def _take(net: AnyNetwork) -> Any:
    x = net.value(dtype=None)
    axis = int(net.rng.integers(x.rank))
    shape = net.pick((), (1,), (3,), (2, 2), (0,))
    extent = net.shape(x)[axis]
    if not extent:
        raise TypeInferenceError("there is something to take")
    indices = net.rng.integers(-extent, extent, shape, dtype=np.int64)
    operand = net.builder.constant(indices) if net.rng.random() < 0.5 else net.input(indices, False)
    return net.call("take", x, operand, axis=axis)


def _join(net: AnyNetwork) -> Any:
    x = net.value(dtype=None)
    axis = int(net.rng.integers(x.rank))
    others = [v for v in net.values if v.dtype == x.dtype and v.rank == x.rank and v.shape[:axis] == x.shape[:axis]
              and v.shape[axis + 1 :] == x.shape[axis + 1 :]]
    parts = [x, *(others[net.rng.integers(len(others))] for _ in range(net.pick(1, 2)))]
    if net.rng.random() < 0.2:
        return net.call("stack", x, x, axis=axis)
    return net.call("concatenate", *parts, axis=axis)


def _split(net: AnyNetwork) -> Any:
    x = net.value(dtype=None)
    axis = int(net.rng.integers(x.rank))
    extent = x.shape[axis]
    if not isinstance(extent, int):
        raise TypeInferenceError("parts have known sizes")
    cuts = tuple(sorted(int(k) for k in net.rng.integers(0, extent + 1, net.pick(1, 2))))
    return net.builder.call_multi("split", x, indices_or_sections=cuts, axis=axis)


def _select(net: AnyNetwork) -> Any:
    x = net.any_value()
    same = [v for v in net.values if v.dtype == x.dtype and v.shape == x.shape]
    y = same[net.rng.integers(len(same))]
    return net.call("where", net.call("less", x, y), y, x)


def _normalize(net: AnyNetwork) -> Any:
    x = net.any_value()
    if not dtypes.is_float(x.dtype):
        raise TypeInferenceError("floats are normalized")
    axis = int(net.rng.integers(-1, max(x.rank, 1)))
    return net.call(net.pick("nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.rms_norm"), x, axis=axis)


def _product(net: AnyNetwork) -> Any:
    x = net.any_value()
    if x.rank == 0 or not isinstance(x.shape[-1], int):
        raise TypeInferenceError("the summed extent is known")
    weight = net.builder.constant(net.array((x.shape[-1], net.pick(0, 1, 3, 16, 33)), x.dtype))
    return net.call("nn.matmul", x, weight)


def _row(net: AnyNetwork) -> Any:
    case: Case = net.cases[net.rng.integers(len(net.cases))]
    symbolic = net.symbolic and case.symbolic
    operands = [None if a is None else _row_operand(net, spec, a, symbolic) for spec, a in zip(case.operands, case.arrays())]
    return net.builder.call_multi(case.op, *operands, **case.attrs)


def _row_operand(net: AnyNetwork, spec: Any, array: np.ndarray, symbolic: bool) -> Value:
    if isinstance(spec, Constant):
        return net.builder.constant(array)
    if isinstance(spec, Draw) and array.size and net.rng.random() < 0.6:
        sources = [v for v in net.values if v.dtype == spec.dtype and v.tensor_type.is_static and 0 not in v.shape]
        if sources:
            return _fitted(net, sources[-1 - net.rng.integers(min(6, len(sources)))], spec)
    return net.input(array, symbolic and not isinstance(spec, Fixed))


def _fitted(net: AnyNetwork, source: Value, spec: Draw) -> Value:
    """``source`` in the shape and range of ``spec``."""
    size, present = int(np.prod(spec.shape)), int(np.prod(source.shape))
    if source.shape != spec.shape:
        flat = net.call("reshape", source, newshape=(present,))
        if present < size:
            flat = net.call("tile", flat, reps=(-(-size // present),))
        if flat.shape != (size,):
            flat = net.call("strided_slice", flat, begin=(0,), end=(size,), axes=(0,))
        source = net.call("reshape", flat, newshape=spec.shape)
    if spec.dtype == "bool":
        return source
    return net.call("clip", source, a_min=float(spec.low), a_max=float(spec.high))


OWN_STEPS: list[Any] = [
    _unary, _unary, _unary, _binary, _binary, _binary, _reduce, _reduce, _reshape, _move, _move, _cut, _take, _join, _split,
    _select, _normalize, _product, _store, _restore, _row, _row, _row, _row,
]
