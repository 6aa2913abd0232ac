"""Another batch for a model: its elements are followed from the inputs through all nodes, and must never mix.

Where the batch goes is a fact of the operator (`OpDef.carry_batch`). A model that was made for one batch size gets a symbol for
it first: types follow, target shapes get the symbol where the batch goes, and constants that are the same for every element are
repeated. Rows of all elements may be listed one after the other (windows of an image, heads of attention).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim, DimExpr
from forge.errors import ForgeError, InvalidGraphError, TypeInferenceError
from forge.ir import types as T
from forge.ir.batch import Batch, MixesBatch, through_reshape
from forge.ir.builder import Builder, infer
from forge.ir.call import CALL, result_types
from forge.ir.edits.follow import BatchFollower
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.op import OpDef
from forge.ir.retype import infer_again, substitute_in_graph

MAX_CHOICES = 64
"""Of axes of constants that are tried for one node."""
_INLINE = "call inline_partitions() first"
_LOAD = "give the size when the model is loaded: from_onnx(shape=...)"
_EXPORT = "export the model with a symbolic batch dimension"


def check_batch(module: Module, inputs: Sequence[Value], size: Dim) -> None:
    """Refuses a model of symbolic batch that combines elements.

    Such a model itself tells what it computes for each size: what moves elements, or may mix them, is left to it.

    Args:
        inputs: of ``main``; those with an axis of ``size`` have the batch there.

    Raises:
        ValueError: elements of the batch mix; the message names the node.
    """
    starts = {v: Batch(v.shape.index(size)) for v in inputs if isinstance(v.type, T.TensorType) and size in v.shape}
    _Check(module, starts).run(module.main)


def replace_batch(module: Module, inputs: Sequence[Value], old: int, new: int) -> Module:
    """A copy whose inputs with first dimension ``old`` have ``new`` instead; types of all values follow.

    Target shapes (``reshape``, ``broadcast_to``) get the new size. A constant that is the same for every element of the old batch
    (an initial state, a class token) is repeated for the new one.

    Raises:
        ValueError: an operator does not allow the new batch, or mixes its elements; the message names the node.
    """
    return _Change(module.copy(), old).run_for({v.name for v in inputs}, new)


class _Walk(BatchFollower):
    """Goes through the nodes of graphs; called functions say what they do with the batch."""

    def __init__(self, module: Module, batches: Mapping[Value, Batch]) -> None:
        super().__init__(batches)
        self.module = module
        self.called: dict[str, tuple[list[int | None], list[Batch | None]]] = {}

    def run(self, graph: Graph) -> None:
        for node in list(graph.nodes):
            if any(v in self.batches for v in node.operands):
                self.visit(node)

    def visit(self, node: Node) -> None:
        raise NotImplementedError

    def prepare(self, function: Graph, axes: Sequence[int | None]) -> None:
        """Before the nodes of a function are visited, whose inputs have the batch at ``axes``."""

    def follow_any(self, node: Node) -> None:
        if node.op_def is CALL:
            self._follow_call(node)
        else:
            self.follow(node)

    def _follow_call(self, node: Node) -> None:
        """In the function, an axis of the batch is one of rows, however they are listed outside."""
        given = [None if v is None else self.batches.get(v) for v in node.operands]
        axes = [None if b is None else b.axis for b in given]
        name = node.attrs.function
        if name not in self.called:
            function = self.module.graphs[name]
            self.prepare(function, axes)
            self.batches.update({v: Batch(a) for v, a in zip(function.inputs, axes) if a is not None})
            self.run(function)
            self.called[name] = (axes, [self.batches.get(v) for v in function.outputs])
        known, results = self.called[name]
        listed = {(b.before, b.after) for b in given if b is not None}
        if known != axes or len(listed) > 1:
            raise MixesBatch(f"calls @{name} with the batch at other axes than elsewhere; {_INLINE}", certain=False)
        (rows,) = {dataclasses.replace(b, axis=0) for b in given if b is not None}
        self.batches.update({v: b.inside(rows) for v, b in zip(node.results, results) if b is not None})


class _Check(_Walk):
    def visit(self, node: Node) -> None:
        try:
            self.follow_any(node)
        except MixesBatch as error:
            if error.certain:
                raise _mixing(node, error) from error


def _mixing(node: Node, error: MixesBatch) -> ValueError:
    verb, advice = ("mixes", _LOAD) if error.certain else ("may mix", _EXPORT)
    return ValueError(f"set_batch_size: node {node.label}: {verb} elements of the batch ({error}); {advice}")


class _Change(_Walk):
    def __init__(self, module: Module, old: int) -> None:
        super().__init__(module, {})
        self.old = old
        self.symbol = _unused_symbol(module)
        self.before: dict[Value, T.TensorType] = {}  # types of what has changed
        self.repeated: dict[Node, _Repeated] = {}  # by the nodes that stand for them
        self.changed: list[Graph] = []

    def run_for(self, names: set[str], new: int) -> Module:
        main = self.module.main
        for value in main.inputs:
            if value.name in names and isinstance(value.type, T.TensorType) and value.shape[:1] == (self.old,):
                self._widen(value, 0)
                self.batches[value] = Batch(0)
        self.changed.append(main)
        self.run(main)
        for graph in self.changed:
            substitute_in_graph(graph, {str(self.symbol): new})
        for node, constant in self.repeated.items():
            self._write_constant(node, constant, new)
        return self.module

    def _widen(self, value: Value, axis: int) -> None:
        self.before[value] = value.tensor_type
        size = _scaled(value.shape[axis], self.old, self.symbol)
        if size is None:
            raise InvalidGraphError(f"%{value.name}: axis {axis} of {value.type} is not a multiple of the batch {self.old}")
        value.type = T.TensorType((*value.shape[:axis], size, *value.shape[axis + 1 :]), value.dtype)

    def prepare(self, function: Graph, axes: Sequence[int | None]) -> None:
        self.changed.append(function)
        for value, axis in zip(function.inputs, axes):
            if axis is not None and isinstance(value.shape[axis], int):
                self._widen(value, axis)

    def visit(self, node: Node) -> None:
        """Gives the node's results their new types, by the first way that the operator allows."""
        attrs, types = node.attrs, [v.type for v in node.results]
        failures: list[ForgeError] = []
        for attempt in (self.with_new_shape, self.with_wider_constants):
            try:
                attempt(node)
                changed = infer_again(node)
                break
            except ForgeError as error:
                failures.append(error)
                node.attrs = attrs
        else:
            raise self._refused(node, failures[0])
        self.before.update({v: old for v in changed if isinstance(old := types[v.index], T.TensorType)})
        try:
            if node.op_def is not CALL:
                self.follow(node)
        except MixesBatch as error:
            raise self._refused(node, error) from error

    def _refused(self, node: Node, error: ForgeError) -> ValueError:
        what = f"set_batch_size: node {node.label}"
        if isinstance(error, MixesBatch):
            return _mixing(node, error)
        return ValueError(f"{what} fixes the batch size {self.old} ({error}); {_EXPORT}")

    def with_new_shape(self, node: Node) -> None:
        """Target shapes have the new size where the batch goes; calls return what their function does now."""
        attrs: Any = node.attrs
        if node.op_def is CALL:
            self._follow_call(node)
            node.attrs = dataclasses.replace(attrs, results=self._result_types(node))
            return
        name = node.op_def.target_shape
        source = node.operands[0] if name else None
        if source is None or source not in self.batches or getattr(attrs, name) is None:
            return
        target = node.result.shape
        axis = self._target_axis(node, source, target)
        entries = list(getattr(attrs, name))
        if len(entries) == len(target) and entries[axis] == target[axis]:
            entries[axis] = _scaled(target[axis], self.old, self.symbol)
        node.attrs = dataclasses.replace(attrs, **{name: tuple(entries)})

    def _result_types(self, node: Node) -> tuple[T.Type, ...]:
        attrs: Any = node.attrs
        try:
            return result_types(attrs.function, self.module.graphs[attrs.function], node.operands)
        except TypeInferenceError as error:
            raise InvalidGraphError(f"{error}; {_INLINE}") from error

    def _target_axis(self, node: Node, source: Value, target: tuple[Dim, ...]) -> int:
        """Where the batch goes in a target shape for the old size."""
        batch, old = self.batches[source], self.before[source]
        if not node.op_def.is_view:
            return len(target) - source.rank + batch.axis
        found = through_reshape(old.shape, batch, target)
        if found.before == 1 and (found.after == 1 or found.axis == 0):
            return found.axis
        shape = T.TensorType(target, source.dtype)
        raise InvalidGraphError(f"{node.op}: got {old} to {shape}; expected a shape in which the batch can be recognized")

    def with_wider_constants(self, node: Node) -> None:
        """Constants with the old batch along an axis, and the same contents all along it, have the new one there.

        Raises:
            InvalidGraphError: the operands do not fit whatever the axes are.
        """
        listed = next(dataclasses.replace(self.batches[v], axis=0) for v in node.operands if v in self.batches)
        wider = [[None, *self._repetitions(value, listed)] for value in node.operands]
        for choice in itertools.islice(itertools.product(*wider), 1, MAX_CHOICES):
            trial = [v if c is None else Value(T.TensorType(c.shape, c.dtype)) for v, c in zip(node.operands, choice)]
            try:
                infer(node.op_def, trial, node.attrs, node.regions)
            except ForgeError:
                continue
            for position, chosen in enumerate(choice):
                if chosen is not None:
                    self._stand_in(node, position, chosen)
            return
        raise InvalidGraphError(f"node {node.label}: no constant operand can be repeated along the batch")

    def _repetitions(self, value: Value | None, rows: Batch) -> Iterator[_Repeated]:
        """What a constant can become, for each axis that may hold the batch, in the order ``rows``."""
        array = None if value is None else value.constant
        if value is None or array is None or not (isinstance(rows.before, int) and isinstance(rows.after, int)):
            return
        for axis, size in enumerate(array.shape):
            if size == rows.before * self.old * rows.after:
                front, behind = array.shape[:axis], array.shape[axis + 1 :]
                apart = array.reshape(*front, rows.before, self.old, rows.after, *behind)
                one = apart.take([0], axis + 1)
                if bool((apart == one).all()):
                    yield _Repeated(one, axis + 1, (*front, rows.before * rows.after * self.symbol, *behind), value.dtype)

    def _stand_in(self, node: Node, position: int, constant: _Repeated) -> None:
        """Puts a value of the constant's type there until the size is known."""
        graph, old = node.graph, node.operands[position]
        assert graph is not None and old is not None and old.producer is not None
        attrs = _StandInAttrs(constant.shape, constant.dtype)
        stand_in = Node(_STAND_IN, [], attrs, _STAND_IN.infer(attrs))
        graph.insert(stand_in, node)
        node.set_operand(position, stand_in.result)
        self.repeated[stand_in] = constant
        if not graph.use_count(old):
            graph.remove(old.producer)

    def _write_constant(self, stand_in: Node, constant: _Repeated, new: int) -> None:
        graph = stand_in.graph
        assert graph is not None
        array = np.repeat(constant.one, new, constant.axis).reshape(stand_in.result.shape)
        graph.replace_uses(stand_in.result, Builder(graph, before=stand_in).constant(array))
        graph.remove(stand_in)


@dataclasses.dataclass(frozen=True, eq=False)
class _Repeated:
    """A constant that is repeated for each element of the batch: ``one`` along ``axis``; together it has ``shape``."""

    one: np.ndarray
    axis: int
    shape: tuple[Dim, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class _StandInAttrs:
    shape: tuple[Dim, ...]
    dtype: str


class _StandIn(OpDef[_StandInAttrs]):
    """A constant whose size is not known yet."""

    name = "stand_in"
    Attrs = _StandInAttrs

    def infer(self, attrs: _StandInAttrs, *operands: Value | None) -> Sequence[T.Type]:
        return [T.TensorType(attrs.shape, attrs.dtype)]


_STAND_IN = _StandIn()


def _unused_symbol(module: Module) -> DimExpr:
    taken = {s for g in module.graphs.values() for v in g.values() for s in T.symbols(v.type)}
    return dims.symbol(next(n for k in itertools.count() if (n := "batch" + "_" * k) not in taken))


def _scaled(size: Dim, old: int, new: Dim) -> Any:
    """``size`` for the new batch; None where it is not a multiple of the old one."""
    return dims.floordiv(size, old) * new if dims.equal(dims.floormod(size, old), 0) else None
