"""Helpers for converters written as classes, by the names of Relay's frontends.

    out = AttrCvt(op_name=dimension_picker("conv"), transforms={"group": ("groups", 1)})([data, weight], attr, params)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forge.compose.expr import Expr, Operators, op
from forge.compose.windows import same_padding
from forge.dims import Dim
from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented, OpNotImplemented
from forge.ir.op import is_operator

_log = logging.getLogger(__name__)
_FAMILIES = ("", "nn.", "image.", "vision.", "contrib.")

CUSTOM = "tvm_custom"
"""The attribute with the ``name`` and ``num_outputs`` of the node."""

Attributes = Mapping[str, Any]
OpName = str | Callable[[Attributes], str]
Check = tuple[Callable[[Attributes], bool], str]


def get_relay_op(op_name: str) -> Operators:
    """The operator of that name, with or without its family: ``"conv2d"``, ``"nn.conv2d"``.

    Raises:
        OpNotImplemented: there is none.
    """
    for family in ("",) if "." in op_name else _FAMILIES:
        if is_operator(family + op_name):
            return Operators(family + op_name)
    raise OpNotImplemented(f"no operator is called {op_name!r}; expected one of docs/operators")


@dataclass(frozen=True)
class Renamer:
    """A converter: an operator that differs from the format's in its name only."""

    new_name: str

    def __call__(self, inputs: Sequence[Any], attrs: Attributes, params: Any = None) -> Any:
        return get_relay_op(self.new_name)(*inputs, **{name: value for name, value in attrs.items() if name != CUSTOM})


@dataclass(frozen=True)
class AttrCvt:
    """A converter: an operator that differs from the format's in its name and attributes.

    Attributes:
        op_name: the operator, or a function of the attributes that gives it.
        transforms: by attribute: the new name; or a tuple of it, the value that None stands for, and a function of others.
        excludes: attributes that are not supported.
        disables, ignores: attributes that are left out.
        extras: attributes that are added.
        custom_check: a function of the attributes, and what to say where it gives False.
    """

    op_name: OpName
    transforms: Mapping[str, str | tuple[Any, ...]] | None = None
    excludes: Collection[str] | None = None
    disables: Collection[str] | None = None
    ignores: Collection[str] | None = None
    extras: Attributes | None = None
    custom_check: Check | None = None

    def __call__(self, inputs: Sequence[Any], attrs: Attributes, params: Any = None) -> Any:
        """Raises OpAttributeInvalid: the check fails, or a value is missing; OpAttributeUnimplemented: one is excluded."""
        if self.custom_check is not None and not self.custom_check[0](attrs):
            raise OpAttributeInvalid(f"check failed: {self.custom_check[1]}")
        name = self.op_name if isinstance(self.op_name, str) else self.op_name(attrs)
        return get_relay_op(name)(*inputs, **{**self._converted(name, attrs), **(self.extras or {})})

    def _converted(self, op_name: str, attrs: Attributes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        left_out = {*(self.disables or ()), *(self.ignores or ()), CUSTOM}
        for name, value in attrs.items():
            if name in (self.excludes or ()):
                raise OpAttributeUnimplemented(f"attribute {name!r}: is not supported by {op_name}")
            if name in left_out:
                _log.debug("attribute %s is left out of %s", name, op_name)
                continue
            new_name, default, function = _transform((self.transforms or {}).get(name, name))
            if value is None and default is None:
                raise OpAttributeInvalid(f"attribute {name!r}: got None; expected a value")
            found[new_name] = default if value is None else function(value)
        return found


def _transform(rule: str | tuple[Any, ...]) -> tuple[str, Any, Callable[[Any], Any]]:
    if isinstance(rule, str):
        return rule, None, lambda value: value
    new_name, default, function = (*rule, *(None,) * 3)[:3]
    return new_name, default, function or (lambda value: value)


def dimension_picker(prefix: str, suffix: str = "") -> Callable[[Attributes], str]:
    """A function of the attributes: ``prefix``, 1d, 2d or 3d by the length of ``kernel_shape``, and ``suffix``."""

    def pick(attrs: Attributes) -> str:
        rank = len(attrs["kernel_shape"])
        if rank not in (1, 2, 3):
            raise OpAttributeUnimplemented(f"attribute 'kernel_shape': got {rank} sizes; expected 1 to 3 for {prefix}1d/2d/3d")
        return f"{prefix}{rank}d{suffix}"

    return pick


def dimension_constraint() -> Check:
    """A ``custom_check``: the kernel has 1 to 3 axes."""
    return lambda attrs: len(attrs["kernel_shape"]) in (1, 2, 3), "only 1d, 2d and 3d kernels are supported"


def infer_type(node: Expr, mod: Any = None) -> Expr:
    """``node``, whose ``checked_type`` is its type: types are inferred when operators are applied."""
    return node


def infer_shape(inputs: Expr, mod: Any = None) -> tuple[Dim, ...]:
    """Sizes; symbolic ones are expressions."""
    return inputs.shape


def infer_channels(inputs: Expr, transpose: bool = False) -> Dim:
    """The number of channels that a weight gives: its first size, or the second one of a transposed convolution."""
    return inputs.shape[1 if transpose else 0]


def autopad(
    data: Expr,
    strides: Sequence[int],
    kernel_shape: Sequence[int],
    dilations: Sequence[int],
    ndim: int,
    pad_type: str = "constant",
    deconv: bool = False,
    mode: str | None = None,
    pad_value: float = 0.0,
) -> Expr:
    """``data``, of ``ndim`` axes, padded so that windows give size / stride elements, rounded up.

    An odd element goes to the end, or with ``mode="SAME_LOWER"`` to the front; None: as the attribute ``auto_pad`` of the node
    that is converted says. Sizes may be symbolic.

    Raises:
        OpAttributeUnimplemented: ``deconv``: the padding of a transposed convolution is cut from its result.
    """
    if deconv:
        raise OpAttributeUnimplemented("autopad: deconv: got True; expected attribute 'padding' of nn.conv2d_transpose instead")
    mode = str(mode or getattr(data.g, "auto_pad", "SAME_UPPER"))
    spatial = data.shape[2:ndim]
    around = same_padding(spatial, kernel_shape, strides, dilations, upper="LOWER" not in mode)
    count = len(spatial)
    width = ((0, 0), (0, 0), *zip(around[:count], around[count:], strict=True))
    padded: Expr = op.nn.pad(data, pad_value, pad_width=width, pad_mode=pad_type)
    return padded
