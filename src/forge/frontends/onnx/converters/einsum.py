"""Einsum as sums, transposes and matrix products."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forge import dims
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.creation import diagonal_mask
from forge.frontends.onnx.registry import converts
from forge.ops.compose.broadcast import common_size


@dataclass(frozen=True)
class Labelled:
    """A tensor with a label for each axis; axes under an ellipsis have numbers, counted from the last one."""

    value: Value
    labels: tuple[str, ...]


@converts("Einsum", since=12)
def einsum(g: Context, *values: Value, equation: str) -> Value:
    terms, result = parse(g, equation.replace(" ", ""), [v.rank for v in values])
    operands = [_without_repeats(g, Labelled(v, t)) for v, t in zip(values, terms)]
    operands = _with_common_sizes(g, operands)
    total = _summed(g, operands[0], [result, *(o.labels for o in operands[1:])])
    for position, operand in enumerate(operands[1:], 2):
        later = [o.labels for o in operands[position:]]
        right = _summed(g, operand, [result, total.labels, *later])
        total = _product(g, total, right, {label for labels in (result, *later) for label in labels})
    return _transposed(g, total, result)


def parse(g: Context, equation: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Labels of the operands and of the result.

    Without a result in the equation: the ellipsis, then labels that occur once, in alphabetical order.
    """
    match = re.fullmatch(r"((?:[A-Za-z,]|\.\.\.)*)(?:->((?:[A-Za-z]|\.\.\.)*))?", equation)
    texts = match.group(1).split(",") if match else []
    if match is None or len(texts) != len(ranks):
        raise g.invalid(f"attribute 'equation': got {equation!r}; expected labels of {len(ranks)} operands, such as 'ij,jk->ik'")
    terms = [_labels(g, text, rank) for text, rank in zip(texts, ranks)]
    letters = [label for term in terms for label in term]
    covered = sorted({label for label in letters if not label.isalpha()}, key=int, reverse=True)
    if match.group(2) is None:
        return terms, (*covered, *sorted(label for label in letters if label.isalpha() and letters.count(label) == 1))
    result = re.findall(r"\.\.\.|[A-Za-z]", match.group(2))
    expanded = [label for item in result for label in (covered if item == "..." else [item])]
    if len(set(expanded)) != len(expanded) or not set(expanded) <= set(letters):
        raise g.invalid(f"attribute 'equation': got {equation!r}; expected each label of the result once, and in an operand")
    return terms, tuple(expanded)


def _labels(g: Context, text: str, rank: int) -> tuple[str, ...]:
    items = re.findall(r"\.\.\.|[A-Za-z]", text)
    hidden = rank - len(items) + 1
    if items.count("...") > 1 or (hidden < 0 if "..." in items else len(items) != rank):
        raise g.invalid(f"attribute 'equation': got {text!r} for an operand of rank {rank}; expected a label for each axis")
    numbers = [str(i) for i in reversed(range(hidden))]
    return tuple(label for item in items for label in (numbers if item == "..." else [item]))


def _without_repeats(g: Context, operand: Labelled) -> Labelled:
    """The diagonal of axes with equal labels."""
    value, labels = operand.value, list(operand.labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            mask = diagonal_mask(g, value, first, second)
            chosen = g.call("where", mask, value, g.scalar(0, value))
            value = g.call("sum", chosen, axis=(second,), keepdims=False)
            del labels[second]
    return Labelled(value, tuple(labels))


def _with_common_sizes(g: Context, operands: Sequence[Labelled]) -> list[Labelled]:
    """Operands broadcast so that equal labels have equal sizes."""
    sizes: dict[str, list[Dim]] = {}
    for operand in operands:
        for label, size in zip(operand.labels, operand.value.shape):
            sizes.setdefault(label, []).append(size)
    common = {label: common_size(found) for label, found in sizes.items()}
    wide = []
    for operand in operands:
        shape = tuple(common[label] for label in operand.labels)
        same = all(dims.equal(a, b) for a, b in zip(shape, operand.value.shape))
        wide.append(operand if same else Labelled(g.call("broadcast_to", operand.value, shape=shape), operand.labels))
    return wide


def _summed(g: Context, operand: Labelled, used: Sequence[Sequence[str]]) -> Labelled:
    """The sum over axes whose labels nothing else uses."""
    needed = {label for labels in used for label in labels}
    axes = tuple(i for i, label in enumerate(operand.labels) if label not in needed)
    if not axes:
        return operand
    kept = tuple(label for label in operand.labels if label in needed)
    return Labelled(g.call("sum", operand.value, axis=axes, keepdims=False), kept)


def _product(g: Context, a: Labelled, b: Labelled, needed: set[str]) -> Labelled:
    """The product of two operands, summed over the labels both have and nothing needs, as one matrix product."""
    shared = [label for label in a.labels if label in b.labels]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    left = _grouped(g, a, batch, rows, inner)
    right = _grouped(g, b, batch, inner, columns)
    sizes = {**dict(zip(a.labels, a.value.shape)), **dict(zip(b.labels, b.value.shape))}
    labels = (*batch, *rows, *columns)
    return Labelled(g.reshape(g.call("nn.matmul", left, right), [sizes[label] for label in labels]), labels)


def _grouped(g: Context, operand: Labelled, batch: Sequence[str], first: Sequence[str], second: Sequence[str]) -> Value:
    """A stack of matrices: the batch axes, then two axes, each made of a group of axes."""
    sizes = dict(zip(operand.labels, operand.value.shape))
    moved = _transposed(g, operand, (*batch, *first, *second))
    groups = (dims.product(sizes[label] for label in group) for group in (first, second))
    return g.reshape(moved, [*(sizes[label] for label in batch), *groups])


def _transposed(g: Context, operand: Labelled, labels: Sequence[str]) -> Value:
    if tuple(labels) == operand.labels:
        return operand.value
    return g.call("transpose", operand.value, axes=tuple(operand.labels.index(label) for label in labels))
