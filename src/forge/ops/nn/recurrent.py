"""Recurrent layers with the semantics of ONNX: LSTM, GRU and plain RNN.

Shapes, with T steps, B rows, I inputs, H hidden units, D directions (2 for "bidirectional") and G gates:

- x ``[T, B, I]``, w ``[D, G * H, I]``, r ``[D, G * H, H]``, bias ``[D, 2 * G * H]`` (of the input, then of the state),
  lengths ``[B]``, h0 and c0 ``[D, B, H]``, peephole ``[D, 3 * H]``;
- results y ``[T, D, B, H]``, h ``[D, B, H]`` (and c);
- with ``layout`` 1 the batch comes first: x ``[B, T, I]``, y ``[B, T, D, H]``, states ``[B, D, H]``.

Where w is absent, x ``[T, B, D * G * H]`` holds its products already. w and r may be bfloat16 with float32: what they are
multiplied by is rounded to bfloat16 then, and products are summed in float32. Steps from a row's length on give y = 0 and
leave its state. A reverse direction reads the steps of a row backwards, from its length on.

w and r may be int8, with a scale for each row, w_scale and r_scale ``[D, G * H]``, and zero points of int8 of that shape: they
stand for ``(code - zero point) * scale``. With ``dynamic_quantization`` what they are multiplied by is rounded to uint8, too,
so that sums are of integers: x by its range, over all steps up to the longest length, and the state at each step by its range
over all rows that have not ended before. A range includes 0; its ends are 0 and 255. Codes of r may be packed in panels
(``forge.ops.nn.recurrent_codes``), with r_sums ``[D, G * H]``, the sums of their rows without zero points, and so may an r of
bfloat16, without sums.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from forge import dims, dtypes
from forge.ir.batch import Batch, MixesBatch
from forge.ir.types import Type
from forge.ops.core.inference import expect_rank, fail, require_equal
from forge.ops.core.lowering import wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Builder,
    Dim,
    ReferenceValue,
    TensorType,
    TensorTypes,
    Value,
    Values,
)
from forge.ops.nn import recurrent_codes

PACKED_RANK = 5
"""Of r in panels."""
CODES = ("w_scale", "w_zero_point", "r_scale", "r_zero_point", "r_sums")
"""Operands with an element for each row of the weights."""
OTHER_TYPES = {"lengths": ("int32", "int64"), "w_zero_point": ("int8",), "r_zero_point": ("int8",), "r_sums": ("int32",)}
"""Of operands that have not the type of x."""


DIRECTIONS = ("forward", "reverse", "bidirectional")


@dataclass(frozen=True)
class RnnAttrs:
    """``activations`` and their parameters have one entry per function and direction. ``clip`` bounds the input of gates."""

    activations: tuple[str, ...]
    activation_alpha: tuple[float, ...]
    activation_beta: tuple[float, ...]
    direction: str = "forward"
    clip: float | None = None
    layout: int = 0


@dataclass(frozen=True)
class LstmAttrs(RnnAttrs):
    """``dynamic_quantization``: x and the states are rounded to uint8, by their range; that of the states includes the last
    ones of all rows that have ended with ``counts_ended``.
    """

    input_forget: bool = False
    dynamic_quantization: bool = False
    counts_ended: bool = False


@dataclass(frozen=True)
class GruAttrs(RnnAttrs):
    linear_before_reset: bool = False


ACTIVATIONS: dict[str, Callable[[Array, Any, Any], Array]] = {
    "sigmoid": lambda x, a, b: np.exp(-np.logaddexp(0, -x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "affine": lambda x, a, b: a * x + b,
    "leaky_relu": lambda x, a, b: np.where(x > 0, x, a * x),
    "thresholded_relu": lambda x, a, b: np.where(x > a, x, 0),
    "scaled_tanh": lambda x, a, b: a * np.tanh(b * x),
    "hard_sigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.logaddexp(0, x),
}


def _rounded(x: Array) -> Array:
    """To bfloat16 and back."""
    return x.astype(dtypes.numpy_dtype("bfloat16")).astype(x.dtype)


class Recurrent(Op[Any]):
    """What recurrent layers share: ``x [steps, batch, K]`` and a state are multiplied by weights of rows, at each step."""

    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "rnn"
    precision = Precision.NARROW_WEIGHTS
    category = Category.CONTRACTION
    x = Operand(accepts="float", rank=3)
    w = Operand(optional=True)
    r = Operand(rank=(3, PACKED_RANK))
    bias, lengths, h0 = Operand(optional=True), Operand(optional=True), Operand(optional=True)
    gates: ClassVar[int]
    functions: ClassVar[int]  # activations per direction
    states: ClassVar[int] = 1

    def infer(self, attrs: Any, *operands: Value | None) -> TensorTypes:
        given = {o.name: v for o, v in zip(self.operands, operands) if v is not None}
        x, directions = given["x"], self._check_attributes(attrs)
        hidden = self._hidden(given, directions)
        batch, steps = (x.shape[0], x.shape[1]) if attrs.layout else (x.shape[1], x.shape[0])
        state: tuple[Dim, ...] = (batch, directions, hidden) if attrs.layout else (directions, batch, hidden)
        width = self.gates * hidden
        expected: dict[str, tuple[Dim, ...]] = {
            "w": (directions, width, x.shape[2]), "r": (directions, width, hidden), "bias": (directions, 2 * width),
            "lengths": (batch,), "h0": state, "c0": state, "peephole": (directions, 3 * hidden), "x": x.shape,
            **dict.fromkeys(CODES, (directions, width)),
        }
        if given["r"].rank == PACKED_RANK:
            expected["r"] = self._packed_shape(attrs, given, directions, hidden)
        for name, value in given.items():
            self._check_operand(name, value, given, expected[name])
        if "w" not in given:
            require_equal(self.name, "last axis of x, which holds the products of w", x.shape[2], directions * width)
        if self.rounds_data(attrs):
            self._check_dynamic(given)
        y = (batch, steps, directions, hidden) if attrs.layout else (steps, directions, batch, hidden)
        return [TensorType(y, x.dtype), *[TensorType(state, x.dtype)] * self.states]

    def _hidden(self, given: dict[str, Value], directions: int) -> Dim:
        r = given["r"]
        if r.rank != PACKED_RANK:
            hidden: Dim = r.shape[2]
            return hidden
        if "w" in given or ("r_scale" in given) == (r.dtype == "bfloat16"):
            raise fail(self.name, "operand 'r'", r.type, "packed weights with r_scale, or of bfloat16, and without w")
        return dims.floordiv(given["x"].shape[2], directions * self.gates)

    def _packed_shape(self, attrs: Any, given: dict[str, Value], directions: int, hidden: Dim) -> tuple[Dim, ...]:
        steps, panel, group = given["r"].shape[2:]
        if not isinstance(hidden, int) or not isinstance(panel, int) or panel < 1 or group not in recurrent_codes.GROUPS:
            raise fail(self.name, "packed operand 'r'", given["r"].type, "known sizes, and groups of 1, 2 or 4")
        if (group > 1 and "r_scale" in given) != ("r_sums" in given) or self.rounds_data(attrs) and group == 1:
            raise fail(self.name, "groups of the packed operand 'r'", group, "r_sums for 2 or 4, and 1 only without rounding")
        if "r_zero_point" in given and not self.rounds_data(attrs):
            raise fail(self.name, "operand 'r_zero_point'", given["r_zero_point"].type, "none for packed r without rounding")
        return directions, self.gates * -(-hidden // panel), dims.maximum(steps, -(-hidden // group)), panel, group

    def _check_dynamic(self, given: dict[str, Value]) -> None:
        for name in ("w", "r"):
            if name in given and given[name].dtype != "int8":
                raise fail(self.name, f"operand {name!r}", given[name].type, "dtype int8 for dynamic_quantization")
        if given["x"].dtype != "float32":
            raise fail(self.name, "operand 'x'", given["x"].type, "dtype float32 for dynamic_quantization")

    def decompose(self, builder: Builder, attrs: Any, *operands: Value | None) -> Values | None:
        """Products of the input with codes are taken out."""
        given = {o.name: v for o, v in zip(self.operands, operands)}
        x, w, scale, lengths = (given[name] for name in ("x", "w", "w_scale", "lengths"))
        if x is None or w is None or scale is None:
            return None
        taken = recurrent_codes.input_products(builder, attrs, x, w, scale, given["w_zero_point"], lengths)
        left = given | {"x": taken, "w": None, "w_scale": None, "w_zero_point": None}
        return builder.call_multi(self, *left.values(), **vars(attrs))

    def rounds_data(self, attrs: Any) -> bool:
        return bool(getattr(attrs, "dynamic_quantization", False))

    def carry_batch(
        self, attrs: Any, results: Sequence[Type], batches: Sequence[Batch | None], *operands: Value | None
    ) -> Sequence[Batch | None]:
        """Rows are independent, unless their states are rounded together; weights are those of all."""
        if self.rounds_data(attrs):
            raise MixesBatch("the range of all rows says how their states are rounded", certain=True)
        state = 0 if attrs.layout else 1
        axes = {"x": state, "lengths": 0, "h0": state, "c0": state}
        for declared, batch in zip(self.operands, batches):
            if batch is not None and batch.axis != axes.get(declared.name):
                raise MixesBatch(f"{declared.name}: axis {batch.axis}, where the batch is, holds steps or units", certain=True)
        rows = next(b for b in batches if b is not None)
        return [replace(rows, axis=axis) for axis in (0 if attrs.layout else 2, *[state] * self.states)]

    def _check_attributes(self, attrs: Any) -> int:
        counts = dict(zip(DIRECTIONS, (1, 1, 2)))
        if attrs.direction not in counts:
            raise fail(self.name, "direction", repr(attrs.direction), ", ".join(counts))
        count = self.functions * counts[attrs.direction]
        lengths = tuple(map(len, (attrs.activations, attrs.activation_alpha, attrs.activation_beta)))
        if lengths != (count,) * 3:
            raise fail(self.name, "numbers of activations and their parameters", lengths, f"{count} each")
        unknown = [a for a in attrs.activations if a not in ACTIVATIONS]
        if unknown:
            raise fail(self.name, "activations", repr(unknown[0]), ", ".join(ACTIVATIONS))
        if attrs.layout not in (0, 1):
            raise fail(self.name, "layout", attrs.layout, "0 or 1")
        return counts[attrs.direction]

    def _check_operand(self, name: str, value: Value, given: dict[str, Value], shape: tuple[Dim, ...]) -> None:
        expect_rank(self.name, value.tensor_type, name, len(shape))
        for axis, (got, expected) in enumerate(zip(value.shape, shape)):
            require_equal(self.name, f"axis {axis} of {name}", got, expected)
        dtype = given["x"].dtype
        accepted = OTHER_TYPES.get(name, (dtype,))
        if name in ("w", "r") and f"{name}_scale" in given:
            accepted = ("int8",)
        elif name in ("w", "r") and dtype == "float32":
            accepted = ("float32", "bfloat16")
        if value.dtype not in accepted:
            raise fail(self.name, f"operand {name!r}", value.type, f"dtype {' or '.join(accepted)}")

    def reference(self, attrs: Any, *operands: ReferenceValue) -> Arrays:
        given: dict[str, Any] = {o.name: v for o, v in zip(self.operands, operands)}
        floats = {k: wide(v) if v is not None and k not in OTHER_TYPES else v for k, v in given.items()}
        if given["r"].ndim == PACKED_RANK:
            hidden = given["x"].shape[-1] // (len(given["r"]) * self.gates)
            given["r"], floats["r"] = (recurrent_codes.unpacked(v["r"], self.gates, hidden) for v in (given, floats))
        self._decode(attrs, floats, given)
        if attrs.layout:
            for name in ("x", "h0", "c0"):
                if floats.get(name) is not None:
                    floats[name] = np.swapaxes(floats[name], 0, 1)
        directions = floats["r"].shape[0]
        narrow = {k for k in ("w", "r") if given[k] is not None and dtypes.canonical(given[k].dtype) == "bfloat16"}
        parts = [_Direction(self, floats, attrs, d, narrow).run() for d in range(directions)]
        y = np.stack([p[0] for p in parts], axis=1)
        states = [np.stack([p[1][k] for p in parts]) for k in range(self.states)]
        if attrs.layout:
            return [y.transpose(2, 0, 1, 3), *(np.swapaxes(s, 0, 1) for s in states)]
        return [y, *states]

    def _decode(self, attrs: Any, floats: dict[str, Any], given: dict[str, Any]) -> None:
        """Replaces codes by what they stand for, or, where they are multiplied by codes, by these without zero points."""
        dynamic = self.rounds_data(attrs)
        for name in ("w", "r"):
            codes, scale, zero = given[name], floats.get(f"{name}_scale"), given.get(f"{name}_zero_point")
            if codes is None or scale is None:
                continue
            floats[name] = recurrent_codes.centred(codes, zero) if dynamic else recurrent_codes.real(codes, scale, zero)

    def step(self, cell: _Direction, products: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        """The next state from the products ``x w + b`` of one step, ``[B, G * H]``."""
        raise NotImplementedError

    def flops(self, attrs: Any, results: TensorTypes, x: Value, w: Value | None, r: Value, *_: object) -> Dim:
        return 2 * (r.size + (w.size if w is not None else 0)) * dims.product(x.shape[:2])


class _Direction:
    """One direction of a layer, evaluated with NumPy."""

    def __init__(self, op: Recurrent, values: dict[str, Any], attrs: Any, direction: int, narrow: Container[str]) -> None:
        self.op, self.attrs, self.direction = op, attrs, direction
        self.narrow = "r" in narrow
        self.reverse = attrs.direction == "reverse" or direction == 1
        self.r = values["r"][direction]
        width, self.hidden = self.r.shape
        x, given = values["x"], values["bias"]
        self.dtype, self.scales = x.dtype, values.get("r_scale")
        self.dynamic = op.rounds_data(attrs)
        bias = np.zeros(2 * width, x.dtype) if given is None else given[direction]
        self.input_bias, self.state_bias = bias[:width], bias[width:]
        steps, batch = x.shape[:2]
        self.lengths = np.full(batch, steps) if values["lengths"] is None else values["lengths"]
        self.products = self._input_products(values, "w" in narrow)
        zeros = np.zeros((batch, self.hidden), x.dtype)
        names = ("h0", "c0")[: op.states]
        self.state = tuple(zeros if values[n] is None else values[n][direction] for n in names)
        self.counted = np.ones(batch, bool)
        peephole = values.get("peephole")
        self.peephole = np.zeros((3, self.hidden), x.dtype) if peephole is None else peephole[direction].reshape(3, -1)

    def _input_products(self, values: dict[str, Any], narrow: bool) -> Array:
        x, w, width = values["x"], values["w"], len(self.r)
        if w is None:
            given: Array = x[..., self.direction * width : (self.direction + 1) * width]
            return given
        if self.dynamic:
            return self._rounded_times(x, x[: self.lengths.max(initial=0)], w[self.direction], values["w_scale"])
        product: Array = (_rounded(x) if narrow else x) @ w[self.direction].T
        return product

    def _rounded_times(self, x: Array, counted: Array, codes: Array, scales: Array) -> Array:
        whole, scale = recurrent_codes.rounded_by_range(x, counted)
        product: Array = (whole @ codes.T).astype(self.dtype) * (scale * scales[self.direction])
        return product

    def run(self) -> tuple[Array, tuple[Array, ...]]:
        steps, batch = self.products.shape[:2]
        y = np.zeros((steps, batch, self.hidden), self.dtype)
        rows, state, ended_count = np.arange(batch), self.state, getattr(self.attrs, "counts_ended", False)
        for step in range(steps):
            active, self.counted = step < self.lengths, (step <= self.lengths) | ended_count
            at = np.where(active, self.lengths - 1 - step if self.reverse else step, 0)
            new = self.op.step(self, self.products[at, rows] + self.input_bias, state)
            state = tuple(np.where(active[:, None], n, old) for n, old in zip(new, state))
            y[at[active], rows[active]] = state[0][active]
        return y, state

    def times(self, state: Array, rows: Array) -> Array:
        """``state [B, H]`` times ``rows [N, H]`` of r."""
        if self.dynamic and self.scales is not None:
            return self._rounded_times(state, state[self.counted], rows, self.scales)
        product: Array = (_rounded(state) if self.narrow else state) @ rows.T
        return product

    def activation(self, function: int, x: Array, clipped: bool = True) -> Array:
        """Activation number ``function`` of this direction."""
        k = self.direction * self.op.functions + function
        if self.attrs.clip and clipped:
            x = np.clip(x, -self.attrs.clip, self.attrs.clip)
        alpha, beta = (x.dtype.type(v[k]) for v in (self.attrs.activation_alpha, self.attrs.activation_beta))
        return ACTIVATIONS[self.attrs.activations[k]](x, alpha, beta)


@register
class LSTM(Recurrent):
    """i = f(z_i + p_i c'), o = f(z_o + p_o c), f = f(z_f + p_f c'), c = f c' + i g(z_c), h = o h(c), with z = x w + h' r + b.

    Gates in the order i, o, f, c; activations f, g, h per direction. ``input_forget``: f = 1 - i. Operands: x, w, r, bias,
    lengths, h0, c0, peephole (i, o, f), w_scale, w_zero_point, r_scale, r_zero_point, r_sums. Results: y, h, c. Shapes, and
    ``dynamic_quantization``: see ``forge.ops.nn.recurrent``. Kernel family ``rnn``.
    """

    name = "nn.lstm"
    Attrs = LstmAttrs
    c0, peephole = Operand(optional=True), Operand(optional=True)
    w_scale, w_zero_point = Operand(optional=True), Operand(optional=True)
    r_scale, r_zero_point, r_sums = Operand(optional=True), Operand(optional=True), Operand(optional=True)
    gates, functions, states = 4, 3, 2

    def step(self, cell: _Direction, products: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        h, c = state
        z = products + cell.times(h, cell.r) + cell.state_bias
        zi, zo, zf, zc = np.split(z, 4, axis=1)
        pi, po, pf = cell.peephole
        i = cell.activation(0, zi + pi * c)
        f = 1 - i if cell.attrs.input_forget else cell.activation(0, zf + pf * c)
        c = f * c + i * cell.activation(1, zc)
        o = cell.activation(0, zo + po * c)
        return o * cell.activation(2, c, clipped=False), c


@register
class GRU(Recurrent):
    """z = f(x w_z + h' r_z + b_z), r = f(x w_r + h' r_r + b_r), n = g(x w_n + (r h') r_n + b_n), h = (1 - z) n + z h'.

    Gates in the order z, r, n; activations f, g per direction. ``linear_before_reset``: n = g(x w_n + b_w + r (h' r_n + b_r)).
    Operands: x, w, r, bias, lengths, h0, w_scale, w_zero_point, r_scale, r_zero_point, r_sums. Results: y, h.
    Kernel family ``rnn``.
    """

    name = "nn.gru"
    Attrs = GruAttrs
    w_scale, w_zero_point = Operand(optional=True), Operand(optional=True)
    r_scale, r_zero_point, r_sums = Operand(optional=True), Operand(optional=True), Operand(optional=True)
    gates, functions = 3, 2

    def step(self, cell: _Direction, products: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        (h,) = state
        xz, xr, xn = np.split(products, 3, axis=1)
        rz, rr, rn = np.split(cell.r, 3)
        bz, br, bn = np.split(cell.state_bias, 3)
        z = cell.activation(0, xz + cell.times(h, rz) + bz)
        r = cell.activation(0, xr + cell.times(h, rr) + br)
        inner = r * (cell.times(h, rn) + bn) if cell.attrs.linear_before_reset else cell.times(r * h, rn) + bn
        n = cell.activation(1, xn + inner)
        return ((1 - z) * n + z * h,)


@register
class RNN(Recurrent):
    """h = f(x w + h' r + b). Operands: x, w, r, bias, lengths, h0, w_scale, w_zero_point, r_scale, r_zero_point, r_sums.

    Results: y, h. Kernel family ``rnn``.
    """

    name = "nn.rnn"
    Attrs = RnnAttrs
    w_scale, w_zero_point = Operand(optional=True), Operand(optional=True)
    r_scale, r_zero_point, r_sums = Operand(optional=True), Operand(optional=True), Operand(optional=True)
    gates, functions = 1, 1

    def step(self, cell: _Direction, products: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        return (cell.activation(0, products + cell.times(state[0], cell.r) + cell.state_bias),)
