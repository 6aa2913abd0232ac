"""Writes of an element of a list, which the TensorFlow converter makes of what is before it, itself, and what is after it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.frontends.tflite.model import Operator, Subgraph


def list_write(graph: Subgraph, operator: Operator) -> tuple[int, int] | None:
    """Of ``concatenate(x[:i], element, x[i + 1:])``, the numbers of the tensors ``x`` and ``i``; None for other operators."""
    if len(operator.inputs) != 3 or min(operator.inputs) < 0:
        return None
    before, element, after = operator.inputs
    first, last = (graph.producer(number) for number in (before, after))
    if first is None or last is None or (first.name, last.name) != ("SLICE", "SLICE") or first.inputs[0] != last.inputs[0]:
        return None
    whole, begin, size = first.inputs
    _, next_begin, rest = last.inputs
    if _known(graph, begin) is None or _known(graph, begin).any() or (_known(graph, rest) != -1).any():  # type: ignore[union-attr]
        return None
    place, following = _scalar(graph, size), _scalar(graph, next_begin)
    plus = None if following is None else graph.producer(following)
    rank = len(graph.tensors[whole].shape)
    is_next = plus is not None and plus.name == "ADD" and place in plus.inputs and 1 in [_number(graph, n) for n in plus.inputs]
    sizes = graph.tensors[element].shape
    if place is None or not is_next or len(sizes) != rank or sizes[0] != 1:
        return None
    return whole, place


def _known(graph: Subgraph, number: int) -> np.ndarray | None:
    contents = graph.tensors[number].contents
    return None if contents is None else np.asarray(contents())


def _number(graph: Subgraph, number: int) -> int | None:
    found = _known(graph, number)
    return int(found.reshape(-1)[0]) if found is not None and found.size == 1 and found.dtype.kind == "i" else None


def _scalar(graph: Subgraph, number: int) -> int | None:
    """The tensor that is the first element of a vector, the others of which are 0 or -1."""
    producer = graph.producer(number)
    others: Sequence[int] = ()
    if producer is not None and producer.name == "CONCATENATION":
        number, *others = producer.inputs
        producer = graph.producer(number)
    fits = all((known := _known(graph, other)) is not None and np.isin(known, (0, -1)).all() for other in others)
    return producer.inputs[0] if fits and producer is not None and producer.name == "RESHAPE" else None
