"""Quantized tensors of torch in graphs of TorchScript: integers with a scale and a zero point, both known.

`torch.export` takes no such tensors. So a graph is run with `Quantized` in their place: operators that move elements are applied
to the integers, all others to the real numbers that these stand for, and the results are rounded again. torch computes with the
integers, and rounds once: a result may differ from its own by one step.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from forge.errors import OpNotImplemented
from forge.frontends.torch.script.operators import plain_number

CODES: Mapping[torch.dtype, torch.dtype] = MappingProxyType({
    torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32,
})
"""Quantized types of torch -> those of their integers."""

NUMBERS: Mapping[int, torch.dtype] = MappingProxyType({12: torch.qint8, 13: torch.quint8, 14: torch.qint32})
"""TorchScript's numbers of quantized types."""


@cache
def _operators() -> Any:
    """The operators that quantized models consist of in exports; torch registers them late."""
    if not hasattr(torch.ops.quantized_decomposed, "quantize_per_tensor"):
        importlib.import_module("torch.ao.quantization.fx._decomposed")
    return torch.ops.quantized_decomposed


@dataclass(frozen=True)
class Quantized:
    """A tensor of ``(codes - zero_point) * scale``."""

    codes: torch.Tensor
    scale: float
    zero_point: int
    dtype: torch.dtype

    @property
    def limits(self) -> tuple[int, int]:
        info = torch.iinfo(CODES[self.dtype])
        return info.min, info.max

    def real(self) -> torch.Tensor:
        return _operators().dequantize_per_tensor(self.codes, self.scale, self.zero_point, *self.limits, CODES[self.dtype])

    def like(self, real: torch.Tensor) -> Quantized:
        """``real`` in integers of this scale and zero point."""
        return quantized(real, self.scale, self.zero_point, self.dtype)

    def moved(self, codes: torch.Tensor) -> Quantized:
        return Quantized(codes, self.scale, self.zero_point, self.dtype)


def quantized(real: torch.Tensor, scale: float, zero_point: int, dtype: torch.dtype) -> Quantized:
    """Integers, rounded and saturated."""
    scale, zero_point, codes = float(scale), int(zero_point), CODES[dtype]
    limits = torch.iinfo(codes)
    found = _operators().quantize_per_tensor(real, scale, zero_point, limits.min, limits.max, codes)
    return Quantized(found, scale, zero_point, dtype)


class Packed:
    """Weights that torch has packed into an object of its own.

    Attributes:
        arrays: what is to become buffers, by name: ``weight`` of integers, or of real numbers where it was packed so, its
            ``weight_scale`` and ``weight_zero_point`` of a channel each or of the tensor, and ``bias``.
        buffer: gives one of these by its name while the graph is run.
    """

    def __init__(self, script: Any, integer_bias: bool) -> None:
        self.script = script
        self.name = script._type().name()
        self.integer_bias = integer_bias
        self.axis = 0
        self.arrays: dict[str, torch.Tensor] = {}
        self.buffer: Callable[[str], torch.Tensor] = self.arrays.__getitem__
        if self.name == "EmbeddingPackedParamsBase":
            self._keep(torch.ops.quantized.embedding_bag_unpack(script))
        elif hasattr(script, "unpack"):
            weight, bias = script.unpack()
            self._keep(weight)
            if bias is not None:
                self.arrays["bias"] = bias.detach().float()
        else:
            raise OpNotImplemented(f"trace: got packed weights of class {self.name}; supported: those of linear layers, "
                                   "convolutions and embeddings")

    def _keep(self, weight: torch.Tensor) -> None:
        if not weight.is_quantized:
            self.arrays["weight"] = weight.detach()
            return
        if weight.dtype not in CODES:
            raise OpNotImplemented(f"trace: got packed weights of type {weight.dtype}; supported: qint8, quint8")
        self.arrays["weight"] = weight.int_repr()
        if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
            self.axis = weight.q_per_channel_axis()
            self.arrays["weight_scale"] = weight.q_per_channel_scales().float()
            self.arrays["weight_zero_point"] = weight.q_per_channel_zero_points()
        else:
            self.arrays["weight_scale"] = torch.tensor(weight.q_scale(), dtype=torch.float32)
            self.arrays["weight_zero_point"] = torch.tensor(weight.q_zero_point())

    @property
    def is_quantized(self) -> bool:
        return "weight_scale" in self.arrays

    def weight(self) -> torch.Tensor:
        """The real numbers."""
        codes = self.buffer("weight")
        if not self.is_quantized:
            return codes.float()
        scale, zero = self.buffer("weight_scale"), self.buffer("weight_zero_point")
        limits = torch.iinfo(codes.dtype)
        bounds = (limits.min, limits.max, codes.dtype)
        operators = _operators()
        if not scale.dim():
            return operators.dequantize_per_tensor.tensor(codes, scale, zero, *bounds)
        if zero.dtype.is_floating_point:
            shape = [-1 if k == self.axis else 1 for k in range(codes.dim())]
            return (codes.float() - zero.reshape(shape)) * scale.reshape(shape)
        return operators.dequantize_per_channel(codes, scale, zero, self.axis, *bounds)

    def bias(self, scale: float | None) -> torch.Tensor | None:
        """The real numbers, or None; in steps of the product of the scales of operand and weight where integers are wanted."""
        if "bias" not in self.arrays:
            return None
        if not self.integer_bias or scale is None or not self.is_quantized:
            return self.buffer("bias")
        with _disable_current_modes():
            bias = self.arrays["bias"].numpy().astype(np.float64)
            steps = np.broadcast_to(self.arrays["weight_scale"].numpy().astype(np.float64) * scale, bias.shape)
            codes = torch.from_numpy(np.clip(np.rint(bias / steps), -(2**31), 2**31 - 1).astype(np.int32))
            scales = torch.from_numpy(steps.astype(np.float32))
        return _operators().dequantize_per_channel(codes, scales, None, 0, -(2**31), 2**31 - 1, torch.int32)


def dynamic(x: torch.Tensor, reduce_range: bool) -> torch.Tensor:
    """``x`` rounded to integers of 8 bits, or of 7, that span it and 0, as real numbers again.

    Of the two zero points by which the least and the largest number are exact, the one with the smaller error is taken.
    """
    most = 127 if reduce_range else 255
    low, high = (v.double() for v in (torch.clamp(x.amin(), max=0), torch.clamp(x.amax(), min=0)))
    scale = ((high - low) / most).float()
    scale = torch.where((scale == 0) | torch.isinf(1 / scale), 0.1, scale).double()
    from_low, from_high = -low / scale, most - high / scale
    zero_point = torch.where((low / scale).abs() < most + (high / scale).abs(), from_low, from_high)
    zero_point = torch.round(zero_point.clamp(0, most)).long()
    scale = scale.float()
    operators = _operators()
    codes = operators.quantize_per_tensor.tensor(x, scale, zero_point, 0, most, torch.uint8)
    return operators.dequantize_per_tensor.tensor(codes, scale, zero_point, 0, most, torch.uint8)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


Activation = Callable[[torch.Tensor], torch.Tensor]


def _linear(activation: Activation = _same) -> Callable[..., Quantized]:
    def apply(x: Quantized, packed: Packed, scale: float, zero_point: int) -> Quantized:
        product = functional.linear(x.real(), packed.weight(), packed.bias(x.scale))
        return quantized(activation(product), scale, zero_point, x.dtype)

    return apply


def _linear_leaky(x: Quantized, packed: Packed, scale: float, zero_point: int, slope: float) -> Quantized:
    return _linear(lambda v: functional.leaky_relu(v, slope))(x, packed, scale, zero_point)


def _linear_dynamic(activation: Activation = _same) -> Callable[..., torch.Tensor]:
    def apply(x: torch.Tensor, packed: Packed, reduce_range: bool = False) -> torch.Tensor:
        x = dynamic(x, reduce_range) if packed.is_quantized else x
        return activation(functional.linear(x, packed.weight(), packed.bias(None)))

    return apply


def _linear_of_real(activation: Activation = _same) -> Callable[..., torch.Tensor]:
    def apply(x: torch.Tensor, scale: float, zero_point: int, packed: Packed) -> torch.Tensor:
        codes = quantized(x, scale, zero_point, torch.quint8)
        return activation(functional.linear(codes.real(), packed.weight(), packed.bias(codes.scale)))

    return apply


def _convolved(x: torch.Tensor, packed: Packed, scale: float | None) -> torch.Tensor:
    axes = x.dim() - 2
    script, weight = packed.script, packed.weight()
    if weight.dim() == x.dim() + 1:  # of one axis, packed as of two
        weight = weight.squeeze(2)
    stride, padding, dilation = (list(v)[-axes:] for v in (script.stride(), script.padding(), script.dilation()))
    output_padding = list(script.output_padding())[-axes:] if script.transpose() else [0] * axes
    return torch.convolution(x, weight, packed.bias(scale), stride, padding, dilation, bool(script.transpose()), output_padding,
                             script.groups())


def _convolution(activation: Activation = _same) -> Callable[..., Quantized]:
    def apply(x: Quantized, packed: Packed, *rest: Any) -> Quantized:
        """What precedes scale and zero point is packed, too."""
        scale, zero_point = rest[-2:]
        return quantized(activation(_convolved(x.real(), packed, x.scale)), scale, zero_point, x.dtype)

    return apply


def _convolution_added(activation: Activation = _same) -> Callable[..., Quantized]:
    def apply(x: Quantized, other: Quantized, packed: Packed, scale: float, zero_point: int) -> Quantized:
        return quantized(activation(_convolved(x.real(), packed, x.scale) + other.real()), scale, zero_point, x.dtype)

    return apply


def _convolution_dynamic(x: torch.Tensor, packed: Packed, reduce_range: bool = False) -> torch.Tensor:
    return _convolved(dynamic(x, reduce_range), packed, None)


def _of_two(function: Callable[..., torch.Tensor], activation: Activation = _same) -> Callable[..., Quantized]:
    def apply(a: Quantized, b: Quantized, scale: float, zero_point: int) -> Quantized:
        if not isinstance(a, Quantized) or not isinstance(b, Quantized):
            raise OpNotImplemented("trace: got a number as an operand of quantized::add or mul; supported: two quantized tensors")
        return quantized(activation(function(a.real(), b.real())), scale, zero_point, a.dtype)

    return apply


def _add_number(activation: Activation = _same) -> Callable[..., Quantized]:
    def apply(x: Quantized, number: Any) -> Quantized:
        """The zero point moves; where it leaves the integers, the scale grows."""
        (low, high), moved = x.limits, x.zero_point - round(_scalar(number) / x.scale)
        scale, zero_point = x.scale, moved
        if moved < low:
            scale, zero_point = (high - moved) / (high - low) * x.scale, low
        elif moved > high:
            scale, zero_point = (moved - low) / (high - low) * x.scale, high
        shifted = Quantized(x.codes, x.scale, moved, x.dtype).real()
        return quantized(activation(shifted), scale, zero_point, x.dtype)

    return apply


def _multiply_number(activation: Activation = _same) -> Callable[..., Quantized]:
    def apply(x: Quantized, number: Any) -> Quantized:
        """The scale is multiplied; a negative number turns the integers around."""
        factor, (low, high) = _scalar(number), x.limits
        if factor > 0:
            result = Quantized(x.codes, x.scale * factor, x.zero_point, x.dtype)
        elif factor == 0:
            result = Quantized(torch.zeros_like(x.codes), 1.0, 0, x.dtype)
        else:
            turned = (low + high - x.codes.int()).to(x.codes.dtype)
            result = Quantized(turned, -x.scale * factor, low + high - x.zero_point, x.dtype)
        return result if activation is _same else result.like(activation(result.real()))

    return apply


def _scalar(number: Any) -> float:
    if isinstance(number, torch.Tensor):
        raise OpNotImplemented("trace: got a tensor that is not a constant as an operand of quantized::add_scalar or mul_scalar; "
                               "supported: numbers")
    return float(number)


def _cat(activation: Activation = _same) -> Callable[..., Quantized]:
    def apply(tensors: Sequence[Quantized], axis: int, scale: float | None, zero_point: int | None) -> Quantized:
        scale = tensors[0].scale if scale is None else scale
        zero_point = tensors[0].zero_point if zero_point is None else zero_point
        return quantized(activation(torch.cat([x.real() for x in tensors], axis)), scale, zero_point, tensors[0].dtype)

    return apply


def _normalized(function: Callable[..., torch.Tensor], activation: Activation = _same) -> Callable[..., Quantized]:
    """Of operators whose last two operands are scale and zero point."""

    def apply(x: Quantized, *rest: Any) -> Quantized:
        *options, scale, zero_point = rest
        return quantized(activation(function(x.real(), *options)), scale, zero_point, x.dtype)

    return apply


def _batch_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, eps: float) -> torch.Tensor:
    return functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, eps)


def _elu(x: Quantized, scale: float, zero_point: int, alpha: float = 1, out: float = 1, inner: float = 1) -> Quantized:
    return quantized(torch.ops.aten.elu(x.real(), alpha, out, inner), scale, zero_point, x.dtype)


def _celu(x: Quantized, scale: float, zero_point: int, alpha: float = 1) -> Quantized:
    return quantized(functional.celu(x.real(), alpha), scale, zero_point, x.dtype)


def _dropout(x: Quantized, scale: float, zero_point: int, p: float = 0.5, training: bool = False) -> Quantized:
    if training:
        raise OpNotImplemented("trace: quantized::dropout in training; supported: evaluation")
    return x


def _leaky_relu(x: Quantized, slope: float, inplace: bool, scale: float, zero_point: int) -> Quantized:
    return quantized(functional.leaky_relu(x.real(), slope), scale, zero_point, x.dtype)


def _embedding(packed: Packed, indices: torch.Tensor, pruned: bool = False) -> torch.Tensor:
    if pruned:
        raise OpNotImplemented("trace: an embedding with pruned rows; supported: all rows")
    return functional.embedding(indices, packed.weight())


def _like(function: Callable[..., torch.Tensor]) -> Callable[..., Quantized]:
    """Of operators that keep scale and zero point."""
    return lambda x, *rest: x.like(function(x.real(), *rest))


relu = functional.relu

QUANTIZED: Mapping[str, Callable[..., Any]] = MappingProxyType({
    "linear": _linear(),
    "linear_relu": _linear(relu),
    "linear_tanh": _linear(torch.tanh),
    "linear_leaky_relu": _linear_leaky,
    "linear_dynamic": _linear_dynamic(),
    "linear_relu_dynamic": _linear_dynamic(relu),
    "linear_dynamic_fp16": _linear_dynamic(),
    "linear_relu_dynamic_fp16": _linear_dynamic(relu),
    "linear_with_input_q_dq_qweight_dq_output_fp32": _linear_of_real(),
    "linear_with_input_q_dq_qweight_dq_relu_output_fp32": _linear_of_real(relu),
    **{f"conv{n}d": _convolution() for n in (1, 2, 3)},
    **{f"conv{n}d_relu": _convolution(relu) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _convolution() for n in (1, 2, 3)},
    **{f"conv{n}d_dynamic": _convolution_dynamic for n in (1, 2, 3)},
    **{f"conv_transpose{n}d_dynamic": _convolution_dynamic for n in (1, 2, 3)},
    "conv2d_add": _convolution_added(),
    "conv2d_add_relu": _convolution_added(relu),
    "add": _of_two(torch.add),
    "add_relu": _of_two(torch.add, relu),
    "mul": _of_two(torch.mul),
    "mul_relu": _of_two(torch.mul, relu),
    "matmul": _of_two(torch.matmul),
    "add_scalar": _add_number(),
    "add_scalar_relu": _add_number(relu),
    "mul_scalar": _multiply_number(),
    "mul_scalar_relu": _multiply_number(relu),
    "cat": _cat(),
    "cat_relu": _cat(relu),
    **{f"batch_norm{n}": _normalized(_batch_norm) for n in ("", "1d", "2d", "3d")},
    **{f"batch_norm{n}_relu": _normalized(_batch_norm, relu) for n in ("", "1d", "2d", "3d")},
    "layer_norm": _normalized(functional.layer_norm),
    "group_norm": _normalized(functional.group_norm),
    "instance_norm": _normalized(lambda x, weight, bias, eps: functional.instance_norm(x, None, None, weight, bias, eps=eps)),
    "softmax": _normalized(functional.softmax),
    "sigmoid": _normalized(torch.sigmoid),
    "hardswish": _normalized(functional.hardswish),
    "prelu": _normalized(functional.prelu),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "celu": _celu,
    "dropout": _dropout,
    "relu6": _like(lambda x, inplace=False: functional.relu6(x)),
    "clamp": _like(torch.clamp),
    "threshold": _like(functional.threshold),
    "max_pool1d": _like(functional.max_pool1d),
    "max_pool2d": _like(functional.max_pool2d),
    "embedding_byte": _embedding,
})
"""Operators of namespace ``quantized``, by name."""

MOVES = frozenset({
    "alias", "chunk", "channel_shuffle", "clone", "contiguous", "detach", "expand", "expand_as", "flatten", "flip",
    "index_select", "narrow", "permute", "pixel_shuffle", "pixel_unshuffle", "repeat", "reshape", "reshape_as", "roll", "select",
    "slice", "split", "split_with_sizes", "squeeze", "swapaxes", "t", "tile", "transpose", "unbind", "unflatten", "unsqueeze",
    "view", "view_as",
})  # fmt: skip
"""Operators of ATen that move elements; scale and zero point stay."""

KEEPS = frozenset({
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "clamp",
    "clamp_max", "clamp_min", "constant_pad_nd", "gelu", "hardtanh", "leaky_relu", "masked_fill", "max_pool1d", "max_pool2d",
    "max_pool3d", "mean", "pad", "relu", "relu6", "threshold", "upsample_bilinear2d", "upsample_nearest2d", "upsample_nearest3d",
})  # fmt: skip
"""Operators of ATen that compute; scale and zero point stay."""

FIXED: Mapping[str, tuple[float, int]] = MappingProxyType({
    "hardsigmoid": (1 / 256, 0), "sigmoid": (1 / 256, 0), "tanh": (2 / 256, 128),
})
"""Operators of ATen whose results have a scale and a zero point of their own; that of signed integers is 128 less."""


def _cat_like_the_first(tensors: Sequence[Quantized], axis: int = 0) -> Quantized:
    return _cat()(tensors, axis, None, None)


def _stack(tensors: Sequence[Quantized], axis: int = 0) -> Quantized:
    return tensors[0].like(torch.stack([x.real() for x in tensors], axis))


ATEN: Mapping[str, Callable[..., Any]] = MappingProxyType({
    "dequantize": lambda x: [v.real() for v in x] if isinstance(x, list) else x.real() if isinstance(x, Quantized) else x.float(),
    "quantize_per_tensor": lambda x, scale, zero_point, dtype: quantized(x, scale, zero_point, NUMBERS[dtype]),
    "int_repr": lambda x: x.codes,
    "q_scale": lambda x: x.scale,
    "q_zero_point": lambda x: x.zero_point,
    "size": lambda x, axis=None: list(x.codes.shape) if axis is None else x.codes.shape[axis],
    "dim": lambda x: x.codes.dim(),
    "numel": lambda x: x.codes.numel(),
    "is_floating_point": lambda x: False,
    "requires_grad": lambda x: False,
    "cat": _cat_like_the_first,
    "stack": _stack,
})
"""Other operators of ATen that take quantized tensors or give some."""


def is_quantized(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(is_quantized, value))
    return isinstance(value, Quantized | Packed)


def takes_part(kind: str, inputs: Sequence[Any]) -> bool:
    """Whether node ``kind`` takes quantized tensors, or gives some."""
    namespace, _, name = kind.partition("::")
    return namespace == "quantized" or name.startswith(("quantize", "dequantize")) or is_quantized(inputs)


def applied(kind: str, inputs: Sequence[Any], itself: Callable[[Sequence[Any]], Any]) -> Any:
    """What node ``kind`` gives for quantized tensors; ``itself`` applies its operator to other operands.

    Raises:
        OpNotImplemented: it is not supported.
    """
    namespace, _, name = kind.partition("::")
    plain = name.rstrip("_")
    found = (QUANTIZED if namespace == "quantized" else ATEN).get(name)
    if found is not None:
        return found(*map(_plain, inputs))
    x = inputs[0]
    if namespace == "aten" and isinstance(x, Quantized):
        if plain in MOVES:
            codes = itself([v.codes if isinstance(v, Quantized) else v for v in inputs])
            return [x.moved(v) for v in codes] if isinstance(codes, list | tuple) else x.moved(codes)
        if plain in KEEPS or plain in FIXED:
            scale, zero_point = FIXED.get(plain, (x.scale, x.zero_point))
            zero_point -= 128 * (plain in FIXED and x.dtype is torch.qint8)
            result = quantized(itself([v.real() if isinstance(v, Quantized) else v for v in inputs]), scale, zero_point, x.dtype)
            return result if plain == name else _written(x, result)
    raise OpNotImplemented(f"trace: operator {kind} of quantized tensors is not supported; dequantize its operands before")


def _written(x: Quantized, result: Quantized) -> Quantized:
    """``x``, after an operator in place."""
    if (result.scale, result.zero_point) != (x.scale, x.zero_point):
        raise OpNotImplemented("trace: an operator in place that gives a quantized tensor another scale is not supported")
    x.codes.copy_(result.codes)
    return x


def _plain(value: Any) -> Any:
    """Numbers in the place of what stands for them, in lists, too."""
    return [_plain(v) for v in value] if isinstance(value, list) else plain_number(value)
