"""From a fusion group to a loop function: readers with prologues, writers with epilogues, then the kernel family or schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from forge import backend, dims, dtypes, te
from forge.errors import CompileError, ForgeError
from forge.ir.nodes import Node, Value
from forge.ir.op import Kind, Trait
from forge.ir.types import TensorType
from forge.loops.contract import KernelCall, Reader, Variant, Writer
from forge.lowering.groups import Group, scalar_constant
from forge.lowering.objects import place_of
from forge.lowering.sizes import Sizes
from forge.ops.core.op import Op
from forge.target import Target
from forge.tir import expr as E
from forge.tir import split_complex
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Function, Stmt, seq, store


def build_function(
    group: Group, name: str, target: Target, alignments: Mapping[Value, int], sizes: Sizes, typical: Mapping[str, int]
) -> Function:
    """Returns the kernel of ``group``: parameters are its external operands, then the results of its sink; scalars its ``sizes``.

    ``alignments``: known ones of the parameters. ``typical``: what cost models assume for symbols of the graph.

    Raises:
        CompileError: an operator of the group has no native lowering.
    """
    return _GroupBuilder(group, name, target, alignments, sizes, typical).build()


def find_variant(group: Group, target: Target, typical: Mapping[str, int]) -> Variant | None:
    """Returns the variant that calls of the kernel of ``group`` may share, where some of its sizes are known at run time only."""
    anchor, op = group.anchor, group.anchor.op_def
    choose = backend.families(target).variants.get(op.kernel or "") if isinstance(op, Op) else None
    computed = {v for node in group.inlined for v in node.results}
    elementwise = all(node.op_def.kind is Kind.ELEMENTWISE for node in group.nodes if node is not anchor)
    if choose is None or not elementwise or not computed.isdisjoint(anchor.operands):
        return None
    builder = _GroupBuilder(group, anchor.op, target, {}, Sizes(), typical)
    call = builder.call()
    return choose(call) if call.scalars else None


class _GroupBuilder:
    def __init__(self, group: Group, name: str, target: Target, alignments: Mapping[Value, int], sizes: Sizes,
                 typical: Mapping[str, int]) -> None:
        self.group = group
        self.name = name
        self.target = target
        self.alignments = alignments
        self.sizes = sizes
        self.typical = typical
        self.inlined = {node.results[0]: node for node in group.inlined}
        self.buffers: dict[Value, Buffer] = {}
        self.cache: dict[Node, tuple[te.Tensor, dict[te.Tensor, Value]]] = {}
        self.known_reads: dict[tuple[Value, tuple[Expr, ...], Expr | None], Expr] = {}

    def call(self) -> KernelCall:
        """What the family is given."""
        group = self.group
        for k, value in enumerate(group.external_operands()):
            self.buffers[value] = self._buffer(f"in{k}", value, writable=False)
        for k, value in enumerate(group.sink.results):
            self.buffers[value] = self._buffer(f"out{k}", value, writable=True)
        anchor = group.anchor
        return KernelCall(
            name=self.name,
            operator=anchor.op,
            attrs=self.sizes.of_attributes(anchor),
            operands=tuple(None if v is None else self.reader(v) for v in anchor.operands),
            results=tuple(self.writer(v) for v in anchor.results),
            buffers=tuple(self.buffers.values()),
            scalars=tuple(map(te.symbol_var, self.sizes.names)),
            target=self.target,
            in_place=group.updated is not None,
            sizes=self.sizes.typical(self.typical),
            overwrites=bool(group.overwritten),
            numbers=tuple(map(te.dim, self.sizes.numbers)),
            place=place_of(anchor) if anchor.op_def.says_place else "",
        )

    def build(self) -> Function:
        anchor = self.group.anchor
        try:
            function = dataclasses.replace(self._generate(anchor, self.call()), aliases=self._aliases())
            return split_complex.run(function) if any(_has_complex(node) for node in self.group.nodes) else function
        except ForgeError:
            raise
        except (ValueError, TypeError, NotImplementedError, KeyError) as error:
            raise CompileError(f"lowering: node {anchor.name or anchor.op} ({anchor.op}): {error!r}") from error

    def _aliases(self) -> tuple[tuple[Buffer, Buffer], ...]:
        return tuple((self.buffers[v], self.buffers[self.group.sink.results[0]]) for v in self.group.overwritten)

    def _generate(self, anchor: Node, call: KernelCall) -> Function:
        op, families = anchor.op_def, backend.families(self.target)
        if not isinstance(op, Op):
            raise CompileError(f"lowering: operator {anchor.op} has no native code")
        if self._is_empty() and not op.traits & Trait.STATEFUL:
            return call.function(seq())
        if op.kernel is not None:
            if op.kernel not in families.builders:
                raise CompileError(f"lowering: operator {anchor.op} names kernel family {op.kernel!r}, which is not registered")
            if _has_complex(anchor) and op.kernel not in families.complex_numbers:
                raise CompileError(f"lowering: operator {anchor.op}: kernel family {op.kernel!r} got complex operands; "
                                   "expected real ones; run the pass decompose first")
            return families.builders[op.kernel](call)
        if call.in_place:
            placeholders = _placeholders(anchor, self.sizes)
            results = [self.sizes.of_tensor(v) for v in anchor.results]
            part = op.written(call.attrs, results, *op.arguments(placeholders))
            return families.update(call, placeholders, part.operand, part.begin, part.step)
        tensors, placeholders = _lower(anchor, self.sizes)
        return families.schedule(call, tensors, placeholders)

    def _is_empty(self) -> bool:
        """Whether there is nothing to compute: no element of the results, and no symbol that the kernel defines."""
        operands = [v for v in self.group.external_operands() if isinstance(v.type, TensorType)]
        known = dims.symbols(*(d for v in operands for d in v.shape))
        results = self.group.sink.results
        return all(0 in v.shape and set(dims.symbols(*v.shape)) <= set(known) for v in results)

    def _buffer(self, name: str, value: Value, writable: bool) -> Buffer:
        type_ = self.sizes.of_tensor(value)
        whole = value in self.group.numbers and is_whole(value)
        shape = te.shape_of(type_.shape)
        return Buffer(name, type_.dtype, shape, alignment=self.alignments.get(value, 0), writable=writable, whole=whole)

    def reader(self, value: Value) -> Reader:
        type_ = self.sizes.of_tensor(value)
        buffer = self.buffers.get(value)
        return Reader(te.shape_of(type_.shape), type_.dtype, lambda indices, mask=None: self.read(value, indices, mask), buffer)

    def read(self, value: Value, indices: Sequence[Expr], mask: Expr | None) -> Expr:
        """The value at ``indices``; inlined producers are computed in place. Equal reads are one expression."""
        key = (value, tuple(indices), mask)
        if key not in self.known_reads:
            self.known_reads[key] = self._read(value, indices, mask)
        return self.known_reads[key]

    def _read(self, value: Value, indices: Sequence[Expr], mask: Expr | None) -> Expr:
        if value in self.buffers:
            buffer = self.buffers[value]
            index = buffer.offset(*indices)
            if value in self.sizes.presence:
                index = _first_unless(te.dim(self.sizes.presence[value]), index)
            return E.load(buffer, index, _widen(mask, index))
        literal = scalar_constant(value)
        if literal is not None:
            return E.const(literal, value.dtype)
        tensor, sources = self._lowered(self.inlined[value])
        return expand(tensor, indices, lambda t, i: self.read(sources[t], i, mask))

    def _lowered(self, node: Node) -> tuple[te.Tensor, dict[te.Tensor, Value]]:
        """What ``node`` computes, and the values that placeholders in it stand for."""
        if node not in self.cache:
            tensors, placeholders = _lower(node, self.sizes)
            self.cache[node] = tensors[0], {p: v for p, v in zip(placeholders, node.operands) if p is not None and v is not None}
        return self.cache[node]

    def writer(self, value: Value) -> Writer:
        type_ = self.sizes.of_tensor(value)
        return Writer(te.shape_of(type_.shape), type_.dtype, lambda indices, x, mask=None: self.write(value, indices, x, mask),
                      self.buffers.get(value), self._joins(value))

    def _joins(self, value: Value) -> bool:
        """Whether all that the epilogue of ``value`` reads has either none of its axes 2 to -2, or all of them."""
        inner = value.shape[2:-1]

        def joins(other: Value) -> bool:
            own = ((1,) * (value.rank - other.rank) + other.shape)[2:-1]
            return other.rank != 1 and own in (inner, (1,) * len(inner)) or all(d == 1 for d in other.shape)

        others = [node for node in self.group.nodes if node is not self.group.anchor]
        read = [v for node in others for v in node.operands if v is not None]
        return all(node.op_def.kind is Kind.ELEMENTWISE for node in others) and all(map(joins, read))

    def write(self, value: Value, indices: Sequence[Expr], x: Expr, mask: Expr | None) -> Stmt:
        """Applies the epilogue to ``x``, the anchor's result at ``indices``, and stores."""
        for node in self.group.epilogue:
            x = self._apply(node, value, x, indices, mask)
            value = node.results[0]
        buffer = self.buffers[value]
        index = buffer.offset(*indices)
        return store(buffer, index, E.broadcast(x, index.lanes), _widen(mask, index))

    def _apply(self, node: Node, previous: Value, x: Expr, indices: Sequence[Expr], mask: Expr | None) -> Expr:
        tensor, sources = self._lowered(node)

        def source(placeholder: te.Tensor, at: Sequence[Expr]) -> Expr:
            operand = sources[placeholder]
            return x if operand is previous else self.read(operand, at, mask)

        return expand(tensor, indices, source)


def is_whole(value: Value) -> bool:
    """Returns whether a constant of one element of float32 is one of the numbers that bytes are, as zero points are."""
    number = None if value.constant is None or value.dtype != "float32" else float(value.constant.reshape(()))
    return number is not None and number.is_integer() and 0 <= number <= 255


def _has_complex(node: Node) -> bool:
    values = [v for v in (*node.operands, *node.results) if v is not None]
    return any(isinstance(v.type, TensorType) and dtypes.is_complex(v.type.dtype) for v in values)


def _widen(mask: Expr | None, index: Expr) -> Expr | None:
    """``mask`` with the lanes of ``index``; a single element that all lanes share is read where any lane is."""
    if mask is None or mask.lanes == index.lanes:
        return mask
    if mask.lanes == 1:
        return E.broadcast(mask, index.lanes)
    return None if isinstance(index, E.Const) else E.call("reduce_or", mask)


def _first_unless(present: Expr, index: Expr) -> Expr:
    """``index``, or the place of the first elements of a buffer where ``present`` is 0 and not 1."""
    if isinstance(index, E.Ramp) and E.is_const(index.stride, 1):
        return E.ramp(index.base * present, 1, index.lanes)
    return index * E.broadcast(present, index.lanes)


def _lower(node: Node, sizes: Sizes) -> tuple[Sequence[te.Tensor], tuple[te.Tensor | None, ...]]:
    """The operator's tensor expressions, and the placeholders that stand for its operands.

    Raises:
        CompileError: the operator has no lowering.
    """
    op = node.op_def
    placeholders = _placeholders(node, sizes)
    if not isinstance(op, Op):
        raise CompileError(f"lowering: operator {node.op} has no native code")
    results = [sizes.of_tensor(v) for v in node.results]
    try:
        return op.lower(sizes.of_attributes(node), results, *op.arguments(placeholders)), placeholders
    except NotImplementedError as error:
        raise CompileError(
            f"lowering: node {node.name or node.op}: operator {node.op} cannot be compiled for these operands "
            f"({', '.join(str(v.type) for v in node.operands if v is not None)}); run it with target='reference'"
        ) from error


def _placeholders(node: Node, sizes: Sizes) -> tuple[te.Tensor | None, ...]:
    """What stands for the operands in tensor expressions."""
    return tuple(None if v is None else te.placeholder(sizes.of_tensor(v).shape, v.dtype, f"{o}")
                 for o, v in enumerate(node.operands))


def expand(tensor: te.Tensor, indices: Sequence[Expr], source: Callable[[te.Tensor, Sequence[Expr]], Expr]) -> Expr:
    """Returns the body of ``tensor`` at ``indices``; intermediate computes are inlined, placeholders given to ``source``.

    A tensor read twice at the same place is expanded once, so expressions stay shared.
    """
    memo: dict[tuple[int, tuple[int, ...]], Expr] = {}

    def replace(inner: te.Tensor, at: tuple[Expr, ...]) -> Expr:
        key = (id(inner), tuple(id(i) for i in at))
        if key not in memo:
            memo[key] = source(inner, at) if inner.body is None else expand(inner, at, source)
        return memo[key]

    if tensor.body is None:
        return source(tensor, indices)
    return te.substitute_reads(te.inline(tensor, indices), replace)
