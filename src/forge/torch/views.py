"""Tensors of PyTorch that lie in the memory of others: what is written to one is seen in the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch


class Form(NamedTuple):
    """What the bytes of a tensor mean."""

    dtype: torch.dtype
    is_conj: bool
    is_neg: bool


def form_of(tensor: torch.Tensor) -> Form:
    return Form(tensor.dtype, tensor.is_conj(), tensor.is_neg())


def is_stored(value: Any) -> bool:
    """Whether a value is a tensor whose elements are in memory as they are read."""
    return isinstance(value, torch.Tensor) and not value.is_conj() and not value.is_neg()


def view_of(base: torch.Tensor, form: Form, shape: Sequence[int], strides: Sequence[int], begin: int) -> torch.Tensor:
    """The tensor in the memory of ``base`` whose first element is at byte ``begin`` of the storage.

    Autograd sees what it sees in eager PyTorch: bytes that become elements of another type have no gradients, but for complex
    numbers that become pairs of numbers, or are made of them.
    """
    if form.dtype == base.dtype:
        return _signed(torch.as_strided(base, shape, strides, begin // base.element_size()), form)
    width, own = base.element_size(), form.dtype.itemsize
    last = sum((size - 1) * stride for size, stride in zip(shape, strides))
    end = begin + (last + 1) * own if 0 not in shape else begin
    first = begin // width
    elements = torch.as_strided(_signed(base, Form(base.dtype, False, False)), (-(-end // width) - first,), (1,), first)
    if base.is_complex() and base.real.dtype == form.dtype:
        elements = torch.view_as_real(elements).view(-1)
    elif form.dtype.is_complex and form.dtype.to_real() == base.dtype:
        elements = torch.view_as_complex(elements.view(-1, 2))
    else:
        elements = elements.view(form.dtype)
    return _signed(torch.as_strided(elements, shape, strides, begin // own), form)


def _signed(tensor: torch.Tensor, form: Form) -> torch.Tensor:
    """``tensor`` with the bits of ``form`` that say that its elements are conjugated, and negated, when they are read."""
    if tensor.is_conj() != form.is_conj:
        tensor = tensor.conj()
    return torch._neg_view(tensor) if tensor.is_neg() != form.is_neg else tensor


def view_like(base: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """``view``, which lies in the memory of ``base``, as autograd sees a view of it."""
    return view_of(base, form_of(view), view.shape, view.stride(), view.storage_offset() * view.element_size())
