"""The rows of ``benchmarks.operators``: one line for each operator at a size that a network has.

A row is a few nodes in ONNX's text form; their inputs and constants are arrays in a form of their own, `Row`. A helper writes the
nodes where a family needs no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Given = str | int | float | np.generic | Sequence[int] | Sequence[float] | Sequence[np.generic]


@dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        nodes: in ONNX's text form, with ``;`` between them. The results of the last one are the outputs.
        inputs: by name, shapes like ``1,64,h=56,w=56``, after an element type if that is not float32: ``int64<10 8,t=100`` are
            integers below 10, ``float32>0`` positive numbers, others random. A named size is unknown in the dynamic form.
        constants: likewise, or numbers: float32, int64, or of their own type.
        reason: why Forge cannot be faster than its peers, with the bound of the machine, if that is so.
    """

    family: str
    name: str
    nodes: str
    inputs: Mapping[str, str]
    constants: Mapping[str, Given] = field(default_factory=dict)
    opset: int = 18
    reason: str = ""

    @property
    def title(self) -> str:
        return f"{self.family}: {self.name}"

    @property
    def dynamic(self) -> bool:
        """Whether there is a size that may be unknown."""
        return any("=" in text for text in self.inputs.values())


def _ints(text: str) -> list[int]:
    return [int(part.rpartition("=")[2]) for part in text.split(",")]


def _window(weight: str, stride: int | Sequence[int], dilation: int, pads: int | Sequence[int] | None, group: int) -> str:
    """The attributes of a convolution; by default it is padded so that a stride of 1 keeps its size."""
    kernel = _ints(weight)[2:]
    strides = [stride] * len(kernel) if isinstance(stride, int) else list(stride)
    same = [dilation * (size - 1) // 2 for size in kernel] * 2
    pads = same if pads is None else [pads] * len(same) if isinstance(pads, int) else list(pads)
    return f"strides={strides}, dilations={[dilation] * len(kernel)}, pads={pads}, group={group}"


def _conv(family: str, name: str, data: str, weight: str, stride: int | Sequence[int] = 1, *, dilation: int = 1,
          pads: int | Sequence[int] | None = None, group: int = 1, then: str = "", reason: str = "") -> Row:
    """A convolution with bias; ``then`` are more nodes, from ``y``."""
    nodes = f"y = Conv<{_window(weight, stride, dilation, pads, group)}>(x, w, b)"
    return Row(family, name, nodes + then, {"x": data}, {"w": weight, "b": weight.split(",")[0]}, reason=reason)


def _up(name: str, data: str, weight: str, stride: int | Sequence[int], *, dilation: int = 1,
        pads: int | Sequence[int] | None = None, group: int = 1, more: str = "") -> Row:
    """A transposed convolution; by default it is padded so that its stride is the factor of its size."""
    if pads is None:
        step = stride if isinstance(stride, int) else 1
        pads = [(size - step) // 2 for size in _ints(weight)[2:]] * 2
    rank = len(_ints(weight)) - 2
    nodes = f"y = ConvTranspose<{_window(weight, stride, dilation, pads, group)}{more}>(x, w)"
    return Row(f"transposed {rank}d", name, nodes, {"x": data}, {"w": weight})


def _bytes(name: str, data: str, weight: str, stride: int = 1, *, group: int = 1,
           forms: Sequence[str] = ("QLinear", "QDQ")) -> list[Row]:
    """A convolution of bytes in some of the ways in which files write it."""
    window, bias = _window(weight, stride, 1, None, group), f"int32<999 {weight.split(',')[0]}"
    codes: dict[str, Given] = {"w": f"int8<64 {weight}", "xs": 0.02, "xz": np.uint8(128), "ws": 0.01, "wz": np.int8(0), "b": bias}
    result: dict[str, Given] = {"ys": 0.5, "yz": np.uint8(128)}
    linear = f"y = QLinearConv<{window}>(x, xs, xz, w, ws, wz, ys, yz, b)"
    qdq = (f"q = QuantizeLinear(x, xs, xz); d = DequantizeLinear(q, xs, xz); e = DequantizeLinear(w, ws, wz); "
           f"a = DequantizeLinear(b, bs); c = Conv<{window}>(d, e, a); y = QuantizeLinear(c, ys, yz)")
    integer = f"q, s, z = DynamicQuantizeLinear(x); c = ConvInteger<{window}>(q, w, z); f = Cast<to=1>(c); y = Mul(f, s)"
    channels = weight.split(",")[0]
    signed: dict[str, Given] = {**codes, "xs": 0.0002, "xz": np.int8(-7), "ws": f"float32>0 {channels}",
                                "wz": [np.int8(0)] * int(channels), "ys": 0.5, "yz": np.int8(3)}
    rows = {"signed": Row("bytes", f"QLinearConv signed, scales of channels, {name}", linear, {"x": f"int8<128 {data}"}, signed),
            "QLinear": Row("bytes", f"QLinearConv {name}", linear, {"x": f"uint8 {data}"}, {**codes, **result}),
            "QDQ": Row("bytes", f"QDQ conv {name}", qdq, {"x": data}, {**codes, **result, "bs": 0.0002}),
            "Integer": Row("bytes", f"ConvInteger {name}", integer, {"x": data}, {"w": codes["w"]})}
    return [rows[form] for form in forms]


def _norm(family: str, name: str, node: str, data: str, channels: int, count: int = 2, opset: int = 18) -> Row:
    """A norm of ``data`` with ``count`` vectors of one number for each channel."""
    names = ["s", "b", "m", "v"][:count]
    vectors = dict.fromkeys(names, f"float32>0 {channels}")
    return Row(family, name, f"y = {node}(x, {', '.join(names)})", {"x": data}, vectors, opset)


def _recurrent(op: str, name: str, data: str, hidden: int, *, directions: int = 1, more: str = "", reason: str = "") -> Row:
    """A recurrent layer; ``data`` are length, batch, features."""
    gates, features = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], data.split(",")[-1]
    direction = ', direction="bidirectional"' if directions == 2 else ""
    weights: dict[str, Given] = {"w": f"{directions},{gates * hidden},{features}", "r": f"{directions},{gates * hidden},{hidden}",
                                 "b": f"{directions},{2 * gates * hidden}"}
    return Row("recurrent", f"{op} {name}", f"y = {op}<hidden_size={hidden}{direction}{more}>(x, w, r, b)", {"x": data}, weights,
               reason=reason)


def _attention(name: str, query: str, key: str, opset: int = 18, *, mask: str = "") -> Row:
    """Softmax of products of queries and keys, and its product with values, as exporters write it."""
    scores = "k2 = Transpose<perm=[0,1,3,2]>(k); p = MatMul(q, k2); s = Mul(p, c); "
    added = "u = Add(s, m); a = Softmax<axis=-1>(u)" if mask else "a = Softmax<axis=-1>(s)"
    inputs = {"q": query, "k": key, "v": key, **({"m": mask} if mask else {})}
    return Row("attention", name, f"{scores}{added}; y = MatMul(a, v)", inputs, {"c": 0.125}, opset)


def _near_peak(known: int, unknown: int) -> str:
    """The reason of a row that takes these per cents of the multiply-adds that the core can do, with sizes known and unknown."""
    return f"{known} and {unknown} % of the multiply-adds that the core can do"


def _product(name: str, left: str, right: str, reason: str = "") -> Row:
    """A matrix product with weights."""
    return Row("matmul", name, "y = MatMul(x, w)", {"x": left}, {"w": right}, reason=reason)


def _map(family: str, name: str, nodes: str, *data: str, opset: int = 18, reason: str = "", **constants: Given) -> Row:
    """Nodes of inputs ``x``, ``y``, ``z``."""
    return Row(family, name, nodes, dict(zip("xyz", data)), constants, opset, reason)


SILU = "; s = Sigmoid(y); o = Mul(y, s)"
RELU = "; o = Relu(y)"

CONVOLUTIONS = (
    _conv("conv2d", "3x3, 64 channels", "1,64,h=56,w=56", "64,64,3,3"),
    _conv("conv2d", "3x3, 64 channels, relu, batch 8", "n=8,64,h=56,w=56", "64,64,3,3", then=RELU),
    _conv("conv2d", "3x3, 32 to 64, SiLU", "1,32,h=80,w=80", "64,32,3,3", then=SILU),
    _conv("conv2d", "3x3, 32 to 64, SiLU, unknown width", "1,32,80,w=80", "64,32,3,3", then=SILU),
    _conv("conv2d", "3x3, 32 to 64, SiLU, unknown height", "1,32,h=80,80", "64,32,3,3", then=SILU),
    _conv("conv2d", "3x3, 128 channels", "1,128,h=28,w=28", "128,128,3,3"),
    _conv("conv2d", "3x3, 256 channels", "1,256,h=14,w=14", "256,256,3,3"),
    _conv("conv2d", "3x3, 512 channels", "1,512,h=7,w=7", "512,512,3,3"),
    _conv("conv2d", "3x3, 512 channels, U-Net", "1,512,h=32,w=32", "512,512,3,3"),
    _conv("conv2d", "3x3, 64 channels, text line", "1,64,32,w=320", "128,64,3,3", then=RELU),
    _conv("conv2d", "3x3, 16 channels, large", "1,16,h=256,w=256", "16,16,3,3", then=RELU),
    _conv("conv2d", "3x3, 64 channels, 5x5 image", "1,64,h=5,w=5", "64,64,3,3"),
    _conv("conv2d", "3x3, 37 to 53", "1,37,h=41,w=43", "53,37,3,3"),
    _conv("conv2d", "3x3 stride 2, 64 channels, SiLU", "1,64,h=80,w=80", "64,64,3,3", 2, then=SILU,
          reason=_near_peak(85, 85) + ", SiLU included"),
    _conv("conv2d", "3x3 stride 2, 256 to 512", "1,256,h=14,w=14", "512,256,3,3", 2),
    _conv("conv2d", "3x3 stride 2, 64 channels, asymmetric padding", "1,64,h=57,w=57", "64,64,3,3", 2, pads=[0, 0, 1, 1],
          reason=_near_peak(98, 90)),
    _conv("conv2d", "3x3 dilated 2, 128 channels", "1,128,h=28,w=28", "128,128,3,3", dilation=2),
    _conv("conv2d", "3x3 dilated 12, 256 channels", "1,256,h=33,w=33", "256,256,3,3", dilation=12),
    _conv("conv2d", "first 7x7 stride 2", "1,3,h=224,w=224", "64,3,7,7", 2, then=RELU),
    _conv("conv2d", "first 7x7 stride 2, batch 8", "n=8,3,h=224,w=224", "64,3,7,7", 2, then=RELU,
          reason=_near_peak(77, 77)),
    _conv("conv2d", "first 3x3 stride 2, 16 channels, SiLU", "1,3,h=320,w=320", "16,3,3,3", 2, then=SILU,
          reason="the convolution takes 61 % of the multiply-adds that the core can do, SiLU included; a third of the time goes "
                 "into the blocked layout and back"),
    _conv("conv2d", "first 3x3 stride 2, 32 channels", "1,3,h=224,w=224", "32,3,3,3", 2, then=RELU,
          reason="the convolution takes 83 % of the multiply-adds that the core can do; a quarter of the time goes into the "
                 "plain layout"),
    _conv("conv2d", "first 3x3, 64 channels", "1,3,h=224,w=224", "64,3,3,3", then=RELU),
    _conv("conv2d", "first 9x9, 64 channels", "1,3,h=128,w=128", "64,3,9,9"),
    _conv("conv2d", "first 5x5 of 1 channel", "1,1,h=28,w=28", "16,1,5,5", then=RELU),
    _conv("conv2d", "patches 4x4", "1,3,h=224,w=224", "96,3,4,4", 4, pads=0),
    _conv("conv2d", "patches 16x16", "1,3,h=224,w=224", "768,3,16,16", 16, pads=0),
    _conv("conv2d", "1x1, 32 to 64, SiLU", "1,32,h=80,w=80", "64,32,1,1", then=SILU),
    _conv("conv2d", "1x1, 64 to 256", "1,64,h=56,w=56", "256,64,1,1"),
    _conv("conv2d", "1x1, 256 to 64, batch 8", "n=8,256,h=56,w=56", "64,256,1,1", then=RELU,
          reason=_near_peak(57, 57) + "; 32 MB come from memory and go there, and are copied into the blocked layout and back"),
    _conv("conv2d", "1x1, 512 to 2048", "1,512,h=7,w=7", "2048,512,1,1"),
    _conv("conv2d", "1x1, 960 to 160", "1,960,h=7,w=7", "160,960,1,1"),
    _conv("conv2d", "1x1 stride 2, 256 to 512", "1,256,h=56,w=56", "512,256,1,1", 2),
    _conv("conv2d", "1x1, 13 to 29", "1,13,h=31,w=31", "29,13,1,1"),
    _conv("conv2d", "1x1 of one pixel, 64 to 1024", "1,64,1,1", "1024,64,1,1", then=RELU),
    _conv("conv2d", "1x1 to 1 channel", "1,64,h=160,w=160", "1,64,1,1", then="; o = Sigmoid(y)"),
    _conv("conv2d", "5x5, 32 to 48", "1,32,h=28,w=28", "48,32,5,5"),
    _conv("conv2d", "1x7, 192 channels", "1,192,h=17,w=17", "192,192,1,7",
          reason=_near_peak(98, 98) + " with the tenth of the taps that lie on padding, which openvino leaves out"),
    _conv("conv2d", "7x1, 192 channels", "1,192,h=17,w=17", "192,192,7,1"),
    _conv("conv2d", "3x3 to 3 channels", "1,64,h=128,w=128", "3,64,3,3"),
    _conv("conv2d", "32 groups, 256 channels", "1,256,h=28,w=28", "256,8,3,3", group=32),
    _conv("conv2d", "32 groups, stride 2, 512 channels", "1,512,h=28,w=28", "512,16,3,3", 2, group=32),
    _conv("conv2d", "2 groups of 1x1, 240 channels", "1,240,h=28,w=28", "240,120,1,1", group=2,
          reason="the products take 95 % of the multiply-adds that the core can do; a seventh of the time goes into the blocked "
                 "layout and back"),
    Row("conv2d", "3x3, residual", "c = Conv<pads=[1,1,1,1]>(x, w); a = Add(c, r); y = Relu(a)",
        {"x": "1,64,h=56,w=56", "r": "1,64,h=56,w=56"}, {"w": "64,64,3,3"}),
    Row("conv2d", "3x3, weights given", "y = Conv<pads=[1,1,1,1]>(x, w)", {"x": "1,64,h=28,w=28", "w": "64,64,3,3"}),
    _conv("depthwise", "3x3, 64 channels, SiLU", "1,64,h=80,w=80", "64,1,3,3", group=64, then=SILU),
    _conv("depthwise", "3x3, 96 channels", "1,96,h=112,w=112", "96,1,3,3", group=96),
    _conv("depthwise", "3x3, 96 channels, batch 8", "n=8,96,h=56,w=56", "96,1,3,3", group=96),
    _conv("depthwise", "3x3, 960 channels", "1,960,h=7,w=7", "960,1,3,3", group=960),
    _conv("depthwise", "3x3, 37 channels", "1,37,h=41,w=43", "37,1,3,3", group=37),
    _conv("depthwise", "3x3 stride 2, 144 channels", "1,144,h=56,w=56", "144,1,3,3", 2, group=144),
    _conv("depthwise", "3x3 dilated 2, 256 channels", "1,256,h=33,w=33", "256,1,3,3", dilation=2, group=256),
    _conv("depthwise", "3x3, 32 channels doubled", "1,32,h=56,w=56", "64,1,3,3", group=32),
    _conv("depthwise", "5x5, 64 channels, SiLU", "1,64,h=80,w=80", "64,1,5,5", group=64, then=SILU),
    _conv("depthwise", "5x5 stride 2, 240 channels", "1,240,h=28,w=28", "240,1,5,5", 2, group=240),
    _conv("depthwise", "7x7, 96 channels", "1,96,h=56,w=56", "96,1,7,7", group=96),
    _conv("depthwise", "1-D 31, 256 channels", "1,256,t=400", "256,1,31", group=256),
    _conv("depthwise", "1-D 3, 512 channels", "1,512,t=200", "512,1,3", group=512),
    _conv("depthwise", "3-D 3x3x3, 54 channels", "1,54,t=8,h=28,w=28", "54,1,3,3,3", group=54),
    _conv("conv1d", "3, 128 channels, SiLU", "1,128,t=400", "128,128,3", then=SILU),
    _conv("conv1d", "7, 128 channels", "1,128,t=1000", "128,128,7"),
    _conv("conv1d", "1, 256 to 512", "1,256,t=400", "512,256,1"),
    _conv("conv1d", "400 stride 160 of 1 channel, STFT", "1,1,t=48000", "258,1,400", 160),
    _conv("conv1d", "10 stride 5 of 1 channel, wav2vec", "1,1,t=16000", "512,1,10", 5, pads=0, then="; o = Erf(y)"),
    _conv("conv1d", "3 stride 2, 512 channels, wav2vec", "1,512,t=1599", "512,512,3", 2, pads=0),
    _conv("conv1d", "3, 80 to 384, Whisper", "1,80,t=1500", "384,80,3"),
    _conv("conv1d", "3 stride 2, 384 channels, Whisper", "1,384,t=1500", "384,384,3", 2),
    _conv("conv1d", "3 dilated 9, 64 channels", "1,64,t=4000", "64,64,3", dilation=9),
    _conv("conv1d", "11 dilated 5, 64 channels, vocoder", "1,64,t=2000", "64,64,11", dilation=5),
    _conv("conv1d", "128 in 16 groups, 768 channels", "1,768,t=100", "768,48,128", pads=64, group=16),
    _conv("conv1d", "5, 80 to 512, batch 8", "n=8,80,t=200", "512,80,5", then=RELU),
    _conv("conv1d", "5, 33 to 47", "1,33,t=101", "47,33,5"),
    _conv("conv1d", "7 to 1 channel, vocoder", "1,32,t=20000", "1,32,7", then="; o = Tanh(y)"),
    _conv("conv3d", "3x3x3, 32 channels", "1,32,t=8,h=28,w=28", "32,32,3,3,3"),
    _conv("conv3d", "3x3x3 stride 2, 32 to 64", "1,32,t=8,h=28,w=28", "64,32,3,3,3", 2),
    _conv("conv3d", "3x3x3, 16 channels, volume", "1,16,t=32,h=48,w=48", "16,16,3,3,3", then=RELU),
    _conv("conv3d", "1x3x3, 32 channels", "1,32,t=8,h=28,w=28", "32,32,1,3,3"),
    _conv("conv3d", "3x1x1, 64 channels", "1,64,t=8,h=28,w=28", "64,64,3,1,1"),
    _conv("conv3d", "1x1x1, 64 to 128", "1,64,t=8,h=28,w=28", "128,64,1,1,1"),
    _conv("conv3d", "first 3x7x7 stride 1x2x2", "1,3,t=8,h=112,w=112", "64,3,3,7,7", (1, 2, 2)),
    _conv("conv3d", "3x3x3, 7 to 13", "1,7,t=5,h=19,w=17", "13,7,3,3,3"),
    _up("20 stride 10, 512 to 256", "1,512,t=40", "512,256,20", 10),
    _up("12 stride 6, 256 to 128", "1,256,t=400", "256,128,12", 6),
    _up("16 stride 8, 64 to 32", "1,64,t=200", "64,32,16", 8),
    _up("4 stride 2, 128 to 64, batch 8", "n=8,128,t=500", "128,64,4", 2),
    _up("2 stride 2, 31 to 17", "1,31,t=103", "31,17,2", 2),
    _up("2x2 stride 2, 24 channels", "1,24,h=120,w=160", "24,24,2,2", 2),
    _up("2x2 stride 2, 512 to 256", "1,512,h=16,w=16", "512,256,2,2", 2),
    _up("4x4 stride 2, 64 to 32", "1,64,h=40,w=40", "64,32,4,4", 2),
    _up("4x4 stride 2, 256 to 128, batch 8", "n=8,256,h=8,w=8", "256,128,4,4", 2),
    _up("3x3 stride 2, 128 to 64", "1,128,h=28,w=28", "128,64,3,3", 2, pads=1, more=", output_padding=[1,1]"),
    _up("3x3, 64 to 32", "1,64,h=28,w=28", "64,32,3,3", 1),
    _up("1x12 stride 6, 256 to 128", "1,256,1,w=400", "256,128,1,12", (1, 6), pads=[0, 3, 0, 3]),
    _up("4x4 stride 2 in 4 groups", "1,64,h=40,w=40", "64,16,4,4", 2, group=4),
    _up("4x4 stride 2 depthwise", "1,64,h=40,w=40", "64,1,4,4", 2, group=64),
    _up("3x3 dilated 2, 64 to 32", "1,64,h=40,w=40", "64,32,3,3", 1, dilation=2, pads=0),
    _up("2x2x2 stride 2, 32 to 16", "1,32,t=8,h=16,w=16", "32,16,2,2,2", 2),
    _up("4x4x4 stride 2, 32 to 16", "1,32,t=4,h=14,w=14", "32,16,4,4,4", 2),
    Row("deformable", "3x3, 64 channels", "y = DeformConv<pads=[1,1,1,1]>(x, w, o)",
        {"x": "1,64,h=28,w=28", "o": "1,18,h=28,w=28"}, {"w": "64,64,3,3"}, 19),
    Row("deformable", "3x3, 64 channels, masked", "m = Sigmoid(k); y = DeformConv<pads=[1,1,1,1]>(x, w, o, b, m)",
        {"x": "1,64,h=28,w=28", "o": "1,18,h=28,w=28", "k": "1,9,h=28,w=28"}, {"w": "64,64,3,3", "b": "64"}, 19),
)

BYTES = (
    *_bytes("3x3, 64 channels", "1,64,h=56,w=56", "64,64,3,3"),
    *_bytes("3x3, 32 to 64", "1,32,h=80,w=80", "64,32,3,3", forms=["Integer"]),
    *_bytes("3x3 stride 2, 128 channels", "1,128,h=28,w=28", "128,128,3,3", 2, forms=["QLinear"]),
    *_bytes("first 7x7 stride 2", "1,3,h=224,w=224", "64,3,7,7", 2, forms=["QLinear"]),
    *_bytes("1x1, 256 to 64", "1,256,h=56,w=56", "64,256,1,1"),
    *_bytes("1x1, 64 to 256, batch 8", "n=8,64,h=28,w=28", "256,64,1,1", forms=["QLinear"]),
    *_bytes("1x1, 37 to 53", "1,37,h=41,w=43", "53,37,1,1", forms=["QDQ"]),
    *_bytes("depthwise 3x3, 96 channels", "1,96,h=56,w=56", "96,1,3,3", group=96),
    *_bytes("3x3, 256 channels", "1,256,h=14,w=14", "256,256,3,3", forms=["QLinear", "signed"]),
    *_bytes("3x3, 512 channels", "1,512,h=7,w=7", "512,512,3,3", forms=["QLinear"]),
    *_bytes("3x3, 128 channels, batch 8", "n=8,128,h=28,w=28", "128,128,3,3", forms=["QLinear"]),
    *_bytes("first 3x3 stride 2, 32 channels", "1,3,h=224,w=224", "32,3,3,3", 2, forms=["QLinear", "signed", "QDQ"]),
    *_bytes("1x1, 96 to 24", "1,96,h=56,w=56", "24,96,1,1", forms=["QLinear", "signed"]),
    *_bytes("1x1, 24 to 144", "1,24,h=56,w=56", "144,24,1,1", forms=["QLinear", "signed"]),
    *_bytes("1x1, 320 to 1280", "1,320,h=7,w=7", "1280,320,1,1", forms=["QLinear", "signed"]),
    *_bytes("1x1, 512 to 2048", "1,512,h=7,w=7", "2048,512,1,1", forms=["QLinear"]),
    *_bytes("1x1 stride 2, 256 to 512", "1,256,h=56,w=56", "512,256,1,1", 2, forms=["QLinear", "signed"]),
    *_bytes("depthwise 3x3 stride 2, 144 channels", "1,144,h=56,w=56", "144,1,3,3", 2, group=144, forms=["QLinear", "signed"]),
    *_bytes("depthwise 3x3, 960 channels", "1,960,h=7,w=7", "960,1,3,3", group=960, forms=["QLinear", "signed"]),
    *_bytes("depthwise 5x5, 240 channels, batch 8", "n=8,240,h=28,w=28", "240,1,5,5", group=240, forms=["QLinear"]),
    *_bytes("1-D 7, 128 channels", "1,128,t=1000", "128,128,7", forms=["Integer", "QDQ"]),
    *_bytes("32 groups, 256 channels", "1,256,h=28,w=28", "256,8,3,3", group=32, forms=["QDQ"]),
    _map("bytes", "QDQ dense 768 to 3072", "q = QuantizeLinear(x, xs, xz); d = DequantizeLinear(q, xs, xz); "
         "e = DequantizeLinear(w, ws, wz); y = MatMul(d, e)", "t=128,768", w="int8<64 768,3072", xs=0.02, xz=np.uint8(128),
         ws=0.01, wz=np.int8(0)),
    *(_map("bytes", f"dynamic dense 768 to 3072, {rows} rows", "q, s, z = DynamicQuantizeLinear(x); p = MatMulInteger(q, w, z); "
           "f = Cast<to=1>(p); y = Mul(f, s)", f"t={rows},768", w="int8<64 768,3072") for rows in (1, 128)),
    _map("bytes", "QLinearMatMul 128x768x768", "y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz)", "uint8 t=128,768",
         w="int8<64 768,768", xs=0.02, xz=np.uint8(128), ws=0.01, wz=np.int8(0), ys=0.5, yz=np.uint8(128)),
    _map("bytes", "QDQ add", "a = DequantizeLinear(x, s, t); b = DequantizeLinear(y, s, t); c = Add(a, b); "
         "o = QuantizeLinear(c, s, t)",
         "uint8 1,64,h=56,w=56", "uint8 1,64,h=56,w=56", s=0.02, t=np.uint8(128)),
    _map("bytes", "QuantizeLinear", "o = QuantizeLinear(x, s, t)", "1,64,h=56,w=56", s=0.02, t=np.uint8(128)),
    _map("bytes", "DequantizeLinear", "o = DequantizeLinear(x, s, t)", "uint8 1,64,h=56,w=56", s=0.02, t=np.uint8(128)),
    _map("bytes", "max pool 2x2", "o = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)", "uint8 1,64,h=56,w=56"),
    _map("bytes", "QDQ average pool", "a = DequantizeLinear(x, s, t); b = GlobalAveragePool(a); o = QuantizeLinear(b, s, t)",
         "uint8 1,512,h=7,w=7", s=0.02, t=np.uint8(128)),
    _map("bytes", "QLinearAdd", "o = com.microsoft.QLinearAdd(x, s, t, y, s, u, v, t)", "uint8 1,64,h=56,w=56",
         "uint8 1,64,h=56,w=56", s=0.02, t=np.uint8(128), u=np.uint8(120), v=0.03),
    _map("bytes", "QLinearMul", "o = com.microsoft.QLinearMul(x, s, t, y, s, u, v, t)", "uint8 1,64,h=56,w=56", "uint8 1,64,1,1",
         s=0.02, t=np.uint8(128), u=np.uint8(120), v=0.03),
    _map("bytes", "QLinearConcat", "o = com.microsoft.QLinearConcat<axis=1>(v, t, x, s, t, y, s, u)", "uint8 1,64,h=28,w=28",
         "uint8 1,96,h=28,w=28", s=0.02, t=np.uint8(128), u=np.uint8(120), v=0.03),
    _map("bytes", "QLinearLeakyRelu", "o = com.microsoft.QLinearLeakyRelu<alpha=0.1>(x, s, t, v, u)", "uint8 1,64,h=56,w=56",
         s=0.02, t=np.uint8(128), u=np.uint8(20), v=0.015),
    _map("bytes", "QLinearSigmoid", "o = com.microsoft.QLinearSigmoid(x, s, t, v, u)", "uint8 1,64,h=56,w=56",
         s=0.02, t=np.uint8(128), u=np.uint8(0), v=0.0039),
    _map("bytes", "QLinearGlobalAveragePool", "o = com.microsoft.QLinearGlobalAveragePool(x, s, t, v, t)", "uint8 1,1280,h=7,w=7",
         s=0.02, t=np.uint8(128), v=0.01),
    _map("bytes", "QLinearAveragePool 3x3",
         "o = com.microsoft.QLinearAveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x, s, t, v, t)", "uint8 1,192,h=28,w=28",
         s=0.02, t=np.uint8(128), v=0.01),
    _map("bytes", "QLinearSoftmax", "o = com.microsoft.QLinearSoftmax<axis=-1, opset=13>(x, s, t, v, u)", "uint8 1,12,t=128,128",
         s=0.02, t=np.uint8(128), v=0.0039, u=np.uint8(0)),
    _map("bytes", "QGemm 8x2048x1000", "o = com.microsoft.QGemm<transB=1>(x, s, t, w, u, z, c, v, t)", "uint8 n=8,2048",
         w="int8<64 1000,2048", s=0.02, t=np.uint8(128), u=0.01, z=np.int8(0), c="int32<999 1000", v=0.5),
    _map("bytes", "QGemm 1x1280x1000", "o = com.microsoft.QGemm<transB=1>(x, s, t, w, u, z, c, v, t)", "uint8 n=1,1280",
         w="int8<64 1000,1280", s=0.02, t=np.uint8(128), u=0.01, z=np.int8(0), c="int32<999 1000", v=0.5),
    _map("bytes", "MatMulInteger 197x768x768", "o = MatMulInteger(x, w, t)", "uint8 t=197,768", w="int8<64 768,768",
         t=np.uint8(128)),
    _map("bytes", "MatMulIntegerToFloat 128x768x768, signed", "o = com.microsoft.MatMulIntegerToFloat(x, w, s, u, t)",
         "int8<128 t=128,768", w="int8<64 768,768", s=0.02, u="float32>0 768", t=np.int8(-7)),
    _map("bytes", "DynamicQuantizeLinear", "q, s, z = DynamicQuantizeLinear(x)", "1,t=197,768"),
    _map("bytes", "QDQ conv by channel, relu, add", "q = QuantizeLinear(x, xs, xz); d = DequantizeLinear(q, xs, xz); "
         "e = DequantizeLinear<axis=0>(w, ws, wz); a = DequantizeLinear<axis=0>(b, bs, bz); c = Conv<pads=[1,1,1,1]>(d, e, a); "
         "i = QuantizeLinear(c, ys, yz); j = DequantizeLinear(i, ys, yz); k = Add(j, d); l = Relu(k); "
         "y = QuantizeLinear(l, ys, xz)",
         "1,64,h=56,w=56", w="int8<64 64,64,3,3", xs=0.02, xz=np.int8(-128), ws="float32>0 64", wz=[np.int8(0)] * 64,
         b="int32<999 64", bs="float32>0 64", bz=[np.int32(0)] * 64, ys=0.5, yz=np.int8(3)),
    _map("bytes", "image to float", "f = Cast<to=1>(x); s = Sub(f, m); d = Div(s, v); o = Transpose<perm=[0,3,1,2]>(d)",
         "uint8 1,h=224,w=224,3", m=[123.7, 116.3, 103.5], v=[58.4, 57.1, 57.4]),
)


def _pool(name: str, op: str, kernel: Sequence[int], stride: int | Sequence[int], data: str, pads: int = 0,
          more: str = "") -> Row:
    strides = [stride] * len(kernel) if isinstance(stride, int) else list(stride)
    window = f"kernel_shape={list(kernel)}, strides={strides}, pads={[pads] * 2 * len(kernel)}"
    return _map("pool", name, f"o = {op}<{window}{more}>(x)", data)


POOLS = (
    _pool("max 3x3 stride 2", "MaxPool", (3, 3), 2, "1,64,h=112,w=112", 1),
    _pool("max 3x3 stride 2, batch 8", "MaxPool", (3, 3), 2, "n=8,64,h=56,w=56", 1),
    _pool("max 2x2 stride 2", "MaxPool", (2, 2), 2, "1,64,h=112,w=112"),
    _pool("max 2x2 stride 2, 37 channels", "MaxPool", (2, 2), 2, "1,37,h=41,w=43"),
    _pool("max 2x2 stride 2, ceiling", "MaxPool", (2, 2), 2, "1,64,h=57,w=57", more=", ceil_mode=1"),
    _pool("max 2x1 of text lines", "MaxPool", (2, 1), (2, 1), "1,128,16,w=160"),
    _pool("max 3x3, inception", "MaxPool", (3, 3), 1, "1,192,h=28,w=28", 1),
    _pool("max 5x5, SPPF", "MaxPool", (5, 5), 1, "1,256,h=20,w=20", 2),
    _pool("max 13x13, SPP", "MaxPool", (13, 13), 1, "1,128,h=20,w=20", 6),
    _pool("max 1-D 3", "MaxPool", (3,), 3, "1,128,t=3000"),
    _pool("max 2x2x2", "MaxPool", (2, 2, 2), 2, "1,32,t=16,h=56,w=56"),
    _pool("average 3x3", "AveragePool", (3, 3), 1, "1,192,h=28,w=28", 1),
    _pool("average 3x3, padding counts", "AveragePool", (3, 3), 1, "1,192,h=28,w=28", 1, ", count_include_pad=1"),
    _pool("average 2x2 stride 2", "AveragePool", (2, 2), 2, "1,128,h=56,w=56"),
    _pool("average 1-D 2", "AveragePool", (2,), 2, "1,128,t=3000"),
    _pool("average 2x2x2", "AveragePool", (2, 2, 2), 2, "1,32,t=16,h=28,w=28"),
    _map("pool", "global average 2048x7x7", "o = GlobalAveragePool(x)", "1,2048,h=7,w=7"),
    _map("pool", "global average 64x56x56, batch 8", "o = GlobalAveragePool(x)", "n=8,64,h=56,w=56"),
    _map("pool", "global average 256 of 400 steps", "o = GlobalAveragePool(x)", "1,256,t=400"),
    _map("pool", "global max 512x14x14", "o = GlobalMaxPool(x)", "1,512,h=14,w=14"),
)


def _resize(name: str, data: str, scales: Sequence[float], mode: str, more: str = "", opset: int = 18) -> Row:
    return _map("resize", name, f'o = Resize<mode="{mode}"{more}>(x, , s)', data, opset=opset, s=scales)


def _resize_like(name: str, data: str, like: str, mode: str, more: str = "") -> Row:
    """To the size of another input, as feature pyramids do."""
    return _map("resize", name, f's = Shape(y); r = Resize<mode="{mode}"{more}>(x, , , s); o = Add(r, y)', data, like)


_ASYMMETRIC = ', coordinate_transformation_mode="asymmetric"'
_FLOOR = f'{_ASYMMETRIC}, nearest_mode="floor"'
_CORNERS = ', coordinate_transformation_mode="align_corners"'
_PYTORCH = ', coordinate_transformation_mode="pytorch_half_pixel"'

SIZES = (
    _resize("nearest 2x, 256 channels", "1,256,h=20,w=20", [1.0, 1.0, 2.0, 2.0], "nearest", _FLOOR),
    _resize("nearest 2x, 64 channels, batch 8", "n=8,64,h=28,w=28", [1.0, 1.0, 2.0, 2.0], "nearest", _FLOOR),
    _resize("nearest 1-D 2x", "1,128,t=1000", [1.0, 1.0, 2.0], "nearest", _FLOOR),
    _resize("nearest 2x of a volume", "1,16,t=8,h=24,w=24", [1.0, 1.0, 2.0, 2.0, 2.0], "nearest", _FLOOR),
    _resize_like("nearest to a size", "1,64,h=20,w=20", "1,64,a=40,b=40", "nearest", _FLOOR),
    _resize("linear 2x", "1,64,h=40,w=40", [1.0, 1.0, 2.0, 2.0], "linear", _PYTORCH),
    _resize("linear 2x, corners aligned", "1,64,h=40,w=40", [1.0, 1.0, 2.0, 2.0], "linear", _CORNERS),
    _resize("linear half", "1,64,h=80,w=80", [1.0, 1.0, 0.5, 0.5], "linear"),
    _resize("linear 4x, 21 classes", "1,21,h=65,w=65", [1.0, 1.0, 4.0, 4.0], "linear"),
    _resize("linear 1.5x of an image", "1,3,h=224,w=224", [1.0, 1.0, 1.5, 1.5], "linear"),
    _resize("linear 1-D 4x", "1,64,t=500", [1.0, 1.0, 4.0], "linear"),
    _resize_like("linear to a size", "1,64,h=33,w=33", "1,64,a=65,b=65", "linear"),
    _resize("linear 2x of a volume", "1,16,t=8,h=24,w=24", [1.0, 1.0, 2.0, 2.0, 2.0], "linear"),
    _resize("cubic 2x", "1,16,h=64,w=64", [1.0, 1.0, 2.0, 2.0], "cubic"),
    _resize("cubic 4x of an image", "1,3,h=64,w=64", [1.0, 1.0, 4.0, 4.0], "cubic"),
    _resize("linear half, antialias", "1,3,h=224,w=224", [1.0, 1.0, 0.5, 0.5], "linear", ", antialias=1"),
    _map("pad", "zeros 1", "o = Pad(x, p)", "1,64,h=56,w=56", p=[0, 0, 1, 1, 0, 0, 1, 1]),
    _map("pad", "zeros right and below", "o = Pad(x, p)", "1,64,h=112,w=112", p=[0, 0, 0, 0, 0, 0, 1, 1]),
    _map("pad", "zeros of an image", "o = Pad(x, p)", "1,3,h=224,w=224", p=[0, 0, 3, 3, 0, 0, 3, 3]),
    _map("pad", "zeros of channels", "o = Pad(x, p)", "1,64,h=28,w=28", p=[0, 16, 0, 0, 0, 16, 0, 0]),
    _map("pad", "zeros before frames", "o = Pad(x, p)", "1,256,t=400", p=[0, 0, 30, 0, 0, 0]),
    _map("pad", "reflect 1", 'o = Pad<mode="reflect">(x, p)', "1,64,h=56,w=56", p=[0, 0, 1, 1, 0, 0, 1, 1]),
    _map("pad", "reflect 3 of an image", 'o = Pad<mode="reflect">(x, p)', "1,3,h=224,w=224", p=[0, 0, 3, 3, 0, 0, 3, 3]),
    _map("pad", "reflect 200 of samples", 'o = Pad<mode="reflect">(x, p)', "1,t=16000", p=[0, 200, 0, 200]),
    _map("pad", "edge 1", 'o = Pad<mode="edge">(x, p)', "1,64,h=56,w=56", p=[0, 0, 1, 1, 0, 0, 1, 1]),
    _map("pad", "edge of a volume", 'o = Pad<mode="edge">(x, p)', "1,16,t=8,h=28,w=28", p=[0, 0, 1, 1, 1, 0, 0, 1, 1, 1]),
    _map("pad", "wrap 3", 'o = Pad<mode="wrap">(x, p)', "1,16,h=64,w=128", opset=19, p=[0, 0, 0, 3, 0, 0, 0, 3]),
)

_END = 1 << 30
"""Of slices: larger than any size."""

MOVEMENT = (
    _map("concat", "channels, 2 of 64", "o = Concat<axis=1>(x, y)", "1,64,h=56,w=56", "1,64,h=56,w=56"),
    _map("concat", "channels, 24 and 37, batch 8", "o = Concat<axis=1>(x, y)", "n=8,24,h=28,w=28", "n=8,37,h=28,w=28"),
    _map("concat", "boxes of three scales", "o = Concat<axis=2>(x, y, z)", "1,144,a=6400", "1,144,b=1600", "1,144,c=400"),
    _map("concat", "last axis", "o = Concat<axis=-1>(x, y)", "1,t=400,64", "1,t=400,64"),
    _map("concat", "cache and one token", "o = Concat<axis=2>(x, y)", "1,12,t=512,64", "1,12,1,64"),
    _map("slice", "every other pixel", "o = Slice(x, a, b, c, d)", "1,3,h=320,w=320", a=[0, 0], b=[_END, _END], c=[2, 3],
         d=[2, 2]),
    _map("slice", "border of 1", "o = Slice(x, a, b, c)", "1,64,h=56,w=56", a=[1, 1], b=[-1, -1], c=[2, 3]),
    _map("slice", "half of the channels", "o = Slice(x, a, b, c)", "1,128,h=56,w=56", a=[64], b=[128], c=[1]),
    _map("slice", "backwards", "o = Slice(x, a, b, c, d)", "t=400,1,256", a=[-1], b=[-_END], c=[0], d=[-1]),
    _map("split", "channels in 2", "a, b = Split<axis=1, num_outputs=2>(x)", "1,128,h=40,w=40"),
    _map("split", "queries, keys, values", "a, b, c = Split<axis=2, num_outputs=3>(x)", "1,t=197,2304"),
    _map("space", "depth to space 2x", "o = DepthToSpace<blocksize=2>(x)", "1,64,h=64,w=64"),
    _map("space", "depth to space 4x, pixel shuffle", 'o = DepthToSpace<blocksize=4, mode="CRD">(x)', "1,48,h=128,w=128"),
    _map("space", "space to depth", "o = SpaceToDepth<blocksize=2>(x)", "1,16,h=128,w=128"),
    _map("transpose", "channels last", "o = Transpose<perm=[0,2,3,1]>(x)", "1,64,h=56,w=56"),
    _map("transpose", "channels first, batch 8", "o = Transpose<perm=[0,3,1,2]>(x)", "n=8,h=56,w=56,96"),
    _map("transpose", "image to channels first", "o = Transpose<perm=[0,3,1,2]>(x)", "1,h=224,w=224,3"),
    _map("transpose", "heads", "o = Transpose<perm=[0,2,1,3]>(x)", "1,t=197,12,64"),
    _map("transpose", "frames and channels", "o = Transpose<perm=[0,2,1]>(x)", "1,256,t=400"),
    _map("transpose", "windows of 7", "o = Transpose<perm=[0,1,3,2,4,5]>(x)", "1,a=8,7,b=8,7,96"),
    _map("transpose", "channel shuffle", "a = Transpose<perm=[0,2,1,3,4]>(x); o = Relu(a)", "1,2,58,h=28,w=28"),
    _map("gather", "embedding of 128 tokens", "o = Gather(w, x)", "int64<30522 1,t=128", w="30522,768"),
    _map("gather", "embedding of 1 token, 4096 wide", "o = Gather(w, x)", "int64<1000 1,t=1", w="1000,4096"),
    _map("gather", "rows, batch 8", "o = Gather<axis=1>(x, y)", "n=8,t=400,64", "int64<400 k=100"),
    _map("gather", "columns", "o = Gather<axis=2>(x, y)", "1,64,t=400", "int64<400 k=400"),
    _map("gather", "elements", "o = GatherElements<axis=1>(x, y)", "1,t=8400", "int64<8400 1,k=300"),
    _map("gather", "ND", "o = GatherND(x, y)", "h=80,w=80,64", "int64<80 k=300,2"),
    _map("scatter", "ND, rows", "o = ScatterND(x, i, y)", "t=400,64", "100,64", i="distinct<400 100,1"),
    _map("scatter", "elements, added", 'o = ScatterElements<axis=0, reduction="add">(x, y, z)', "t=400,64", "int64<400 k=400,64",
         "k=400,64"),
    _map("tile", "2 by 2", "o = Tile(x, r)", "1,64,h=28,w=28", r=[1, 1, 2, 2]),
    _map("tile", "expand a row", "s = Shape(y); o = Expand(x, s)", "1,1,256", "1,t=400,256"),
    _map("where", "mask of scores", "o = Where(x, c, y)", "bool 1,1,t=197,t=197", "1,12,t=197,t=197", c=-10000.0),
    _map("where", "of three", "o = Where(x, y, z)", "bool 1,64,h=56,w=56", "1,64,h=56,w=56", "1,64,h=56,w=56"),
    _map("cast", "int64 to float", "o = Cast<to=1>(x)", "int64<999 1,t=8400"),
    _map("cast", "float to int64", "o = Cast<to=7>(x)", "1,64,h=56,w=56"),
    _map("cast", "float to float16", "o = Cast<to=10>(x)", "1,64,h=56,w=56"),
    _map("cast", "bytes to float, scaled", "a = Cast<to=1>(x); o = Mul(a, s)", "uint8 1,3,h=224,w=224", s=0.0039),
    _map("one hot", "of 256", "o = OneHot(x, d, v)", "int64<256 1,t=400", d=256, v=[0.0, 1.0]),
    _map("trilu", "lower", "o = Trilu<upper=0>(x)", "t=197,t=197"),
)

NORMS = (
    _norm("norm", "batch, 64 channels", "BatchNormalization", "1,64,h=56,w=56", 64, 4),
    _norm("norm", "instance, 64 channels", "InstanceNormalization", "1,64,h=56,w=56", 64),
    _norm("norm", "instance, 32 channels, large", "InstanceNormalization", "1,32,h=256,w=256", 32),
    _norm("norm", "instance, 80 bands", "InstanceNormalization", "n=8,80,t=400", 80),
    _norm("norm", "instance of a volume", "InstanceNormalization", "1,16,t=16,h=32,w=32", 16),
    _norm("norm", "group 32 of 320", "GroupNormalization<num_groups=32>", "1,320,h=32,w=32", 320, opset=21),
    _map("norm", "group 32 of 128, as torch exports", "r = Reshape(x, p); i = InstanceNormalization(r, s, b); d = Shape(x); "
         "q = Reshape(i, d); m = Mul(q, g); o = Add(m, g)", "1,128,h=32,w=32", p=[0, 32, -1], s="float32>0 32",
         b="32", g="128,1,1"),
    _norm("norm", "layer, 768 of 197", "LayerNormalization", "1,t=197,768", 768),
    _norm("norm", "layer, 768 of 197, batch 8", "LayerNormalization", "n=8,t=197,768", 768),
    _norm("norm", "layer, 96 of 3136", "LayerNormalization", "1,t=3136,96", 96),
    _norm("norm", "layer, 37 of 101", "LayerNormalization", "1,t=101,37", 37),
    _map("norm", "layer of channels", "a = Transpose<perm=[0,2,3,1]>(x); l = LayerNormalization(a, s, b); "
         "o = Transpose<perm=[0,3,1,2]>(l)", "1,96,h=56,w=56", s="float32>0 96", b="96"),
    _map("norm", "layer, in parts", "m = ReduceMean(x, a); d = Sub(x, m); e = Mul(d, d); v = ReduceMean(e, a); w = Add(v, c); "
         "r = Sqrt(w); n = Div(d, r); q = Mul(n, s); o = Add(q, b)", "1,t=197,768", a=[-1], c=1e-5, s="768", b="768"),
    _norm("norm", "RMS, 2048 of 128", "RMSNormalization", "1,t=128,2048", 2048, 1, 23),
    _map("norm", "RMS in parts, 2048 of 128", "e = Mul(x, x); v = ReduceMean(e, a); w = Add(v, c); r = Sqrt(w); q = Div(x, r); "
         "o = Mul(q, s)",
         "1,t=128,2048", a=[-1], c=1e-5, s="2048"),
    _map("norm", "L2 of rows", "o = LpNormalization<axis=-1, p=2>(x)", "t=128,512"),
    _map("norm", "local response", "o = LRN<size=5>(x)", "1,96,h=55,w=55"),
    _map("norm", "mean and variance", "o = MeanVarianceNormalization(x)", "1,64,h=56,w=56"),
    _map("softmax", "12 heads of 197", "o = Softmax(x)", "1,12,t=197,t=197"),
    _map("softmax", "8 heads of 100, batch 8", "o = Softmax(x)", "n=8,8,t=100,t=100"),
    _map("softmax", "1000 classes", "o = Softmax(x)", "n=1,1000"),
    _map("softmax", "logarithm, 50257 tokens", "o = LogSoftmax(x)", "t=1,50257"),
    _map("softmax", "6625 characters of 40", "o = Softmax(x)", "1,t=40,6625"),
    _map("softmax", "21 classes of pixels", "o = Softmax<axis=1>(x)", "1,21,h=128,w=128"),
    _map("softmax", "16 bins of box edges", "o = Softmax<axis=2>(x)", "1,4,16,k=8400"),
)

_SWISH = "h = HardSigmoid<alpha=0.16666667, beta=0.5>(x); o = Mul(x, h)"
_TANH_GELU = ("c = Mul(x, x); d = Mul(c, x); e = Mul(d, k); f = Add(x, e); g = Mul(f, r); t = Tanh(g); u = Add(t, one); "
              "v = Mul(x, u); o = Mul(v, half)")
_ERF_GELU = "d = Mul(x, r); e = Erf(d); u = Add(e, one); v = Mul(x, u); o = Mul(v, half)"
_IMAGE = "1,64,h=56,w=56"

ELEMENTWISE = (
    _map("element-wise", "add, relu", "a = Add(x, y); o = Relu(a)", _IMAGE, _IMAGE),
    _map("element-wise", "add of scalars, 4 numbers", "o = Add(x, y)", "t=4", "t=4"),
    _map("element-wise", "add a channel's bias", "o = Add(x, b)", _IMAGE, b="64,1,1"),
    _map("element-wise", "scale by channel gates", "s = Sigmoid(y); o = Mul(x, s)", _IMAGE, "1,64,1,1"),
    _map("element-wise", "scale by channel gates, batch 8", "s = Sigmoid(y); o = Mul(x, s)", "n=8,64,h=28,w=28", "n=8,64,1,1"),
    _map("element-wise", "row by column", "o = Mul(x, y)", "1,1,t=400", "1,u=400,1"),
    _map("element-wise", "position bias of heads", "o = Add(x, y)", "n=8,12,t=49,t=49", "1,12,t=49,t=49"),
    _map("element-wise", "SiLU", "s = Sigmoid(x); o = Mul(x, s)", _IMAGE,
         reason="89 % of what 13 multiply-adds and a division a vector take at the core's rate"),
    _map("element-wise", "hard swish", _SWISH, _IMAGE),
    _map("element-wise", "hard swish, 7x7", _SWISH, "1,960,h=7,w=7"),
    _map("element-wise", "leaky relu", "o = LeakyRelu<alpha=0.1>(x)", _IMAGE),
    _map("element-wise", "PRelu", "o = PRelu(x, a)", _IMAGE, a="64,1,1"),
    _map("element-wise", "GELU, 197x3072", "o = Gelu(x)", "1,t=197,3072", opset=20),
    _map("element-wise", "GELU in parts, 197x3072", _ERF_GELU, "1,t=197,3072", r=0.70710678, one=1.0, half=0.5),
    _map("element-wise", "GELU by tanh, 128x3072", _TANH_GELU, "1,t=128,3072", k=0.044715, r=0.79788456, one=1.0, half=0.5),
    _map("element-wise", "mish", "s = Softplus(x); t = Tanh(s); o = Mul(x, t)", _IMAGE),
    _map("element-wise", "ELU", "o = Elu(x)", "1,32,t=4000"),
    _map("element-wise", "snake", "a = Mul(x, w); s = Sin(a); e = Mul(s, s); d = Div(e, w); o = Add(x, d)", "1,64,t=2000",
         w="float32>0 64,1"),
    _map("element-wise", "clip, scale, round", "c = Clip(x, a, b); s = Mul(c, k); o = Round(s)", "1,3,h=224,w=224", a=0.0,
         b=1.0, k=255.0),
    _map("element-wise", "power 2, sum of two, root", "a = Pow(x, e); b = Pow(y, e); s = Add(a, b); o = Sqrt(s)", "1,201,t=400",
         "1,201,t=400", e=2.0),
    _map("element-wise", "power 1.7", "o = Pow(x, e)", "float32>0 1,64,h=56,w=56", e=1.7),
    _map("element-wise", "clip, logarithm", "c = Clip(x, a); o = Log(c)", "1,80,t=1500", a=1e-5),
    _map("element-wise", "exp", "o = Exp(x)", _IMAGE,
         reason="69 % of what ten multiply-adds a vector take at the core's rate"),
    _map("element-wise", "erf", "o = Erf(x)", _IMAGE),
    _map("element-wise", "sine and cosine", "a = Mul(x, w); s = Sin(a); c = Cos(a); o = Concat<axis=-1>(s, c)", "1,t=400,1",
         w="1,1,64"),
    _map("element-wise", "rotary positions", "a = Slice(x, p0, p1, ax); b = Slice(x, p1, p2, ax); n = Neg(b); "
         "r = Concat<axis=-1>(n, a); u = Mul(x, y); v = Mul(r, z); o = Add(u, v)", "1,12,t=128,64", "1,1,t=128,64",
         "1,1,t=128,64", p0=[0], p1=[32], p2=[64], ax=[3]),
    _map("element-wise", "decoded boxes", "a, b = Split<axis=1, num_outputs=2>(x); l = Sub(g, a); r = Add(g, b); s = Add(l, r); "
         "c = Mul(s, h); d = Sub(r, l); e = Concat<axis=1>(c, d); o = Mul(e, t)", "1,4,8400", g="1,2,8400", h=0.5, t="1,8400"),
    _map("element-wise", "compare, and", "a = Greater(x, c); b = Less(x, d); o = And(a, b)", _IMAGE, c=-1.0, d=1.0),
    _map("element-wise", "integers, modulo", "a = Add(x, c); o = Mod(a, m)", "int64<9999 1,t=8400", c=7, m=640),
)

REDUCTIONS = (
    _map("reduce", "mean of images", "o = ReduceMean(x, a)", _IMAGE, a=[2, 3]),
    _map("reduce", "mean of images, batch 8", "o = ReduceMean<keepdims=0>(x, a)", "n=8,1280,h=7,w=7", a=[2, 3]),
    _map("reduce", "mean of tokens", "o = ReduceMean<keepdims=0>(x, a)", "1,t=197,768", a=[1]),
    _map("reduce", "sum of rows", "o = ReduceSum(x, a)", "1,t=197,768", a=[-1]),
    _map("reduce", "max of channels", "o = ReduceMax(x, a)", "1,80,k=8400", a=[1]),
    _map("reduce", "max of classes, 8400x80", "o = ReduceMax(x, a)", "1,k=8400,80", a=[2]),
    _map("reduce", "L2 of rows", "o = ReduceL2(x, a)", "t=128,512", a=[-1]),
    _map("reduce", "logarithm of summed exponentials", "o = ReduceLogSumExp(x, a)", "t=100,512", a=[-1]),
    _map("reduce", "product", "o = ReduceProd(x, a)", "float32>0 t=400,16", a=[-1]),
    _map("reduce", "variance", "m = ReduceMean(x, a); d = Sub(x, m); e = Mul(d, d); o = ReduceMean(e, a)", "1,512,t=200", a=[2]),
    _map("argmax", "1000 classes", "o = ArgMax<axis=1>(x)", "n=1,1000"),
    _map("argmax", "21 classes of pixels", "o = ArgMax<axis=1>(x)", "1,21,h=128,w=128"),
    _map("argmax", "6625 characters of 40", "o = ArgMax<axis=2>(x)", "1,t=40,6625"),
    _map("cumsum", "of 400 frames", "o = CumSum(x, a)", "1,t=400,64", a=1),
    _map("cumsum", "of 16000 samples", "o = CumSum(x, a)", "1,t=16000", a=1),
    _map("sort", "top 100 of 8400", "o, i = TopK<axis=-1>(x, k)", "1,t=8400", k=[100]),
    _map("sort", "top 300 of 80 x 2100", "o, i = TopK<axis=-1>(x, k)", "1,t=168000", k=[300]),
    _map("sort", "top 5 of 1000, batch 8", "o, i = TopK<axis=-1>(x, k)", "n=8,1000", k=[5]),
    _map("sort", "top 50 of 50257", "o, i = TopK<axis=-1>(x, k)", "n=1,50257", k=[50]),
    _map("sort", "all of 1000", "o, i = TopK<axis=-1>(x, k)", "8,1000", k=[1000]),
    Row("boxes", "suppression of 1000, 1 class", "o = NonMaxSuppression(b, s, k, i, c)",
        {"b": "boxes 1,n=1000,4", "s": "float32>0 1,1,n=1000"}, {"k": [100], "i": [0.5], "c": [0.5]}),
    Row("boxes", "suppression of 2100, 20 classes", "o = NonMaxSuppression(b, s, k, i, c)",
        {"b": "boxes 1,n=2100,4", "s": "float32>0 1,20,n=2100"}, {"k": [50], "i": [0.5], "c": [1.5]}),
    Row("boxes", "RoI align of 100",
        "o = RoiAlign<output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.25>(x, b, i)",
        {"x": "1,64,h=50,w=50", "b": "boxes k=100,4", "i": "int64<1 k=100"}),
    _map("boxes", "non-zero", "a = Greater(x, c); o = NonZero(a)", "1,t=8400", c=1.5),
    Row("sample", "grid, linear", 'o = GridSample<mode="linear">(x, g)', {"x": "1,32,h=64,w=64", "g": "1,a=64,b=64,2"}, {}, 20),
    Row("sample", "grid, nearest, batch 8", 'o = GridSample<mode="nearest">(x, g)',
        {"x": "n=8,16,h=32,w=32", "g": "n=8,a=32,b=32,2"}, {}, 20),
    Row("sample", "affine grid", "s = Shape(x); g = AffineGrid(t, s); o = GridSample(x, g)", {"x": "1,3,h=64,w=64", "t": "1,2,3"},
        {}, 20),
)

ATTENTION = (
    _attention("12 heads of 128", "1,12,t=128,64", "1,12,t=128,64"),
    _attention("12 heads of 197, batch 8", "n=8,12,t=197,64", "n=8,12,t=197,64"),
    _attention("8 heads of 1024", "1,8,t=1024,64", "1,8,t=1024,64"),
    _attention("12 heads of 128, masked", "1,12,t=128,64", "1,12,t=128,64", mask="1,1,1,t=128"),
    _attention("64 windows of 49, 3 heads", "n=64,3,49,32", "n=64,3,49,32", mask="1,3,49,49"),
    _attention("one token of 512", "1,12,1,64", "1,12,t=512,64"),
    _attention("4 heads of 37, 24 wide", "1,4,t=37,24", "1,4,t=37,24"),
    Row("attention", "operator, 12 heads of 197", "y = Attention(q, k, v)",
        {"q": "1,12,t=197,64", "k": "1,12,t=197,64", "v": "1,12,t=197,64"}, {}, 23,
        reason=_near_peak(73, 69) + ", softmax included, which takes a seventh of the time"),
    Row("attention", "operator, causal, 8 heads of 512, 2 of keys", "y = Attention<is_causal=1>(q, k, v)",
        {"q": "1,8,t=512,64", "k": "1,2,t=512,64", "v": "1,2,t=512,64"}, {}, 23),
    Row("attention", "layer of 197 x 768", "a = MatMul(x, w); b = Add(a, c); r = Reshape(b, s); "
        "t = Transpose<perm=[2,0,3,1,4]>(r); q, k, v = Split<axis=0, num_outputs=3>(t); "
        "q1 = Squeeze(q, z); k1 = Squeeze(k, z); v1 = Squeeze(v, z); "
        "k2 = Transpose<perm=[0,1,3,2]>(k1); p = MatMul(q1, k2); m = Mul(p, h); f = Softmax(m); o = MatMul(f, v1); "
        "o1 = Transpose<perm=[0,2,1,3]>(o); o2 = Reshape(o1, e); y = MatMul(o2, u)", {"x": "n=1,t=197,768"},
        {"w": "768,2304", "c": "2304", "s": [0, -1, 3, 12, 64], "z": [0], "h": 0.125, "e": [0, 0, 768], "u": "768,768"}),
)

_STREAMED = "each step reads 1 MiB of weights, as much as the second-level cache holds: 116 GB/s, 28 bytes a cycle"

RECURRENT = (
    *(_recurrent(op, f"{hidden}, {batch}", data, hidden, more=more, reason=_STREAMED if (op, hidden) == ("LSTM", 256) else "")
      for op, more in (("LSTM", ""), ("GRU", ", linear_before_reset=1")) for hidden in (64, 256)
      for batch, data in (("unknown batch of 1", "100,n=1,64"), ("unknown length", "t=100,1,64"))),
    _recurrent("LSTM", "256, unknown length and batch of 8", "t=100,n=8,256", 256),
    _recurrent("LSTM", "256, both directions, text line", "t=80,1,512", 256, directions=2),
    _recurrent("LSTM", "128, both directions, batch 8", "t=50,n=8,128", 128, directions=2),
    _recurrent("LSTM", "512, one step", "1,n=1,512", 512),
    _recurrent("LSTM", "37, unknown length and batch of 3", "t=61,n=3,19", 37),
    _recurrent("GRU", "256, unknown length and batch of 8", "t=100,n=8,256", 256, more=", linear_before_reset=1"),
    _recurrent("GRU", "128, both directions", "t=100,1,80", 128, directions=2, more=", linear_before_reset=1"),
    _recurrent("GRU", "256, reset first", "t=100,1,64", 256),
    _recurrent("RNN", "128", "t=100,n=1,64", 128),
)

PRODUCTS = (
    _product("1x768x3072", "m=1,768", "768,3072"),
    _product("1x4096x4096", "m=1,4096", "4096,4096"),
    _product("1x2048x1000", "m=1,2048", "2048,1000"),
    _product("8x1024x1024", "m=8,1024", "1024,1024"),
    _product("128x768x768", "m=128,768", "768,768", _near_peak(98, 92)),
    _product("197x768x768", "m=197,768", "768,768", _near_peak(94, 92)),
    _product("197x768x3072", "m=197,768", "768,3072", _near_peak(93, 93)),
    _product("197x3072x768", "m=197,3072", "3072,768"),
    _product("40x120x6625, characters", "1,t=40,120", "120,6625", _near_peak(93, 96)),
    _product("127x129x131", "m=127,129", "129,131"),
    _product("3136x96x288", "1,t=3136,96", "96,288"),
    _product("batch 8 of 49x96x384", "n=8,t=49,96", "96,384", _near_peak(94, 92)),
    _map("matmul", "gemm, 8x512x10", "y = Gemm<transB=1>(x, w, b)", "n=8,512", w="10,512", b="10"),
    _map("matmul", "gemm, 1x9216x4096", "y = Gemm<transB=1>(x, w, b)", "n=1,9216", w="4096,9216", b="4096"),
    _map("matmul", "dense layers 13, 64, 32, 1", "a = Gemm(x, u, c); b = Relu(a); d = Gemm(b, v, e); f = Relu(d); "
         "y = Gemm(f, w, g)", "n=1,13", u="13,64", c="64", v="64,32", e="32", w="32,1", g="1"),
    _map("matmul", "both given, 12 of 128x64x128", "o = MatMul(x, y)", "1,12,t=128,64", "1,12,64,u=128"),
    _map("matmul", "both given, 197x131x67", "o = MatMul(x, y)", "m=197,131", "131,n=67"),
    _map("matmul", "both given, 1x64x512, 12 heads", "o = MatMul(x, y)", "1,12,1,64", "1,12,64,t=512"),
    _map("matmul", "both given, 512x512x512", "o = MatMul(x, y)", "m=512,512", "512,n=512"),
    _map("einsum", "scores of heads", 'o = Einsum<equation="bihd,bjhd->bhij">(x, y)', "1,t=128,8,64", "1,u=128,8,64"),
    _map("einsum", "channels mixed", 'o = Einsum<equation="nchw,cd->ndhw">(x, w)', "1,64,h=28,w=28", w="64,64"),
    _map("einsum", "nodes of a graph", 'o = Einsum<equation="nctv,vw->nctw">(x, w)', "1,64,t=100,25", w="25,25"),
    _map("signal", "DFT of 512", "o = DFT(x, , a)", "1,t=100,512,1", opset=20, a=2),
    _map("signal", "STFT of 400 every 160", "o = STFT(x, s, w)", "1,t=16000,1", s=160, w="float32>0 400"),
    _map("signal", "Mel bands of spectra", "m = MelWeightMatrix(a, b, c, d, e); p = MatMul(x, m); k = Clip(p, f); o = Log(k)",
         "1,t=400,257", a=80, b=512, c=16000, d=0.0, e=8000.0, f=1e-6),
)

_VECTOR, _MATRIX, _PICTURES = "16777216", "16384,1024", "1,4096,64,64"

_COPIED = "98 % of the bytes that a copy of memory moves"

MEMORY = (
    _map("memory", "add", "o = Add(x, y)", _VECTOR, _VECTOR),
    _map("memory", "add int32", "o = Add(x, y)", "int32<99 16777216", "int32<99 16777216"),
    _map("memory", "multiply by row", "o = Mul(x, w)", _MATRIX, w="1024"),
    *(_map("memory", op.lower(), f"o = {op}(x)", _VECTOR) for op in ("Relu", "Exp", "Tanh", "Erf", "Sigmoid")),
    *(_map("memory", op.lower(), f"o = {op}(x)", f"float32>0 {_VECTOR}") for op in ("Sqrt", "Log")),
    _map("memory", "gelu", "o = Gelu(x)", _VECTOR, opset=20),
    _map("memory", "less", "o = Less(x, y)", _VECTOR, _VECTOR),
    _map("memory", "clip", "o = Clip(x, a, b)", _VECTOR, a=0.5, b=1.0),
    _map("memory", "where", "o = Where(x, y, z)", f"bool {_VECTOR}", _VECTOR, _VECTOR),
    _map("memory", "cast to float16", "o = Cast<to=10>(x)", _VECTOR),
    _map("memory", "cast from float16", "o = Cast<to=1>(x)", f"float16 {_VECTOR}", reason=_COPIED),
    _map("memory", "sum of all", "o = ReduceSum<keepdims=0>(x)", _VECTOR),
    _map("memory", "sum of rows", "o = ReduceSum(x, a)", _MATRIX, a=[1]),
    _map("memory", "sum of columns", "o = ReduceSum(x, a)", _MATRIX, a=[0]),
    _map("memory", "max of rows", "o = ReduceMax(x, a)", _MATRIX, a=[1]),
    _map("memory", "mean of images", "o = ReduceMean(x, a)", _PICTURES, a=[2, 3]),
    _map("memory", "argmax of rows", "o = ArgMax<axis=1>(x)", _MATRIX),
    _map("memory", "argmax of columns", "o = ArgMax<axis=0>(x)", _MATRIX),
    _map("memory", "cumsum", "o = CumSum(x, a)", _MATRIX, a=1),
    _map("memory", "softmax", "o = Softmax(x)", _MATRIX),
    _map("memory", "softmax of columns", "o = Softmax<axis=0>(x)", _MATRIX),
    _norm("memory", "layer norm", "LayerNormalization", _MATRIX, 1024),
    _norm("memory", "instance norm", "InstanceNormalization", _PICTURES, 4096),
    _norm("memory", "batch norm", "BatchNormalization", _PICTURES, 4096, 4),
    _map("memory", "transpose", "o = Transpose<perm=[1,0]>(x)", _MATRIX),
    _map("memory", "channels last", "o = Transpose<perm=[0,2,3,1]>(x)", _PICTURES),
    _map("memory", "gather rows", "o = Gather(x, i)", _MATRIX, i="int64<16384 16384"),
    _map("memory", "concat", "o = Concat<axis=0>(x, y)", "8388608", "8388608", reason=_COPIED),
    _map("memory", "slice", "o = Slice(x, a, b, c)", _MATRIX, a=[1], b=[1024], c=[1]),
    _map("memory", "pad", "o = Pad(x, p)", _MATRIX, p=[1, 1, 1, 1],
         reason="79 % of the bytes that a copy moves in memory"),
    _map("memory", "max pool 2x2", "o = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)", _PICTURES),
    _map("memory", "top 8", "o, i = TopK(x, k)", _MATRIX, k=[8]),
)

ROWS: tuple[Row, ...] = (
    *CONVOLUTIONS, *BYTES, *POOLS, *SIZES, *MOVEMENT, *NORMS, *ELEMENTWISE, *REDUCTIONS, *ATTENTION, *RECURRENT, *PRODUCTS,
    *MEMORY,
)
