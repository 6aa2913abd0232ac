"""Convolutions and matrix products."""

from __future__ import annotations

from tests.frontends.tensorflow.case import COMPLEX, FLOATS, WIDE, ints, num, row

SLACK = 4.0
"""Sums of many products are rounded in another order."""


def conv(op: str, x: tuple[int, ...], kernel: tuple[int, ...], label: str, forms: tuple[str, ...] = ("float32",), **more: object):
    rank = len(x)
    options = {"strides": (1,) * rank, "padding": "SAME", **more}
    return row(op, num(*x), num(*kernel), forms=forms, label=label, accuracy=SLACK, **options)


def back(op: str, sizes: tuple[int, ...], kernel: tuple[int, ...], y: tuple[int, ...], label: str, padding: str = "SAME",
         **more: object):
    return row(op, ints(sizes), num(*kernel), num(*y), label=label, accuracy=SLACK, padding=padding, **more)


ROWS = [
    conv("Conv2D", (2, 7, 8, 3), (3, 3, 3, 4), "same", FLOATS),
    conv("Conv2D", (2, 7, 8, 3), (3, 2, 3, 4), "valid", padding="VALID", strides=(1, 2, 3, 1)),
    conv("Conv2D", (2, 8, 8, 3), (2, 4, 3, 4), "even", strides=(1, 2, 2, 1)),
    conv("Conv2D", (2, 9, 8, 3), (3, 3, 3, 4), "dilated", dilations=(1, 2, 3, 1)),
    conv("Conv2D", (2, 7, 8, 3), (3, 3, 3, 4), "explicit", padding="EXPLICIT", explicit_paddings=(0, 0, 1, 2, 0, 3, 0, 0)),
    conv("Conv2D", (2, 7, 8, 6), (3, 3, 2, 9), "groups"), conv("Conv2D", (2, 5, 5, 3), (1, 1, 3, 4), "strided",
                                                               strides=(1, 3, 3, 1)),
    conv("Conv3D", (1, 4, 5, 6, 2), (2, 3, 3, 2, 3), "same", WIDE), conv("Conv3D", (1, 4, 5, 6, 2), (2, 3, 3, 2, 3), "valid",
                                                                           padding="VALID", strides=(1, 1, 2, 2, 1)),
    conv("Conv", (2, 7, 8, 3), (3, 3, 3, 4), "two", strides=(1, 2, 2, 1)),
    conv("Conv", (1, 4, 5, 6, 2), (2, 3, 3, 2, 3), "three", padding="VALID"),
    conv("DepthwiseConv2dNative", (2, 7, 8, 3), (3, 3, 3, 2), "same", WIDE),
    conv("DepthwiseConv2dNative", (2, 7, 8, 3), (3, 3, 3, 1), "valid", padding="VALID", strides=(1, 2, 2, 1)),
    conv("DepthwiseConv2dNative", (2, 7, 8, 3), (3, 3, 3, 2), "explicit", padding="EXPLICIT",
         explicit_paddings=(0, 0, 1, 2, 0, 3, 0, 0)),
    # One image: TensorFlow's kernel gives wrong numbers for the second.
    *(row("FusedPadConv2D", num(1, 7, 8, 3), ints([[0, 0], [1, 2], [2, 1], [0, 0]]), num(3, 2, 3, 4), label=f"{mode}",
          mode=mode, strides=(1, 2, 2, 1), padding="VALID", forms=("float32",), accuracy=SLACK)
      for mode in ("REFLECT", "SYMMETRIC")),
    *(row("FusedResizeAndPadConv2D", num(1, 7, 8, 3), ints([9, 11]), ints([[0, 0], [1, 2], [2, 1], [0, 0]]), num(3, 2, 3, 4),
          label=f"{corners}", mode="REFLECT", strides=(1, 1, 1, 1), padding="SAME", forms=("float32",), accuracy=SLACK,
          resize_align_corners=corners) for corners in (False, True)),
    *(back("Conv2DBackpropInput", (2, *size, 3), (*kernel, 3, 4), (2, *y, 4), f"{padding}-{size[0]}-{kernel[1]}-{step}", padding,
           strides=(1, step, step, 1))
      for size, kernel, step, padding, y in (
          ((8, 6), (3, 3), 2, "SAME", (4, 3)), ((7, 5), (3, 3), 2, "SAME", (4, 3)), ((8, 6), (2, 4), 2, "SAME", (4, 3)),
          ((9, 7), (3, 3), 2, "VALID", (4, 3)), ((10, 8), (3, 3), 2, "VALID", (4, 3)), ((6, 5), (3, 2), 1, "VALID", (4, 4)),
          ((10, 7), (2, 2), 3, "SAME", (4, 3)))),
    back("Conv2DBackpropInput", (2, 8, 6, 3), (3, 3, 3, 4), (2, 5, 3, 4), "EXPLICIT", "EXPLICIT", strides=(1, 2, 2, 1),
         explicit_paddings=(0, 0, 2, 1, 1, 0, 0, 0)),
    back("Conv2DBackpropInput", (8, 6), (3, 3, 3, 4), (2, 4, 3, 4), "short", strides=(1, 2, 2, 1)),
    *(back("Conv3DBackpropInputV2", (1, *size, 2), (2, 3, 3, 2, 3), (1, *y, 3), f"{padding}", padding, strides=(1, 2, 2, 2, 1))
      for size, padding, y in (((4, 6, 5), "SAME", (2, 3, 3)), ((4, 7, 5), "VALID", (2, 3, 2)))),
    *(row("MatMul", num(*((4, 3) if a else (3, 4))), num(*((5, 4) if b else (4, 5))),
          forms=(*FLOATS, "int32", *COMPLEX) if not a and not b
          else ("float32",), label=f"{a}-{b}", accuracy=SLACK, transpose_a=a,
          transpose_b=b) for a in (False, True) for b in (False, True)),
    row("MatMul", num(3, 4), num(4, 5, const=True), label="weights", accuracy=SLACK, forms=WIDE),
    row("MatMul", num(3, 0), num(0, 5), label="empty"),
    row("BatchMatMul", num(2, 3, 4), num(2, 4, 5), accuracy=SLACK, forms=(*FLOATS, "int32")),
    row("BatchMatMulV2", num(2, 1, 3, 4), num(3, 4, 5), accuracy=SLACK, label="broadcast", forms=("float32",)),
    row("BatchMatMulV2", num(2, 4, 3), num(2, 5, 4), accuracy=SLACK, forms=("float32", *COMPLEX), adj_x=True, adj_y=True),
    row("BatchMatMulV3", num(2, 3, 4, dtype="int8"), num(2, 4, 5, dtype="int8"), T=None, Ta="int8", Tb="int8", Tout="int32"),
    *(row("Einsum", num(*a), num(*b), label=f"{k}", accuracy=SLACK, equation=equation) for k, (equation, a, b) in enumerate((
        ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("abc,cde->abde", (2, 3, 4), (4, 2, 3)),
        ("...ij,jk->...ik", (2, 2, 3, 4), (4, 5)), ("i,j->ij", (3,), (4,)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4))))),
    row("Einsum", num(3, 4), label="sum", equation="ij->j"), row("Einsum", num(3, 3), label="trace", equation="ii->"),
    row("BiasAdd", num(2, 3, 4, 5), num(5), forms=(*FLOATS, "int32")), row("BiasAdd", num(2, 5, 4, 3), num(5), label="NCHW",
        data_format="NCHW"),
    row("BiasAdd", num(2, 5), num(5), label="two"), row("BiasAddV1", num(2, 5), num(5)),
    row("_FusedConv2D", num(2, 7, 8, 3), num(3, 3, 3, 4), num(4), label="bias", accuracy=SLACK, strides=(1, 1, 1, 1),
        padding="SAME",
        num_args=1, fused_ops=["BiasAdd", "Relu"], TArgs=["float32"], num_host_args=0),
    row("_FusedConv2D", num(2, 7, 8, 3), num(3, 3, 3, 4), num(4), num(4), num(4), num(4, low=0.5), label="norm", accuracy=SLACK,
        strides=(1, 1, 1, 1), padding="VALID", num_args=4, fused_ops=["FusedBatchNorm", "Relu6"], TArgs=["float32"] * 4,
        epsilon=1e-3,
        num_host_args=0),
    *(row("_FusedMatMul", num(3, 4), num(4, 5), num(5), label="-".join(ops), accuracy=SLACK, num_args=1, fused_ops=list(ops))
      for ops in (("BiasAdd",), ("BiasAdd", "Relu"), ("BiasAdd", "Elu"), ("BiasAdd", "Tanh"), ("BiasAdd", "Sigmoid"),
                  ("BiasAdd", "LeakyRelu"))),
]
