"""Convolutions. Data is [N, C, ...] or, without a batch, [C, ...]; weights are [O, C / groups, ...]."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose.windows import halves
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Sizes = Sequence[Dim]


def per_axis(values: Sequence[Dim] | Dim, rank: int) -> tuple[Dim, ...]:
    """A number for each of ``rank`` axes; one stands for all."""
    given = tuple(values) if isinstance(values, Sequence) else (values,)
    return given * rank if len(given) == 1 else given


def batched(g: Context, x: Value, rank: int) -> tuple[Value, bool]:
    """``x`` with batch and channels before ``rank`` spatial axes, and whether it had no batch."""
    if x.rank not in (rank + 1, rank + 2):
        raise g.invalid(f"input: got rank {x.rank}; expected {rank + 1} or {rank + 2}")
    return (g.call("expand_dims", x, axis=0), True) if x.rank == rank + 1 else (x, False)


def unbatched(g: Context, x: Value, added: bool) -> Value:
    return g.call("squeeze", x, axis=(0,)) if added else x


@converts(*(f"conv{n}d.{overload}" for n in (1, 2, 3) for overload in ("default", "padding")))
def conv(
    g: Context, input: Value, weight: Value, bias: Value | None = None,  # noqa: A002
    *, stride: Sizes = (1,), padding: Sizes | str | None = None, dilation: Sizes = (1,), groups: int = 1,
) -> Value:
    """``padding`` is a number for each axis, "valid" or "same"."""
    rank = weight.rank - 2
    x, added = batched(g, input, rank)
    steps = per_axis(dilation, rank)
    pads = _named_padding(g, padding, weight, steps) if isinstance(padding, str) else per_axis(padding or 0, rank)
    result = g.call(
        f"nn.conv{rank}d", x, weight, strides=per_axis(stride, rank), padding=pads, dilation=steps, groups=groups,
        kernel_size=weight.shape[2:],
    )
    return unbatched(g, result if bias is None else g.call("nn.bias_add", result, bias), added)


def _named_padding(g: Context, padding: str, weight: Value, dilation: Sizes) -> tuple[Dim, ...]:
    """All begins, then all ends; the odd element of "same" goes to the end."""
    if padding not in ("valid", "same"):
        raise g.invalid(f"padding: got {padding!r}; expected valid or same")
    if padding == "valid":
        return (0,) * (weight.rank - 2)
    return halves([(size - 1) * step for size, step in zip(weight.shape[2:], dilation)], upper=True)


@converts("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    g: Context, input: Value, weight: Value, bias: Value | None = None,  # noqa: A002
    *, stride: Sizes = (1,), padding: Sizes = (0,), output_padding: Sizes = (0,), groups: int = 1, dilation: Sizes = (1,),
) -> Value:
    """Weights are [C, O / groups, ...]."""
    rank = weight.rank - 2
    x, added = batched(g, input, rank)
    result = g.call(
        f"nn.conv{rank}d_transpose", x, weight, kernel_size=weight.shape[2:], strides=per_axis(stride, rank),
        output_padding=per_axis(output_padding, rank), padding=per_axis(padding, rank), dilation=per_axis(dilation, rank),
        groups=groups,
    )
    return unbatched(g, result if bias is None else g.call("nn.bias_add", result, bias), added)


@converts("convolution.default", "_convolution.default", "_convolution.deprecated")
def convolution(
    g: Context, input: Value, weight: Value, bias: Value | None = None,  # noqa: A002
    *, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int,
    benchmark: bool = False, deterministic: bool = False, cudnn_enabled: bool = True, allow_tf32: bool = True,
) -> Value:
    """The flags choose kernels of torch."""
    if transposed:
        more = {"output_padding": output_padding}
        return conv_transpose(g, input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, **more)
    return conv(g, input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
