"""Sizes that are known only at run time, and what must hold of them.

For each node that introduces symbols, a small kernel evaluates the operator's ``define_symbols`` on the contents of its operands,
checks the values, and writes them; the entry then binds the symbols and asks the host for memory of the sizes they give.
The kernel also checks what the operator ``requires`` of sizes and could not be decided when types were inferred, so it exists for
nodes that introduce no symbol but require something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forge import dims, dtypes, te
from forge.errors import CompileError
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.lowering.groups import scalar_constant
from forge.lowering.objects import runs_on_host
from forge.ops.core.op import Op
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.printer import print_expression
from forge.tir.rewrite import substitute
from forge.tir.stmt import STATUS_VALUE, Fail, Function, If, Size, Stmt, seq, store
from forge.tir.visit import free_variables

LARGEST_EXTENT = 1 << 40


@dataclass(eq=False)
class Definition:
    """The symbols that ``node`` introduces, and the conditions on sizes that it needs (with what to say when one fails).

    ``values`` are read; ``slot`` is where the sizes are written, one int64 each.
    """

    node: Node
    symbols: tuple[str, ...]
    expressions: tuple[Expr, ...]
    sources: Mapping[te.Tensor, Value]
    values: tuple[Value, ...] = ()
    conditions: tuple[tuple[Expr, str], ...] = ()
    slot: Value = field(init=False)

    def __post_init__(self) -> None:
        self.slot = Value(TensorType((len(self.symbols),), "int64"), "sizes")

    @property
    def read_symbols(self) -> set[str]:
        """The symbols that the conditions are about."""
        return {v.name for v in free_variables(*(condition for condition, _ in self.conditions))}


def find_definitions(fresh: Mapping[Node, tuple[str, ...]]) -> list[Definition]:
    """Returns definitions of all symbols that nodes introduce, in order; the host gives those of its nodes as sizes of results.

    A condition is checked where it stands first: in a network of convolutions many have the same.

    Raises:
        CompileError: an operator introduces a symbol that it does not define.
    """
    definitions = [_definition(node, symbols) for node, symbols in fresh.items() if not runs_on_host(node)]
    checked = set[str]()
    for definition in definitions:
        new = {print_expression(condition): (condition, why) for condition, why in definition.conditions}
        definition.conditions = tuple(found for text, found in new.items() if text not in checked)
        checked.update(new)
    return [d for d in definitions if d.symbols or d.conditions]


def _definition(node: Node, fresh: tuple[str, ...]) -> Definition:
    """What ``node`` defines: the symbols ``fresh``."""
    conditions = tuple(_conditions(node))
    if not fresh:
        return Definition(node, (), (), {}, (), conditions)
    placeholders = [
        te.placeholder(v.shape, v.dtype, v.name or "x") if v is not None and isinstance(v.type, TensorType) else None
        for v in node.operands
    ]
    defined: Mapping[str, Expr] = {}
    if isinstance(node.op_def, Op) and all(isinstance(v.type, TensorType) for v in node.results):
        types = [v.tensor_type for v in node.results]
        defined = node.op_def.define_symbols(node.attrs, types, *node.op_def.arguments(placeholders))
    missing = [s for s in fresh if s not in defined]
    if missing:
        raise CompileError(
            f"compile: node {node.name or node.op} ({node.op}): the size {missing[0]!r} of its result is known only after it has "
            "run, which has no native code for this operator yet; run it with target='reference'"
        )
    sources = {p: v for p, v in zip(placeholders, node.operands) if p is not None and v is not None}
    expressions = tuple(defined[s] for s in fresh)
    read = {r.tensor for x in expressions for r in te.reads(x)}
    values = tuple(dict.fromkeys(v for p, v in sources.items() if p in read and scalar_constant(v) is None))
    return Definition(node, fresh, expressions, sources, values, conditions)


def _conditions(node: Node) -> list[tuple[Expr, str]]:
    """What must hold of sizes, as far as it is not known to."""
    if not all(isinstance(v.type, TensorType) for v in [*node.results, *node.operands] if v is not None):
        return []
    found: list[tuple[Expr, str]] = []
    if node.op_def.is_view and node.operands[0] is not None:
        ours, theirs = node.results[0].tensor_type.size, node.operands[0].tensor_type.size
        if not dims.equal(ours, theirs):
            why = f"{ours} elements differ from the {theirs} of its operand"
            found.append((E.compare("eq", te.dim(ours), te.dim(theirs)), why))
    if isinstance(node.op_def, Op):
        operands = [None if v is None else v.tensor_type for v in node.operands]
        types = [v.tensor_type for v in node.results]
        found.extend(node.op_def.requires(node.attrs, types, *node.op_def.arguments(operands)))
    return [(c, why) for c, why in found if not E.is_const(c, True)]


def build_definition(definition: Definition, name: str) -> tuple[Function, list[Var]]:
    """Returns the kernel that writes the sizes, and the symbols it needs as scalars.

    Its buffers are ``definition.values``, then the slot.
    """
    buffers = {v: Buffer(f"in{k}", v.dtype, te.shape_of(v.shape), writable=False) for k, v in enumerate(definition.values)}
    out = Buffer("sizes", "int64", (E.const(len(definition.symbols)),))

    def read(tensor: te.Tensor, indices: tuple[Expr, ...]) -> Expr:
        value = definition.sources[tensor]
        literal = scalar_constant(value)
        return buffers[value].load(*indices) if literal is None else E.const(literal, value.dtype)

    sizes = [te.substitute_reads(x, read) for x in definition.expressions]
    node = definition.node
    where = f"node {node.name or node.location or node.op} ({node.op})"
    body: list[Stmt] = []
    for symbol, size in zip(definition.symbols, sizes):
        sane = E.logical_and(size >= 0, size <= LARGEST_EXTENT)
        failure = Fail(STATUS_VALUE, f"{where}: the size {symbol} of its result is negative or too large")
        body.append(If(E.logical_not(sane), failure))
    fresh = {te.symbol_var(s): x for s, x in zip(definition.symbols, sizes)}
    conditions = [(substitute(c, fresh), why) for c, why in definition.conditions]
    body.extend(If(E.logical_not(c), Fail(STATUS_VALUE, f"{where}: {why}")) for c, why in conditions)
    body.extend(store(out, k, size) for k, size in enumerate(sizes))
    body = [s for s in body if not (isinstance(s, If) and isinstance(s.condition, E.Const) and not s.condition.value)]
    scalars = sorted(free_variables(*sizes, *(c for c, _ in conditions)), key=lambda v: v.name)
    return Function(name, (*buffers.values(), out), tuple(scalars), seq(body)), scalars


def size_of(value: Value) -> Size:
    """Returns the bytes of a tensor, with the estimate that shows an overflow.

    Of an empty one as if each extent were at least 1: kernels may read elements that they discard.
    """
    type_ = value.tensor_type
    size: Expr = E.const(dtypes.itemsize(type_.dtype))
    estimate: Expr = E.const(float(dtypes.itemsize(type_.dtype)), "float64")
    for extent in type_.shape:
        at_least_1 = E.binary("max", te.dim(extent), 1)
        size = size * at_least_1
        estimate = estimate * E.cast(at_least_1, "float64")
    return Size(size, estimate)
