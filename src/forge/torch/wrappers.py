"""Tensors that are several tensors in one, as quantized ones are: what torch calls traceable wrapper subclasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def is_wrapper(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and type(value) is not torch.nn.Parameter and is_traceable_wrapper_subclass(value)


def parts(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The plain tensors of which ``value`` is made, with the attributes that lead to them; a plain value is its only part."""
    if not is_wrapper(value):
        yield path, value
        return
    for name in value.__tensor_flatten__()[0]:
        yield from parts(getattr(value, name), f"{path}.{name}")


def rebuilt(like: Any, given: Iterator[Any]) -> Any:
    """A value as ``like``, of other parts."""
    if not is_wrapper(like):
        return next(given)
    names, context = like.__tensor_flatten__()
    inner = {name: rebuilt(getattr(like, name), given) for name in names}
    return type(like).__tensor_unflatten__(inner, context, like.size(), like.stride())
