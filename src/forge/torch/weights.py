"""Whether tensors that became constants of compiled code are as they were then.

PyTorch counts writes, but not all of them: fused optimizers, batch norms in training, ``tensor.data`` and views of NumPy write
without a word. So contents are compared, too: at each call all of few bytes, of more samples of all tensors and a part of the
memory, and all of it where there is a reason, which is a step of any optimizer, a count or an address that differs, or a sample
that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_, itemgetter
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from forge_runtime import checksums


class _Writes:
    """Writes, of which nobody knows which tensors they were to."""

    count = 0


def refresh() -> None:
    """Has all code that ``torch.compile(backend="forge")`` compiled compare all of its constants with the model at the next call.

    It is needed after writes to a few elements of models of more than 24 KiB that PyTorch does not see, through NumPy or
    ``tensor.data``.
    """
    _Writes.count += 1


def _count_step(*_: object) -> None:
    if not torch.compiler.is_compiling():  # compiled optimizers know nothing of this
        refresh()


register_optimizer_step_post_hook(_count_step)


class Weights:
    """Arguments of a graph that are constants of its code, as they are now.

    Attributes:
        are_same: whether nothing shows that the tensors among the arguments of a call have other contents.
    """

    def __init__(self, numbers: Sequence[int], tensors: Sequence[torch.Tensor]) -> None:
        self.numbers = list(numbers)
        self._kept = [tensor.detach() for tensor in tensors]  # their memory is not used again while it is compared
        addresses = [tensor.data_ptr() for tensor in tensors]
        sums = checksums(tuple(zip(addresses, map(_size, tensors))))
        self._contents = list(zip(map(_form, tensors), sums.digests()))
        take = itemgetter(*numbers, *numbers[:1]) if numbers else lambda arguments: ()
        self.are_same = _comparison(take, list(tensors), addresses, sums.unchanged)

    def now(self, arguments: Sequence[Any]) -> Weights:
        """The same of the arguments of a call."""
        return Weights(self.numbers, [arguments[number] for number in self.numbers])

    def changed(self, now: Weights) -> list[int]:
        """Numbers of the arguments that have other contents now."""
        pairs = zip(self.numbers, self._contents, now._contents)
        return [number for number, before, after in pairs if before != after]


def _comparison(
    take: Callable[[Sequence[Any]], Sequence[Any]],
    tensors: list[torch.Tensor],
    addresses: list[int],
    unchanged: Callable[[], bool],
) -> Callable[[Sequence[Any]], bool]:
    """`Weights.are_same`, which each call asks; fields of an object would take longer."""
    writes, address_of = _Writes.count, torch.Tensor.data_ptr
    versions = [tensor._version for tensor in tensors]
    return lambda arguments: (
        all(map(is_, take(arguments), tensors))
        and list(map(address_of, tensors)) == addresses
        and [tensor._version for tensor in tensors] == versions
        and _Writes.count == writes
        and unchanged()
    )


def _size(tensor: torch.Tensor) -> int:
    """The bytes that can be compared."""
    return int(extent(tensor)) if tensor.device.type == "cpu" else 0


def extent(tensor: torch.Tensor) -> Any:
    """Bytes from the first element to the last one, in memory; an expression of symbolic sizes."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size() if tensor.numel() != 0 else 0


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What the contents of its memory mean; where these cannot be compared, how often PyTorch saw them written."""
    unseen = tensor._version if tensor.device.type != "cpu" else 0
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg(), unseen
