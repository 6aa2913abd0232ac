"""Sums of products in Einstein's notation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims
from forge.ops.core.broadcast import common_size
from forge.ops.core.composer import Composer
from forge.ops.core.inference import fail, same_dtype
from forge.ops.core.lowering import wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values

Labels = tuple[str, ...]
_ITEM = re.compile(r"\.\.\.|[A-Za-z]")
_EQUATION = re.compile(r"((?:[A-Za-z,]|\.\.\.)*)(?:->((?:[A-Za-z]|\.\.\.)*))?")


@dataclass(frozen=True)
class EinsumAttrs:
    equation: str


@register
class Einsum(Op[EinsumAttrs]):
    """``out[labels of the result] = sum over all other labels of the product of the operands, each at its own labels``.

    ``equation`` is NumPy's: "ij,jk->ik". An ellipsis stands for leading axes, which broadcast; a label that occurs twice in an
    operand reads its diagonal; sizes of a label are equal, or 1. Without "->" the result has the ellipsis, then the labels that
    occur once, in alphabetical order. Operands are multiplied from left to right, each pair as one matrix product. float16 and
    bfloat16 are accumulated in float32.
    """

    name = "einsum"
    operands = (Operand("operands", variadic=True, accepts="numeric or complex"),)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    category = Category.CONTRACTION

    def infer(self, attrs: EinsumAttrs, *operands: Value) -> Types:
        if not operands:
            raise fail(self.name, "operands", "none", "at least one")
        dtype = same_dtype(self.name, operands)
        terms, result = parse(attrs.equation, [v.rank for v in operands])
        sizes = _sizes(terms, [v.shape for v in operands])
        return [TensorType(tuple(sizes[label] for label in result), dtype)]

    def reference(self, attrs: EinsumAttrs, *operands: Array) -> Arrays:
        terms, result = parse(attrs.equation, [x.ndim for x in operands])
        numbers = {label: k for k, label in enumerate(dict.fromkeys(label for term in terms for label in term))}
        pairs = [part for x, term in zip(operands, terms) for part in (wide(x), [numbers[label] for label in term])]
        found = np.einsum(*pairs, [numbers[label] for label in result])
        return [np.asarray(found).astype(operands[0].dtype)]

    def decompose(self, builder: Builder, attrs: EinsumAttrs, *operands: Value) -> Values:
        return [_composed(Composer(builder), list(operands), attrs.equation)]

    def flops(self, attrs: EinsumAttrs, results: TensorTypes, *operands: Value) -> Dim:
        terms, _ = parse(attrs.equation, [v.rank for v in operands])
        return len(operands) * dims.product(_sizes(terms, [v.shape for v in operands]).values())


@dataclass(frozen=True)
class Labelled:
    """A tensor with a label for each axis; axes under an ellipsis have numbers, counted from the last one."""

    value: Value
    labels: Labels


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Labels of the operands and of the result.

    Raises:
        TypeInferenceError: the equation does not fit the operands.
    """
    match = _EQUATION.fullmatch(equation.replace(" ", ""))
    texts = match.group(1).split(",") if match else []
    if match is None or len(texts) != len(ranks):
        raise fail("einsum", "equation", repr(equation), f"labels of {len(ranks)} operands, such as 'ij,jk->ik'")
    terms = [_labels(text, rank) for text, rank in zip(texts, ranks)]
    letters = [label for term in terms for label in term]
    covered = sorted({label for label in letters if not label.isalpha()}, key=int, reverse=True)
    if match.group(2) is None:
        return terms, (*covered, *sorted(label for label in letters if label.isalpha() and letters.count(label) == 1))
    result = _ITEM.findall(match.group(2))
    expanded = [label for item in result for label in (covered if item == "..." else [item])]
    if len(set(expanded)) != len(expanded) or not set(expanded) <= set(letters):
        raise fail("einsum", "equation", repr(equation), "each label of the result once, and in an operand")
    return terms, tuple(expanded)


def _labels(text: str, rank: int) -> Labels:
    items = _ITEM.findall(text)
    hidden = rank - len(items) + 1
    if items.count("...") > 1 or (hidden < 0 if "..." in items else len(items) != rank):
        raise fail("einsum", f"labels of an operand of rank {rank}", repr(text), "one for each axis")
    numbers = [str(i) for i in reversed(range(hidden))]
    return tuple(label for item in items for label in (numbers if item == "..." else [item]))


def _sizes(terms: Sequence[Labels], shapes: Sequence[Sequence[Dim]]) -> dict[str, Dim]:
    """The size of each label.

    Raises:
        TypeInferenceError: two sizes of a label are certainly different, and neither is 1.
    """
    found: dict[str, list[Dim]] = {}
    for labels, shape in zip(terms, shapes):
        for label, size in zip(labels, shape):
            found.setdefault(label, []).append(size)
    common = {label: common_size(sizes) for label, sizes in found.items()}
    for label, sizes in found.items():
        for size in sizes:
            if not (isinstance(size, int) and size == 1) and dims.different(size, common[label]):
                raise fail("einsum", f"sizes of label {label!r}", f"{size} and {common[label]}", "equal ones, or 1")
    return common


def _composed(g: Composer, values: Values, equation: str) -> Value:
    terms, result = parse(equation, [v.rank for v in values])
    operands = [_without_repeats(g, Labelled(v, t)) for v, t in zip(values, terms)]
    operands = _with_common_sizes(g, operands)
    total = _summed(g, operands[0], [result, *(o.labels for o in operands[1:])])
    for position, operand in enumerate(operands[1:], 2):
        later = [o.labels for o in operands[position:]]
        right = _summed(g, operand, [result, total.labels, *later])
        total = _product(g, total, right, {label for labels in (result, *later) for label in labels})
    return _transposed(g, total, result)


def _without_repeats(g: Composer, operand: Labelled) -> Labelled:
    """The diagonal of axes with equal labels."""
    value, labels = operand.value, list(operand.labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            mask = _on_diagonal(g, value, first, second)
            chosen = g.call("where", mask, value, g.scalar(0, value))
            value = g.call("sum", chosen, axis=(second,), keepdims=False)
            del labels[second]
    return Labelled(value, tuple(labels))


def _on_diagonal(g: Composer, x: Value, first: int, second: int) -> Value:
    """Whether the indices along two axes are equal, in a shape that broadcasts against ``x``."""
    shapes = [[x.shape[axis] if i == axis else 1 for i in range(x.rank)] for axis in (first, second)]
    places = (g.reshape(g.count(g.extent(x, axis)), shape) for axis, shape in zip((first, second), shapes))
    return g.call("equal", *places)


def _with_common_sizes(g: Composer, operands: Sequence[Labelled]) -> list[Labelled]:
    """Operands broadcast so that equal labels have equal sizes."""
    common = _sizes([o.labels for o in operands], [o.value.shape for o in operands])
    wide = []
    for operand in operands:
        shape = tuple(common[label] for label in operand.labels)
        same = all(dims.equal(a, b) for a, b in zip(shape, operand.value.shape))
        wide.append(operand if same else Labelled(g.call("broadcast_to", operand.value, shape=shape), operand.labels))
    return wide


def _summed(g: Composer, operand: Labelled, used: Sequence[Sequence[str]]) -> Labelled:
    """The sum over axes whose labels nothing else uses."""
    needed = {label for labels in used for label in labels}
    axes = tuple(i for i, label in enumerate(operand.labels) if label not in needed)
    if not axes:
        return operand
    kept = tuple(label for label in operand.labels if label in needed)
    return Labelled(g.call("sum", operand.value, axis=axes, keepdims=False), kept)


def _product(g: Composer, a: Labelled, b: Labelled, needed: set[str]) -> Labelled:
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


def _grouped(g: Composer, operand: Labelled, batch: Sequence[str], first: Sequence[str], second: Sequence[str]) -> Value:
    """A stack of matrices: the batch axes, then two axes, each made of a group of axes."""
    sizes = dict(zip(operand.labels, operand.value.shape))
    moved = _transposed(g, operand, (*batch, *first, *second))
    groups = (dims.product(sizes[label] for label in group) for group in (first, second))
    return g.reshape(moved, [*(sizes[label] for label in batch), *groups])


def _transposed(g: Composer, operand: Labelled, labels: Sequence[str]) -> Value:
    if tuple(labels) == operand.labels:
        return operand.value
    return g.call("transpose", operand.value, axes=tuple(operand.labels.index(label) for label in labels))
