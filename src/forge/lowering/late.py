"""Sizes that are known only at run time: symbols that a node introduces, defined by the contents of its operands.

For each such node a small kernel evaluates the operator's ``define_symbols``, checks the values, and writes them; the entry then
binds the symbols and asks the host for memory of the sizes they give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from forge import dims, dtypes, te
from forge.errors import CompileError
from forge.ir import types
from forge.ir.nodes import Graph, Node, Value
from forge.ir.types import TensorType
from forge.lowering.groups import is_scalar_constant, is_view
from forge.ops.base import Op
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Fail, Function, If, Size, Stmt, seq, store

STATUS_VALUE = 5  # FORGE_ERROR_VALUE
LARGEST_EXTENT = 1 << 40


@dataclass(eq=False)
class Definition:
    """The symbols that ``node`` introduces. ``values`` are read; ``slot`` is where the sizes are written, one int64 each."""

    node: Node
    symbols: tuple[str, ...]
    expressions: tuple[Expr, ...]
    sources: Mapping[te.Tensor, Value]
    values: tuple[Value, ...] = ()
    slot: Value = field(init=False)

    def __post_init__(self) -> None:
        self.slot = Value(TensorType((len(self.symbols),), "int64"), "sizes")


def find_definitions(graph: Graph, known: Iterable[str]) -> list[Definition]:
    """Definitions of all symbols that ``graph`` introduces, in order.

    Raises:
        CompileError: an operator introduces a symbol that it does not define.
    """
    have = set(known)
    found = []
    for node in graph.nodes:
        fresh = list(dict.fromkeys(s for v in node.results for s in types.symbols(v.type) if s not in have))
        if fresh:
            found.append(_definition(node, fresh))
            have.update(fresh)
    return found


def _definition(node: Node, fresh: Sequence[str]) -> Definition:
    placeholders = [
        te.placeholder(v.shape, v.dtype, v.name or "x") if v is not None and isinstance(v.type, TensorType) else None
        for v in node.operands
    ]
    results = [v.type for v in node.results]
    defined: Mapping[str, Expr] = {}
    if isinstance(node.op_def, Op) and all(isinstance(t, TensorType) for t in results):
        defined = node.op_def.define_symbols(placeholders, node.attrs, [v.tensor_type for v in node.results])
    missing = [s for s in fresh if s not in defined]
    if missing:
        raise CompileError(
            f"compile: node {node.name or node.op} ({node.op}): the size {missing[0]!r} of its result is known only after it has "
            "run, which has no native code for this operator yet; run it with target='reference'"
        )
    sources = {p: v for p, v in zip(placeholders, node.operands) if p is not None and v is not None}
    expressions = tuple(defined[s] for s in fresh)
    read = {r.tensor for x in expressions for r in te.reads(x)}
    values = tuple(dict.fromkeys(v for p, v in sources.items() if p in read and not is_scalar_constant(v)))
    return Definition(node, tuple(fresh), expressions, sources, values)


def build_definition(definition: Definition, name: str) -> tuple[Function, list[Var]]:
    """The kernel that writes the sizes, and the symbols it needs as scalars.

    Its buffers are ``definition.values``, then the slot.
    """
    buffers = {v: Buffer(f"in{k}", v.dtype, te.shape_of(v.shape), writable=False) for k, v in enumerate(definition.values)}
    out = Buffer("sizes", "int64", (E.const(len(definition.symbols)),))

    def read(tensor: te.Tensor, indices: tuple[Expr, ...]) -> Expr:
        value = definition.sources[tensor]
        if value in buffers:
            return E.load(buffers[value], buffers[value].offset(*indices))
        assert value.constant is not None
        return E.const(value.constant.reshape(()).item(), value.dtype)

    sizes = [te.substitute_reads(x, read) for x in definition.expressions]
    where = f"node {definition.node.name or definition.node.op} ({definition.node.op})"
    body: list[Stmt] = []
    for symbol, size in zip(definition.symbols, sizes):
        sane = E.logical_and(size >= 0, size <= LARGEST_EXTENT)
        failure = Fail(STATUS_VALUE, f"{where}: the size {symbol} of its result is negative or too large")
        body.append(If(E.logical_not(sane), failure))
    body.extend(_view_check(definition, sizes, where))
    body.extend(store(out, k, size) for k, size in enumerate(sizes))
    body = [s for s in body if not (isinstance(s, If) and isinstance(s.condition, E.Const) and not s.condition.value)]
    scalars = _free_variables([*sizes, *_view_sizes(definition, sizes)])
    return Function(name, (*buffers.values(), out), tuple(scalars), seq(body)), scalars


def _view_sizes(definition: Definition, sizes: Sequence[Expr]) -> list[Expr]:
    """Number of elements of a view and of what it views, the fresh symbols replaced by their definitions."""
    node = definition.node
    if not is_view(node) or node.operands[0] is None:
        return []
    values = {te.symbol_var(s): x for s, x in zip(definition.symbols, sizes)}
    totals = (te.dim(node.results[0].tensor_type.size), te.dim(node.operands[0].tensor_type.size))
    return [E.substitute(t, values) for t in totals]


def _view_check(definition: Definition, sizes: Sequence[Expr], where: str) -> list[Stmt]:
    totals = _view_sizes(definition, sizes)
    if not totals:
        return []
    failure = Fail(STATUS_VALUE, f"{where}: the number of elements differs from its operand's")
    return [If(E.compare("ne", totals[0], totals[1]), failure)]


def _free_variables(expressions: Sequence[Expr]) -> list[Var]:
    found: dict[Var, None] = {}
    stack = list(expressions)
    while stack:
        x = stack.pop()
        if isinstance(x, Var):
            found[x] = None
        stack.extend(E.children(x))
    return sorted(found, key=lambda v: v.name)


def size_of(value: Value) -> Size:
    """Bytes of a tensor, with the estimate that shows an overflow."""
    type_ = value.tensor_type
    estimate: Expr = E.const(float(dtypes.itemsize(type_.dtype)), "float64")
    for extent in type_.shape:
        estimate = estimate * E.cast(te.dim(extent), "float64")
    return Size(te.dim(dims.product(type_.shape) * dtypes.itemsize(type_.dtype)), estimate)
