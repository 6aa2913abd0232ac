"""Recurrent kernels against the operators' NumPy meaning, in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import forge.ops  # noqa: F401
from forge import dtypes, te
from forge.errors import CompileError
from forge.ir.op import get_op
from forge.kernels import FAMILIES
from forge.kernels.layouts import CpuLayouts
from forge.loops.contract import KernelCall
from forge.ops.nn import recurrent_codes
from forge.target import Target
from forge.tir.expr import Buffer
from tests.codegen.compiled import build
from tests.kernels.case import reader, writer
from tests.kernels.support import guarded
from tests.schedule.support import TARGETS

GATES = {"nn.lstm": 4, "nn.gru": 3, "nn.rnn": 1}
SYMBOLIC = [(19, 5, "bidirectional"), (3, 1, "bidirectional"), (4, 2, "reverse"), (6, 3, "reverse"), (3, 0, "bidirectional")]
DEFAULTS = {"nn.lstm": ("sigmoid", "tanh", "tanh"), "nn.gru": ("sigmoid", "tanh"), "nn.rnn": ("tanh",)}


@dataclass
class Layer:
    """A recurrent layer of T steps, B rows, I inputs and H units, with random contents."""

    op: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    direction: str = "forward"
    bias: bool = True
    lengths: bool = False
    states: bool = False
    peephole: bool = False
    products_given: bool = False
    layout: int = 0
    activations: tuple[str, ...] | None = None
    alpha: float = 0.7
    clip: float | None = None
    input_forget: bool = False
    linear_before_reset: bool = False
    symbolic: bool = False
    narrow: bool = False
    codes: str = ""  # "rows" or "panels" of int8 are the recurrent weights
    zeros: bool = False
    dynamic: bool = False
    grouped: bool = True

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def attrs(self) -> Any:
        names = (self.activations or DEFAULTS[self.op]) * self.directions
        return SimpleNamespace(
            direction=self.direction,
            activations=names,
            activation_alpha=(self.alpha,) * len(names),
            activation_beta=(0.3,) * len(names),
            clip=self.clip,
            layout=self.layout,
            input_forget=self.input_forget,
            linear_before_reset=self.linear_before_reset,
            dynamic_quantization=self.dynamic,
            counts_ended=False,
        )

    def operands(self, target: str = "") -> list[np.ndarray | None]:
        """Codes are packed for a target, if there is one."""
        operands = self._real_operands()
        if not self.codes:
            return operands
        rng, gates = np.random.default_rng(9), GATES[self.op]
        rows = self.directions, gates * self.hidden
        r = rng.integers(-128, 128, (*rows, self.hidden)).astype(np.int8)
        scale = rng.uniform(0.3, 1, rows).astype(np.float32) / np.float32(60 * np.sqrt(self.hidden))
        zero = rng.integers(-128, 128, rows).astype(np.int8) if self.zeros else None
        sums = recurrent_codes.centred(r, zero).sum(axis=2).astype(np.int32) if target and self.codes == "panels" else None
        if self.codes == "panels" and target:
            layouts = CpuLayouts(Target.parse(target))
            group = layouts.recurrent_group("float32", self.hidden, self.dynamic) if self.grouped else 1
            steps = layouts.recurrent_steps(self.hidden, group)
            r = recurrent_codes.packed(r, gates, layouts.recurrent_panel(self.hidden), group, steps)
        operands[2] = r
        return [*operands, None, None, scale, zero, sums]

    def _real_operands(self) -> list[np.ndarray | None]:
        rng = np.random.default_rng(8)
        d, h, b, rows = self.directions, self.hidden, self.batch, GATES[self.op] * self.hidden
        depth = d * rows if self.products_given else self.inputs

        def draw(*shape: int) -> np.ndarray:
            return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

        def batch_first(array: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(array.swapaxes(0, 1)) if self.layout else array

        def weight(*shape: int) -> np.ndarray:
            return draw(*shape).astype(dtypes.numpy_dtype("bfloat16" if self.narrow else "float32"))

        lengths = rng.integers(0, self.steps + 1, b).astype(np.int32) if self.lengths else None
        state = [batch_first(draw(d, b, h)) if self.states else None for _ in range(2)]
        common = [
            batch_first(draw(self.steps, b, depth)),
            None if self.products_given else weight(d, rows, self.inputs),
            weight(d, rows, h),
            draw(d, 2 * rows) if self.bias else None,
            lengths,
            state[0],
        ]
        return [*common, state[1], draw(d, 3 * h) if self.peephole else None] if self.op == "nn.lstm" else common

    def expected(self) -> list[np.ndarray]:
        """In float64, but for layers that round."""
        if self.dynamic:
            return list(get_op(self.op).reference(self.attrs(), *get_op(self.op).arguments(self.operands())))
        wide = [None if a is None else a.astype(np.float64) if a.dtype == np.float32 else a for a in self.operands()]
        return list(get_op(self.op).reference(self.attrs(), *get_op(self.op).arguments(wide)))

    def run(self, target: str) -> list[np.ndarray]:
        arrays, results = self.operands(target), self.expected()
        of_rows = (0, 4, 5, 6)  # operands that have an extent of steps or batch
        inputs = [None if a is None else self._buffer(f"in{k}", a, k in of_rows) for k, a in enumerate(arrays)]
        outputs = [self._buffer(f"out{k}", a.astype(np.float32)) for k, a in enumerate(results)]
        symbols = tuple(te.symbol_var(n) for n in ("T", "B")) if self.symbolic else ()
        call = KernelCall(
            "rnn",
            self.op,
            self.attrs(),
            tuple(None if b is None else reader(b) for b in inputs),
            tuple(writer(b) for b in outputs),
            (*(b for b in inputs if b is not None), *outputs),
            symbols,
            Target.parse(target),
        )
        kernel = build(FAMILIES["rnn"](call), target)
        found = [guarded(np.full(a.shape, 7, np.float32)) for a in results]
        sizes = (self.steps, self.batch) if self.symbolic else ()
        kernel(*(guarded(a, str(a.dtype)) for a in arrays if a is not None), *found, *sizes)
        return found

    def _buffer(self, name: str, array: np.ndarray, of_rows: bool = True) -> Buffer:
        names = {self.steps: "T", self.batch: "B"} if self.symbolic and of_rows else {}
        shape = tuple(te.symbol_var(names[n]) if n in names else te.const(n) for n in array.shape)
        return Buffer(name, dtypes.canonical(array.dtype), shape)


def check(layer: Layer, target: str) -> None:
    for got, want in zip(layer.run(target), layer.expected(), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=3e-6)


@TARGETS
@pytest.mark.parametrize("layer", [
    Layer("nn.lstm", 6, 1, 7, 64, narrow=True), Layer("nn.lstm", 4, 3, 5, 32, narrow=True, lengths=True, products_given=True),
    Layer("nn.lstm", 3, 2, 9, 19, narrow=True, states=True), Layer("nn.rnn", 5, 2, 8, 96, narrow=True, direction="reverse"),
    Layer("nn.gru", 5, 2, 8, 64, narrow=True, states=True), Layer("nn.gru", 4, 1, 8, 32, narrow=True, linear_before_reset=True),
    Layer("nn.lstm", 2, 1, 3, 320, narrow=True, direction="bidirectional"),
], ids=str)
def test_weights_of_bfloat16(target: str, layer: Layer) -> None:
    for got, want in zip(layer.run(target), layer.expected(), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=5e-4)


@TARGETS
@pytest.mark.parametrize("layer", [
    Layer("nn.lstm", 4, 3, 0, 19, codes="rows", products_given=True),
    Layer("nn.lstm", 4, 1, 0, 300, codes="panels", products_given=True),
    Layer("nn.lstm", 3, 6, 0, 33, "bidirectional", codes="panels", products_given=True, lengths=True, states=True),
    Layer("nn.gru", 4, 2, 0, 37, "reverse", codes="panels", products_given=True, states=True, layout=1),
    Layer("nn.gru", 4, 5, 0, 37, codes="panels", products_given=True, states=True, linear_before_reset=True),
    Layer("nn.gru", 3, 2, 0, 37, codes="panels", products_given=True, states=True, grouped=False),
    Layer("nn.gru", 4, 2, 0, 19, codes="rows", zeros=True, products_given=True, linear_before_reset=True),
    Layer("nn.rnn", 11, 7, 0, 70, "bidirectional", codes="panels", products_given=True, symbolic=True),
], ids=str)
def test_weights_of_int8(target: str, layer: Layer) -> None:
    check(layer, target)


@TARGETS
@pytest.mark.parametrize("values", [[np.nan], [np.inf], [1e30, -1e30], [1e4, 3, -1e-3], [1e-40] * 21, [0] * 21])
def test_codes_times_any_state(target: str, values: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """States of 24 bits go where those of float32 go, unless infinities have both signs."""
    layer = Layer("nn.lstm", 3, 2, 0, 21, codes="panels", products_given=True)
    operands = layer.operands()
    state = np.linspace(-1, 1, 42, dtype=np.float32).reshape(1, 2, 21)
    state[..., : len(values)] = values
    monkeypatch.setattr(Layer, "_real_operands", lambda self: [*operands[:5], state, *operands[6:8]])
    with np.errstate(all="ignore"):
        check(layer, target)


@TARGETS
@pytest.mark.parametrize("codes", ["rows", "panels"])
@pytest.mark.parametrize("layer", [
    Layer("nn.lstm", 9, 1, 0, 16), Layer("nn.lstm", 5, 2, 0, 300, zeros=True), Layer("nn.lstm", 5, 7, 0, 19, states=True),
    Layer("nn.lstm", 6, 6, 0, 35, "bidirectional", lengths=True, states=True, zeros=True, peephole=True),
    Layer("nn.lstm", 4, 3, 0, 5, "reverse", lengths=True, layout=1), Layer("nn.lstm", 13, 7, 0, 21, symbolic=True, zeros=True),
], ids=str)
def test_states_that_are_rounded(target: str, layer: Layer, codes: str) -> None:
    """The same integers on every target: a state that is next to a tie would be another code, a hundred times the tolerance."""
    check(replace(layer, codes=codes, dynamic=True, products_given=True), target)


@TARGETS
@pytest.mark.parametrize("op", sorted(GATES))
@pytest.mark.parametrize(
    ("steps", "batch", "inputs", "hidden"), [(5, 1, 7, 16), (20, 3, 13, 19), (2, 6, 33, 5), (1, 2, 4, 40), (35, 1, 8, 3)]
)
def test_sizes(target: str, op: str, steps: int, batch: int, inputs: int, hidden: int) -> None:
    check(Layer(op, steps, batch, inputs, hidden), target)


@TARGETS
@pytest.mark.parametrize("op", sorted(GATES))
@pytest.mark.parametrize("batch", [1, 3])
def test_weights_that_every_other_step_takes_backwards(target: str, op: str, batch: int) -> None:
    check(Layer(op, 5, batch, 7, 21), f"{target} -l1-cache=1024")


@TARGETS
@pytest.mark.parametrize("op", sorted(GATES))
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_directions_lengths_and_states(target: str, op: str, direction: str, layout: int) -> None:
    check(Layer(op, 6, 5, 9, 20, direction, lengths=True, states=True, layout=layout), target)


@TARGETS
@pytest.mark.parametrize("op", sorted(GATES))
@pytest.mark.parametrize(("steps", "batch", "direction"), SYMBOLIC)
def test_symbolic_steps_and_batch(target: str, op: str, steps: int, batch: int, direction: str) -> None:
    check(Layer(op, steps, batch, 11, 21, direction, symbolic=True, lengths=batch > 0), target)


@TARGETS
@pytest.mark.parametrize(("steps", "batch", "direction"), SYMBOLIC)
@pytest.mark.parametrize("dynamic", [False, True])
def test_codes_with_symbolic_steps_and_batch(target: str, steps: int, batch: int, direction: str, dynamic: bool) -> None:
    layer = Layer("nn.lstm", steps, batch, 0, 21, direction, symbolic=True, states=True, zeros=dynamic, dynamic=dynamic,
                  codes="panels", products_given=True)
    check(layer, target)


def test_both_directions_of_rounded_states_with_a_symbolic_batch_have_room() -> None:
    check(Layer("nn.lstm", 3, 4, 0, 64, "bidirectional", symbolic=True, dynamic=True, codes="rows", products_given=True),
          "llvm -mcpu=x86-64-v3")


@TARGETS
@pytest.mark.parametrize("op", sorted(GATES))
def test_products_of_the_input_may_be_given(target: str, op: str) -> None:
    check(Layer(op, 5, 3, 0, 18, "bidirectional", products_given=True), target)


@TARGETS
@pytest.mark.parametrize(
    "layer",
    [
        Layer("nn.lstm", 4, 2, 8, 12, peephole=True, states=True),
        Layer("nn.lstm", 4, 2, 8, 12, clip=0.3),
        Layer("nn.lstm", 4, 2, 8, 12, input_forget=True),
        Layer("nn.lstm", 4, 2, 8, 12, bias=False),
        Layer("nn.gru", 4, 2, 8, 12, linear_before_reset=True),
        Layer("nn.gru", 4, 5, 8, 12, "reverse", linear_before_reset=True, lengths=True),
        Layer("nn.gru", 4, 2, 8, 12, clip=0.2),
    ],
    ids=lambda layer: f"{layer.op}-{layer.direction}",
)
def test_variants(target: str, layer: Layer) -> None:
    check(layer, target)


@pytest.mark.parametrize(
    "name",
    ["relu", "affine", "leaky_relu", "thresholded_relu", "scaled_tanh", "hard_sigmoid", "elu", "softsign", "softplus", "sigmoid"],
)
def test_activations(name: str) -> None:
    layer = Layer("nn.rnn", 4, 2, 8, 12, activations=(name,), alpha=0.2)
    (got, _), (want, _) = layer.run("llvm -mcpu=x86-64"), layer.expected()
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=3e-6)


def test_a_symbolic_hidden_size_is_refused() -> None:
    x, r = (Buffer(name, "float32", (te.const(1), te.const(1), te.symbol_var("H"))) for name in ("x", "r"))
    call = KernelCall(
        "rnn",
        "nn.rnn",
        Layer("nn.rnn", 1, 1, 1, 1).attrs(),
        (reader(x), None, reader(r)),
        (),
        (x, r),
        (),
        Target.parse("llvm -mcpu=x86-64"),
    )
    with pytest.raises(CompileError, match="the hidden size: got a size known only at run time"):
        FAMILIES["rnn"](call)
