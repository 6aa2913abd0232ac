"""Random quantized ONNX graphs, as onnxruntime's static quantizer, NNCF and others write them.

A graph is a chain of layers on quantized tensors. A layer reads the real numbers that they stand for and quantizes its result
with a scale that its range gives (QDQ), or does all of that in one operator (QLinearConv and others). The layers can be judged
one by one: every quantized tensor may be an output, and what reads it may read an input in its place, so that onnxruntime
computes each layer from the integers that the code under test had there. No layer excuses another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from tests.random_onnx import Network, Unfit

OPSETS = (11, 13, 17, 19, 21)
IR_VERSIONS = {11: 6, 13: 7, 17: 8, 19: 9, 21: 10}
MICROSOFT = "com.microsoft"
GIVEN = "given_"
"""Inputs of the cut graph are called so, and then as the tensor whose place they take."""
MIN_SCALE = 1e-6
INT4: Any = ml_dtypes.int4


@dataclass(frozen=True)
class Codes:
    """A quantized tensor, by name, and the real numbers that it stands for: ``(codes - zero) * scale``."""

    name: str
    scale: np.ndarray
    zero: np.ndarray

    @property
    def dtype(self) -> str:
        return self.zero.dtype.name


@dataclass(frozen=True)
class Weight:
    """A constant, quantized: per tensor, or with a scale for each element of ``axis``."""

    array: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | None
    axis: int
    is_real: bool = False
    """Whether the file holds the real numbers, and a QuantizeLinear after them."""


@dataclass(frozen=True)
class Drawn:
    """A random graph.

    Attributes:
        codes: the quantized tensors that its layers give.
        layers: the operator of each result that can be an output: of codes, and of integers of 32 bits.
        last: results that nothing reads.
    """

    net: QuantizedNetwork
    codes: list[str]
    layers: dict[str, str]
    last: list[str]

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        return {i.name: self.net.arrays[i.name] for i in self.net.inputs}

    def model(self, shown: Iterable[str], cut: Collection[str] = ()) -> onnx.ModelProto:
        """The graph with outputs ``shown``. What reads one of ``cut`` reads an input in its place."""
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in self.net.nodes]
        for node in nodes:
            node.input[:] = [GIVEN + i if i in cut else i for i in node.input]
        inputs = [*self.net.inputs, *(self._info(name, GIVEN) for name in cut)]
        return self.net._model(helper.make_graph(nodes, "random", inputs, [self._info(n) for n in shown], self.net.weights))

    def _info(self, name: str, prefix: str = "") -> onnx.ValueInfoProto:
        array = self.net.arrays[name]
        shape = array.shape if prefix else None
        return helper.make_tensor_value_info(prefix + name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    def feeds(self, given: Mapping[str, np.ndarray], cut: Iterable[str]) -> dict[str, np.ndarray]:
        """Contents of the inputs of `model`."""
        return self.inputs | {GIVEN + name: given[name] for name in cut}


def parameters(array: np.ndarray, dtype: str, symmetric: bool, share: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point for the numbers of ``array``, or for the inner ``share`` of their range."""
    info = np.iinfo(dtype)
    low, high = (float(f(np.append(array, 0.0))) * share for f in (np.min, np.max))
    if symmetric:
        high = max(-low, high)
        scale = max(2 * high / (int(info.max) - int(info.min)), MIN_SCALE)
        zero = (int(info.max) + int(info.min) + 1) // 2
    else:
        scale = max((high - low) / (int(info.max) - int(info.min)), MIN_SCALE)
        zero = round(int(info.min) - low / scale)
    return np.asarray(scale, np.float32), np.asarray(np.clip(zero, info.min, info.max), dtype)


class QuantizedNetwork(Network):
    """A graph under construction, of quantized tensors."""

    largest_size = 8192

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.codes: list[Codes] = []
        self.exact: dict[str, str] = {}  # other results that are shown, integers of 32 bits: their operators
        self.made_by: dict[str, str] = {}
        wide = self.wide()
        more = [(wide,), (wide, "uint8", "int8")] if wide != "uint8" else []
        self.kinds = self.pick(("uint8",), ("int8",), ("uint8", "int8"), ("uint8", "uint8", "uint8", wide), *more)
        self.symmetric = bool(self.rng.random() < 0.3)
        self.own_form = float(self.pick(0, 0, 0, 0.5, 1))
        """The share of layers that are one operator on integers, where there is one."""
        self.round_scales = bool(self.rng.random() < 0.2)

    def wide(self) -> str:
        return str(self.pick("uint16", "int16")) if self.opset >= 21 else "uint8"

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def calibrated(self, array: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point as quantizers choose them, of a wider or narrower range now and then; powers of two make ties."""
        if not np.isfinite(array).all():
            raise Unfit
        scale, zero = parameters(array, dtype, self.symmetric, self.pick(1.0, 1.0, 1.0, 0.5, 1.7))
        return (np.exp2(np.ceil(np.log2(scale))).astype(np.float32) if self.round_scales else scale), zero

    def entered(self, real: np.ndarray) -> Codes:
        """An input of the graph: real numbers that are quantized first, or integers."""
        dtype = self.pick(*self.kinds)
        scale, zero = self.calibrated(real, dtype)
        if self.chance(0.7):
            return self.quantized(self.input(real), dtype, scale, zero)
        info = np.iinfo(dtype)
        whole = np.clip(np.rint(real / scale) + int(zero), info.min, info.max).astype(dtype)
        return self.shown(Codes(self.input(whole), scale, zero), "")

    def shown(self, codes: Codes, op: str) -> Codes:
        self.codes.append(codes)
        if op:
            self.made_by[codes.name] = op
        return codes

    def numbers(self, codes: Codes) -> tuple[str, str]:
        """Scale and zero point as weights."""
        return self.constant(codes.scale), self.constant(codes.zero)

    def quantized(self, real: str, dtype: str = "", scale: np.ndarray | None = None, zero: np.ndarray | None = None) -> Codes:
        """QuantizeLinear of ``real``, with a scale for its range unless one is given."""
        if scale is None or zero is None:
            scale, zero = self.calibrated(self.arrays[real], dtype or self.pick(*self.kinds))
        made = next((n.op_type for n in self.nodes if real in n.output), "Input")
        (name,) = self.node("QuantizeLinear", real, self.constant(scale), self.constant(zero))
        return self.shown(Codes(name, scale, zero), made)

    def real_of(self, codes: Codes) -> str:
        """DequantizeLinear of a tensor."""
        return self.node("DequantizeLinear", codes.name, *self.numbers(codes))[0]

    def latest(self, accept: Callable[[np.ndarray], bool] = lambda _: True, dtypes: tuple[str, ...] = ()) -> Codes:
        """One of the latest quantized tensors that fit."""
        fitting = [c for c in self.codes if accept(self.arrays[c.name]) and (not dtypes or c.dtype in dtypes)]
        if not fitting:
            raise Unfit
        found: Codes = self.pick(*fitting[-3:])
        return found

    def weight(self, shape: tuple[int, ...], axis: int, depth: int) -> Weight:
        """A weight of sums of ``depth`` products; NNCF keeps some real, others are integers of 8 bits or fewer."""
        real = self.rng.standard_normal(shape) / np.sqrt(max(depth, 1))
        if self.chance(0.1):
            np.moveaxis(real, axis, 0)[0] = 0
        kind = self.pick("int8", "int8", "int8", "uint8", "int4" if self.opset >= 21 else "int8")
        along = self.opset >= 13 and self.chance(0.6)
        parts = np.moveaxis(real, axis, 0).reshape(shape[axis], -1) if along else real.reshape(1, -1)
        if kind == "int4":
            scale = np.maximum(np.abs(parts).max(axis=1) / 7, MIN_SCALE).astype(np.float32)
            zero = np.zeros(len(scale), np.int64)
        else:
            found = [parameters(p, kind, kind == "int8" or self.chance(0.5)) for p in parts]
            scale, zero = np.array([s for s, _ in found]), np.array([int(z) for _, z in found])
        view = [-1 if k == axis and along else 1 for k in range(len(shape))]
        low, high = (-7, 7) if kind == "int4" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        whole = np.clip(np.rint(real / scale.reshape(view)) + zero.reshape(view), low, high)
        dtype: Any = INT4 if kind == "int4" else kind
        if not along:
            scale, zero = scale.reshape(()), zero.reshape(())
        given = None if kind != "uint8" and not np.any(zero) and self.chance(0.5) else zero.astype(dtype)
        return Weight(whole.astype(dtype), scale, given, axis, kind == "int8" and self.chance(0.2))

    def real_weight(self, weight: Weight) -> str:
        """DequantizeLinear of a weight."""
        attributes = {"axis": weight.axis} if self.opset >= 13 and weight.scale.ndim else {}
        scale = self.constant(weight.scale)
        zero = np.zeros(weight.scale.shape, weight.array.dtype) if weight.zero is None and weight.is_real else weight.zero
        zeros = [] if zero is None else [self.constant(zero)]
        if not weight.is_real:
            return self.node("DequantizeLinear", self.constant(weight.array), scale, *zeros, **attributes)[0]
        view = [-1 if k == weight.axis and weight.scale.ndim else 1 for k in range(weight.array.ndim)]
        shift = 0 if weight.zero is None else weight.zero.astype(np.float32).reshape(view)
        held = (weight.array.astype(np.float32) - shift) * weight.scale.reshape(view)
        (whole,) = self.node("QuantizeLinear", self.constant(held.astype(np.float32)), scale, *zeros, **attributes)
        return self.node("DequantizeLinear", whole, scale, *zeros, **attributes)[0]

    def bias(self, count: int, data: Codes, weight: Weight) -> tuple[np.ndarray, np.ndarray]:
        """Integers of 32 bits and their scale, which is that of the products."""
        scale = (data.scale * weight.scale).astype(np.float32)
        return self.rng.integers(-2000, 2000, count).astype(np.int32), scale

    def rehearsed(self, build: Callable[[], str]) -> np.ndarray:
        """The contents of what ``build`` would add to the graph."""
        before = len(self.nodes), len(self.results), len(self.weights)
        try:
            return self.arrays[build()]
        finally:
            del self.nodes[before[0] :], self.results[before[1] :], self.weights[before[2] :]

    def operator(self, op: str, build: Callable[[], str], inputs: Callable[[Codes], list[str]], *, domain: str = "",
                 dtype: str = "", **attributes: Any) -> None:
        """One operator on integers for what ``build`` says in real numbers; ``inputs`` are its operands, given what results."""
        scale, zero = self.calibrated(self.rehearsed(build), dtype or self.pick(*self.kinds))
        wanted = Codes("", scale, zero)
        (name,) = self.node(op, *inputs(wanted), domain=domain, **attributes)
        self.shown(Codes(name, scale, zero), op)

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS[self.opset])

    def drawn(self) -> Drawn:
        made = {o for n in self.nodes for o in n.output}
        read = {i for n in self.nodes for i in n.input}
        codes = list(dict.fromkeys(c.name for c in self.codes if c.name in made))
        layers = {n: self.made_by[n] for n in codes} | self.exact
        return Drawn(self, codes, layers, [n for n in layers if n not in read or n in self.exact])


def random_quantized_model(seed: int) -> Drawn:
    """A random model of 2 to 7 layers."""
    from tests.random_quantized_steps import IMAGE_STEPS, SEQUENCE_STEPS

    net = QuantizedNetwork(seed)
    images = net.chance(0.65)
    if images:
        shape = (net.pick(1, 2), net.pick(3, 4, 8, 16, 20, 32), net.pick(5, 6, 9), net.pick(6, 7))
    else:
        shape = (net.pick(1, 2, 3), *net.pick((1,), (5,), (12,), ()), net.pick(4, 8, 16, 30, 64))
    for _ in range(int(net.rng.integers(1, 3))):
        net.entered((net.rng.standard_normal(shape) * 2 + net.pick(0, 0, 1)).astype(np.float32))
    wanted = len(net.codes) + int(net.rng.integers(2, 8))
    for _ in range(8 * wanted):
        with contextlib.suppress(Unfit):
            net.pick(*(IMAGE_STEPS if images else SEQUENCE_STEPS))(net)
        if len(net.codes) >= wanted:
            break
    return net.drawn()


def steps_off(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How many steps two quantized tensors are apart, element by element."""
    return np.abs(got.astype(np.int64) - expected.astype(np.int64))
