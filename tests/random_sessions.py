"""Random functions with states and donated inputs, and random calls of them.

All arithmetic is on small whole numbers, which every element type has: results are equal, bit by bit, however they were computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.functions.states import State, replaces
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from tests.passes.random_graphs import Network

DTYPES = (
    "float32", "float32", "float32", "float16", "bfloat16", "float64", "int8", "int32", "uint8", "int64", "bool", "complex64",
)
REDUCTIONS = ("update", "add", "min", "max")
BATCH = dims.symbol("b")
SHAPES: tuple[tuple[Dim, ...], ...] = (
    (), (4,), (3, 4), (3, 4), (8, 4), (2, 3, 4), (4, 8), (17,), (33, 16), (0, 3), (1, 4), (BATCH, 4), (BATCH, 3),
)
LEAST, MOST = -4, 5
"""What values are at first."""


@dataclass(frozen=True)
class Kept:
    """A state of the module. Its size along ``grows`` is a symbol that nothing else binds."""

    name: str
    type: TensorType
    initial: np.ndarray | None
    grows: int | None


class Function(Network):
    """A function that reads and replaces some states of the module, and takes some inputs that may be donated."""

    def __init__(self, seed: int, kept: list[Kept]) -> None:
        super().__init__(seed)
        self.kept: list[Kept] = []
        self.fresh = 0
        self.input(TensorType((BATCH, 3), "float32"), "x")
        for state in kept:
            if self.rng.random() < 0.8:
                self.kept.append(state)
                self.input(state.type, state.name)
        for k in range(int(self.rng.integers(0, 3))):
            shape = self.pick((3,), (4, 3), (8, 4), (BATCH, 3), (), *(s.type.shape for s in kept if s.grows is None))
            self.input(TensorType(shape, self.pick(*(s.type.dtype for s in kept), "float32")), f"d{k}")

    def input(self, type_: TensorType, name: str = "") -> Value:
        self.fresh += not name
        value = self.builder.input(type_, name or f"u{self.fresh}")
        self.values.append(value)
        return value

    def any_value(self, fits: Callable[[Value], bool] = lambda v: True) -> Value:
        fitting = [v for v in self.values if fits(v)]
        if not fitting:
            raise TypeInferenceError("there is such a value")
        near = [v for v in fitting if any(_follows(s, v) for s in self.kept)]
        if near and self.rng.random() < 0.7:
            fitting = near
        return fitting[-1 - int(self.rng.integers(min(6, len(fitting))))]

    def updated(self) -> Value:
        """What is to be updated: mostly a state or what was made of one."""
        return self.any_value(lambda v: v.rank > 0 and (v.producer is None or self.rng.random() < 0.7))

    def update(self, shape: tuple[Dim, ...], dtype: str) -> Value:
        """A value of this type: computed, or a new input."""
        same = [v for v in self.values if v.type == TensorType(shape, dtype)]
        return self.pick(*same[-6:]) if same and self.rng.random() < 0.7 else self.input(TensorType(shape, dtype))

    def bounded(self, value: Value) -> Value:
        if value.dtype in ("bool", "complex64"):
            return value
        return self.call("clip", value, a_min=0.0 if value.dtype == "uint8" else -8.0, a_max=8.0)

    def grow_by(self, count: int) -> None:
        for _ in range(count):
            with contextlib.suppress(TypeInferenceError):
                self.values.append(self.pick(*STEPS)(self))

    def function(self, name: str) -> Graph:
        """Replaces states and donated inputs; gives some other values, views and states among them."""
        outputs: list[Value] = []
        graph = self.builder.graph
        for state in self.kept:
            next_values = [v for v in self.values if isinstance(v.type, TensorType) and _follows(state, v)]
            if next_values and self.rng.random() < 0.85:
                computed = [v for v in next_values if v.producer is not None]
                if computed and self.rng.random() < 0.9:
                    next_values = computed
                outputs.append(next_values[-1 - int(self.rng.integers(min(4, len(next_values))))])
                graph.states[state.name] = State(len(outputs) - 1, state.initial)
            else:
                graph.states[state.name] = State(None, state.initial)
        for value in [v for v in graph.inputs if v.name.startswith("d")]:
            same = [v for v in self.values if v.type == value.type]
            if self.rng.random() < 0.8:
                outputs.append(same[-1 - int(self.rng.integers(min(3, len(same))))])
                graph.donated[value.name] = len(outputs) - 1
        for _ in range(int(self.rng.integers(1, 4))):
            outputs.append(self.pick(*self.values[-8:], *outputs))
        graph.name = name
        return self.builder.output(*outputs)


def _follows(state: Kept, value: Value) -> bool:
    """Whether ``value`` may replace it: a size that all calls have in common stays what it is."""
    if not replaces(state.type, value.tensor_type):
        return False
    return all(a == b or axis == state.grows for axis, (a, b) in enumerate(zip(state.type.shape, value.shape)))


def _is_static(value: Value) -> bool:
    return value.rank > 0 and dims.is_static(*value.shape) and 0 not in value.shape


def _unary(net: Function) -> Value:
    v = net.any_value()
    if v.dtype == "bool":
        return net.call("logical_not", v)
    one = net.builder.constant(np.ones((), dtypes.numpy_dtype(v.dtype)))
    if v.dtype == "complex64" or net.rng.random() < 0.6:
        return net.bounded(net.call(net.pick("add", "maximum", "subtract") if v.dtype != "complex64" else "add", v, one))
    return net.call("nn.relu", v) if v.dtype == "float32" else net.call("copy", v)


def _binary(net: Function) -> Value:
    v = net.any_value()
    w = net.any_value(lambda o: o.dtype == v.dtype and (o.shape == v.shape or o.rank == 0))
    if v.dtype == "bool":
        return net.call(net.pick("logical_and", "logical_or", "logical_xor"), v, w)
    if v.dtype == "complex64":
        return net.call(net.pick("add", "subtract"), v, w)
    return net.bounded(net.call(net.pick("add", "subtract", "maximum", "minimum"), *net.pick((v, w), (w, v))))


def _select(net: Function) -> Value:
    v = net.any_value(lambda o: o.dtype != "complex64")
    w = net.any_value(lambda o: o.type == v.type)
    return net.call("where", net.call("equal", v, w), net.pick(v, w), net.any_value(lambda o: o.type == v.type))


def _cast(net: Function) -> Value:
    v = net.any_value(lambda o: o.dtype in ("float32", "int32", "int64", "float16", "bfloat16", "float64", "int8", "bool"))
    return net.call("cast", v, dtype=net.pick("float32", "int32", "float16", "bfloat16", "int8", "float64", "complex64"))


def _slice_update(net: Function) -> Value:
    v = net.updated()
    if 0 in v.shape:
        raise TypeInferenceError("there is something to update")
    shape = tuple(int(net.rng.integers(1, d + 1)) if isinstance(d, int) else net.pick(1, d) if d == BATCH else d for d in v.shape)
    if any(not isinstance(d, int) and d != BATCH for d in shape):
        raise TypeInferenceError("updates are not empty")
    start = net.input(TensorType((v.rank,), "int64"))
    return net.call("dynamic_update_slice", v, net.update(shape, v.dtype), start)


def _strided_set(net: Function) -> Value:
    v = net.any_value(_is_static)
    axis = int(net.rng.integers(v.rank))
    begin, end = (int(k) for k in net.rng.integers(-v.shape[axis], v.shape[axis] + 1, 2))
    stride = net.pick(1, 1, 2, -1, -2)
    count = len(range(*slice(begin, end, stride).indices(v.shape[axis])))
    shape = (*v.shape[:axis], count, *v.shape[axis + 1 :])
    attributes = {"begin": (begin,), "end": (end,), "strides": (stride,), "axes": (axis,)}
    return net.call("strided_set", v, net.update(shape, v.dtype), **attributes)


def _scatter(net: Function) -> Value:
    v = net.any_value(lambda o: _is_static(o) and o.dtype not in ("bool", "complex64"))
    reduction = net.pick(*REDUCTIONS)
    if net.rng.random() < 0.5:
        axis = int(net.rng.integers(v.rank))
        shape = tuple(int(net.rng.integers(1, d + 1)) for d in v.shape)
        indices = net.builder.constant(net.rng.integers(0, v.shape[axis], shape))
        done = net.call("scatter_elements", v, indices, net.update(shape, v.dtype), axis=axis, reduction=reduction)
    else:
        count = net.pick(1, 2, 5)
        indices = net.builder.constant(net.rng.integers(0, v.shape[0], (1, count)))
        done = net.call("scatter_nd", v, indices, net.update((count, *v.shape[1:]), v.dtype), mode=reduction)
    return net.bounded(done) if reduction == "add" else done


def _append(net: Function) -> Value:
    v = net.any_value(lambda o: o.rank > 0 and (o.producer is None or net.rng.random() < 0.5))
    growing = [s for s in net.kept if s.grows is not None and s.type.rank == v.rank]
    axis = net.pick(*growing).grows if growing and net.rng.random() < 0.7 else int(net.rng.integers(v.rank))
    shape = (*v.shape[:axis], net.pick(0, 1, 2, BATCH), *v.shape[axis + 1 :])
    if any(not isinstance(d, int) and d != BATCH for d in shape):
        raise TypeInferenceError("a new input binds it")
    new = [net.update(shape, v.dtype)]
    if net.rng.random() < 0.2:
        new.append(v)
    return net.call("concatenate", *(v, *new) if net.rng.random() < 0.8 else (*new, v), axis=axis)


def _move(net: Function) -> Value:
    v = net.any_value(lambda o: o.rank > 0)
    axis = int(net.rng.integers(v.rank))
    op, attributes = net.pick(
        ("transpose", {"axes": tuple(int(k) for k in net.rng.permutation(v.rank))}),
        ("reverse", {"axis": axis}),
        ("expand_dims", {"axis": axis}),
        ("reshape", {"newshape": (-1, *v.shape[2:]) if v.rank > 1 else (1, -1)}),
        ("strided_slice", {"begin": (net.pick(0, 1, -2),), "end": (net.pick(1, 2, 1 << 40),), "axes": (axis,)}),
        ("copy", {}),
    )
    if op == "reshape" and (0 in v.shape or not dims.is_static(*v.shape)):
        raise TypeInferenceError("sizes are known")
    return net.call(op, v, **attributes)


def _back(net: Function) -> Value:
    """A value in the shape of another one."""
    v = net.any_value(_is_static)
    size = int(np.prod(v.shape))
    others = [o for o in net.values if _is_static(o) and o.shape != v.shape and int(np.prod(o.shape)) == size]
    if not others:
        raise TypeInferenceError("there is such a shape")
    return net.call("reshape", v, newshape=net.pick(*others).shape)


def _product(net: Function) -> Value:
    v = net.any_value(lambda o: o.rank >= 2 and o.dtype == "float32" and isinstance(o.shape[-1], int) and 0 < o.shape[-1] < 9)
    weight = net.builder.constant(net.rng.integers(-1, 2, (v.shape[-1], net.pick(v.shape[-1], 3, 4))).astype(np.float32))
    return net.bounded(net.call("nn.matmul", v, weight))


def _extreme(net: Function) -> Value:
    v = net.any_value(lambda o: o.rank > 0 and o.dtype in ("float32", "int32", "float16") and 0 not in o.shape and
                      all(isinstance(d, int) or d == BATCH for d in o.shape))
    return net.call(net.pick("max", "min"), v, axis=net.pick(None, (v.rank - 1,), (0,)), keepdims=net.pick(True, False))


def _branch(net: Function) -> Value:
    """An if that reads some values, one of which it may update."""
    v = net.updated()
    other = net.any_value(lambda o: o.type == v.type)
    flag = net.call("less", net.input(TensorType((), "int32")), net.builder.constant(np.int32(1)))
    regions = []
    for made in ("copy", net.pick("copy", "reverse")):
        builder = Builder()
        inside = [builder.input(v.type, "r0"), builder.input(other.type, "r1")]
        chosen = net.pick(*inside)
        value = builder.call(made, chosen, axis=0) if made == "reverse" else builder.call(made, chosen)
        regions.append(builder.output(net.pick(value, *inside)))
    return net.builder.node("if", [flag, v, other], {}, regions).results[0]


def _loop(net: Function) -> Value:
    """A loop that changes a value, and reads another one, some number of times."""
    v = net.updated()
    other = net.any_value(lambda o: o.type == v.type)
    builder = Builder()
    own = TensorType((), "int64"), TensorType((), "bool"), v.type, v.type
    _, going, carried, captured = (builder.input(type_, f"r{k}") for k, type_ in enumerate(own))
    made = [carried, captured, builder.call("reverse", carried, axis=0)]
    if v.dtype not in ("bool", "complex64"):
        made += [builder.call("maximum", carried, captured)] * 2
    if _is_static(v):
        row = builder.call("strided_slice", captured, begin=(0,), end=(1,), axes=(0,))
        made += [builder.call("strided_set", carried, row, begin=(0,), end=(1,), strides=(1,), axes=(0,))] * 2
    body = builder.output(going, net.pick(*made))
    trips = net.builder.constant(np.int64(net.rng.integers(0, 4)))
    return net.builder.node("loop", [trips, None, v, other], {"num_carried": 1}, [body]).results[0]


def _late(net: Function) -> Value:
    """A value whose size hangs on data."""
    v = net.any_value(lambda o: o.rank == 2 and o.dtype != "complex64")
    return net.call("argwhere", v)


STEPS: tuple[Callable[[Function], Value], ...] = (
    _unary, _unary, _binary, _binary, _select, _cast, _slice_update, _slice_update, _slice_update, _strided_set, _strided_set,
    _scatter, _scatter, _append, _append, _append, _move, _move, _back, _product, _extreme, _branch, _loop, _late,
)


def random_module(seed: int) -> Module:
    """Some functions over some states."""
    rng = np.random.default_rng(seed)
    usual = [SHAPES[k] for k in rng.integers(len(SHAPES), size=2)], [DTYPES[k] for k in rng.integers(len(DTYPES), size=2)]
    kept = [_random_state(rng, f"s{k}", *usual) for k in range(int(rng.integers(1, 5)))]
    module = Module()
    for k in range(int(rng.integers(1, 4))):
        net = Function(int(rng.integers(2**32)), kept)
        net.grow_by(int(net.rng.integers(2, 14)))
        name = f"f{k}" if k else "main"
        module.graphs[name] = net.function(name)
        module.graphs[name].attributes |= {"public": True} if k else {}
    return module


def _random_state(rng: np.random.Generator, name: str, shapes: list[tuple[Dim, ...]], kinds: list[str]) -> Kept:
    if rng.random() < 0.1:  # what argwhere gives
        return Kept(name, TensorType((dims.symbol(f"n{name}"), 2), "int64"), None, 0)
    dtype, shape = kinds[rng.integers(len(kinds))], list(shapes[rng.integers(len(shapes))])
    grows = None
    if shape and rng.random() < 0.45:
        grows = int(rng.integers(len(shape)))
        shape[grows] = dims.symbol(f"n{name}")
    initial = None
    if BATCH not in shape and rng.random() < 0.4:
        initial = contents(rng, tuple(int(rng.integers(0, 4)) if not isinstance(d, int) else d for d in shape), dtype)
    return Kept(name, TensorType(tuple(shape), dtype), initial, grows)


def contents(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small whole numbers."""
    least = 0 if dtype in ("uint8", "bool") else LEAST
    array: Any = rng.integers(least, 2 if dtype == "bool" else MOST, shape)
    return np.asarray(array).astype(dtypes.numpy_dtype(dtype))


def random_inputs(rng: np.random.Generator, graph: Graph, batch: int) -> dict[str, np.ndarray]:
    """Contents of the inputs that are not states."""
    given = [v for v in graph.inputs if v.name not in graph.states]
    return {v.name: contents(rng, tuple(batch if d == BATCH else int(str(d)) for d in v.shape), v.dtype) for v in given}
