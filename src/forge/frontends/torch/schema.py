"""Programs from the JSON that ``torch.export.save`` writes, by version 8 of its schema (``torch/_export/serde/schema.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from forge import dtypes
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.records import Record, parse
from forge.frontends.scope import MAX_NESTING
from forge.frontends.torch import reader, symbols
from forge.frontends.torch.exported import output_label, source_line
from forge.frontends.torch.parts import inlined
from forge.frontends.torch.program import Meta, Program, Ref, ScalarMeta, Step, TensorMeta
from forge.frontends.torch.reader import Spec

VERSION = 8
_STRIDED = 7
_NAMES = {"as_tensor": "name", "as_sym_int": "as_name", "as_sym_float": "as_name", "as_sym_bool": "as_name"}
_PATHS = ("parameter_name", "buffer_name", "tensor_constant_name")
_ELEMENT_TYPES: Mapping[int, str] = MappingProxyType({
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32",
    10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2",
    31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
})  # fmt: skip

ReadArray = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class ArrayMeta:
    """A tensor in memory; strides and offset count elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def read(document: Record, where: str, array: ReadArray) -> Program:
    """The program in ``document``; ``array`` gives the contents of a parameter, a buffer or a constant by its path in the module.

    Raises:
        ImportModelError: it breaks the schema, or has inputs or outputs that are not tensors or numbers.
    """
    version = document["schema_version"]["major"]
    if version.integer() != VERSION:
        raise ImportModelError(f"{version.path}: got {version.value}; expected {VERSION}; save it with another version of torch")
    module = document["graph_module"]
    graph, signature = _Graph(module["graph"], Program(where)), module["signature"]
    inputs = _inputs(signature["input_specs"], graph, array)
    outputs = _outputs(signature["output_specs"], graph)
    program = reader.read(graph, inputs, outputs, partial(_labels, module))
    for name, bounds in document["range_constraints"].pairs():
        program.bounds[name] = _bound(bounds.get("min_val")), _bound(bounds.get("max_val"))
    guards = document.get("guards_code")  # programs of earlier versions have none
    if guards is not None:
        if len(guards.items()) > MAX_GUARDS:
            raise guards.wrong(f"at most {MAX_GUARDS} assumptions")
        program.guards.extend(guard.text() for guard in guards.items())
    return inlined(program)


def array_meta(record: Record) -> ArrayMeta:
    """What a file says of the contents of a weight: its sizes are known and none is negative."""
    layout = record["layout"]
    if layout.integer() != _STRIDED:
        raise layout.wrong(f"{_STRIDED}, a dense tensor")
    shape, strides = (tuple(map(_known_size, record[name].items())) for name in ("sizes", "strides"))
    if len(shape) != len(strides):
        raise record["strides"].wrong(f"{len(shape)} of them, as there are sizes")
    return ArrayMeta(_dtype(record["dtype"]), shape, strides, _known_size(record["storage_offset"]))


def _known_size(record: Record) -> int:
    size = _size(record)
    if not isinstance(size, int) or not 0 <= size <= symbols.MAX_INT:
        raise record.wrong("a number that is not negative")
    return size


def _size(record: Record) -> Dim:
    kind, value = record.variant()
    if kind == "as_int":
        return value.integer()
    if kind != "as_expr":
        raise record.wrong("as_int or as_expr")
    return symbols.parse(value["expr_str"].text())


def _dtype(record: Record) -> str:
    name = _ELEMENT_TYPES.get(record.integer())
    try:
        return dtypes.canonical(name or "unknown")
    except TypeError as error:
        raise ImportModelError(f"{record.path}: got {name or record.value}; {error}") from error


MAX_GUARDS = 10_000
"""Assumptions about sizes: real programs have a few for each input."""


def _inputs(specs: Record, graph: _Graph, array: ReadArray) -> Iterator[Spec]:
    _check_count(specs, len(graph.record["inputs"].items()), "inputs")
    for spec in specs.items():
        kind, value = spec.variant()
        if kind == "constant_input":
            yield Spec(kind, value["name"].text(), value.path, constant=_constant(value["value"]))
        elif kind == "user_input":
            what, argument = value["arg"].variant()
            if what not in _NAMES:
                raise value["arg"].wrong("a tensor or a number")
            yield Spec(kind, argument[_NAMES[what]].text(), argument.path)
        elif f"{kind}_name" in _PATHS:
            name, path = value["arg"]["name"].text(), value[f"{kind}_name"].text()
            contents = _contents(value, path, array(path), graph.program.metas.get(name))
            yield Spec(kind, name, value["arg"].path, path, partial(_same, contents))
        else:
            yield Spec(kind, "", spec.path)


def _contents(at: Record, path: str, contents: np.ndarray, meta: Meta) -> np.ndarray:
    if not isinstance(meta, TensorMeta) or (meta.dtype, meta.shape) != (dtypes.canonical(contents.dtype), contents.shape):
        raise ImportModelError(
            f"{at.path}: weight {path!r} is {contents.dtype}{list(contents.shape)}; expected {_shown(meta)}, as the "
            "graph says; the file is damaged")
    return contents


def _outputs(specs: Record, graph: _Graph) -> Iterator[Spec]:
    results = graph.results()
    _check_count(specs, len(results), "outputs")
    for spec, result in zip(specs.items(), results):
        kind, value = spec.variant()
        path = kind.replace("mutation", "name")
        yield Spec(kind, result, value.path, value[path].text() if path in (*_PATHS, "user_input_name") else "")


def _labels(module: Record, count: int) -> list[str]:
    """Names of the outputs, from where they are in what the model returns."""
    entry = next((e for e in module["module_call_graph"].items() if e["fqn"].value == ""), None)
    signature = None if entry is None else entry.get("signature")
    if signature is None:
        raise module["module_call_graph"].wrong("the call of the model itself, with its signature")
    spec = parse(signature["out_spec"].text(), signature["out_spec"].path)
    if len(spec.items()) != 2:
        raise spec.wrong("a version and a tree")
    paths = _paths(module, spec.items()[1], ())
    if len(paths) != count:
        raise signature["out_spec"].wrong(f"{count} outputs, and not {len(paths)}")
    return ["output"] if paths == [()] else [output_label(path) for path in paths]


def _paths(module: Record, tree: Record, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths of the leaves in a tree: keys and positions."""
    if len(path) > MAX_NESTING:
        raise tree.wrong(f"a tree of at most {MAX_NESTING} levels")
    children = tree["children_spec"].items()
    if tree["type"].value is None:
        return [path]
    keys = _keys(module, tree, len(children))
    return [leaf for key, child in zip(keys, children) for leaf in _paths(module, child, (*path, key))]


def _keys(module: Record, tree: Record, count: int) -> list[str]:
    """Names of the children of a node: keys, names of fields, or positions."""
    kind, context = tree["type"].text(), tree["context"]
    keys: list[Record] | None = None
    if kind in ("builtins.dict", "collections.OrderedDict"):
        keys = parse(context.text(), context.path).items()
    elif kind == "collections.defaultdict":
        keys = context["dict_context"].items()
    elif kind == "collections.namedtuple":
        fields = module["treespec_namedtuple_fields"].get(context.text())
        keys = None if fields is None else fields["field_names"].items()
    else:
        return _field_names(context, count) or [str(k) for k in range(count)]
    if keys is None or len(keys) != count:
        raise context.wrong(f"{count} keys")
    return [str(key.value) for key in keys]


def _field_names(context: Record, count: int) -> list[str] | None:
    """Of a class of the user, where its context is the list of these; dataclasses add that of fields that are None."""
    try:
        found = parse(context.text(), context.path).value
    except ImportModelError:
        return None
    if isinstance(found, list) and len(found) == 2 and all(isinstance(part, list) for part in found):
        found = found[0]
    is_names = isinstance(found, list) and len(found) == count and all(isinstance(name, str) for name in found)
    return found if is_names else None


def _shown(meta: Meta) -> str:
    return f"{meta.dtype}{[str(size) for size in meta.shape]}" if isinstance(meta, TensorMeta) else str(meta)


def _same(contents: np.ndarray) -> np.ndarray:
    return contents


def _check_count(specs: Record, count: int, what: str) -> None:
    if len(specs.items()) != count:
        raise specs.wrong(f"{count} of them, as the graph has {what}, and not {len(specs.items())}")


def _bound(record: Record | None) -> int | None:
    if record is None:
        return None
    number = record.integer()
    return number if abs(number) < symbols.MAX_INT else None


def _constant(record: Record) -> Any:
    kind, value = record.variant()
    if kind == "as_none":
        return None
    plain = {"as_int": value.integer, "as_float": value.number, "as_string": value.text, "as_bool": value.flag}
    if kind not in plain:
        raise record.wrong(f"one of as_none, {', '.join(plain)}")
    return plain[kind]()


class _Graph:
    """A graph in a document, as the reader takes it."""

    def __init__(self, record: Record, program: Program, depth: int = 0) -> None:
        self.record = record
        self.program = program
        self.depth = depth
        self.target = ""  # of the call whose arguments are read
        self.defined: set[str] = set()

    def metas(self) -> Iterator[tuple[str, Meta]]:
        for name, meta in self.record["tensor_values"].pairs():
            shape = tuple(_extent(size) for size in meta["sizes"].items())
            strides, offset = _strides(meta, len(shape))
            yield name, reader.tensor_meta(_dtype(meta["dtype"]), shape, strides, offset, _size)
        for name, number in self.record["sym_int_values"].pairs():
            yield name, ScalarMeta("int", _known(number))
        for field, kind in (("sym_bool_values", "bool"), ("sym_float_values", "float")):
            values = self.record.get(field)
            yield from ((name, ScalarMeta(kind)) for name, _ in (values.pairs() if values is not None else ()))

    def steps(self) -> Iterator[Step]:
        return map(self._step, self.record["nodes"].items())

    def inputs(self) -> Iterator[str]:
        for position, item in enumerate(self.record["inputs"].items()):
            argument = self.argument(item)
            name = argument.name if isinstance(argument, Ref) else f"constant_{position}"
            if isinstance(argument, Ref) and self.program.metas.get(name) is None:
                raise item.wrong("an input whose type the graph says")
            yield name

    def results(self) -> list[Any]:
        return [self._result(item) for item in self.record["outputs"].items()]

    def _result(self, record: Record) -> Any:
        what, named = record.variant()
        computed = named.get("as_name") if what in ("as_sym_int", "as_sym_bool", "as_sym_float") else None
        return self.argument(record) if computed is None else Ref(computed.text())

    def _step(self, node: Record) -> Step:
        target = node["target"].text().removeprefix("torch.ops.")
        outputs = [name for output in node["outputs"].items() for name in self._output_names(output)]
        name_record = node.get("name")
        name = name_record.text() if name_record is not None else next((n for n in outputs if n), target)
        outputs = ["" if output.startswith(f"{name}_unused_") else output for output in outputs]
        if outputs == [""] and node["outputs"].items()[0].variant()[0] == "as_none":
            outputs = []
        for output in filter(None, outputs):
            if output in self.defined:
                raise node["outputs"].wrong(f"every value once, but {output!r} is defined already")
            self.defined.add(output)
        if target.partition(".")[0].startswith("_"):  # Python's operators are those of a module written in C
            target = target.lstrip("_")
        metadata = node["metadata"]
        stack, trace = metadata.get("nn_module_stack"), metadata.get("stack_trace")
        module = stack.text().rpartition(";")[2].rsplit(",", 2)[-2:][0] if stack is not None else ""
        source = source_line(trace.text()) if trace is not None else ""
        has_schema = node["target"].text().startswith("torch.ops.") and not target.startswith("higher_order.")
        self.target = target
        return reader.step_of(name, target, self._arguments(node, has_schema), outputs, module, source)

    def _output_names(self, output: Record) -> list[str]:
        kind, value = output.variant()
        if kind == "as_none":
            return [""]
        if kind == "as_tensor":
            return [value["name"].text()]
        if kind == "as_tensors":
            return [item["name"].text() for item in value.items()]
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return [value["as_name"].text()]
        raise output.wrong("tensors or numbers")

    def _arguments(self, node: Record, has_schema: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for position, item in enumerate(node["inputs"].items()):
            name, kind = item["name"].text(), item.get("kind")
            if not name or not has_schema and kind is not None and kind.integer() == 1:
                name = reader.letter(position)
            if name in found:
                raise item["name"].wrong("every argument once")
            found[name] = self.argument(item["arg"])
        return found

    def argument(self, record: Record) -> Any:
        """An argument as `program.Step` has it."""
        kind, value = record.variant()
        if kind in ("as_none", "as_device", "as_layout", "as_memory_format"):
            return None
        if kind == "as_graph":
            return self._part(value)
        if kind == "as_string_to_argument":
            return {key: self.argument(item) for key, item in value.pairs()}
        if kind in _ARGUMENTS:
            return _ARGUMENTS[kind](self, value)
        raise record.wrong(f"tensors, numbers, texts and graphs, which {kind} is not")

    def tensor(self, record: Record) -> Ref:
        return Ref(record["name"].text())

    def optional_tensor(self, record: Record) -> Ref | None:
        kind, value = record.variant()
        return None if kind == "as_none" else self.tensor(value)

    def number(self, record: Record) -> Any:
        """A computed number, by its size where that is known, or a plain one."""
        kind, value = record.variant()
        if kind != "as_name":
            return _constant(record)
        return reader.number(value.text(), self.program.metas.get(value.text()), self.target)

    def _part(self, record: Record) -> Ref:
        """A graph that a step takes as an argument."""
        name = record["name"].text()
        inner = Program(f"{self.program.where}: {name}")
        return reader.read_part(self.program, name, _Graph(record["graph"], inner, self.depth + 1))


def _strides(meta: Record, rank: int) -> tuple[list[Record] | None, Record]:
    """Strides, where a tensor has some, and the offset in the storage."""
    strides, offset = meta.get("strides"), meta.get("storage_offset")
    if strides is None or offset is None or meta["layout"].integer() != _STRIDED:
        return None, meta
    if len(strides.items()) != rank:
        raise strides.wrong(f"{rank} of them, as there are sizes")
    return strides.items(), offset


def _extent(record: Record) -> Dim:
    size = _size(record)
    if isinstance(size, int) and not 0 <= size <= symbols.MAX_INT:
        raise record.wrong("a size that is not negative")
    return size


def _known(record: Record) -> Dim | None:
    """None: it is not arithmetic on integers."""
    try:
        return _size(record)
    except ImportModelError:
        return None


def _complex(_: _Graph, record: Record) -> complex:
    return complex(record["real"].number(), record["imag"].number())


_Read = Callable[[_Graph, Record], Any]


def _each(read_item: _Read) -> _Read:
    return lambda graph, record: [read_item(graph, item) for item in record.items()]


_SINGLE: Mapping[str, _Read] = MappingProxyType({
    "as_tensor": _Graph.tensor,
    "as_optional_tensor": _Graph.optional_tensor,
    "as_nested_tensor": _each(_Graph.tensor),
    "as_int": lambda _, r: r.integer(),
    "as_float": lambda _, r: r.number(),
    "as_bool": lambda _, r: r.flag(),
    "as_string": lambda _, r: r.text(),
    "as_operator": lambda _, r: r.text(),
    "as_complex": _complex,
    "as_scalar_type": lambda _, r: _dtype(r),
    "as_sym_int": _Graph.number,
    "as_sym_bool": _Graph.number,
    "as_sym_float": _Graph.number,
    "as_int_list": _each(lambda _, r: r.integer()),
    "as_float_list": _each(lambda _, r: r.number()),
})

_ARGUMENTS: Mapping[str, _Read] = MappingProxyType({
    **_SINGLE, **{f"{kind}s": _each(read_item) for kind, read_item in _SINGLE.items()},
})
"""Readers of arguments, one or a list, by what the schema calls them."""
