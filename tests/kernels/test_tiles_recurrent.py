"""Products of recurrent layers' states in tile registers: computed where there are several rows, equal to those of vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.op import get_op
from forge.ir.types import TensorType
from forge.kernels.cpu import rnn_layer, rnn_rounded
from forge.options import CompileOptions
from forge.passes import pack_weights, split_recurrent, to_bfloat16
from forge.target import Target
from tests.kernels import test_rnn
from tests.kernels.emulated_tiles import EMULATED
from tests.kernels.in_tiles import targets
from tests.passes import checks

LAYERS = {"nn.lstm": (4, ("sigmoid", "tanh", "tanh")), "nn.gru": (3, ("sigmoid", "tanh")), "nn.rnn": (1, ("tanh",))}
STEPS, INPUTS = 4, 16
Products = Callable[[], int]


@dataclass(frozen=True)
class Layer:
    """A recurrent layer of ``batch`` rows, None where their number is known at run time only.

    ``weights``: "bfloat16", "int8", or "rounded" for codes whose states are rounded to uint8.
    """

    op: str
    weights: str
    batch: int | None
    hidden: int
    direction: str = "forward"
    lengths: bool = False
    zeros: bool = False
    linear_before_reset: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        functions = LAYERS[self.op][1] * self.directions
        more: dict[str, Any] = {"linear_before_reset": True} if self.linear_before_reset else {}
        more |= {"dynamic_quantization": True} if self.weights == "rounded" else {}
        numbers = (0.0,) * len(functions)
        more |= {"activation_alpha": numbers, "activation_beta": numbers}
        return {"direction": self.direction, "activations": functions, **more}

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def graph(self) -> Graph:
        build, rng = Builder(), np.random.default_rng(self.hidden)
        rows, batch = (self.directions, LAYERS[self.op][0] * self.hidden), dims.symbol("n") if self.batch is None else self.batch
        x = build.input(TensorType((STEPS, batch, INPUTS), "float32"), "x")
        bias = rng.standard_normal((rows[0], 2 * rows[1])).astype(np.float32)
        given: dict[str, Value | None] = {"x": x, "bias": build.constant(bias)}
        if self.lengths:
            given["lengths"] = build.input(TensorType((batch,), "int32"), "lengths")
        for name, depth in (("w", INPUTS), ("r", self.hidden)):
            if self.weights == "bfloat16":
                given[name] = build.constant((rng.standard_normal((*rows, depth)) / np.sqrt(depth)).astype(np.float32))
                continue
            codes = build.constant(rng.integers(-128, 128, (*rows, depth)).astype(np.int8))
            scale = build.constant(rng.uniform(0.3, 1, rows).astype(np.float32) / np.float32(60 * np.sqrt(depth)))
            zero = build.constant(rng.integers(-9, 9, rows).astype(np.int8)) if self.zeros else None
            given |= {name: codes, f"{name}_scale": scale, f"{name}_zero_point": zero}
        operands = [given.get(operand.name) for operand in get_op(self.op).operands]
        return build.output(*build.call_multi(self.op, *operands, **self.attributes))

    def inputs(self, rows: int | None = None) -> list[np.ndarray]:
        rng, count = np.random.default_rng(5), rows or self.batch
        lengths = rng.integers(0, STEPS + 1, count).astype(np.int32)
        return [rng.standard_normal((STEPS, count, INPUTS)).astype(np.float32), *([lengths] if self.lengths else [])]

    def compiled(self, target: str) -> Callable[..., Any]:
        options = check_options(target, bfloat16=self.weights == "bfloat16")
        return compile_module(Module(self.graph()), options, use_cache=False).runtime()


def check(layer: Layer, target: str, products: Products, monkeypatch: pytest.MonkeyPatch, *rows: int) -> None:
    """Compares with vectors and with NumPy, for each number of rows; several must be multiplied in tiles, and one must not."""
    tiled = layer.compiled(target)
    with monkeypatch.context() as patch:
        patch.setattr(rnn_layer, "MIN_WORDS", 99)
        plain = layer.compiled(target)
    for count in rows or (layer.batch,):
        inputs, before = layer.inputs(count), products()
        found, middle = [np.asarray(a) for a in tiled(*inputs)], products()
        vectors, after = [np.asarray(a) for a in plain(*inputs)], products()
        if EMULATED in target:
            assert (middle - before > after - middle) == (count is not None and count > 1)
        tolerance = 5e-4 if layer.weights == "bfloat16" else 0.0
        for got, want, meaning in zip(found, vectors, run_graph(layer.graph(), inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)
            np.testing.assert_allclose(got, meaning, rtol=0, atol=2e-2 if tolerance else 2e-5)


EVERY_TARGET = pytest.mark.parametrize("target", targets("bfloat16"))
BATCHES = [(1, 64), (2, 64), (8, 100), (16, 128), (19, 37), (40, 64)]


@EVERY_TARGET
@pytest.mark.parametrize(("batch", "hidden"), BATCHES)
@pytest.mark.parametrize(("op", "weights"), [
    ("nn.lstm", "bfloat16"), ("nn.lstm", "int8"), ("nn.lstm", "rounded"), ("nn.gru", "bfloat16"), ("nn.gru", "int8")])
def test_batches(
    op: str, weights: str, batch: int, hidden: int, target: str, products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(Layer(op, weights, batch, hidden), f"{target} -num-cores=1", products, monkeypatch)


@EVERY_TARGET
@pytest.mark.parametrize("layer", [
    Layer("nn.lstm", "bfloat16", None, 100, "bidirectional"), Layer("nn.gru", "bfloat16", None, 64, "reverse"),
    Layer("nn.rnn", "bfloat16", None, 32), Layer("nn.lstm", "int8", None, 64, "reverse"),
    Layer("nn.gru", "int8", None, 50, "bidirectional"), Layer("nn.rnn", "int8", None, 64),
    Layer("nn.lstm", "rounded", None, 64, "bidirectional", zeros=True),
], ids=str)
def test_batches_that_are_known_at_run_time_only(
    layer: Layer, target: str, products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(layer, f"{target} -num-cores=2", products, monkeypatch, 1, 2, 8, 16, 19, 40)


@EVERY_TARGET
@pytest.mark.parametrize("layer", [
    Layer("nn.lstm", "bfloat16", 40, 64, "bidirectional", lengths=True), Layer("nn.gru", "bfloat16", 19, 64, "reverse", True),
    Layer("nn.gru", "bfloat16", 5, 64, linear_before_reset=True), Layer("nn.gru", "int8", 19, 64, linear_before_reset=True),
    Layer("nn.gru", "int8", 40, 64, "bidirectional", lengths=True), Layer("nn.rnn", "int8", 7, 64, "reverse"),
    Layer("nn.rnn", "bfloat16", 3, 650), Layer("nn.lstm", "rounded", 40, 37, "reverse", lengths=True, zeros=True),
], ids=str)
def test_directions_and_lengths(layer: Layer, target: str, products: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    check(layer, f"{target} -num-cores=4", products, monkeypatch)


@EVERY_TARGET
@pytest.mark.parametrize(("weights", "name", "value"), [
    *((weights, name, value) for weights in ("bfloat16", "int8", "rounded")
      for name, value in (("STACK_LIMIT", 1 << 15), ("SHARED_WORK", 1))), ("rounded", "MAX_LOCAL", 64)])
def test_memory_and_threads(
    weights: str, name: str, value: int, target: str, products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rnn_rounded if name == "MAX_LOCAL" else rnn_layer, name, value)
    layer = Layer("nn.lstm", weights, 19, 64, "bidirectional", lengths=True, zeros=weights == "rounded")
    check(layer, f"{target} -num-cores=2", products, monkeypatch)


@EVERY_TARGET
@pytest.mark.parametrize("layer", [
    test_rnn.Layer("nn.lstm", 4, 19, 0, 37, "bidirectional", lengths=True, states=True, layout=1),
    test_rnn.Layer("nn.lstm", 5, 11, 0, 64, "reverse", states=True, dynamic=True, zeros=True, peephole=True),
    test_rnn.Layer("nn.gru", 3, 18, 0, 40, "bidirectional", states=True, symbolic=True, clip=0.3),
], ids=str)
def test_nothing_past_the_ends_is_read(layer: test_rnn.Layer, target: str, products: Products) -> None:
    test_rnn.check(replace(layer, codes="panels", products_given=True), target)
    assert EMULATED not in target or products() > 0


@pytest.mark.parametrize(("batch", "hidden", "dtype", "shape"), [
    (1, 40, "float32", (1, 160, 40)), (1, 32, "bfloat16", (1, 128, 32)), (2, 40, "bfloat16", (1, 4, 20, 64, 2)),
    (None, 34, "bfloat16", (1, 4, 18, 64, 2))])
def test_pairs_of_weights_are_packed_for_several_rows(
    batch: int | None, hidden: int, dtype: str, shape: tuple[int, ...]
) -> None:
    target, graph = Target.parse("llvm -mcpu=sapphirerapids"), Layer("nn.lstm", "bfloat16", batch, hidden).graph()
    for run in (to_bfloat16.run, split_recurrent.run):
        run(graph, CompileOptions(target=target))
    checks.check(pack_weights.run, graph, target, symbols={"n": 3})
    r = graph.find("nn.lstm").operands[2]
    assert r is not None
    assert (r.dtype, r.shape) == (dtype, shape)
