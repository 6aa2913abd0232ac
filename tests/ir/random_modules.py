"""Random valid modules, for the properties of text, hashes, files, edits and the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from forge import dims, dtypes
from forge.errors import ForgeError, InvalidGraphError
from forge.ir import Builder, Graph, Module, TensorType, Value
from forge.ir.call import call_function
from forge.ir.interp import bind_symbols, evaluate, run_graph

SIZES = {"n": 3, "m": 2}
N, M = dims.symbol("n"), dims.symbol("m")

names = st.sampled_from(
    ["", "x", "y", "x.1", "a/b", "0", "%0", 'quo"te', "back\\slash", "ünïcode", "p0", "fc.weight", "-", "*/", "#[metadata]"]
)
shapes = st.sampled_from([(), (4,), (N, 4), (N, M), (1, 4), (N, 4, 2), (2 * N, M), (3, 0), (N + 1,)])
input_dtypes = st.sampled_from(["float32", "float32", "float32", "float64", "int64", "int32", "bool"])
constant_dtypes = st.sampled_from([d for d in dtypes.NAMES if not dtypes.is_complex(d)])
axes = st.integers(-3, 2)

Attributes = st.SearchStrategy[dict[str, Any]]


def fixed(**attributes: Any) -> Attributes:
    return st.just(attributes)


# operator, numbers of operands, attributes; what inference refuses is left out
APPLICATIONS: list[tuple[str, tuple[int, int], Attributes]] = [
    *(
        (op, (1, 1), fixed())
        for op in ("nn.relu", "tanh", "abs", "negative", "sigmoid", "floor", "copy", "logical_not", "isnan", "exp")
    ),
    *(
        (op, (2, 2), fixed())
        for op in ("add", "subtract", "multiply", "maximum", "less", "equal", "floor_divide", "mod", "power")
    ),
    ("where", (3, 3), fixed()),
    (
        "cast",
        (1, 1),
        st.builds(dict, dtype=st.sampled_from(["float16", "bfloat16", "int8", "uint4", "float32", "int64", "bool"])),
    ),
    ("transpose", (1, 1), st.sampled_from([{}, {"axes": (1, 0)}, {"axes": (0, 2, 1)}])),
    (
        "reshape",
        (1, 1),
        st.sampled_from([{"newshape": (-1,)}, {"newshape": (N, 4)}, {"newshape": (1, -1)}, {"newshape": (N * 2, -1)}]),
    ),
    ("expand_dims", (1, 1), st.builds(dict, axis=axes, num_newaxis=st.integers(1, 2))),
    ("squeeze", (1, 1), st.sampled_from([{}, {"axis": (0,)}])),
    ("concatenate", (1, 3), st.builds(dict, axis=axes)),
    ("stack", (1, 3), st.builds(dict, axis=axes)),
    ("split", (1, 1), st.builds(dict, indices_or_sections=st.sampled_from([2, (1,), (1, 3)]), axis=axes)),
    ("strided_slice", (1, 1), st.sampled_from([{"begin": (0,), "end": (2,)}, {"begin": (1,), "end": (N,), "axes": (0,)}])),
    ("take", (2, 2), st.sampled_from([{"axis": 0}, {}])),
    ("broadcast_to", (1, 1), st.sampled_from([{"shape": (N, 4)}, {"shape": (2, 1, 4)}])),
    ("tile", (1, 1), fixed(reps=(2, 1))),
    ("clip", (1, 1), st.sampled_from([{"a_min": 0.0, "a_max": 1.5}, {"a_min": float("-inf"), "a_max": 1e-40}])),
    ("clip", (2, 2), fixed()),
    *(
        (op, (1, 1), st.builds(dict, axis=st.sampled_from([None, (0,), (-1,)]), keepdims=st.booleans()))
        for op in ("sum", "max", "mean")
    ),
    ("argmax", (1, 1), st.builds(dict, axis=st.sampled_from([None, (0,), (-1,)]))),
    ("nn.softmax", (1, 1), st.sampled_from([{}, {"axis": 0}])),
    ("nn.leaky_relu", (1, 1), st.builds(dict, alpha=st.sampled_from([0.01, 0.1, -0.0, 3]))),
    ("shape_of", (1, 1), fixed()),
    ("argwhere", (1, 1), fixed()),
    ("topk", (1, 1), st.sampled_from([{"k": 1}, {"k": 2, "axis": 0}])),
]


def special_array(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Contents with not-a-number, infinities, both zeros and denormal numbers where there are such."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype == "string":
        return np.array([["", "a", "é\n", '"', "#[metadata]"][k] for k in random.integers(0, 5, count)], dtype=object).reshape(
            shape
        )
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    if dtypes.is_integer(dtype):
        low, high = dtypes.integer_range(dtype)
        values = [low, high, 0, 1, *map(int, random.integers(max(low, -100), min(high, 100), 3))]
        picked = [values[k] for k in random.integers(0, len(values), count)]
        return np.array(picked, dtype=object).astype(dtypes.numpy_dtype(dtype)).reshape(shape)
    floats = [0.0, -0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan"), 1e-40, 5e-324, 3.3e38, float(random.normal())]
    with np.errstate(all="ignore"):
        return (
            np.array([floats[k] for k in random.integers(0, len(floats), count)]).astype(dtypes.numpy_dtype(dtype)).reshape(shape)
        )


class _Maker:
    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.module = Module()
        self.builder = Builder(self.module.main)
        self.values: list[Value] = []
        self.arrays: dict[Value, Any] = {}
        self.sizes: dict[str, int] = {}

    def inputs(self, count: int) -> None:
        """The first one defines the symbols."""
        for k in range(count):
            name = self.draw(names)
            while not name or name in [v.name for v in self.module.main.inputs]:
                name += f"i{k}"
            shape = self.draw(shapes) if k else (N, M)
            self.values.append(self.builder.input(TensorType(shape, self.draw(input_dtypes)), name))
        arrays = inputs_for(self.module)
        for value in self.values:
            self.arrays[value] = arrays[value.name]
            bind_symbols(value, self.arrays[value], self.sizes)

    def pick(self) -> Value:
        return self.draw(st.sampled_from(self.values))

    def constant(self) -> None:
        shape = self.draw(st.sampled_from([(), (), (4,), (1, 4), (0,), (2, 2)]))
        array = special_array(self.draw(constant_dtypes), shape, self.draw(st.integers(0, 99)))
        self.add(lambda: [self.builder.constant(array, name=self.draw(names))])

    def application(self) -> None:
        op, (least, most), attributes = self.draw(st.sampled_from(APPLICATIONS))
        operands = [self.pick() for _ in range(self.draw(st.integers(least, most)))]
        if least >= 2:  # operands of equal types fit more often
            operands[1:] = [self.draw(st.sampled_from([v for v in self.values if v.type == operands[0].type])), *operands[2:]]
        if op == "clip" and len(operands) == 2:
            operands.insert(1, None)
        result_names = [self.draw(names) for _ in range(2)]
        self.add(lambda: self.builder.node(op, operands, self.draw(attributes), (), self.draw(names), result_names[:1]).results)

    def branch(self) -> None:
        x = self.pick()
        graphs = []
        for op in self.draw(st.sampled_from([("abs", "negative"), ("copy", "nn.relu"), ("copy", "copy")])):
            region = Graph()
            value = region.add_input(x.type, self.draw(names))
            other = region.add_input(TensorType((), "bool"))
            result = Builder(region).call(op, value) if self.is_numeric(x) else value
            region.outputs = [result, other] if self.draw(st.booleans()) and len(graphs) == 0 else [result]
            graphs.append(region)
        graphs[0].outputs = graphs[0].outputs[:1]
        self.add(lambda: [self.builder.constant(self.draw(st.booleans()))])
        condition = self.values[-1]
        self.add(lambda: self.builder.node("if", [condition, x, condition], {}, graphs).results)

    def loop(self) -> None:
        x = self.pick()
        if not self.is_numeric(x):
            return
        body = Graph()
        body.add_input(TensorType((), "int64"), "i")
        going = body.add_input(TensorType((), "bool"), "going")
        carried = body.add_input(x.type, self.draw(names))
        inner = Builder(body)
        body.outputs = [going, inner.call("add", carried, carried), carried]
        self.add(lambda: [self.builder.constant(self.draw(st.integers(0, 3)), "int64")])
        trips = self.values[-1]
        self.add(lambda: self.builder.node("loop", [trips, None, x], {"num_carried": 1}, [body]).results)

    def call(self) -> None:
        x = self.pick()
        if not self.is_numeric(x):
            return
        name = self.draw(st.sampled_from(["helper", "a.b", "q/r"]))
        if name not in self.module.graphs:
            callee = Graph(name=name)
            extents = tuple(dims.symbol(s) for s in ("m", "n", "k")[: len(x.shape)])  # the function's own symbols
            value = callee.add_input(TensorType(extents, x.dtype), "v")
            callee.outputs = [Builder(callee).call("multiply", value, value), value]
            self.module.graphs[name] = callee
        self.add(lambda: call_function(self.builder, name, self.module.graphs[name], x))

    @staticmethod
    def is_numeric(value: Value) -> bool:
        return isinstance(value.type, TensorType) and value.dtype not in ("bool", "string")

    def add(self, build: Callable[[], list[Value]]) -> None:
        """What inference or the interpreter refuses is left out."""
        try:
            results = build()
        except InvalidGraphError:
            return
        node = self.module.main.nodes[-1]
        try:
            arrays = evaluate(
                node, [None if v is None else self.arrays[v] for v in node.operands], self.sizes, self.region, self.module
            )
            for value, array in zip(results, arrays):
                bind_symbols(value, array, self.sizes)
        except (ForgeError, ValueError, IndexError):
            self.module.main.remove(node)
            return
        self.arrays.update(zip(results, arrays))
        self.values.extend(results)

    def region(self, region: Graph, operands: Any) -> list[Any]:
        is_function = any(region is g for g in self.module.graphs.values())
        return run_graph(region, operands, None if is_function else self.sizes, self.module)

    def outputs(self) -> None:
        count = self.draw(st.integers(1, 3))
        last = self.values[-1:] if self.draw(st.booleans()) else [self.pick()]
        self.module.main.outputs = [*last, *(self.pick() for _ in range(count - 1))]


@st.composite
def modules(draw: Callable[[st.SearchStrategy[Any]], Any], steps: int = 10) -> Module:
    """A module whose ``main`` has up to three inputs and ``steps`` nodes or so."""
    maker = _Maker(draw)
    maker.inputs(draw(st.integers(1, 3)))
    kinds = [maker.application] * 9 + [maker.constant] * 3 + [maker.branch, maker.loop, maker.call]
    for _ in range(draw(st.integers(2, steps))):
        draw(st.sampled_from(kinds))()
    maker.outputs()
    return maker.module


def inputs_for(module: Module, seed: int = 0) -> dict[str, np.ndarray]:
    """Values of the inputs, with the sizes of ``SIZES``."""
    random = np.random.default_rng(seed)
    return {
        v.name: np.asarray(
            np.asarray(random.integers(-3, 4, [dims.evaluate(d, SIZES) for d in v.shape])), dtypes.numpy_dtype(v.dtype)
        )
        for v in module.main.inputs
    }


def same(a: Any, b: Any) -> bool:
    """Equal dtype, shape and bits."""
    if a.dtype == object:
        return a.shape == b.shape and a.tolist() == b.tolist()
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
