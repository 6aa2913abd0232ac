"""What a session runs: an ONNX model, a module that Forge saved, or an artifact that it compiled."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError, OptionError
from forge.onnxruntime.elements import word, word_of_code
from forge.onnxruntime.errors import InvalidGraph, InvalidProtobuf, NoSuchFile
from forge.onnxruntime.options import FOLDER, OWN, UNIFY, SessionOptions
from forge_runtime import Runtime

if TYPE_CHECKING:
    import onnx

    from forge.backends.compiled import CompiledModel
    from forge.frontends.onnx.loader import LoadedModel
    from forge.ir.types import Type
    from forge.module import IRModule

Extent = int | str | None
Label = int | str

_log = logging.getLogger(__name__)

OVERRIDABLE_SINCE = 4
"""The version of ONNX's IR from which on initializers may be no inputs; before, all are, and none may be given."""

NO_VERSION = (1 << 63) - 1
"""The version of a model that says none."""

_ELF = b"\x7fELF"
_SAVED = (".forge", ".relay")


@dataclass(frozen=True)
class NodeArg:
    """An input or output.

    Attributes:
        type: as in ``tensor(float)``.
        shape: sizes, names of dimensions, None for one without; empty for what is not a tensor.
    """

    name: str
    type: str
    shape: list[Extent]


@dataclass(frozen=True)
class ModelMetadata:
    """What the model says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """Code that runs.

    Attributes:
        placeable: of each output, whether its size follows from the inputs', so that it can be written to memory that is given.
        compiled: what `Profiler` reads; None where the code was loaded.
    """

    runtime: Runtime
    placeable: tuple[bool, ...]
    compiled: CompiledModel | None = None

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self.runtime.input_names)


@dataclass(frozen=True)
class Model:
    """A model and its code.

    Attributes:
        overridable: initializers that are inputs, too: a call may give them.
        labels: by the position of an output, the keys of the maps that the model makes of its rows, and their columns, in order.
        program: compiled.
        overriding: of the names of overridable inputs that calls give, a program that takes them; compiles the model again.
    """

    inputs: list[NodeArg]
    outputs: list[NodeArg]
    overridable: list[NodeArg]
    metadata: ModelMetadata
    labels: dict[int, list[tuple[Label, int]]]
    program: Program
    overriding: Callable[[frozenset[str]], Program] | None = None


def read(source: str | os.PathLike[str] | bytes, options: SessionOptions) -> Model:
    """The model at a path, or in bytes, compiled.

    Raises:
        NoSuchFile, InvalidProtobuf: there is none; OptionError: ``source`` is neither, or an option does not fit what it is.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _onnx_model(bytes(source), options)
    if not isinstance(source, str | os.PathLike):
        raise OptionError(f"InferenceSession: unable to load from type {type(source).__name__}; expected a path or bytes; of a "
                          "ModelProto, pass model.SerializeToString()")
    path = Path(source)
    if not path.exists():
        raise NoSuchFile(f"{path}: no such file; expected a model; check the path")
    if path.is_dir() or _begins_with(path, _ELF):
        return _artifact(path, options)
    return _saved_module(path, options) if path.suffix in _SAVED else _onnx_model(path, options)


def _begins_with(path: Path, magic: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(magic)) == magic


def _artifact(path: Path, options: SessionOptions) -> Model:
    _refuse_options(path, options, "a compiled model", enable_profiling=options.enable_profiling, entries=options.own_entries)
    runtime = Runtime(path, num_threads=options.intra_op_num_threads or None)
    _refuse_states(path, runtime.states, "forge.Runtime(path).session()")

    def args(names: list[str], dtypes: list[str], shapes: Sequence[Any]) -> list[NodeArg]:
        return [NodeArg(n, _text_of(d), list(s or ())) for n, d, s in zip(names, dtypes, shapes)]

    known = {size for shape in runtime.input_shapes for size in shape or () if size is not None}
    placeable = tuple(all(isinstance(size, int) or size in known for size in shape or (None,)) for shape in runtime.output_shapes)
    inputs = args(runtime.input_names, runtime.input_dtypes, runtime.input_shapes)
    outputs = args(runtime.output_names, runtime.output_dtypes, runtime.output_shapes)
    about = ModelMetadata("forge", runtime.name, custom_metadata_map={"uuid": runtime.model_id})
    return Model(inputs, outputs, [], about, {}, Program(runtime, placeable))


def _refuse_options(path: Path, options: SessionOptions, kind: str, **others: object) -> None:
    """Raises OptionError for what is asked of a model that is not an ONNX model any more."""
    entries = [entry for entry in (FOLDER, OWN + UNIFY) if entry in options.entries]
    of_onnx = {"optimized_model_filepath": options.optimized_model_filepath, "add_initializer": list(options.initializers),
               "free dimensions": _sizes(options), "entries": entries}
    for name, given in (*of_onnx.items(), *others.items()):
        if given:
            raise OptionError(f"InferenceSession: {path}: {name}: got {given!r} for {kind}; expected an ONNX model")


def _refuse_states(path: Path, states: list[str], instead: str) -> None:
    if states:
        known = ", ".join(states)
        raise OptionError(f"InferenceSession: {path}: has states ({known}), which onnxruntime's calls do not know; use {instead}")


def _saved_module(path: Path, options: SessionOptions) -> Model:
    from forge.ir.saved import serialize
    from forge.module import IRModule

    _refuse_options(path, options, "a saved module")
    ir = IRModule(serialize.load(path), fold_constants=False, fold_batch_norms=False)
    _refuse_states(path, list(ir.main.states), "forge.load(path).get_inference_function()")
    interface = [v for v in ir.main.inputs if v.name not in ir.params]
    inputs = [_arg_of_type(v.name, v.type) for v in interface]
    outputs = [_arg_of_type(name, v.type) for name, v in zip(ir.main.output_names, ir.main.outputs)]
    return Model(inputs, outputs, [], ModelMetadata("forge", ir.main.name), {}, _compile(ir, options))


def _onnx_model(source: Path | bytes, options: SessionOptions) -> Model:
    loaded = _load(source, options)
    graph = loaded.proto.graph
    weights = _weights(graph)
    sizes = _sizes(options)
    may_override = loaded.proto.ir_version >= OVERRIDABLE_SINCE
    optional = [_arg(info, sizes) for info in graph.input if info.name in weights and may_override]
    labels = {d.dim_param for info in graph.input for d in info.type.tensor_type.shape.dim}
    for name in options.sizes_by_name.keys() - labels:
        _log.warning("add_free_dimension_override_by_name: %r: no input has such a dimension; got %s", name, sorted(labels))
    ir = _imported(loaded, frozenset(), options)
    if options.optimized_model_filepath:
        ir.to_onnx(options.optimized_model_filepath)
    named = {size for info in graph.input for size in _arg(info, sizes).shape if isinstance(size, str)}
    outputs = [_output(info, v.type, sizes, named) for info, v in zip(graph.output, ir.main.outputs)]
    inputs = [_arg(info, sizes) for info in graph.input if info.name not in weights]

    def overriding(given: frozenset[str]) -> Program:
        return _compile(_imported(loaded, given, options), options)

    return Model(inputs, outputs, optional, _metadata(loaded.proto), _labels(graph), _compile(ir, options),
                 overriding if optional else None)


def _weights(graph: onnx.GraphProto) -> set[str]:
    return {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}


def _load(source: Path | bytes, options: SessionOptions) -> LoadedModel:
    from dataclasses import replace

    from onnx import numpy_helper

    from forge.frontends.onnx import loader, tensors

    try:
        loaded = loader.load(source)
    except ImportModelError as error:
        raise InvalidProtobuf(str(error)) from error
    if isinstance(source, bytes) and FOLDER in options.entries:
        loaded = replace(loaded, reader=tensors.TensorReader((Path(options.entries[FOLDER]),), source))
    known = {tensor.name: tensor for tensor in loaded.proto.graph.initializer}
    for name, array in options.initializers.items():
        if name not in known:
            raise OptionError(f"add_initializer: the model has no initializer {name!r}; expected one of {list(known)}")
        known[name].CopyFrom(numpy_helper.from_array(array, name))
    return loaded


def _imported(loaded: LoadedModel, given: frozenset[str], options: SessionOptions) -> IRModule:
    from forge.frontends.onnx import import_model
    from forge.module import IRModule

    sizes = _sizes(options)
    kept = _weights(loaded.proto.graph) - given
    shapes = {}
    for info in loaded.proto.graph.input:
        fixed = [_override(d, sizes) for d in info.type.tensor_type.shape.dim]
        if info.name not in kept and (info.name in given or any(size is not None for size in fixed)):
            shapes[info.name] = fixed
    try:
        module = import_model(loaded, shapes, convert_config={"drop_zipmap": True}, unify_dimensions=options.unifies_dimensions)
    except ImportModelError as error:
        raise InvalidGraph(str(error)) from error
    return IRModule(module)


def _compile(ir: IRModule, options: SessionOptions) -> Program:
    from forge.driver import check_options, compile_module
    from forge.ir import types as T

    compiled = compile_module(ir.mod, check_options(**options.compile_options), profile=options.enable_profiling)
    known = {name for v in ir.main.inputs for name in T.symbols(v.type)}
    placeable = tuple(isinstance(v.type, T.TensorType) and known.issuperset(T.symbols(v.type)) for v in ir.main.outputs)
    runtime = compiled.runtime(num_threads=options.intra_op_num_threads or None)
    return Program(runtime, placeable, compiled if options.enable_profiling else None)


Sizes = tuple[Mapping[str, int], Mapping[str, int]]


def _sizes(options: SessionOptions) -> Sizes | None:
    """Sizes by name and by denotation, if any are given."""
    both = (options.sizes_by_name, options.sizes_by_denotation)
    return both if any(both) else None


def _override(dim: onnx.TensorShapeProto.Dimension, sizes: Sizes | None) -> int | None:
    by_name, by_denotation = sizes or ({}, {})
    return by_name.get(dim.dim_param, by_denotation.get(dim.denotation))


def _extent(dim: onnx.TensorShapeProto.Dimension, sizes: Sizes | None) -> Extent:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    override = _override(dim, sizes)
    return override if override is not None else (dim.dim_param or None)


def _arg(info: onnx.ValueInfoProto, sizes: Sizes | None) -> NodeArg:
    return NodeArg(info.name, _type_text(info.type), [_extent(d, sizes) for d in _tensor_in(info.type).shape.dim])


def _tensor_in(proto: onnx.TypeProto) -> onnx.TypeProto.Tensor:
    """The type of the tensor, or of that in an optional."""
    return proto.optional_type.elem_type.tensor_type if proto.WhichOneof("value") == "optional_type" else proto.tensor_type


def _type_text(proto: onnx.TypeProto) -> str:
    kind = proto.WhichOneof("value")
    if kind == "map_type":
        return f"map({word_of_code(proto.map_type.key_type)},{_type_text(proto.map_type.value_type)})"
    if kind in ("sequence_type", "optional_type"):
        return f"{'seq' if kind == 'sequence_type' else 'optional'}({_type_text(getattr(proto, kind).elem_type)})"
    return f"{'sparse_' * (kind == 'sparse_tensor_type')}tensor({word_of_code(getattr(proto, kind or 'tensor_type').elem_type)})"


def _output(info: onnx.ValueInfoProto, type_: Type, sizes: Sizes | None, named: set[str]) -> NodeArg:
    """As the model declares it; what it leaves open, as the importer found it."""
    from forge.ir.types import TensorType

    declared = _arg(info, sizes)
    if not isinstance(type_, TensorType) or not declared.type.endswith("tensor(" + word(type_.dtype) + ")"):
        return declared if declared.type != "tensor(undefined)" else _arg_of_type(info.name, type_)
    if info.type.WhichOneof("value") not in ("tensor_type", "optional_type"):
        return declared
    found = [_shown(d, named) for d in type_.shape]
    open_ = declared.shape if len(declared.shape) == len(found) else [None] * len(found)
    return NodeArg(info.name, declared.type, [f if isinstance(f, int) or d is None else d for d, f in zip(open_, found)])


def _shown(dim: Dim, named: set[str]) -> Extent:
    """A size, or the name that the model gives it."""
    name = dims.symbol_name(dim)
    return dim if isinstance(dim, int) else name if name in named else None


def _arg_of_type(name: str, type_: Type) -> NodeArg:
    from forge.ir.types import TensorType

    if not isinstance(type_, TensorType):
        return NodeArg(name, _text_of(str(type_).partition("[")[0].lower()), [])
    return NodeArg(name, _text_of(type_.dtype), [d if isinstance(d, int) else str(d) for d in type_.shape])


def _text_of(dtype: str) -> str:
    """The type of a tensor; of containers, what is known without their elements."""
    return {"sequence": "seq(tensor(undefined))", "optional": "optional(tensor(undefined))"}.get(dtype, f"tensor({word(dtype)})")


def _metadata(proto: onnx.ModelProto) -> ModelMetadata:
    entries = {entry.key: entry.value for entry in proto.metadata_props}
    version = proto.model_version if proto.HasField("model_version") else NO_VERSION
    return ModelMetadata(proto.producer_name, proto.graph.name, proto.domain, proto.doc_string, proto.graph.doc_string,
                         version, entries)


def _labels(graph: onnx.GraphProto) -> dict[int, list[tuple[Label, int]]]:
    """Of the outputs that ZipMap makes."""
    positions = {info.name: position for position, info in enumerate(graph.output)}
    found: dict[int, list[tuple[Label, int]]] = {}
    for node in graph.node:
        if node.op_type == "ZipMap" and node.output[0] in positions:
            values = [label for attribute in node.attribute for label in (*attribute.ints, *attribute.strings)]
            labels = [v.decode() if isinstance(v, bytes) else int(v) for v in values]
            found[positions[node.output[0]]] = sorted((label, column) for column, label in enumerate(labels))
    return found
