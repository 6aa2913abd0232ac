"""Activation functions."""

from __future__ import annotations

from tests.frontends.tflite.case import ACTIVATION, LOGARITHM, Q16, SAME, SYMMETRIC, Q, num, row

WHOLE = (2, 800)

ROWS = [
    *(row(op, num(*WHOLE, low=-8.07, high=7.31), forms=("float32", *forms)) for op, forms in (
        ("RELU", Q16), ("RELU6", Q16), ("RELU_N1_TO_1", Q))),
    row("RELU_0_TO_1", num(*WHOLE, low=-2, high=3), forms=("float32", *Q)),
    *(row("TANH", num(*WHOLE, low=-r, high=r), forms=("float32", *Q16), out=SYMMETRIC, label=f"{r}") for r in (1, 4)),
    *(row("LOGISTIC", num(*WHOLE, low=-r, high=r), forms=("float32", *Q16), out=ACTIVATION, label=f"{r}") for r in (2, 8)),
    row("LEAKY_RELU", num(*WHOLE, low=-3, high=3), forms=("float32", *Q16), alpha=0.3),
    row("ELU", num(*WHOLE, low=-3, high=3), forms=("float32", "int8")),
    row("HARD_SWISH", num(*WHOLE, low=-5, high=6), forms=("float32", *Q)),
    row("HARD_SWISH", num(*WHOLE, low=-2, high=2), forms=("float32", *Q), label="narrow"),
    row("GELU", num(*WHOLE, low=-3, high=3), forms=("float32", *Q)),
    row("GELU", num(*WHOLE, low=-3, high=3), forms=("float32", *Q), label="tanh", approximate=True),
    row("PRELU", num(12, 100), num(100, low=0, high=1, const=True), forms=("float32", *Q)),
    *(row("SOFTMAX", num(40, n, low=-r, high=r), forms=("float32", *Q16), out=ACTIVATION, label=f"{n}", beta=beta)
      for n, r, beta in ((10, 3, 1.0), (40, 6, 1.0), (30, 4, 0.5))),
    row("LOG_SOFTMAX", num(60, 20, low=-4, high=4), forms=("float32", *Q), out=LOGARITHM),
    row("RELU6", num(30, low=-8, high=7), forms=("float32", *Q), label="same", out=SAME),
]
