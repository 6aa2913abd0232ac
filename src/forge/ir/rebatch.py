"""Another batch for a model that was made for one: the change of the inputs is carried through all nodes.

Types alone do not tell where the batch is. Followed is the axis whose size has changed; a target shape gets the new size where
the elements in front of that axis are as many as before. Rows of all elements of the batch may be listed one after the other
(windows of an image, heads of attention): that is allowed as long as every operator on them works row by row. What cannot be told
is refused.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.errors import ForgeError, InvalidGraphError
from forge.ir import types as T
from forge.ir.builder import Builder, infer
from forge.ir.call import CALL, result_types
from forge.ir.nodes import Module, Node, Value
from forge.ir.retype import infer_again

MAX_CHOICES = 64
"""Of axes of constants that are tried for one node."""

_RESHAPES = ("reshape",)
_PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")
_ROW_BY_ROW = frozenset(
    "abs add cast clip copy divide equal erf exp greater less log logical_and logical_not logical_or maximum minimum multiply "
    "negative nn.bias_add nn.gelu nn.layer_norm nn.leaky_relu nn.relu nn.silu nn.softmax not_equal power reshape rsqrt sigmoid "
    "sqrt subtract tanh where".split()
) | {*_PRODUCTS}


def replace_batch(module: Module, inputs: Sequence[Value], old: int, new: int) -> Module:
    """A copy whose inputs with first dimension ``old`` have ``new`` instead; types of all values follow.

    Target shapes (``reshape``, ``broadcast_to``) get the new size. A constant that is the same for every element of the old batch
    (an initial state, a class token) is repeated for the new one.

    Raises:
        ValueError: an operator does not allow the new batch; the message names the node.
    """
    return _Change(module.copy(), old, new).run({v.name for v in inputs})


class _Change:
    def __init__(self, module: Module, old: int, new: int) -> None:
        self.module = module
        self.old = old
        self.new = new
        self.before: dict[Value, T.Type] = {}  # types of what has changed
        self.rows: set[Value] = set()  # of which the changed axis lists rows of all elements of the batch

    def run(self, inputs: set[str]) -> Module:
        for value in self.module.main.inputs:
            if value.name in inputs and value.shape[:1] == (self.old,):
                self.before[value] = value.type
                value.type = T.TensorType((self.new, *value.shape[1:]), value.dtype)
        for node in list(self.module.main.nodes):
            if any(v in self.before for v in node.operands):
                self.change(node)
        return self.module

    def change(self, node: Node) -> None:
        """Gives the node's results their new types, by the first way that the operator allows."""
        attrs, types = node.attrs, [v.type for v in node.results]
        failures: list[ForgeError] = []
        for attempt in (self.with_new_shape, self.with_wider_constants):
            try:
                self.check_rows(node)
                attempt(node)
                changed = infer_again(node)
                break
            except ForgeError as error:
                failures.append(error)
                node.attrs = attrs
        else:
            raise ValueError(
                f"set_batch_size: node {node.label} fixes the batch size {self.old} (attributes {attrs}); "
                f"export the model with a symbolic batch dimension ({failures[0]})"
            ) from failures[0]
        self.before.update({v: types[v.index] for v in changed})
        if node.op not in _RESHAPES and any(v in self.rows for v in node.operands):
            self.rows.update(changed)

    def check_rows(self, node: Node) -> None:
        """Raises InvalidGraphError where an operator may mix rows of different elements of the batch."""
        listed = [p for p, v in enumerate(node.operands) if v in self.rows]
        if listed and not _works_row_by_row(node, listed):
            raise InvalidGraphError(f"{node.op}: may mix rows of different elements of the batch")

    def with_new_shape(self, node: Node) -> None:
        """Target shapes have the new size where the batch goes; calls return what their function does now."""
        attrs: Any = node.attrs
        if node.op_def is CALL:
            results = result_types(attrs.function, self.module.graphs[attrs.function], node.operands)
            node.attrs = dataclasses.replace(attrs, results=results)
            return
        name = next((n for n in ("newshape", "shape") if isinstance(getattr(attrs, n, None), tuple)), None)
        source = node.operands[0] if node.operands else None
        if name is None or source is None or source not in self.before:
            return
        target = node.result.shape
        axis = self.target_axis(node, source, target)
        entries = list(getattr(attrs, name))
        size = _scaled(target[axis], self.old, self.new)
        if node.op in _RESHAPES and target[axis] != self.old:
            self.rows.add(node.result)
        if len(entries) == len(target) and entries[axis] == target[axis]:
            entries[axis] = size
        node.attrs = dataclasses.replace(attrs, **{name: tuple(entries)})
        types = infer(node.op_def, node.operands, node.attrs, node.regions)
        expected = T.TensorType((*target[:axis], size, *target[axis + 1 :]), node.result.dtype)
        if list(types) != [expected]:
            raise InvalidGraphError(f"{node.op}: got {types[0]}; expected {expected}")

    def target_axis(self, node: Node, source: Value, target: tuple[Dim, ...]) -> int:
        """Where the batch is in the target shape.

        Raises:
            InvalidGraphError: it cannot be told.
        """
        old = self.before[source]
        assert isinstance(old, T.TensorType)
        changed = [a for a, (x, y) in enumerate(zip(old.shape, source.shape)) if x != y]
        if len(changed) == 1 and node.op not in _RESHAPES:
            return len(target) - source.rank + changed[0]
        if len(changed) == 1:
            front = dims.product(old.shape[: changed[0]])
            places = [k for k in range(len(target)) if dims.equal(dims.product(target[:k]), front)]
            alone = [k for k in places if target[k] == self.old]
            rows = [k for k in places if k == 0 and _scaled(target[k], self.old, self.new) is not None]
            if alone or rows:
                return [*alone, *rows][0]
        shape = T.TensorType(target, source.dtype)
        raise InvalidGraphError(f"{node.op}: got {source.type} to {shape}; expected a shape in which the batch can be told")

    def with_wider_constants(self, node: Node) -> None:
        """Constants with the old batch along an axis, and the same contents all along it, have the new one there.

        Raises:
            InvalidGraphError: the operands do not fit whatever the axes are.
        """
        wider = [[None, *_repeated(value, self.old, self.new)] for value in node.operands]
        for choice in itertools.islice(itertools.product(*wider), 1, MAX_CHOICES):
            trial = Builder()
            operands = [v if a is None else trial.constant(a) for v, a in zip(node.operands, choice)]
            try:
                infer(node.op_def, operands, node.attrs, node.regions)
            except ForgeError:
                continue
            for position, array in enumerate(choice):
                if array is not None:
                    node.set_operand(position, Builder(node.graph, before=node).constant(array))
            return
        raise InvalidGraphError(f"node {node.label}: no constant operand can be repeated along the batch")


def _works_row_by_row(node: Node, listed: Sequence[int]) -> bool:
    """Whether each row of the results depends on the same row of operands at the positions ``listed``, and on whole others."""
    attrs: Any = node.attrs
    rank = max(v.rank for v in node.operands if v is not None)
    if node.op == "transpose":
        return bool(attrs.axes) and attrs.axes[0] in (0, -rank)
    if node.op in _PRODUCTS and rank == 2:
        return listed == [0] and not getattr(attrs, "transpose_a", False)
    return node.op in _ROW_BY_ROW and getattr(attrs, "axis", None) not in (0, -rank)


def _scaled(size: Dim, old: int, new: int) -> Any:
    """``size`` for the new batch; None where it is no multiple of the old one."""
    return dims.floordiv(size * new, old) if dims.equal(dims.floormod(size, old), 0) else None


def _repeated(value: Value | None, old: int, new: int) -> list[np.ndarray]:
    """The constant with ``new`` in the place of ``old``, for each axis along which that is possible."""
    array = None if value is None else value.constant
    if array is None:
        return []
    first = [(axis, array.take([0], axis)) for axis, size in enumerate(array.shape) if size == old]
    return [np.repeat(part, new, axis) for axis, part in first if bool((array == part).all())]


__all__ = ["replace_batch"]
