"""Programs from the JSON that ``torch.export.save`` writes, by version 8 of its schema (``torch/_export/serde/schema.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from forge import dtypes
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.scope import MAX_NESTING
from forge.frontends.torch import symbols
from forge.frontends.torch.exported import output_label, source_line
from forge.frontends.torch.parts import inlined
from forge.frontends.torch.program import (
    COMPARISONS,
    WITH_EFFECTS,
    Input,
    Meta,
    Program,
    Ref,
    ScalarMeta,
    Step,
    TensorMeta,
    Weight,
)
from forge.frontends.torch.records import Record, parse

VERSION = 8
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""Names of the arguments of functions that have no schema."""

_STRIDED = 7
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
    return inlined(_ProgramReader(document, where, array).read())


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


class _ProgramReader:
    def __init__(self, document: Record, where: str, array: ReadArray) -> None:
        self.document = document
        self.module = document["graph_module"]
        self.array = array
        self.program = Program(where)
        self.names: dict[str, str] = {}  # of inputs: by their own names, and by those of buffers and parameters

    def read(self) -> Program:
        graph, signature, program = self.module["graph"], self.module["signature"], self.program
        _GraphReader(program).read(graph)
        inputs, outputs = signature["input_specs"].items(), signature["output_specs"].items()
        _check_count(signature["input_specs"], len(graph["inputs"].items()), "inputs")
        results = graph["outputs"].items()
        _check_count(signature["output_specs"], len(results), "outputs")
        for spec in inputs:
            self._read_input(spec)
        returned: list[Any] = []
        for spec, result in zip(outputs, results):
            self._read_output(spec, result, returned)
        program.results = list(zip(self._labels(len(returned)), returned))
        for name, bounds in self.document["range_constraints"].pairs():
            program.bounds[name] = _bound(bounds.get("min_val")), _bound(bounds.get("max_val"))
        guards = self.document.get("guards_code")  # programs of earlier versions have none
        texts = [guard.text() for guard in (guards.items() if guards else ())]
        if len(texts) > MAX_GUARDS:
            raise self.document["guards_code"].wrong(f"at most {MAX_GUARDS} assumptions")
        program.guards.extend(texts)
        return program

    def _read_input(self, spec: Record) -> None:
        kind, value = spec.variant()
        if kind == "constant_input":
            name = value["name"].text()
            self._name(value, name, name)
            self.program.inputs.append(Input(name, name, _constant(value["value"]), True))
        elif kind == "user_input":
            what, argument = value["arg"].variant()
            name_of = {"as_tensor": "name", "as_sym_int": "as_name", "as_sym_float": "as_name", "as_sym_bool": "as_name"}
            if what not in name_of:
                raise value["arg"].wrong("a tensor or a number")
            name = argument[name_of[what]].text()
            self._name(argument, name, name)
            if self.program.metas.get(name) is None:
                raise argument.wrong("an input whose type the graph says")
            self.program.inputs.append(Input(name, name))
        elif kind in ("parameter", "buffer", "tensor_constant"):
            self._read_weight(kind, value)
        elif kind != "token":
            raise spec.wrong(f"inputs that are tensors, which {kind} is not")

    def _read_weight(self, kind: str, value: Record) -> None:
        name, label = value["arg"]["name"].text(), value[f"{kind}_name"].text()
        self._name(value["arg"], name, label)
        contents, meta = self.array(label), self.program.metas.get(name)
        if not isinstance(meta, TensorMeta) or (meta.dtype, meta.shape) != (dtypes.canonical(contents.dtype), contents.shape):
            raise ImportModelError(
                f"{value.path}: weight {label!r} is {contents.dtype}{list(contents.shape)}; expected {_shown(meta)}, as the "
                "graph says; the file is damaged"
            )
        self.program.weights[name] = Weight(label, partial(_same, contents), kind == "parameter", kind == "buffer")

    def _name(self, record: Record, name: str, target: str) -> None:
        if name in self.names or target in self.names:
            raise record.wrong("every input once")
        self.names[name] = self.names[target] = name

    def _read_output(self, spec: Record, result: Record, returned: list[Any]) -> None:
        kind, value = spec.variant()
        what, named = result.variant()
        computed = named.get("as_name") if what in ("as_sym_int", "as_sym_bool", "as_sym_float") else None
        argument = _GraphReader(self.program).argument(result) if computed is None else Ref(computed.text())
        if kind in ("user_output", "loss_output"):
            returned.append(argument)
            return
        if kind == "token":
            return
        target_field = {
            "buffer_mutation": "buffer_name", "parameter_mutation": "parameter_name", "user_input_mutation": "user_input_name",
        }.get(kind)  # fmt: skip
        if target_field is None:
            raise spec.wrong(f"results and mutations, which {kind} is not")
        target = value[target_field]
        if target.text() not in self.names or not isinstance(argument, Ref):
            raise target.wrong("a tensor that is an input, a buffer or a parameter")
        self.program.mutations[self.names[target.text()]] = argument.name

    def _labels(self, count: int) -> list[str]:
        """Names of the outputs, from where they are in what the model returns."""
        entry = next((e for e in self.module["module_call_graph"].items() if e["fqn"].value == ""), None)
        signature = None if entry is None else entry.get("signature")
        if signature is None:
            raise self.module["module_call_graph"].wrong("the call of the model itself, with its signature")
        spec = parse(signature["out_spec"].text(), signature["out_spec"].path)
        if len(spec.items()) != 2:
            raise spec.wrong("a version and a tree")
        paths = self._paths(spec.items()[1], ())
        if len(paths) != count:
            raise signature["out_spec"].wrong(f"{count} outputs, and not {len(paths)}")
        return ["output"] if paths == [()] else [output_label(path) for path in paths]

    def _paths(self, tree: Record, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The paths of the leaves in a tree: keys and positions."""
        if len(path) > MAX_NESTING:
            raise tree.wrong(f"a tree of at most {MAX_NESTING} levels")
        children = tree["children_spec"].items()
        if tree["type"].value is None:
            return [path]
        keys = self._keys(tree, len(children))
        return [leaf for key, child in zip(keys, children) for leaf in self._paths(child, (*path, key))]

    def _keys(self, tree: Record, count: int) -> list[str]:
        """Names of the children of a node: keys, names of fields, or positions."""
        kind, context = tree["type"].text(), tree["context"]
        keys: list[Record] | None = None
        if kind in ("builtins.dict", "collections.OrderedDict"):
            keys = parse(context.text(), context.path).items()
        elif kind == "collections.defaultdict":
            keys = context["dict_context"].items()
        elif kind == "collections.namedtuple":
            fields = self.module["treespec_namedtuple_fields"].get(context.text())
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


class _GraphReader:
    """Reads one graph into ``program``."""

    def __init__(self, program: Program, depth: int = 0) -> None:
        self.program = program
        self.depth = depth
        self.defined: set[str] = set()
        self.keeps_known = False

    def read(self, graph: Record) -> None:
        """Adds the types and steps of ``graph``."""
        if self.depth > MAX_NESTING:
            raise ImportModelError(f"{self.program.where}: graphs are nested more than {MAX_NESTING} deep")
        self._read_metas(graph)
        for node in graph["nodes"].items():
            self._read_step(node)

    def _read_metas(self, graph: Record) -> None:
        metas = self.program.metas
        for name, meta in graph["tensor_values"].pairs():
            shape = tuple(_extent(size) for size in meta["sizes"].items())
            metas[name] = TensorMeta(_dtype(meta["dtype"]), shape, *_layout(meta, len(shape)))
        for name, number in graph["sym_int_values"].pairs():
            metas[name] = ScalarMeta("int", _known(number))
        for field, kind in (("sym_bool_values", "bool"), ("sym_float_values", "float")):
            values = graph.get(field)
            metas.update({name: ScalarMeta(kind) for name, _ in (values.pairs() if values is not None else ())})

    def _read_step(self, node: Record) -> None:
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
        self.keeps_known = target in COMPARISONS
        arguments = self._arguments(node, has_schema)
        if target == WITH_EFFECTS:
            effect = arguments.get("b")
            if not isinstance(effect, str) or not outputs:
                raise node["inputs"].wrong("a token and an operator")
            arguments = {name: value for name, value in arguments.items() if name not in ("a", "b")}
            target, outputs = effect.removeprefix("torch.ops."), outputs[1:]
        self.program.steps.append(Step(name, target, arguments, tuple(outputs), module, source))

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
                if position >= len(LETTERS):
                    raise node["inputs"].wrong(f"at most {len(LETTERS)} arguments")
                name = LETTERS[position]
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
        if kind in _LISTS:
            return [_LISTS[kind](self, item) for item in value.items()]
        if kind in _SINGLE:
            return _SINGLE[kind](self, value)
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
        meta: Meta = self.program.metas.get(value.text())
        known = meta.size if isinstance(meta, ScalarMeta) else None
        return Ref(value.text()) if known is None or self.keeps_known and isinstance(known, int) else known

    def tensors(self, record: Record) -> list[Ref]:
        return [self.tensor(item) for item in record.items()]

    def _part(self, record: Record) -> Ref:
        """A graph that a step takes as an argument."""
        name, graph = record["name"].text(), record["graph"]
        inner = Program(f"{self.program.where}: {name}")
        reader = _GraphReader(inner, self.depth + 1)
        reader.read(graph)
        for position, item in enumerate(graph["inputs"].items()):
            argument = reader.argument(item)
            label = argument.name if isinstance(argument, Ref) else f"constant_{position}"
            if isinstance(argument, Ref) and inner.metas.get(label) is None:
                raise item.wrong("an input whose type the graph says")
            inner.inputs.append(Input(label, label))
        inner.results = [(f"output_{k}", reader.argument(item)) for k, item in enumerate(graph["outputs"].items())]
        self.program.parts[name] = inner
        return Ref(name)


def _layout(meta: Record, rank: int) -> tuple[tuple[Dim, ...] | None, Dim]:
    """Strides and offset in the storage; None where a tensor has none, or they are no arithmetic on integers."""
    strides, offset = meta.get("strides"), meta.get("storage_offset")
    if strides is None or offset is None or meta["layout"].integer() != _STRIDED:
        return None, 0
    if len(strides.items()) != rank:
        raise strides.wrong(f"{rank} of them, as there are sizes")
    found = [_known(step) for step in (*strides.items(), offset)]
    known = [step for step in found if step is not None]
    return (tuple(known[:-1]), known[-1]) if len(known) == len(found) else (None, 0)


def _extent(record: Record) -> Dim:
    size = _size(record)
    if isinstance(size, int) and not 0 <= size <= symbols.MAX_INT:
        raise record.wrong("a size that is not negative")
    return size


def _known(record: Record) -> Dim | None:
    """None: it is no arithmetic on integers."""
    try:
        return _size(record)
    except ImportModelError:
        return None


def _complex(_: _GraphReader, record: Record) -> complex:
    return complex(record["real"].number(), record["imag"].number())


Reader = Callable[[_GraphReader, Record], Any]

_SINGLE: Mapping[str, Reader] = MappingProxyType({
    "as_tensor": _GraphReader.tensor,
    "as_optional_tensor": _GraphReader.optional_tensor,
    "as_int": lambda _, r: r.integer(),
    "as_float": lambda _, r: r.number(),
    "as_bool": lambda _, r: r.flag(),
    "as_string": lambda _, r: r.text(),
    "as_operator": lambda _, r: r.text(),
    "as_complex": _complex,
    "as_scalar_type": lambda _, r: _dtype(r),
    "as_sym_int": _GraphReader.number,
    "as_sym_bool": _GraphReader.number,
    "as_sym_float": _GraphReader.number,
})

_LISTS: Mapping[str, Reader] = MappingProxyType({
    "as_tensors": _GraphReader.tensor,
    "as_optional_tensors": _GraphReader.optional_tensor,
    "as_nested_tensors": _GraphReader.tensors,
    "as_ints": _SINGLE["as_int"],
    "as_floats": _SINGLE["as_float"],
    "as_bools": _SINGLE["as_bool"],
    "as_strings": _SINGLE["as_string"],
    "as_sym_ints": _GraphReader.number,
    "as_sym_bools": _GraphReader.number,
    "as_sym_floats": _GraphReader.number,
    "as_int_lists": lambda _, r: [item.integer() for item in r.items()],
    "as_float_lists": lambda _, r: [item.number() for item in r.items()],
})
