"""Inputs of traces: how many there are, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from forge.errors import ImportModelError, OptionError
from forge.frontends.torch import input_infos as input_info
from forge.frontends.torch.exported import dtype_of
from forge.frontends.torch.input_infos import InputInfo, TensorInfo


def inputs(script: Any, infos: Sequence[InputInfo] | None, where: str) -> Sequence[InputInfo]:
    """What is said of a trace's inputs, completed by what it was made with."""
    count, traced = _input_count(script), _traced_inputs(script)
    if infos is None:
        if traced is None:
            raise OptionError(f"{where}: input_infos: got None, and the module does not say its shapes; {input_info.EXPECTED}")
        return traced
    if isinstance(infos, input_info.Named):
        infos = list(infos)
    if len(infos) != count:
        known = "" if traced is None else ": " + ", ".join(f"{i.name} {_traced_shape(i)}" for i in traced)
        raise ImportModelError(f"{where}: input_infos: got {len(infos)} inputs; the trace has {count}{known}")
    return [input_info.completed(info, traced[k] if traced else None, where) for k, info in enumerate(infos)]


def _traced_shape(info: InputInfo) -> str:
    return ", ".join(f"{leaf.dtype}{list(leaf.shape or ())}" for _, leaf in info.leaves())


def sizes(dynamic: Any, infos: Sequence[InputInfo], where: str) -> tuple[Any, ...]:
    """What is said of the sizes of a trace's inputs, in their order.

    Raises:
        OptionError: it is not said for each input, in order or by name.
    """
    names = [info.name for info in infos]
    if isinstance(dynamic, Mapping) and set(dynamic) <= set(names):
        return tuple(dynamic.get(name) for name in names)
    if isinstance(dynamic, list | tuple) and len(dynamic) == len(infos):
        return tuple(dynamic)
    expected = ", ".join(name or "?" for name in names)
    raise OptionError(f"{where}: dynamic_shapes: got {dynamic!r}; expected an entry for each input of the trace: {expected}")


def _traced_inputs(script: Any) -> list[InputInfo] | None:
    """The inputs that a trace was made with; None where it does not say: it was scripted, or read from a file."""
    found = []
    for value in [*script.inlined_graph.inputs()][1:]:
        what = _traced(value.type())
        if what is None:
            return None
        name = re.sub(r"\W", "_", value.debugName())
        found.append(InputInfo(name if name.isidentifier() else f"input_{name}", what))
    return found


def _traced(type_: Any) -> TensorInfo | tuple[InputInfo, ...] | None:
    if type_.kind() == "TensorType" and type_.sizes() is not None and type_.dtype() is not None:
        return TensorInfo(tuple(type_.sizes()), dtype_of(type_.dtype()))
    if type_.kind() == "TupleType":
        parts = [_traced(part) for part in type_.elements()]
        return None if None in parts else tuple(InputInfo("", part) for part in parts if part is not None)
    return None


def _input_count(script: Any) -> int:
    """How many inputs a TorchScript module takes."""
    return len([*script.inlined_graph.inputs()]) - 1
