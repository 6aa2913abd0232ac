"""From an ONNX model to a module of the graph IR."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from forge import ops  # noqa: F401
from forge.dims import Dim
from forge.errors import ImportModelError, OptionError, option
from forge.frontends.convert import finished, located
from forge.frontends.inputs import (
    DEFAULT_DTYPE,
    UNKNOWN_SIZES,
    DimensionNames,
    DtypeDict,
    ShapeDict,
    add_inputs,
    canonical_dtype,
    check_arguments,
    check_names,
    check_single_dtype,
)
from forge.frontends.onnx import converters
from forge.frontends.onnx.convert import convert_nodes
from forge.frontends.onnx.functions import expanded_size
from forge.frontends.onnx.loader import LoadedModel, load
from forge.frontends.onnx.named_model import save_with_node_names
from forge.frontends.onnx.ranks import Ranks, with_ranks
from forge.frontends.onnx.registry import REGISTRY
from forge.frontends.onnx.scope import OnnxScope, OnnxState
from forge.frontends.onnx.support import used_operators
from forge.frontends.onnx.tensors import declared_type, dimension_labels, element_code
from forge.frontends.support import MISSING, Use, check_supported
from forge.ir.graph import Graph, Module
from forge.ir.types import TensorType, Type, UnrankedType

CONVERT_CONFIG = {"use_nt_batch_matmul": True, "drop_zipmap": False}

converters.load_all()


def import_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto | LoadedModel,
    shape: ShapeDict | None = None,
    dtype: DtypeDict = DEFAULT_DTYPE,
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | os.PathLike[str] | None = None,
    *,
    unify_dimensions: bool = True,
) -> Module:
    """Converts an ONNX model, which may be loaded already; everything else is as of ``IRModule.from_onnx``."""
    flags = {"freeze_params": freeze_params, "unify_dimensions": unify_dimensions}
    check_arguments("from_onnx", shape, dtype, opset, flags)
    loaded = model if isinstance(model, LoadedModel) else load(model)
    state = _state(loaded, freeze_params, convert_config)
    opsets = model_opsets(loaded, opset)
    if not isinstance(export_node_renamed_model_path, str | os.PathLike | None):
        raise OptionError(f"from_onnx: export_node_renamed_model_path: got {export_node_renamed_model_path!r}; expected a path")
    if export_node_renamed_model_path is not None:
        save_with_node_names(loaded, export_node_renamed_model_path)
    with located(loaded.where):
        check_supported(used_operators(loaded.proto.graph, state, opsets), REGISTRY)

        def attempt(ranks: Ranks) -> Module:
            fresh = replace(state, ranks=ranks, params={})
            return _convert(loaded.proto.graph, fresh, opsets, shape or {}, dtype, unify_dimensions)

        return with_ranks(attempt)


def from_onnx(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    shape_dict: ShapeDict | None = None,
    dtype_dict: DtypeDict | None = DEFAULT_DTYPE,
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> Module:
    """Converts an ONNX model, in the calling form of Relax: see ``forge.relax.from_onnx``."""
    flags = {"keep_params_in_input": keep_params_in_input, "sanitize_input_names": sanitize_input_names}
    check_arguments("from_onnx", shape_dict, dtype_dict or DEFAULT_DTYPE, opset, flags)
    module = import_model(model, shape_dict, dtype_dict or DEFAULT_DTYPE, opset, not keep_params_in_input)
    if sanitize_input_names:
        _sanitize(module)
    return module


def model_operators(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> list[Use]:
    """The operators that a model uses, and what loads each.

    Raises:
        ImportModelError: the model cannot be read.
    """
    loaded = load(model)
    with located(loaded.where):
        return used_operators(loaded.proto.graph, _state(loaded, True, None), model_opsets(loaded, None))


def unsupported_operators(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> list[str]:
    """Names of operators of a model that cannot be converted, domain first, in order of first use."""
    return [REGISTRY.full_name(use.domain, use.op) for use in model_operators(model) if use.how == MISSING]


def model_opsets(loaded: LoadedModel, override: int | None) -> dict[str, int]:
    """Versions of operator sets by domain.

    Raises:
        ImportModelError: a version is newer than the onnx package, or is not a version.
    """
    opsets = {REGISTRY.canonical(o.domain): o.version for o in loaded.proto.opset_import}
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


def _state(loaded: LoadedModel, freeze_params: bool, convert_config: Mapping[str, Any] | None) -> OnnxState:
    if convert_config is not None and not isinstance(convert_config, Mapping):
        raise OptionError(f"from_onnx: convert_config: got {convert_config!r}; expected options by name, as in {CONVERT_CONFIG}")
    for name, value in (convert_config or {}).items():
        if name not in CONVERT_CONFIG:
            raise OptionError(f"from_onnx: convert_config: unknown entry {name!r}; expected {', '.join(CONVERT_CONFIG)}")
        if not isinstance(value, bool):
            raise OptionError(f"from_onnx: convert_config: {name}: got {value!r}; expected True or False")
    own = {(REGISTRY.canonical(f.domain), f.name, f.overload): f for f in loaded.proto.functions}
    config = {**CONVERT_CONFIG, **(convert_config or {})}
    return OnnxState(
        size=loaded.size, freeze_params=freeze_params, reader=loaded.reader, convert_config=config, functions=own
    )


def _convert(
    proto: onnx.GraphProto, state: OnnxState, opsets: dict[str, int], shape: ShapeDict, dtype: DtypeDict, unify_dimensions: bool
) -> Module:
    state.check_expansion(expanded_size(proto.node, state.functions))
    outputs = [output.name for output in proto.output]
    scope = OnnxScope(Graph(name="main"), state, opsets)
    scope.add_initializers(proto)
    scope.add_declarations(proto)
    _add_inputs(scope, proto, shape, dtype, unify_dimensions)
    convert_nodes(scope, proto.node, outputs)
    scope.graph.outputs = [scope.required(name) for name in outputs]
    state.ranks.check_outputs(scope.graph.outputs)
    return finished(scope, outputs)


def _add_inputs(scope: OnnxScope, proto: onnx.GraphProto, shape: ShapeDict, dtype: DtypeDict, unify_dimensions: bool) -> None:
    for name in {i.name for i in proto.input} & scope.weights.keys() & shape.keys():
        del scope.weights[name]  # the user gives it, in the place of the initializer
    inputs = [i for i in proto.input if i.name not in scope.weights]
    check_names([i.name for i in inputs], shape, dtype)
    labels = DimensionNames(label for info in inputs if unify_dimensions for label in dimension_labels(info.type))
    types = [_input_type(labels, position, info, shape, dtype) for position, info in enumerate(inputs)]
    named = list(zip([i.name for i in inputs], types))
    check_single_dtype(dtype, named)
    add_inputs(scope, named, labels, shape)


def _input_type(
    labels: DimensionNames, position: int, info: onnx.ValueInfoProto, shape: ShapeDict, dtype: DtypeDict
) -> Type:
    where = f"input {info.name!r}"

    def name_dim(axis: int, proto: onnx.TensorShapeProto.Dimension) -> Dim:
        if proto.HasField("dim_value") and proto.dim_value >= 0:
            return int(proto.dim_value)
        if proto.dim_param in labels:
            return labels.symbol(proto.dim_param)
        return labels.unknown(f"input_{position}_dim{axis}" if proto.dim_param in UNKNOWN_SIZES else proto.dim_param)

    proto = onnx.TypeProto()
    proto.CopyFrom(info.type)
    override = _dtype_override(dtype, info.name, proto)
    if override is not None and proto.WhichOneof("value") in (None, "tensor_type"):
        proto.tensor_type.elem_type = element_code(canonical_dtype(override, where))
    type_ = declared_type(proto, name_dim, where)
    if not isinstance(type_, UnrankedType):
        return type_
    if info.name not in shape:
        raise ImportModelError(f"{where}: the model declares no shape; expected its rank; give it one with {option('shape=')}")
    return TensorType(tuple(labels.unknown(f"input_{position}_dim{axis}") for axis in range(len(shape[info.name]))), type_.dtype)


def _dtype_override(dtype: DtypeDict, name: str, proto: onnx.TypeProto) -> str | None:
    if isinstance(dtype, Mapping):
        return dtype.get(name)
    declared = proto.WhichOneof("value") is not None and (
        proto.WhichOneof("value") != "tensor_type" or proto.tensor_type.elem_type != onnx.TensorProto.UNDEFINED
    )
    return None if declared else dtype


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
