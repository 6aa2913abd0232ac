"""Recurrent layers; what they keep is zero at first."""

from __future__ import annotations

from collections.abc import Sequence

from tests.frontends.tflite.case import Made, Operand, absent, num, row, weight
from tests.frontends.tflite.writer import Tensor

IN, UNITS, BATCH, TIME = 5, 7, 2, 4
FORMS = ("float32", "dynamic")


def variable(*shape: int) -> Operand:
    def make(made: Made) -> Tensor:
        return made.graph.tensor(shape, is_variable=True)

    return make


def matrix(*shape: int) -> Operand:
    """Weights, with one scale where they are integers: kernels of these layers read no other."""
    plain = weight(*shape)

    def make(made: Made) -> Tensor | None:
        form, made.form = made.form, "int8_tensor" if made.form == "dynamic" else made.form
        found = plain(made)
        made.form = form
        return found

    return make


def vector(size: int) -> Operand:
    def make(made: Made) -> Tensor:
        return made.graph.constant(made.random.uniform(-1, 1, size).astype("float32"))

    return make


def lstm(
    out: int = UNITS, *, coupled: bool = False, peephole: bool = False, projection: bool = False, norms: bool = False
) -> list[Operand]:
    """Inputs 1 to 17 of an LSTM."""
    def of_input(operand: Operand) -> Operand:
        return absent if coupled else operand

    looks = [vector(UNITS) if peephole else absent for _ in range(3)]
    return [
        of_input(matrix(UNITS, IN)), *(matrix(UNITS, IN) for _ in range(3)), of_input(matrix(UNITS, out)),
        *(matrix(UNITS, out) for _ in range(3)), of_input(looks[0]), *looks[1:], of_input(vector(UNITS)),
        *(vector(UNITS) for _ in range(3)), matrix(out, UNITS) if projection else absent, vector(out) if projection else absent]


def norms() -> list[Operand]:
    return [vector(UNITS) for _ in range(4)]


def sequence(weights: Sequence[Operand], out: int = UNITS, more: Sequence[Operand] = ()) -> list[Operand]:
    return [num(BATCH, TIME, IN), *weights, variable(BATCH, out), variable(BATCH, UNITS), *more]


TANH = {"fused_activation_function": "TANH"}
RNN = (matrix(UNITS, IN), matrix(UNITS, UNITS), vector(UNITS), variable(BATCH, UNITS))

ROWS = [
    row("UNIDIRECTIONAL_SEQUENCE_LSTM", *sequence(lstm()), forms=FORMS, **TANH),
    row("UNIDIRECTIONAL_SEQUENCE_LSTM", *sequence(lstm(coupled=True)), label="coupled", **TANH),
    row("UNIDIRECTIONAL_SEQUENCE_LSTM", *sequence(lstm(peephole=True)), label="peephole", **TANH),
    row("UNIDIRECTIONAL_SEQUENCE_LSTM", *sequence(lstm(3, projection=True), 3), label="projection", proj_clip=0.4, **TANH),
    row("UNIDIRECTIONAL_SEQUENCE_LSTM", *sequence(lstm(), more=norms()), label="norms", **TANH),
    row("UNIDIRECTIONAL_SEQUENCE_LSTM", *sequence(lstm()), label="clip", cell_clip=0.3, time_major=False, **TANH),
    row("LSTM", num(BATCH, IN), *lstm(peephole=True), variable(BATCH, UNITS), variable(BATCH, UNITS), label="step",
        kernel_type="FULL", **TANH),
    row("LSTM", num(BATCH, IN), num(BATCH, UNITS), matrix(4 * UNITS, IN + UNITS), vector(4 * UNITS), num(BATCH, UNITS), outputs=4,
        label="basic", kernel_type="BASIC", **TANH),
    *(row("BIDIRECTIONAL_SEQUENCE_LSTM", num(*(TIME, BATCH) if merge else (BATCH, TIME), IN), *lstm(), *lstm(),
          *(variable(BATCH, UNITS) for _ in range(4)), *[absent] * 9, outputs=1 if merge else 2,
          label="merged" if merge else "", merge_outputs=merge, time_major=merge, **TANH)
      for merge in (False, True)),
    row("RNN", num(BATCH, IN), *RNN, forms=FORMS, **TANH),
    row("RNN", num(BATCH, IN), *RNN, label="relu6", fused_activation_function="RELU6"),
    row("UNIDIRECTIONAL_SEQUENCE_RNN", num(BATCH, TIME, IN), *RNN, forms=FORMS, **TANH),
    row("UNIDIRECTIONAL_SEQUENCE_RNN", num(TIME, BATCH, IN), *RNN, label="time", time_major=True, **TANH),
    *(row("BIDIRECTIONAL_SEQUENCE_RNN", num(BATCH, TIME, IN), *RNN, *RNN, absent, absent, absent, outputs=1 if merge else 2,
          label="merged" if merge else "", merge_outputs=merge, time_major=False, **TANH) for merge in (False, True)),
    row("SVDF", num(BATCH, IN), matrix(2 * UNITS, IN), matrix(2 * UNITS, 3), vector(UNITS), variable(BATCH, 6 * UNITS),
        rank=2, fused_activation_function="RELU"),
]
