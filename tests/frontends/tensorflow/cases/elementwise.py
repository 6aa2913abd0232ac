"""Operators that compute each element by itself."""

from __future__ import annotations

import numpy as np

from tests.frontends.tensorflow.case import ALL, COMPLEX, FLOATS, INTS, NUMBERS, REAL, WIDE, given, num, row

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 3.7, -3.7, 100.0, -100.0)
SIGNED = ("int32", "int64", "int8")
WHOLE = (7, -7, 6, -6, 0, 1, -1, 5)
BY = (2, 2, -3, -3, 5, -1, 7, -5)

ROWS = [
    *(row(op, num(3, 5), forms=forms) for op, forms in {
        "Abs": (*FLOATS, *SIGNED), "Neg": (*FLOATS, *SIGNED, *COMPLEX), "Sign": (*FLOATS, *SIGNED, *COMPLEX),
        "Square": (*FLOATS, *SIGNED, *COMPLEX), "Exp": (*FLOATS, *COMPLEX), "Expm1": FLOATS, "Cos": (*FLOATS, *COMPLEX),
        "Sin": (*FLOATS, *COMPLEX), "Tan": FLOATS, "Sinh": FLOATS, "Cosh": FLOATS, "Tanh": (*FLOATS, *COMPLEX),
        "Asinh": FLOATS, "Atan": FLOATS, "Erf": FLOATS, "Erfc": FLOATS, "Sigmoid": (*FLOATS, *COMPLEX), "Floor": FLOATS,
        "Ceil": FLOATS, "Elu": FLOATS, "Selu": FLOATS, "Softplus": FLOATS, "Softsign": FLOATS, "Relu": (*FLOATS, *INTS),
        "LeakyRelu": FLOATS, "Softmax": FLOATS, "LogSoftmax": FLOATS,
        "ZerosLike": ALL, "OnesLike": ALL, "Identity": ALL, "StopGradient": ("float32",), "PreventGradient": ("float32",),
        "Snapshot": ("float32",), "BesselI0e": WIDE, "BesselI1e": WIDE, "BesselI0": WIDE, "BesselI1": WIDE,
    }.items()),
    row("Tanh", num(9, low=-30, high=30), forms=FLOATS, label="wide"),
    row("Softplus", num(40, low=-60, high=60), forms=FLOATS, label="wide"),
    *(row(op, num(3, 5, low=0.1, high=4), forms=forms) for op, forms in {
        "Log": (*FLOATS, *COMPLEX), "Sqrt": (*FLOATS, *COMPLEX), "Rsqrt": (*FLOATS, *COMPLEX), "Log1p": FLOATS,
        "Reciprocal": (*FLOATS, *COMPLEX), "Inv": FLOATS, "Lgamma": FLOATS[:3], "Digamma": FLOATS[:3],
        "BesselK0": WIDE, "BesselK0e": WIDE, "BesselK1": WIDE, "BesselK1e": WIDE, "BesselJ0": WIDE, "BesselJ1": WIDE,
        "BesselY0": WIDE, "BesselY1": WIDE,
    }.items()),
    row("Lgamma", num(values=[-2.5, -0.5, 0.0, 1.0, 2.0, 30.0, 171.5, -3.0]), forms=WIDE, label="special"),
    *(row(op, num(3, 5, low=-0.9, high=0.9), forms=FLOATS) for op in ("Acos", "Asin", "Atanh")),
    row("Erfinv", num(3, 5, low=-0.9, high=0.9), forms=WIDE),
    row("Acosh", num(3, 5, low=1, high=5), forms=FLOATS),
    *(row(op, num(values=SPECIAL), forms=FLOATS if op != "Rint" else WIDE, label="special") for op in (
        "Round", "Rint", "Floor", "Ceil", "IsFinite", "IsInf", "IsNan", "Sign", "Relu", "Abs", "Relu6", "Neg", "Sigmoid")),
    row("Exp", num(0, 3), label="empty"), row("Exp", num(), forms=FLOATS, label="scalar"),
    row("Relu6", num(3, 5, low=-8, high=9), forms=(*FLOATS, *INTS)),
    row("LeakyRelu", num(3, 5), forms=FLOATS, label="slope", alpha=0.3),
    row("Softmax", num(2, 3, 4, low=-20, high=20), forms=FLOATS, label="three"),
    row("LogSoftmax", num(2, 3, 4, low=-20, high=20), forms=FLOATS, label="three"),
    row("LogicalNot", num(7), forms=("bool",)),
    row("Invert", num(values=WHOLE), forms=(*INTS, "uint16", "int16", "uint32", "uint64")),
    row("PopulationCount", num(values=[0, 1, -1, 127, -128, 77]), forms=(*INTS, "int16", "uint16", "uint32", "uint64")),
    *(row(op, num(3, 4), num(4), forms=forms) for op, forms in {
        "Add": NUMBERS, "AddV2": NUMBERS, "Sub": NUMBERS, "Mul": NUMBERS, "Maximum": REAL, "Minimum": REAL,
        "SquaredDifference": (*FLOATS, "int32", "int64", *COMPLEX), "Equal": ALL, "NotEqual": ALL, "Less": REAL,
        "LessEqual": REAL, "Greater": REAL, "GreaterEqual": REAL, "Atan2": FLOATS,
    }.items()),
    row("AddV2", num(2, 1, 3), num(4, 1), label="broadcast", forms=("float32", "int8")),
    row("AddV2", num(0, 3), num(), label="empty"), row("Mul", num(), num(), label="scalar"),
    row("AddV2", num(values=[100, 127, -128]), num(values=[100, 1, -1]), forms=("int8", "uint8"), label="wraps"),
    row("Equal", num(values=SPECIAL), num(values=SPECIAL[::-1]), forms=FLOATS, label="special"),
    *(row(op, num(values=SPECIAL[:5]), num(values=[0, 1, np.nan, 0, 2]), forms=FLOATS, label="special")
      for op in ("Maximum", "Minimum")),
    *(row(op, num(3, 4), num(4), forms=("bool",)) for op in ("LogicalAnd", "LogicalOr")),
    *(row(op, num(values=WHOLE), num(values=BY), forms=("int32", "int64", "uint8", "int8"))
      for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *(row(op, num(values=[1, -1, 77, -77, 127]), num(values=[0, 1, 3, 2, 6]), forms=(*INTS, "uint16", "uint32", "uint64"))
      for op in ("LeftShift", "RightShift")),
    *(row(op, num(values=[1, -1, 77, -77, 127]), num(values=[31, 32, 70, 8, 64]), forms=("int32", "int8", "uint8"), label="far")
      for op in ("LeftShift", "RightShift")),
    *(row(op, num(values=WHOLE), num(values=BY), forms=forms) for op, forms in {
        "FloorDiv": (*FLOATS, *SIGNED), "FloorMod": (*WIDE, "float16", *SIGNED), "Mod": ("int32", "int64", *WIDE),
        "TruncateMod": ("int32", "int64", *WIDE), "TruncateDiv": SIGNED, "Div": (*FLOATS, *SIGNED), "RealDiv": FLOATS,
        "DivNoNan": FLOATS, "MulNoNan": FLOATS, "Xdivy": FLOATS,
    }.items()),
    *(row(op, num(values=[7.5, -7.5, 6, -6, 0, np.inf, 1, np.nan]), num(values=[2, 2, -0.7, -0.7, 3, 2, np.inf, 1]),
          forms=WIDE, label="special") for op in ("FloorDiv", "FloorMod", "TruncateMod")),
    row("Div", num(3, 4), num(values=[1, 2 + 1j, -3, 1j]), forms=COMPLEX, label="complex"),
    row("DivNoNan", num(values=[1, 0, np.inf, np.nan, 3]), num(values=[0, 0, 0, 0, 2]), forms=FLOATS, label="zero"),
    row("MulNoNan", num(values=[1, 0, np.inf, np.nan, 3]), num(values=[0, 0, 0, 0, 2]), forms=FLOATS, label="zero"),
    row("Xlogy", num(values=[0, 1, 0, -2, 0]), num(values=[0, 2, -1, 0.5, 3]), forms=FLOATS),
    row("Xlog1py", num(values=[0, 1, 0, -2, 0]), num(values=[-1, 2, -3, 0.5, 3]), forms=FLOATS),
    row("Xdivy", num(values=[0, 1, 0, -2, 0]), num(values=[0, 2, -1, 0.5, 3]), forms=FLOATS, label="zero"),
    row("Pow", num(3, 4, low=0.1, high=3), num(4), forms=FLOATS),
    row("Pow", num(values=[2, -2, 3, -1, 0, 5]), num(values=[3, 3, 4, 5, 0, 1]), forms=("int32", "int64", "int8"), label="whole"),
    row("NextAfter", num(values=[0, 1, -1, 3]), num(values=[1, 2, 1, 3]), forms=WIDE),
    row("AddN", num(2, 3), num(2, 3), num(2, 3), forms=NUMBERS), row("AddN", num(2, 3), label="one"),
    row("ClipByValue", num(3, 5), num(values=-1), num(values=2), forms=(*FLOATS, *SIGNED)),
    row("ClipByValue", num(3, 5), num(3, 5, low=-3, high=-1), num(3, 5, low=1, high=2), forms=("float32",), label="tensors"),
    row("Select", num(3, 2, dtype="bool"), num(3, 2), num(3, 2), forms=ALL),
    row("Select", num(3, dtype="bool"), num(3, 2), num(3, 2), label="rows", forms=("float32", "int64")),
    row("Select", num(dtype="bool"), num(3, 2), num(3, 2), label="scalar"),
    row("SelectV2", num(3, 1, dtype="bool"), num(2), num(3, 2), forms=ALL),
    row("ApproximateEqual", num(values=[1, 2, 3]), num(values=[1.1, 2.3, 3]), forms=WIDE, tolerance=0.25),
    row("Complex", num(3, 4), num(3, 4), Tout=None), row("Complex", num(3), num(3), forms=("float64",), label="wide",
                                                                     Tout="complex128"),
    *(row(op, num(3, 4), forms=COMPLEX) for op in ("ComplexAbs", "Real", "Imag", "Angle", "Conj")),
    *(row(op, num(3, 4), forms=("complex128",), label="wide", Tout="float64") for op in ("ComplexAbs", "Real", "Imag", "Angle")),
    *(row("Cast", num(values=values), forms=forms, label=f"to-{to}", T=None, SrcT="form", DstT=to) for to, forms, values in (
        ("int32", (*FLOATS, "bool", "int8", "uint8", "int64"), [0, 1.7, -1.7, 100, 3.2]),
        ("int64", (*FLOATS, "int32"), [0, 1.7, -1.7, 100, 3.2]),
        ("uint8", ("float32", "int32", "bool"), [0, 1.7, 200, 255, 3.2]),
        ("int8", ("float32", "int32"), [0, 1.7, -128, 127, 3.2]),
        ("bool", (*FLOATS, "int32", "uint8"), [0, 1.7, -1, 0.3, 3.2]),
        ("float16", ("float32", "float64", "int32"), [0, 1.7, -1, 70000, 3.2]),
        ("bfloat16", ("float32", "float64", "int32"), [0, 1.7, -1, 70000, 3.2]),
        ("complex64", ("float32", "int32"), [0, 1.7, -1, 70000, 3.2]),
        ("float32", ("bfloat16", "float16", "bool", "uint64", "int64", "complex64"), [0, 1, 7, 3, 5]))),
    *(row("Cast", num(values=[6e4, -6e4, 300.7, -1.5]), forms=("float32", "float64", "float16"), label=f"drops-{to}", T=None,
          SrcT="form", DstT=to) for to in ("uint8", "int8", "int16", "uint16", "uint32")),
    row("Cast", num(values=[300, -1, 256, 1000]), forms=("int32",), label="drops", T=None, SrcT="form", DstT="uint8"),
    row("Cast", num(values=[1 + 2**-12, 1 + 2**-8 + 2**-9]), forms=("float32",), label="cuts", T=None, SrcT="form",
        DstT="bfloat16", Truncate=True),
    row("Bitcast", num(3, 4), forms=("float32",), label="same", type="int32"),
    row("Bitcast", num(3, 4), forms=("float32",), label="narrow", type="uint8"),
    row("Bitcast", num(3, 4), forms=("uint8",), label="wide", type="int32"),
    row("Bitcast", num(4), forms=("float64",), label="float", type="float32"),
    row("GuaranteeConst", num(3)), row("Copy", num(3)), row("CopyHost", num(3)),
    row("SoftmaxCrossEntropyWithLogits", num(3, 5), num(3, 5, low=0, high=1), outputs=2, forms=FLOATS, accuracy=2),
    row("SparseSoftmaxCrossEntropyWithLogits", num(3, 5), given([1, 4, 0]), outputs=2, forms=FLOATS, accuracy=2),
    row("CheckNumerics", num(3), message="bad"), row("CheckNumericsV2", num(3), message="bad"),
    row("IdentityN", num(3), given([1, 2]), outputs=2, T=("float32", "int32")),
    row("Igamma", num(6, low=0.2, high=4), num(6, low=0.1, high=5), forms=WIDE),
    row("Igammac", num(6, low=0.2, high=4), num(6, low=0.1, high=5), forms=WIDE),
    row("Zeta", num(6, low=1.2, high=4), num(6, low=0.1, high=5), forms=WIDE),
    row("Polygamma", num(values=[1, 2, 3, 0, 2, 1]), num(6, low=0.1, high=5), forms=WIDE),
    row("Ndtri", num(9, low=0.01, high=0.99), forms=WIDE),
]
