"""Operators that compute each element by itself."""

from __future__ import annotations

from tests.frontends.tflite.case import Q16, SAME, Q, given, ints, num, random_bools, row

F = ("float32",)
INTEGERS = ("int32", "int64")
MANY = (12, 100)

ROWS = [
    row("ADD", num(*MANY), num(*MANY, low=-3, high=2), forms=(*F, *INTEGERS, *Q16)),
    row("ADD", num(*MANY), num(100, const=True), forms=(*F, *Q16), label="relu", fused_activation_function="RELU"),
    row("ADD", num(12, 1, 10), num(12, 10, 1, low=0.2, high=9), forms=(*F, *Q), label="broadcast"),
    row("ADD", num(*MANY, low=0, high=8.9), num(*MANY, low=-1.03, high=0.98), forms=(*F, *Q16), label="relu6", out=(0, 6),
        fused_activation_function="RELU6"),
    row("SUB", num(*MANY), num(*MANY, low=-3, high=2), forms=(*F, *INTEGERS, *Q16)),
    row("SUB", num(*MANY), num(1), forms=(*F, *Q), label="relu", fused_activation_function="RELU"),
    row("MUL", num(*MANY), num(*MANY, low=-3, high=2), forms=(*F, *INTEGERS, *Q16)),
    row("MUL", num(*MANY), num(12, 1), forms=(*F, *Q16), label="relu1", fused_activation_function="RELU_N1_TO_1"),
    row("DIV", num(*MANY), num(*MANY, low=1, high=3), forms=F),
    row("DIV", num(1020, values=[*range(10, 61), *range(200, 251)] * 10), num(1020, low=0, high=3, values=[*range(50, 254)] * 5),
        forms=("uint8",), label="quantized", out=(-3.07, 3.02)),
    row("DIV", num(40, low=-20, high=20), num(40, low=1, high=5), forms=("int32",), label="integers"),
    *(row(op, num(30, low=low, high=high), forms=forms) for op, low, high, forms in (
        ("ABS", -3, 3, ("float32", "int32")), ("CEIL", -3, 3, F), ("COS", -9, 9, F), ("FLOOR", -3, 3, F), ("LOG", 0.1, 9, F),
        ("NEG", -3, 3, ("float32", *INTEGERS)), ("ROUND", -3, 3, F), ("RSQRT", 0.1, 9, F), ("SIGN", -1, 1, ("float32", "int32")),
        ("SIN", -9, 9, F), ("SQRT", 0, 9, F), ("SQUARE", -3, 3, F), ("EXP", -3, 3, F),
        ("ZEROS_LIKE", -3, 3, ("float32", *INTEGERS)))),
    row("ROUND", num(8, values=[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0, 3.49]), label="ties"),
    row("ABS", num(1200), forms=("float32", "int8", "int16"), label="quantized", out=(0, 1)),
    row("RSQRT", num(256, low=0.01, high=4, values=[*range(700, 32460, 124)][:256]), forms=("int16",), label="quantized",
        out=(0, 6)),
    row("RSQRT", num(126, low=0.1, high=4, values=[*range(-125, 1)]), forms=("int8",), label="quantized", out=(0, 4)),
    row("EXP", num(1200), forms=("float32", "int8", "int16"), label="quantized", out=(0, 2.8)),
    row("LOG", num(255, low=0, high=4, values=[*range(-127, 128)]), forms=("int8",), label="quantized", out=(-5, 1.5)),
    row("ATAN2", num(30), num(30)),
    row("POW", num(30, low=0.1, high=3), num(30, low=-2, high=2)),
    row("POW", num(30, low=-5, high=5), num(30, low=0, high=4), forms=("int32",), label="integers"),
    row("FLOOR_DIV", num(30, low=-20, high=20), num(30, low=1, high=7), forms=("float32", "int32")),
    row("FLOOR_DIV", num(30, low=-20, high=20), num(30, low=-7, high=-1), forms=("float32", "int32"), label="negative"),
    row("FLOOR_MOD", num(30, low=-20, high=20), num(30, low=1, high=7), forms=("float32", *INTEGERS)),
    row("FLOOR_MOD", num(30, low=-20, high=20), num(30, low=-7, high=-1), forms=("float32", "int32"), label="negative"),
    row("BITWISE_XOR", num(30, low=-99, high=99), num(30, low=-99, high=99), forms=("int32", "int8", "uint8"), out=SAME),
    row("RIGHT_SHIFT", num(30, low=-99, high=99), given([1, 2, 3] * 10), forms=("int32",)),
    row("LOGICAL_NOT", random_bools(20), out="bool"),
    *(row(op, random_bools(4, 5), random_bools(5), out="bool") for op in ("LOGICAL_AND", "LOGICAL_OR")),
    *(row(op, num(20, 30, low=-9, high=9), num(30, low=-9, high=9), forms=("float32", *INTEGERS, *Q), out="bool") for op in (
        "EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")),
    row("LESS", num(20, 60), num(60, low=-2, high=3), forms=("float32", *Q), out="bool", label="scales"),
    *(row(op, num(6, 9, low=-9, high=9), num(9, low=-9, high=9), forms=("float32", *INTEGERS, *Q16), out=SAME) for op in (
        "MAXIMUM", "MINIMUM")),
    row("SQUARED_DIFFERENCE", num(12, 100), num(100, low=-2, high=1), forms=("float32", "int32", "int8")),
    row("ADD_N", num(30, low=-9, high=9), num(30, low=-9, high=9), num(30, low=-9, high=9), forms=("float32", "int32")),
    *(row("CAST", num(30, low=-99, high=99), forms=(kind,), out=to, label=to, in_data_type=kind, out_data_type=to)
      for kind, to in (
        ("float32", "int32"), ("float32", "float16"), ("float32", "bool"), ("int32", "float32"), ("int32", "int64"),
        ("int32", "bool"), ("bool", "float32"), ("int64", "int32"))),
    row("DEQUANTIZE", num(300), forms=Q16, out="float32"),
    row("DEQUANTIZE", ints([0.5, 1.25, -3], "float16"), out="float32", label="half"),
    row("QUANTIZE", num(1200), forms=Q16, out=(-1.9, 1.13), label="requantized"),
    row("SELECT_V2", random_bools(9, 1), num(9, 8), num(8), forms=("float32", "int32"), out=SAME),
    row("SELECT_V2", random_bools(9, 8), num(9, 8), num(9, 8), forms=Q16, out=SAME, label="quantized"),
    row("SELECT", random_bools(9), num(9, 8), num(9, 8), forms=("float32", "int32", *Q), out=SAME),
]
