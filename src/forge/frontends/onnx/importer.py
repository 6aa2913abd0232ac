"""From an ONNX model to a module of the graph IR."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from forge import dims, dtypes, ops  # noqa: F401
from forge.dims import Dim
from forge.errors import ImportModelError, OptionError, option
from forge.frontends.onnx import converters, registry
from forge.frontends.onnx.convert import convert_nodes, located, required
from forge.frontends.onnx.functions import expanded_size
from forge.frontends.onnx.loader import LoadedModel, load
from forge.frontends.onnx.named_model import save_with_node_names
from forge.frontends.onnx.prune import prune
from forge.frontends.onnx.ranks import Ranks, with_ranks
from forge.frontends.onnx.scope import Options, Scope
from forge.frontends.onnx.support import MISSING, Use, check_supported, used_operators
from forge.frontends.onnx.tensors import DimensionNames, declared_type, dimension_labels, element_code
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Module
from forge.ir.types import TensorType, Type, UnrankedType, substitute

ShapeDict = Mapping[str, Sequence[Any]]
DEFAULT_DTYPE = "float32"
CONVERT_CONFIG = {"use_nt_batch_matmul": True, "drop_zipmap": False}

converters.load_all()


def import_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto | LoadedModel,
    shape: ShapeDict | None = None,
    dtype: str | Mapping[str, str] = DEFAULT_DTYPE,
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | os.PathLike[str] | None = None,
) -> Module:
    """Converts an ONNX model.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``; or one that is loaded. External data is read from the
            path's folder.
        shape: sizes of inputs by name, where the model leaves them open: numbers, None to keep, or texts. A text that the model
            has as a label of a dimension means that one; any other is an integer expression of symbols (``2*n``).
        dtype: element types of inputs by name, in the place of the model's; a single one is for inputs whose type the model
            leaves open, and refused where it contradicts all that the model says.
        opset: version of the default operator set, instead of what the model says.
        freeze_params: weights become constants; otherwise inputs of main after the model's own, with their values in
            ``Module.params`` (small integer vectors, which steer operators, are constants all the same).
        convert_config: ``use_nt_batch_matmul`` (default True): products of rank 3 become ``nn.batch_matmul`` with a transposed
            right side.
            ``drop_zipmap``: the results of ZipMap, maps, which compiled models lack, are the tensors of scores instead.
        export_node_renamed_model_path: writes the model there, with a name for each node.

    Raises:
        OptionError: an argument of the wrong kind, or an unknown entry of ``convert_config``.
        ImportModelError: the model cannot be read, contradicts itself, ``shape`` or ``dtype``.
        OpNotImplemented: operators are not supported; all of them are listed.
        OpAttributeInvalid, OpAttributeUnimplemented: an attribute is wrong, or not supported.
    """
    _check_arguments(shape, dtype, opset, {"freeze_params": freeze_params})
    loaded = model if isinstance(model, LoadedModel) else load(model)
    options = _options(loaded, freeze_params, convert_config)
    opsets = model_opsets(loaded, opset)
    if not isinstance(export_node_renamed_model_path, str | os.PathLike | None):
        raise OptionError(f"from_onnx: export_node_renamed_model_path: got {export_node_renamed_model_path!r}; expected a path")
    if export_node_renamed_model_path is not None:
        save_with_node_names(loaded, export_node_renamed_model_path)
    with located(loaded.where):
        check_supported(loaded.proto.graph, options, opsets)

        def attempt(ranks: Ranks) -> Module:
            options = replace(_options(loaded, freeze_params, convert_config), ranks=ranks)
            return _convert(loaded.proto.graph, options, opsets, shape or {}, dtype)

        return with_ranks(attempt)


def from_onnx(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    shape_dict: ShapeDict | None = None,
    dtype_dict: str | Mapping[str, str] | None = DEFAULT_DTYPE,
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> Module:
    """Converts an ONNX model, in the calling form of Relax.

    ``keep_params_in_input`` is the opposite of ``freeze_params`` of ``import_model``. With ``sanitize_input_names``, inputs get
    names that are identifiers: other characters become ``_``, and a first one that is no letter gets ``input_`` before it.
    ``shape_dict`` and ``dtype_dict`` go by the model's own names. Raises what ``import_model`` raises.
    """
    flags = {"keep_params_in_input": keep_params_in_input, "sanitize_input_names": sanitize_input_names}
    _check_arguments(shape_dict, dtype_dict or DEFAULT_DTYPE, opset, flags)
    module = import_model(model, shape_dict, dtype_dict or DEFAULT_DTYPE, opset, not keep_params_in_input)
    if sanitize_input_names:
        _sanitize(module)
    return module


def _check_arguments(shape: Any, dtype: Any, opset: Any, flags: Mapping[str, Any]) -> None:
    """Raises OptionError where the kind of an argument is wrong."""
    shapes = shape.items() if isinstance(shape, Mapping) else ()
    if shape is not None and not (isinstance(shape, Mapping) and all(isinstance(name, str) for name in shape)):
        where = f"from_onnx: {option('shape')}"
        raise OptionError(f"{where}: got {shape!r}; expected shapes by name of input, as in {{'x': (1, 3, 224, 224)}}")
    for name, sizes in shapes:
        if isinstance(sizes, str) or not isinstance(sizes, Sequence):
            raise OptionError(f"from_onnx: {option('shape')}: got {sizes!r} for {name!r}; expected a tuple of sizes")
    if not isinstance(dtype, str) and not (isinstance(dtype, Mapping) and all(isinstance(d, str) for d in dtype.values())):
        where = f"from_onnx: {option('dtype')}"
        raise OptionError(f"{where}: got {dtype!r}; expected an element type, or element types by name of input")
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int)):
        raise OptionError(f"from_onnx: opset: got {opset!r}; expected a number")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"from_onnx: {name}: got {flag!r}; expected True or False")


def model_operators(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> list[Use]:
    """The operators that a model uses, and what loads each.

    Raises:
        ImportModelError: the model cannot be read.
    """
    loaded = load(model)
    with located(loaded.where):
        return used_operators(loaded.proto.graph, _options(loaded, True, None), model_opsets(loaded, None))


def unsupported_operators(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> list[str]:
    """Names of operators of a model that cannot be converted, domain first, in order of first use."""
    return [f"{use.domain or 'ai.onnx'}.{use.op}" for use in model_operators(model) if use.how == MISSING]


def model_opsets(loaded: LoadedModel, override: int | None) -> dict[str, int]:
    """Versions of operator sets by domain.

    Raises:
        ImportModelError: a version is newer than the onnx package, or is no version.
    """
    opsets = {registry.canonical_domain(o.domain): o.version for o in loaded.proto.opset_import}
    opsets.setdefault("", 1)
    if override is not None:
        opsets[""] = override
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opsets[""] <= newest:
        raise ImportModelError(
            f"{loaded.where}: got opset {opsets['']}; expected 1 to {newest} (onnx {onnx.__version__}); "
            "upgrade the onnx package, or export for an older opset"
        )
    return opsets


def _options(loaded: LoadedModel, freeze_params: bool, convert_config: Mapping[str, Any] | None) -> Options:
    if convert_config is not None and not isinstance(convert_config, Mapping):
        raise OptionError(f"from_onnx: convert_config: got {convert_config!r}; expected options by name, as in {CONVERT_CONFIG}")
    for name, value in (convert_config or {}).items():
        if name not in CONVERT_CONFIG:
            raise OptionError(f"from_onnx: convert_config: unknown entry {name!r}; expected {', '.join(CONVERT_CONFIG)}")
        if not isinstance(value, bool):
            raise OptionError(f"from_onnx: convert_config: {name}: got {value!r}; expected True or False")
    own = {(registry.canonical_domain(f.domain), f.name, f.overload): f for f in loaded.proto.functions}
    config = {**CONVERT_CONFIG, **(convert_config or {})}
    return Options(loaded.reader, freeze_params, config, own, size=loaded.size)


def _convert(
    proto: onnx.GraphProto, options: Options, opsets: dict[str, int], shape: ShapeDict, dtype: str | Mapping[str, str]
) -> Module:
    options.check_expansion(expanded_size(proto.node, options.functions))
    scope = Scope(Graph(name="main"), options, opsets)
    scope.add_initializers(proto)
    _add_inputs(scope, proto, shape, dtype)
    convert_nodes(scope, proto.node, [output.name for output in proto.output])
    scope.graph.outputs = [required(scope, output.name) for output in proto.output]
    options.ranks.check_outputs(scope.graph.outputs)
    _name_outputs(scope, [output.name for output in proto.output])
    prune(scope.graph)
    _drop_unused_parameters(scope)
    return Module(scope.graph, {name: options.params[name] for name in scope.parameters})


def _add_inputs(scope: Scope, proto: onnx.GraphProto, shape: ShapeDict, dtype: str | Mapping[str, str]) -> None:
    inputs = [i for i in proto.input if i.name not in scope.initializers]
    names = [i.name for i in inputs]
    for what, given in (("shape=", shape), ("dtype=", dtype if isinstance(dtype, Mapping) else {})):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ImportModelError(f"{option(what)} names {unknown[0]!r}; expected an input: {', '.join(names) or 'none'}")
    labels = DimensionNames(label for info in inputs for label in dimension_labels(info.type))
    types = [_input_type(labels, position, info, shape, dtype) for position, info in enumerate(inputs)]
    if isinstance(dtype, str):
        _check_single_dtype(dtype, inputs, types)
    sizes = _Sizes(labels)
    for info, type_ in zip(inputs, types):
        if info.name in shape:
            sizes.unify(info.name, type_, shape[info.name])
    for info, type_ in zip(inputs, types):
        scope.define(info.name, scope.graph.add_input(substitute(type_, sizes.values), scope.unique(info.name)))


def _input_type(
    labels: DimensionNames, position: int, info: onnx.ValueInfoProto, shape: ShapeDict, dtype: str | Mapping[str, str]
) -> Type:
    where = f"input {info.name!r}"

    def name_dim(axis: int, proto: onnx.TensorShapeProto.Dimension) -> Dim:
        if proto.HasField("dim_value") and proto.dim_value >= 0:
            return int(proto.dim_value)
        return labels.symbol(proto.dim_param) if proto.dim_param in labels else labels.unknown(f"input_{position}_dim{axis}")

    proto = onnx.TypeProto()
    proto.CopyFrom(info.type)
    override = _dtype_override(dtype, info.name, proto)
    if override is not None and proto.WhichOneof("value") in (None, "tensor_type"):
        proto.tensor_type.elem_type = _element_code(override, where)
    type_ = declared_type(proto, name_dim, where)
    if not isinstance(type_, UnrankedType):
        return type_
    if info.name not in shape:
        raise ImportModelError(f"{where}: the model declares no shape; expected its rank; give it one with {option('shape=')}")
    return TensorType(tuple(labels.unknown(f"input_{position}_dim{axis}") for axis in range(len(shape[info.name]))), type_.dtype)


def _dtype_override(dtype: str | Mapping[str, str], name: str, proto: onnx.TypeProto) -> str | None:
    if isinstance(dtype, Mapping):
        return dtype.get(name)
    declared = proto.WhichOneof("value") is not None and (
        proto.WhichOneof("value") != "tensor_type" or proto.tensor_type.elem_type != onnx.TensorProto.UNDEFINED
    )
    return None if declared else dtype


def _check_single_dtype(dtype: str, inputs: Sequence[onnx.ValueInfoProto], types: Sequence[Type]) -> None:
    """Raises ImportModelError where a single ``dtype``, other than the default, is that of no input."""
    tensors = [(i.name, t.dtype) for i, t in zip(inputs, types) if isinstance(t, TensorType)]
    if dtype == DEFAULT_DTYPE or not tensors or _canonical(dtype, option('dtype=')) in [found for _, found in tensors]:
        return
    name, found = tensors[0]
    raise ImportModelError(
        f"input {name!r}: {option('dtype=')} gives {dtype}; the model declares {found}; "
        f"pass {option('dtype=')}{{{name!r}: {dtype!r}}} to replace that"
    )


def _element_code(dtype: str, where: str) -> int:
    return element_code(_canonical(dtype, where))


def _canonical(dtype: str, where: str) -> str:
    try:
        return dtypes.canonical(dtype)
    except TypeError as error:
        raise ImportModelError(f"{where}: {error}") from error


class _Sizes:
    """Values that ``shape=`` gives to the sizes that the model leaves open."""

    def __init__(self, labels: DimensionNames) -> None:
        self.values: dict[str, Dim] = {}
        self._labels = labels
        self._given_by: dict[str, str] = {}

    def unify(self, name: str, type_: Type, given: Sequence[Any]) -> None:
        """Binds symbols of ``type_`` so that it has the sizes ``given``.

        Raises:
            ImportModelError: it cannot; the message names both sides.
        """
        where = f"input {name!r}"
        differ = f"{where}: {option('shape=')} gives {tuple(given)}; the model declares {type_}"
        if not isinstance(type_, TensorType):
            raise ImportModelError(f"{differ}, which has no shape")
        if len(given) != type_.rank:
            raise ImportModelError(f"{differ} of rank {type_.rank}")
        for axis, (declared, size) in enumerate(zip(type_.shape, given)):
            if size is not None and size != -1:
                self._bind(f"{where}, axis {axis}", declared, self._dim(size, where))

    def _bind(self, where: str, declared: Dim, size: Dim) -> None:
        label = dims.symbol_name(declared)
        if label is not None and label not in self.values:
            self.values[label], self._given_by[label] = size, where
        elif not dims.equal(declared if label is None else self.values[label], size):
            other = "" if label is None else f"{self._given_by[label]} gives {self.values[label]} for {label!r}; "
            raise ImportModelError(
                f"{where}: {option('shape=')} gives {size}; the model declares {declared}; {other}expected them to be equal"
            )

    def _dim(self, size: Any, where: str) -> Dim:
        if isinstance(size, dims.DimExpr):
            return size
        if isinstance(size, str):
            return self._labels.symbol(size) if size in self._labels else dims.parse(size)
        try:
            number = int(size)
        except (TypeError, ValueError):
            number = -1
        if number < 0 or number != size:
            raise ImportModelError(f"{where}: {option('shape=')} gives {size!r}; expected a size, the name of a symbol, or None")
        return number


def _name_outputs(scope: Scope, names: Sequence[str]) -> None:
    """Gives each output its own value with the model's name; inputs and repeated values are copied."""
    graph = scope.graph
    seen: set[int] = set()
    for position, name in enumerate(names):
        value = graph.outputs[position]
        if value.producer is None or id(value) in seen or value.constant is not None and value.name != name:
            value = Builder(graph).call("copy", value)
            graph.outputs[position] = value
        value.name = name
        seen.add(id(value))


def _drop_unused_parameters(scope: Scope) -> None:
    """Keeps parameters that are used, in the order of the model."""
    outputs = {id(v) for v in scope.graph.outputs}
    used = {n: v for n, v in scope.parameters.items() if v.uses or id(v) in outputs}
    parameters = {id(v) for v in scope.parameters.values()}
    scope.parameters = {name: used[name] for name in scope.initializers if name in used}
    own = [v for v in scope.graph.inputs if id(v) not in parameters]
    scope.graph.inputs = [*own, *scope.parameters.values()]


def _sanitize(module: Module) -> None:
    taken: set[str] = set()
    params: dict[str, np.ndarray] = {}
    for value in module.main.inputs:
        old = value.name
        name = re.sub(r"\W", "_", old.removeprefix("onnx::") if old in module.params else old, flags=re.ASCII)
        name = name if name[:1].isalpha() else f"input_{name}"
        while name in taken:
            name += "_"
        taken.add(name)
        value.name = name
        if old in module.params:
            params[name] = module.params[old]
    module.params = params
