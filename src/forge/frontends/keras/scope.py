"""Values in scope while a model is converted, and masks beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from forge.frontends.keras.weights import Weights
from forge.frontends.scope import ImportState
from forge.frontends.state.scope import MemoryScope
from forge.ir.nodes import Value


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value, and which of its steps count, as Keras carries it beside values."""

    value: Value
    mask: Value | None = None


@dataclass(kw_only=True)
class KerasState(ImportState):
    """What is the same for the whole import of one model.

    Attributes:
        is_old: Keras 1 or 2 saved it.
        states: names of states of recurrent layers -> what they are after the call.
    """

    weights: Weights
    is_old: bool = False
    states: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class KerasScope(MemoryScope[KerasState]):
    """Values of a model."""


def mapped(found: Any, function: Callable[[Any], Any], kind: type | tuple[type, ...]) -> Any:
    """``found`` with what ``function`` makes of all that is of ``kind``, in lists, tuples and dictionaries."""
    if isinstance(found, kind):
        return function(found)
    if isinstance(found, list | tuple):
        return type(found)(mapped(item, function, kind) for item in found)
    if isinstance(found, dict):
        return {key: mapped(item, function, kind) for key, item in found.items()}
    return found


def values_of(found: Any) -> Any:
    """Tensors as values."""
    return mapped(found, lambda tensor: tensor.value, Tensor)


def masks_of(found: Any) -> Any:
    """Tensors as their masks."""
    return mapped(found, lambda tensor: tensor.mask, Tensor)


def flat(found: Any) -> list[Any]:
    """What is in lists, tuples and dictionaries, in order; of dictionaries, by their keys."""
    if isinstance(found, dict):
        return [leaf for key in sorted(found) for leaf in flat(found[key])]
    if isinstance(found, list | tuple):
        return [leaf for item in found for leaf in flat(item)]
    return [found]
