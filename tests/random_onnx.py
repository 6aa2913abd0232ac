"""Random valid ONNX graphs: node by node, each evaluated at once by onnxruntime, which so decides what is valid.

Every value that is a result is an output of the graph, so that each node is judged by itself (``tests.error_model``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSETS = (9, 11, 13, 14, 17, 18, 19, 20, 21, 22)
LARGEST_SIZE = 2000
LARGEST_RANK = 6
DTYPES = ("float32", "float32", "float32", "float64", "int64", "int32", "bool", "uint8", "int8", "float16")
_IR_VERSIONS = {9: 4, 11: 6, 13: 7, 14: 7, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}


class Unfit(Exception):
    """A step found no operands, or onnxruntime takes no such node."""


@dataclass
class Drawn:
    """A random model and contents of its inputs."""

    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    reference: dict[str, np.ndarray] = field(default_factory=dict)


class Network:
    """A graph under construction: values by name, with their contents."""

    largest_size = LARGEST_SIZE

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.arrays: dict[str, np.ndarray] = {}
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.results: list[str] = []
        self.symbolic = bool(self.rng.random() < 0.5)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def name(self, prefix: str) -> str:
        return f"{prefix}{len(self.arrays)}"

    def contents(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        if dtype == "bool":
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.startswith("float"):
            return np.asarray(self.rng.standard_normal(shape) * self.pick(1, 1, 3)).astype(dtype)
        return np.asarray(self.rng.integers(0 if dtype.startswith("u") else -5, 9, shape)).astype(dtype)

    def input(self, array: np.ndarray, is_data: bool = True) -> str:
        """An input of the graph; the size of its first axis may be a symbol, the same for equal sizes."""
        name = self.name("x")
        shape: list[int | str] = list(array.shape)
        if self.symbolic and is_data and array.ndim > 1:
            shape[0] = f"s{array.shape[0]}"
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
        self.arrays[name] = array
        return name

    def constant(self, array: Any, dtype: str = "") -> str:
        """A weight; now and then an input, whose contents are known at run time only."""
        array = np.asarray(array, dtype or None)
        name = self.name("w")
        self.weights.append(numpy_helper.from_array(array, name))
        self.arrays[name] = array
        return name

    def steer(self, array: Any) -> str:
        """What says what an operator does: mostly a weight, seldom an input."""
        array = np.asarray(array, np.int64)
        return self.input(array, False) if self.rng.random() < 0.15 else self.constant(array)

    def value(self, accept: Callable[[np.ndarray], bool] = lambda _: True) -> str:
        """One of the latest values that fit."""
        fitting = [n for n in [i.name for i in self.inputs] + self.results if accept(self.arrays[n])]
        if not fitting:
            raise Unfit
        return str(self.pick(*fitting[-8:]))

    def real(self, rank: int | None = None) -> str:
        return self.value(lambda a: a.dtype.kind == "f" and (rank is None or a.ndim == rank))

    def node(self, op: str, *operands: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Adds a node.

        Raises:
            Unfit: onnxruntime refuses it, or a result is too large.
        """
        names = [f"{op.lower()}{len(self.arrays)}_{k}" for k in range(outputs)]
        made = helper.make_node(op, list(operands), names, **{k: v for k, v in attributes.items() if v is not None})
        arrays = self.evaluate(made)
        if any(a.size > self.largest_size or a.ndim > LARGEST_RANK or a.dtype.kind not in "biuf" for a in arrays):
            raise Unfit
        self.nodes.append(made)
        self.arrays.update(zip(names, arrays, strict=True))
        self.results.extend(names)
        return names

    def evaluate(self, node: onnx.NodeProto) -> list[np.ndarray]:
        """Results of one node by onnxruntime."""
        used = [n for n in [*node.input, *_captured(node)] if n]
        weights = {t.name for t in self.weights}
        steering = [t for t in self.weights if t.name in used]
        fed = {n: self.arrays[n] for n in dict.fromkeys(used) if n not in weights}
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()]
        outs = [onnx.ValueInfoProto(name=n) for n in node.output]
        return run_onnxruntime(self._model(helper.make_graph([node], "one", infos, outs, steering)), fed)

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSIONS[self.opset])

    def finish(self) -> Drawn:
        """The model; results that other nodes read may stay inside."""
        read = {n for node in self.nodes for n in (*node.input, *_captured(node))}
        shown = [n for n in self.results if n not in read or self.rng.random() < 0.85]
        outs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(self.arrays[n].dtype), None) for n in shown]
        model = self._model(helper.make_graph(self.nodes, "random", self.inputs, outs, self.weights))
        return Drawn(model, {i.name: self.arrays[i.name] for i in self.inputs}, {n: self.arrays[n] for n in shown})


def _captured(node: onnx.NodeProto) -> list[str]:
    """Values of the graph around that sub-graphs of ``node`` read."""
    found = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            own = {i.name for i in attribute.g.input} | {o for n in attribute.g.node for o in n.output}
            found.extend(i for n in attribute.g.node for i in n.input if i and i not in own)
    return found


def run_onnxruntime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs without optimizations.

    Raises:
        Unfit: it refuses the model.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    refusals = (states.Fail, states.InvalidArgument, states.InvalidGraph, states.NotImplemented, states.RuntimeException)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(a) for a in session.run(None, inputs)]
    except refusals as error:
        raise Unfit(str(error)) from error


def random_model(seed: int, steps: Sequence[Callable[[Network], None]] = ()) -> Drawn:
    """A random model of 3 to 14 nodes, made by ``steps`` or, if there are none, by all kinds of them."""
    from tests.random_onnx_steps import STEPS

    net = Network(seed)
    for _ in range(int(net.rng.integers(1, 4))):
        shape = [net.pick(1, 2, 3, 4, 5, 8) for _ in range(net.rng.integers(0, 5))]
        net.input(net.contents(shape, net.pick(*DTYPES)))
    net.input(net.contents((net.pick(1, 2), net.pick(1, 4), net.pick(5, 8), 6), "float32"))
    wanted = int(net.rng.integers(3, 15))
    for _ in range(6 * wanted):
        with contextlib.suppress(Unfit):
            net.pick(*(steps or STEPS))(net)
        if len(net.nodes) >= wanted:
            break
    return net.finish()
