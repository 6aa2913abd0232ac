"""Adds nodes to an ONNX graph: names, constants, element types that operators take, run-time sizes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.defs import OpSchema

from forge import dims, dtypes
from forge.dims import Dim, DimExpr, Operation
from forge.errors import OpNotImplemented
from forge.exporters.onnx import schemas
from forge.exporters.onnx.tensors import type_proto
from forge.frontends.onnx.tensors import element_code
from forge.ir.nodes import Node, Value
from forge.ir.types import OptionalType, SequenceType, TensorType, Type

SHARED_CONSTANT_BYTES = 1024
tensor_code = element_code
"""The number of an element type in ONNX."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the ONNX graph. ``dtype`` is "" for anything but a tensor."""

    name: str
    dtype: str


@dataclass
class Document:
    """What all graphs of a model share. Names are unique in the whole model."""

    opset: int
    names: set[str] = field(default_factory=set)
    node_names: set[str] = field(default_factory=set)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)  # initializers by name
    constants: dict[tuple[str, tuple[int, ...], bytes], Ref] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)  # of values, as far as they are known
    claimed: set[str] = field(default_factory=set)  # names that values of the graph IR have
    problems: list[tuple[Node, str]] = field(default_factory=list)
    domains: set[str] = field(default_factory=set)  # besides the default one

    def unique(self, name: str) -> str:
        return _unique(self.names, name)

    def unique_node(self, name: str) -> str:
        return _unique(self.node_names, name)


def _unique(taken: set[str], name: str) -> str:
    made, number = name, 1
    while made in taken:
        made, number = f"{name}_{number}", number + 1
    taken.add(made)
    return made


@dataclass(frozen=True)
class SizeSource:
    """Where a size is found at run time: an axis of a value, whose size is ``dim``."""

    ref: Ref
    axis: int
    dim: Dim


class Emitter:
    """Builds one graph: that of the model, or one inside a node of ``parent``, whose values it may use."""

    def __init__(self, document: Document, parent: Emitter | None = None) -> None:
        self.document = document
        self.parent = parent
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[Value, Ref] = {}
        self.sources: dict[str, SizeSource] = {}
        self.sizes: dict[Dim, Ref] = {}
        self.starts: list[int] = []  # the first ONNX node of the one that is written now, and of those that it is a part of

    @property
    def opset(self) -> int:
        return self.document.opset

    def has(self, op: str, since: int = 1) -> bool:
        """Whether the opset has an operator, in this version or in a later one."""
        found = schemas.schema(op, self.opset)
        return found is not None and found.since_version >= since

    def takes(self, op: str, dtype: str) -> bool:
        """Whether the first operand of an operator can be of this element type."""
        found = schemas.schema(op, self.opset)
        return found is not None and schemas.type_text(dtype) in schemas.accepted(found, schemas.variable(found.inputs, 0))

    def unsupported(self, reason: str) -> OpNotImplemented:
        """The error that says why the present node cannot be written."""
        return OpNotImplemented(reason)

    def op(self, op: str, *inputs: Ref | None, dtype: str | None = None, **attributes: Any) -> Ref:
        """Adds a node with one output, of the element type that follows from the inputs unless ``dtype`` gives it."""
        return self.multi(op, inputs, 1 if dtype is None else [dtype], **attributes)[0]

    def multi(self, op: str, inputs: Sequence[Ref | None], outputs: int | Sequence[str], **attributes: Any) -> list[Ref]:
        """Adds a node with so many outputs, whose element types follow from the inputs, or with outputs of these types.

        Inputs of element types that the operator does not take are cast to wider ones, and its results back. Attributes that are
        None, or an empty list, are left out.

        Raises:
            OpNotImplemented: the opset lacks the operator, or it takes no type that would do.
        """
        found = schemas.schema(op, self.opset)
        if found is None:
            raise self.unsupported(f"needs ONNX's {op}, which opset {self.opset} lacks")
        variables = [schemas.variable(found.inputs, k) for k in range(len(inputs))]
        given = [(v, r.dtype) for v, r in zip(variables, inputs) if r is not None]
        if isinstance(outputs, int):
            outputs = [schemas.output_dtype(found, k, given) for k in range(outputs)]
        widened = self._widened(found, given)
        fitting = [r if r is None or v not in widened else self.cast(r, widened[v]) for v, r in zip(variables, inputs)]
        made = []
        for position, dtype in enumerate(outputs):
            variable = schemas.variable(found.outputs, position)
            dtype = widened.get(variable, dtype)
            if dtype and schemas.type_text(dtype) not in schemas.accepted(found, variable):
                raise self.unsupported(f"ONNX's {op} of opset {self.opset} gives no {dtype}")
            made.append(Ref(self.document.unique(f"{op}_{len(self.document.names)}"), dtype))
        self._add(op, fitting, made, attributes)
        return [self.cast(r, dtype) if dtype else r for r, dtype in zip(made, outputs)]

    def foreign(
        self, op: str, domain: str, inputs: Sequence[Ref | None], outputs: Sequence[str], **attributes: Any
    ) -> list[Ref]:
        """Adds a node of another domain, whose inputs have the types that it takes."""
        self.document.domains.add(domain)
        made = [Ref(self.document.unique(f"{op}_{len(self.document.names)}"), dtype) for dtype in outputs]
        self._add(op, inputs, made, {**attributes, "domain": domain})
        return made

    def _widened(self, found: OpSchema, given: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The element types of type variables whose inputs must be cast."""
        widened: dict[str, str] = {}
        for variable, dtype in given:
            fitting = schemas.fitting_dtype(found, variable, dtype) if dtype else dtype
            if fitting is None or (fitting != dtype and found.name == "Cast"):
                raise self.unsupported(f"ONNX's {found.name} of opset {self.opset} takes no {dtype}")
            if fitting != dtype:
                widened[variable] = fitting
        return widened

    def _add(self, op: str, inputs: Sequence[Ref | None], outputs: Sequence[Ref], attributes: dict[str, Any]) -> None:
        given = {k: v for k, v in attributes.items() if v is not None and v != []}
        names = ["" if r is None else r.name for r in inputs]
        while names and not names[-1]:
            names.pop()
        self.nodes.append(helper.make_node(op, names, [o.name for o in outputs], **given))

    def cast(self, x: Ref, dtype: str, saturate: bool = True) -> Ref:
        """``x`` as ``dtype``."""
        if x.dtype == dtype:
            return x
        plain = saturate or self.opset < 19 or not dtype.startswith("float8")
        return self.op("Cast", x, dtype=dtype, to=tensor_code(dtype), saturate=None if plain else 0)

    def const(self, value: Any, dtype: str | None = None, name: str = "") -> Ref:
        """A constant; small ones are shared."""
        array = np.asarray(value, None if dtype is None else dtypes.numpy_dtype(dtype))
        kind = dtypes.canonical(array.dtype)
        if name or array.nbytes > SHARED_CONSTANT_BYTES or kind == "string":
            return self.add_tensor(array, name or "constant")
        key = (kind, array.shape, array.tobytes())
        if key not in self.document.constants:
            self.document.constants[key] = self.add_tensor(array, "constant")
        return self.document.constants[key]

    def add_tensor(self, array: np.ndarray, name: str) -> Ref:
        """A new initializer of the model, which all its graphs see."""
        made = self.document.unique(name)
        self.document.tensors[made] = array
        self.document.ranks[made] = array.ndim
        return Ref(made, dtypes.canonical(array.dtype))

    def known(self, x: Ref | None) -> np.ndarray | None:
        """The contents of ``x``, where they are constant."""
        return None if x is None else self.document.tensors.get(x.name)

    def like(self, value: Any, x: Ref) -> Ref:
        """A constant scalar of the element type of ``x``."""
        return self.const(value, x.dtype)

    def ints(self, values: Iterable[int]) -> Ref:
        """A constant vector of int64."""
        return self.const(np.array(list(values), np.int64))

    def shape(self, x: Ref) -> Ref:
        return self.op("Shape", x)

    def extent(self, x: Ref, axis: int, count: int = 1) -> Ref:
        """The sizes of ``count`` axes from ``axis`` (not negative) on, a vector."""
        return self.op("Shape", x, start=axis, end=axis + count)

    def reshape(self, x: Ref, shape: Sequence[Dim]) -> Ref:
        """``x`` under another shape; symbolic sizes are computed at run time, but for one alone."""
        symbolic = [k for k, d in enumerate(shape) if isinstance(d, DimExpr)]
        if len(symbolic) == 1 and all(d > 0 for d in shape if isinstance(d, int)):
            return self.op("Reshape", x, self.ints(-1 if isinstance(d, DimExpr) else d for d in shape))
        zeros = 1 if any(isinstance(d, int) and d == 0 for d in shape) or symbolic else None
        return self.op("Reshape", x, self.dims(shape), allowzero=zeros)

    def scalar(self, x: Ref) -> Ref:
        """A tensor of one element as a scalar; a constant stays one, as runtimes reshape no element types below a byte."""
        known = self.known(x)
        if known is not None and known.ndim:
            return self.const(known.reshape(()))
        return x if self.document.ranks.get(x.name) == 0 else self.op("Reshape", x, self.ints([]))

    def squeeze(self, x: Ref, *axes: int) -> Ref:
        return self.op("Squeeze", x, self.ints(axes)) if axes else x

    def unsqueeze(self, x: Ref, *axes: int) -> Ref:
        return self.op("Unsqueeze", x, self.ints(axes)) if axes else x

    def transpose(self, x: Ref, axes: Sequence[int]) -> Ref:
        return x if list(axes) == sorted(axes) else self.op("Transpose", x, perm=list(axes))

    def concat(self, parts: Sequence[Ref], axis: int) -> Ref:
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def slice(self, x: Ref, axis: int, begin: int, end: int, step: int = 1) -> Ref:
        return self.op("Slice", x, *(self.ints([k]) for k in (begin, end, axis, step)))

    def dims(self, sizes: Sequence[Dim]) -> Ref:
        """Sizes as a vector of int64."""
        if dims.is_static(*sizes):
            return self.ints(int(d) for d in sizes)  # type: ignore[arg-type]
        parts: list[Ref] = []
        for is_symbolic, group in itertools.groupby(sizes, lambda size: isinstance(size, DimExpr)):
            run = list(group)
            parts += map(self.size, run) if is_symbolic else [self.ints(d for d in run if isinstance(d, int))]
        return self.concat(parts, 0)

    def given(self, attribute: Dim | Sequence[Dim] | None, operand: Ref | None) -> Ref | None:
        """Sizes that an attribute holds, or where it is None an operand, as int64: a vector unless the operand is a scalar."""
        if attribute is not None:
            return self.dims(attribute if isinstance(attribute, Sequence) else [attribute])
        return None if operand is None else self.cast(operand, "int64")

    def required(self, attribute: Dim | Sequence[Dim] | None, operand: Ref | None) -> Ref:
        """As `given`, of what must be there."""
        sizes = self.given(attribute, operand)
        if sizes is None:
            raise self.unsupported("neither an attribute nor an operand says the sizes")
        return sizes

    def size(self, dim: Dim) -> Ref:
        """A size as a vector of one element, from the shapes of values whose sizes have its symbols.

        Raises:
            OpNotImplemented: nothing says what a symbol is.
        """
        if isinstance(dim, int):
            return self.ints([dim])
        if dim not in self.sizes:
            self.sizes[dim] = self._sum(dim)
        return self.sizes[dim]

    def _sum(self, dim: DimExpr) -> Ref:
        total: Ref | None = None
        constant = 0
        for monomial, coefficient in dim.terms:
            if not monomial:
                constant = coefficient
                continue
            factors = [self.ints([coefficient])] if abs(coefficient) != 1 else []
            factors += [self._operation(atom) if isinstance(atom, Operation) else self._symbol(atom.name) for atom in monomial]
            term = functools.reduce(lambda a, b: self.op("Mul", a, b), factors)
            if total is None:
                total = self.op("Neg", term) if coefficient == -1 else term
            else:
                total = self.op("Sub" if coefficient == -1 else "Add", total, term)
        assert total is not None
        return self.op("Add", total, self.ints([constant])) if constant else total

    def _operation(self, atom: Operation) -> Ref:
        a, b = self.size(atom.a), self.size(atom.b)
        if atom.op in ("min", "max"):
            return self.op("Min" if atom.op == "min" else "Max", a, b)
        low = dims.bounds(atom.b)[0]
        if low is None or low < 1:
            zero, one = self.ints([0]), self.ints([1])
            undefined = self.op("Equal", b, zero)
            return self.op("Where", undefined, zero, self._quotient(atom, a, self.op("Where", undefined, one, b)))
        return self._quotient(atom, a, b)

    def _quotient(self, atom: Operation, a: Ref, b: Ref) -> Ref:
        if atom.op == "floormod":
            return self.op("Mod", a, b)
        low = dims.bounds(atom.a)[0]
        if low is not None and low >= 0:
            return self.op("Div", a, b)
        return self.op("Div", self.op("Sub", a, self.op("Mod", a, b)), b)

    def _symbol(self, name: str) -> Ref:
        source = self._source(name)
        if source is None:
            raise self.unsupported(f"nothing before it gives the size {name!r}")
        extent = self.extent(source.ref, source.axis)
        linear = dims.linear(source.dim)
        assert linear is not None
        _, factor, constant = linear
        shifted = self.op("Sub", extent, self.ints([constant])) if constant else extent
        return self.op("Div", shifted, self.ints([factor])) if factor != 1 else shifted

    def _source(self, name: str) -> SizeSource | None:
        if name in self.sources:
            return self.sources[name]
        return None if self.parent is None else self.parent._source(name)

    def define(self, value: Value, ref: Ref) -> None:
        """``value`` of the graph IR is ``ref`` here; its sizes say what symbols are."""
        self.values[value] = ref
        if not isinstance(value.type, TensorType):
            return
        self.document.ranks[ref.name] = value.type.rank
        for axis, extent in enumerate(value.type.shape):
            names = dims.symbols(extent)
            if len(names) == 1 and self._is_better(names[0], extent):
                self.sources[names[0]] = SizeSource(ref, axis, extent)

    def _is_better(self, name: str, extent: Dim) -> bool:
        """Whether ``extent`` gives the symbol, and nothing simpler does already."""
        plain = dims.symbol_name(extent) == name
        if name in self.sources:
            return plain and dims.symbol_name(self.sources[name].dim) != name
        if plain:
            return True
        return dims.linear(extent) is not None and self._source(name) is None

    def ref(self, value: Value) -> Ref:
        """What ``value`` is in ONNX."""
        return self.values[value]

    def child(self) -> Emitter:
        """A graph inside of a node of this one."""
        return Emitter(self.document, self)

    def take_up(self, node: onnx.NodeProto) -> None:
        """Moves an ONNX node to the end: it becomes one of the node that is written now."""
        position = next(k for k, n in enumerate(self.nodes) if n is node)
        self.nodes.append(self.nodes.pop(position))
        self.starts = [s - 1 if s > position else s for s in self.starts]

    def rename(self, first: int, ref: Ref, name: str) -> Ref:
        """Gives the output ``ref`` of one of the nodes from ``first`` on another name."""
        for node in self.nodes[first:]:
            for names in (node.input, node.output):
                for position, old in enumerate(names):
                    if old == ref.name:
                        names[position] = name
        self.document.names.discard(ref.name)
        return Ref(name, ref.dtype)

    def made_since(self, first: int) -> set[str]:
        """Names of the outputs of the nodes from ``first`` on."""
        return {name for node in self.nodes[first:] for name in node.output}

    def finish(self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[Ref], types: Sequence[Type],
               names: Sequence[str] = ()) -> onnx.GraphProto:
        """The graph, with its outputs under ``names`` (empty: any); what no node of it makes, or is listed twice, is copied."""
        made, listed = self.made_since(0), set[str]()
        made |= {i.name for i in inputs} if names else set()
        infos = []
        for position, (ref, type_) in enumerate(zip(outputs, types, strict=True)):
            wanted = names[position] if names else ref.name
            if ref.name not in made or ref.name in listed or ref.name != wanted:
                copy = Ref(wanted if names else self.document.unique("output"), ref.dtype)
                self._add("Identity", [ref], [copy], {})
                ref = copy
            listed.add(ref.name)
            infos.append(helper.make_value_info(ref.name, type_proto(type_)))
        self._drop_unused([i.name for i in infos])
        self._name_nodes(0, "")
        return helper.make_graph(self.nodes, name, list(inputs), infos)

    def _drop_unused(self, outputs: Sequence[str]) -> None:
        """Drops nodes that no output needs."""
        needed, kept = set(outputs), list[onnx.NodeProto]()
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(names_read(node))
                kept.append(node)
        self.nodes = kept[::-1]

    def _name_nodes(self, first: int, base: str) -> None:
        """Names the nodes from ``first`` on that have none: after ``base``, with their operator if there are several."""
        fresh = [n for n in self.nodes[first:] if not n.name]
        for node in fresh:
            own = base if base and len(fresh) == 1 else f"{base}/{node.op_type}" if base else f"{node.op_type}_{node.output[0]}"
            node.name = self.document.unique_node(own)

    def name_nodes(self, first: int, node: Node) -> None:
        """Names the ONNX nodes from ``first`` on after the node of the graph IR that they stand for."""
        self._name_nodes(first, node.name or next((v.name for v in node.results if v.name), ""))


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, those in graphs inside of it too."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from names_read(inner)


def element_of(type_: Type) -> str:
    """The element type of a tensor; "" for anything else."""
    return "" if isinstance(type_, SequenceType | OptionalType) else str(getattr(type_, "dtype", ""))
