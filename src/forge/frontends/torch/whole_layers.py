"""Recurrent layers as one operator while torch traces a model: of their results only the types are computed.

Torch runs them step by step on tensors without contents, which takes seconds and fixes the number of steps. Reads of tensors in
the functions of ``flex_attention`` stay reads: torch would call a function of Python that has gradients of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd, DispatchKey.Meta)


@contextmanager
def whole_layers() -> Iterator[None]:
    """Within it, torch does not take recurrent layers apart."""
    from torch._dynamo import _trace_wrapped_higher_order_op as functions_of_scores

    read = functions_of_scores.mod_index
    operators = [getattr(torch.ops.aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")]
    kept = [dict(operator.py_kernels) for operator in operators]
    try:
        functions_of_scores.mod_index = _read
        for operator in operators:
            operator.py_kernels.update(dict.fromkeys(_KEYS, _types))
            operator._dispatch_cache.clear()
        yield
    finally:
        functions_of_scores.mod_index = read
        for operator, kernels in zip(operators, kept):
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()


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
