"""Recurrent layers as one operator while torch traces a model: of their results only the types are computed.

Torch runs them step by step on tensors without contents, which takes seconds and fixes the number of steps. Reads of tensors in
the functions of ``flex_attention`` stay reads: torch would call a function of Python that has gradients of its own.
Dropout that does nothing gives its operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd, DispatchKey.Meta)


@contextmanager
def whole_layers(recurrent: bool = True) -> Iterator[None]:
    """Within it, torch does not take layers apart, and dropout that does nothing gives its operand, as in eager PyTorch.

    Args:
        recurrent: whether recurrent layers are among them.
    """
    from torch._dynamo import _trace_wrapped_higher_order_op as functions_of_scores

    aten = torch.ops.aten
    layers = [getattr(aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")] if recurrent else []
    kernels = {**dict.fromkeys(layers, _types), aten.dropout.default: _dropout}
    read = functions_of_scores.mod_index
    kept = {operator: dict(operator.py_kernels) for operator in kernels}
    try:
        functions_of_scores.mod_index = _read if recurrent else read
        for operator, kernel in kernels.items():
            operator.py_kernels.update(dict.fromkeys(_KEYS, kernel))
            operator._dispatch_cache.clear()
        yield
    finally:
        functions_of_scores.mod_index = read
        for operator, before in kept.items():
            operator.py_kernels.clear()
            operator.py_kernels.update(before)
            operator._dispatch_cache.clear()


def _dropout(data: torch.Tensor, p: float, train: bool | None) -> torch.Tensor:
    """Torch's own function for tensors without contents gives a copy where there is nothing to do."""
    return torch.ops.aten.native_dropout(data, p, train)[0] if train and p != 0 else data


def _read(x: torch.Tensor, indices: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.ops.aten.index(x, indices)


def _types(
    data: torch.Tensor, hx: torch.Tensor | Sequence[torch.Tensor], params: Sequence[torch.Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:
    """Results of the types and layouts that the layer gives: all steps, and the last states."""
    states = [hx] if isinstance(hx, torch.Tensor) else [*hx]
    size = states[0].shape[-1] * (2 if bidirectional else 1)
    first, second = data.shape[:-1]
    steps = data.new_empty((second, first, size)).transpose(0, 1) if batch_first else data.new_empty((first, second, size))
    return steps, *(data.new_empty(state.shape) for state in states)
