"""Writes to one element of a list: the TensorFlow converter spells ``x[i] = element`` as slices and a concatenation."""

from __future__ import annotations

import numpy as np

from forge.frontends.tflite.model import Operator, Subgraph


def list_write(graph: Subgraph, operator: Operator) -> tuple[int, int] | None:
    """Of ``concatenate(x[:i], element, x[i + 1:])``, the numbers of the tensors ``x`` and ``i``; None for other operators.

    All of them have the same quantization, if any.
    """
    if len(operator.inputs) != 3 or min(operator.inputs) < 0 or len(operator.outputs) != 1:
        return None
    before, element, after = operator.inputs
    first, last = (graph.producer(number) for number in (before, after))
    if first is None or last is None or not all(_is_slice(one) for one in (first, last)) or first.inputs[0] != last.inputs[0]:
        return None
    (whole, begin, size), (_, next_begin, rest) = first.inputs, last.inputs
    place, following = _scalar(graph, size, -1), _scalar(graph, next_begin, 0)
    if place is None or following is None or not (_is_full_of(graph, begin, 0) and _is_full_of(graph, rest, -1)):
        return None
    plus = graph.producer(following)
    is_next = plus is not None and plus.name == "ADD" and place in plus.inputs and 1 in [_number(graph, n) for n in plus.inputs]
    data, row, result = (graph.tensors[number] for number in (whole, element, operator.outputs[0]))
    same = all(
        one.quantization is None if data.quantization is None else data.quantization.same(one.quantization)
        for one in (row, result))
    is_row = len(row.shape) == len(data.shape) and row.shape[:1] == (1,)
    return (whole, place) if is_next and is_row and same else None


def _is_slice(operator: Operator) -> bool:
    return operator.name == "SLICE" and len(operator.inputs) == 3 and min(operator.inputs) >= 0


def _is_full_of(graph: Subgraph, number: int, wanted: int) -> bool:
    """Whether all elements of a constant are ``wanted``."""
    contents = graph.tensors[number].contents if number >= 0 else None
    return contents is not None and bool((np.asarray(contents()) == wanted).all())


def _number(graph: Subgraph, number: int) -> int | None:
    """The integer that a constant of one element is."""
    contents = graph.tensors[number].contents if number >= 0 else None
    found = None if contents is None else np.asarray(contents())
    return int(found.reshape(-1)[0]) if found is not None and found.size == 1 and found.dtype.kind == "i" else None


def _scalar(graph: Subgraph, number: int, others: int) -> int | None:
    """The tensor of rank 0 that is the first element of a vector, whose other elements are all ``others``."""
    producer = graph.producer(number)
    rest: tuple[int, ...] = ()
    if producer is not None and producer.name == "CONCATENATION" and producer.inputs:
        number, *behind = producer.inputs
        producer, rest = graph.producer(number), tuple(behind)
    fits = producer is not None and producer.name == "RESHAPE" and producer.inputs
    return producer.inputs[0] if producer is not None and fits and all(_is_full_of(graph, n, others) for n in rest) else None
