"""Operators without a row, out of their tensor expressions.

A compute is evaluated at all points of its domain at once: an axis is a range along a dimension of its own, arithmetic
broadcasts, a read at the axes themselves is a transpose, any other read gathers from the flattened tensor, and a reduction is
one over the last dimensions. What is known when the model is exported, positions above all, becomes a constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.core import arithmetic
from forge.exporters.onnx.operators.reduce.reduction import REDUCTIONS
from forge.ir.nodes import Node
from forge.ops.core.lowering import as_dim
from forge.ops.core.op import Op
from forge.te import Tensor
from forge.tir import evaluate as numpy_meaning
from forge.tir import expr as E

MAX_FOLDED = 1 << 16
"""Elements of a constant that is made of positions."""
MAX_NODES = 4000
Known = np.ndarray[Any, Any]
Contents = Ref | Known
_REDUCE = {**REDUCTIONS, "and": REDUCTIONS["all"], "or": REDUCTIONS["any"]}


def export(g: Emitter, node: Node) -> list[Ref]:
    """The results of a node by the tensor expressions of its operator.

    Raises:
        OpNotImplemented: it has none, or they hold what ONNX lacks.
    """
    op = node.op_def
    if not isinstance(op, Op) or type(op).lower is Op.lower or not _has_expressions(node):
        raise g.unsupported("ONNX has no such operator")
    operands = [None if v is None else te.placeholder(v.shape, v.dtype, f"x{k}") for k, v in enumerate(node.operands)]
    known = {p: g.ref(v) for p, v in zip(operands, node.operands, strict=True) if p is not None and v is not None}
    types = [v.tensor_type for v in node.results]
    writer = _Writer(g, known)
    for name, definition in op.define_symbols(node.attrs, types, *op.arguments(operands)).items():
        g.sizes[dims.symbol(name)] = writer.size(definition)
    try:
        tensors = op.lower(node.attrs, types, *op.arguments(operands))
    except NotImplementedError as error:
        raise g.unsupported("ONNX has no such operator") from error
    return [writer.tensor(t) for t in tensors]


def _has_expressions(node: Node) -> bool:
    """Whether all operands and results are tensors of real numbers or bools."""
    values = [*node.results, *(v for v in node.operands if v is not None)]
    return all(hasattr(v.type, "shape") and not dtypes.is_complex(v.dtype) and v.dtype != "string" for v in values)


class _Writer:
    """Writes tensors of one node, each once."""

    def __init__(self, g: Emitter, known: dict[Tensor, Ref]) -> None:
        self.g = g
        self.known = known
        self.first = len(g.nodes)
        self.flat: dict[Tensor, Ref] = {}

    def tensor(self, tensor: Tensor) -> Ref:
        if tensor not in self.known:
            if tensor.axes is None or tensor.body is None:
                raise self.g.unsupported(f"nothing gives the contents of {tensor.name}")
            self.known[tensor] = self._compute(tensor, tensor.axes, tensor.body)
        return self.known[tensor]

    def size(self, x: E.Expr) -> Ref:
        """An expression over symbols and elements at constant indices, as a vector of one element."""
        return self.g.op("Reshape", self.g.cast(self.ref(_Points(self, ()).value(x)), "int64"), self.g.ints([1]))

    def ref(self, contents: Contents) -> Ref:
        return contents if isinstance(contents, Ref) else self.g.const(contents)

    def extents(self, shape: Sequence[E.Expr]) -> Ref:
        """Sizes as a vector."""
        try:
            return self.g.dims([as_dim(e) for e in shape])
        except TypeError:
            return self.g.concat([self.size(e) for e in shape], 0)

    def _compute(self, tensor: Tensor, axes: tuple[E.Var, ...], body: E.Expr) -> Ref:
        g = self.g
        reduction = body if isinstance(body, E.Reduce) else None
        inner = () if reduction is None else reduction.axes
        domain = [*zip(axes, tensor.shape, strict=True), *((a.var, a.extent) for a in inner)]
        points = _Points(self, tuple(domain))
        value = self.ref(points.value(body if reduction is None else reduction.x))
        if domain:
            value = g.op("Expand", value, self.extents([extent for _, extent in domain]))
        if reduction is not None:
            places = g.ints(range(len(axes), len(domain)))
            wide = dtypes.is_float(value.dtype) and dtypes.bits(value.dtype) <= 16
            reduced = g.op(_REDUCE[reduction.kind], g.cast(value, "float32") if wide else value, places, keepdims=0)
            value = g.cast(reduced, tensor.dtype)
        return value


class _Points:
    """The values of expressions at all points of a domain: scalars, or tensors with a dimension for each axis."""

    def __init__(self, writer: _Writer, domain: tuple[tuple[E.Var, E.Expr], ...]) -> None:
        self.writer = writer
        self.g = writer.g
        self.domain = domain
        self.places = {variable: k for k, (variable, _) in enumerate(domain)}
        self.done: dict[E.Expr, Contents] = {}

    def value(self, x: E.Expr) -> Contents:
        """The values of ``x``; sub-expressions that are shared are written once, and none recursively."""
        stack = [x]
        while stack:
            e = stack[-1]
            waiting = [] if e in self.done else [c for c in E.children(e) if c not in self.done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if e not in self.done:
                self.done[e] = self._apply(e)
                if len(self.g.nodes) - self.writer.first > MAX_NODES:
                    raise self.g.unsupported(f"its expressions take more than {MAX_NODES} ONNX nodes")
        return self.done[x]

    def _apply(self, x: E.Expr) -> Contents:
        g = self.g
        match x:
            case E.Const(value=value):
                return np.asarray(value, dtypes.numpy_dtype(x.dtype))
            case E.Var():
                return self._variable(x)
            case E.Read(tensor=tensor, indices=indices):
                return self._read(tensor, indices)
        given = [self.done[c] for c in E.children(x)]
        known = [v for v in given if isinstance(v, np.ndarray)]
        if len(known) == len(given) and math.prod(np.broadcast_shapes(*(v.shape for v in known))) <= MAX_FOLDED:
            return self._folded(x, known)
        refs = [self.writer.ref(v) for v in given]
        match x:
            case E.Cast():
                return g.cast(refs[0], x.dtype)
            case E.Select():
                return g.op("Where", *refs)
            case E.Binary(op=name) | E.Compare(op=name) | E.Call(name=name):
                return arithmetic.call(g, name, refs, x.dtype)
        raise g.unsupported(f"{type(x).__name__} has no meaning in ONNX")

    @staticmethod
    def _folded(x: E.Expr, given: Sequence[Known]) -> Known:
        """The values of ``x`` for known ones of its parts, by NumPy."""
        parts = [te.placeholder(v.shape, dtypes.canonical(v.dtype), f"p{k}") for k, v in enumerate(given)]
        shape = np.broadcast_shapes(*(v.shape for v in given))

        def body(*i: E.Expr) -> E.Expr:
            return E.rebuild(x, [te.broadcast_read(p, i) for p in parts])

        with np.errstate(all="ignore"):
            return numpy_meaning.evaluate(te.compute(shape, body), dict(zip(parts, given, strict=True)))

    def _variable(self, x: E.Var) -> Contents:
        g = self.g
        if x not in self.places:
            return g.scalar(g.size(dims.symbol(x.name)))
        place = self.places[x]
        extent = self.domain[place][1]
        view = [1] * len(self.domain)
        if isinstance(extent, E.Const):
            view[place] = int(extent.value)  # type: ignore[arg-type]
            return np.arange(view[place], dtype=np.int64).reshape(view)
        view[place] = -1
        count = g.scalar(self.writer.extents([extent]))
        places = g.op("Range", g.const(0, "int64"), count, g.const(1, "int64"))
        return g.op("Reshape", places, g.ints(view))

    def _read(self, tensor: Tensor, indices: tuple[E.Expr, ...]) -> Contents:
        source = self.writer.tensor(tensor)
        if not indices:
            return source
        axes = [self.places.get(i) if isinstance(i, E.Var) else None for i in indices]
        if self._is_view(tensor, indices, axes):
            return self._view(source, axes)
        return self._gathered(tensor, source, indices)

    def _is_view(self, tensor: Tensor, indices: tuple[E.Expr, ...], axes: Sequence[int | None]) -> bool:
        """Whether each index is an axis of the extent of the dimension, all of them different, or 0 in a dimension of 1."""
        used = [a for a in axes if a is not None]
        return len(set(used)) == len(used) and all(
            E.is_const(i, 0) and E.is_const(extent, 1) if a is None else _equal(self.domain[a][1], extent)
            for i, a, extent in zip(indices, axes, tensor.shape)
        )

    def _view(self, source: Ref, axes: Sequence[int | None]) -> Ref:
        g = self.g
        single = [k for k, a in enumerate(axes) if a is None]
        used = [a for a in axes if a is not None]
        order = sorted(used)
        moved = g.transpose(g.squeeze(source, *single), [used.index(a) for a in order])
        return g.unsqueeze(moved, *(k for k in range(len(self.domain)) if k not in order))

    def _gathered(self, tensor: Tensor, source: Ref, indices: tuple[E.Expr, ...]) -> Ref:
        g = self.g
        if tensor not in self.writer.flat:
            self.writer.flat[tensor] = g.op("Reshape", source, g.ints([-1]))
        flat: Contents = np.asarray(0, np.int64)
        for index, extent in zip(indices, tensor.shape, strict=True):
            flat = self._plus(self._times(flat, _Points(self.writer, ()).value(extent)), self.done[index])
        return g.op("Gather", self.writer.flat[tensor], self.writer.ref(flat))

    def _times(self, a: Contents, b: Contents) -> Contents:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return np.asarray(a * b)
        return a if isinstance(a, np.ndarray) and not a.any() else self._op("Mul", a, b)

    def _plus(self, a: Contents, b: Contents) -> Contents:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            shape = np.broadcast_shapes(a.shape, b.shape)
            if math.prod(shape) <= MAX_FOLDED:
                return np.asarray(a + b)
        if isinstance(a, np.ndarray) and not a.any():
            return b
        return self._op("Add", a, b)

    def _op(self, op: str, *x: Contents) -> Ref:
        return self.g.op(op, *(self.writer.ref(v) for v in x))


def _equal(a: E.Expr, b: E.Expr) -> bool:
    """Whether two extents are provably equal."""
    if a is b:
        return True
    try:
        sizes: list[Dim] = [as_dim(a), as_dim(b)]
    except TypeError:
        return False
    return dims.equal(*sizes)
