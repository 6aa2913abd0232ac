"""Loads models: reads them, checks that all layers are known, and converts their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dtypes, ops  # noqa: F401
from forge.dims import Dim
from forge.errors import ImportModelError, OptionError
from forge.frontends.convert import located
from forge.frontends.inputs import DimensionNames, ShapeDict, add_inputs, check_arguments, check_names
from forge.frontends.keras.coverage import used_layers
from forge.frontends.keras.graph import function_of
from forge.frontends.keras.importer import run_model
from forge.frontends.keras.registry import REGISTRY
from forge.frontends.keras.scope import KerasScope, KerasState, Tensor, flat
from forge.frontends.keras.sources import Source
from forge.frontends.keras.tree import Layer
from forge.frontends.state.writes import module_of
from forge.frontends.support import check_supported
from forge.ir import types
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value

_LAYOUTS = ("NCHW", "NHWC")
_BATCH = "batch"


def import_model(source: Source, shape: ShapeDict | None = None, layout: str = "NCHW") -> Module:
    """The module of the graph IR that a model means; see `from_keras`.

    Raises:
        ImportModelError: it is not valid; OpNotImplemented: it has layers without a converter, all listed.
    """
    check_arguments("from_keras", shape, {}, None, {})
    if layout not in _LAYOUTS:
        raise OptionError(f"from_keras: layout: got {layout!r}; expected one of: {', '.join(_LAYOUTS)}")
    with located(source.where):
        used = used_layers(source.model)
        check_supported(used.values(), REGISTRY)
        if not source.model.is_model:
            raise ImportModelError(
                f"got the class {source.model.class_name!r} without a graph of layers; expected a functional or sequential one; "
                "pass it in memory")
        size = sum(use.count for use in used.values())
        state = KerasState(size=size, weights=source.weights, is_old=source.version[:2] in ("1.", "2."))
        scope = KerasScope(Graph(name="main"), state, {})
        turns = layout == "NCHW" and _has_channels_last(source.model)
        declared = _inputs(source.model)
        values = _add_inputs(scope, declared, shape or {}, turns)
        wanted: Any = [Tensor(value) for value in values]
        found = run_model(scope, source.model, wanted[0] if source.model.class_name == "Sequential" else wanted)
        results = [(name, _turned(scope, tensor.value, False) if turns else tensor.value)
                   for name, tensor in zip(_output_names(source.model, found), flat(found))]
        return module_of(scope, results, list(scope.state.states.items()))


def _has_channels_last(model: Layer) -> bool:
    """Whether layers have images with channels last, and none has them first."""
    found = {layer.config.get("data_format") for layer in model.walk() if "data_format" in layer.config}
    return "channels_first" not in found and bool(found)


def _inputs(model: Layer) -> list[tuple[str, tuple[int | None, ...], str]]:
    """Names, sizes and types of a model's inputs.

    Raises:
        ImportModelError: the model does not say them.
    """
    if model.class_name != "Sequential":
        layers = {child.name: child for child in model.children.values()}
        return [_input(layers[name]) for name in function_of(model).inputs]
    first = next(iter(model.children.values()), None)
    if first is None:
        raise ImportModelError(f"model {model.name!r} has no layers; expected some")
    if first.class_name == "InputLayer":
        return [_input(first)]
    if first.is_model:
        return _inputs(first)
    sizes = first.config.get("batch_input_shape") or model.build.get("input_shape") or model.config.get("build_input_shape")
    if isinstance(sizes, list) and sizes:
        kind = "int32" if first.class_name == "Embedding" else first.policy.compute
        return [_checked("input", sizes, first.config.get("dtype") if isinstance(first.config.get("dtype"), str) else kind)]
    raise ImportModelError(f"model {model.name!r} does not say the shape of its input; build it, or begin it with an InputLayer")


def _input(layer: Layer) -> tuple[str, tuple[int | None, ...], str]:
    if layer.class_name != "InputLayer":
        raise ImportModelError(f"input {layer.name!r}: got a {layer.class_name}; expected an InputLayer; the model is damaged")
    if layer.config.get("sparse") or layer.config.get("ragged"):
        raise ImportModelError(f"input {layer.name!r}: got a sparse or ragged one; expected a dense tensor")
    sizes = layer.config.get("batch_shape", layer.config.get("batch_input_shape"))
    return _checked(layer.name, sizes, layer.policy.variables)


def _checked(name: str, sizes: Any, dtype: Any) -> tuple[str, tuple[int | None, ...], str]:
    is_shape = isinstance(sizes, list) and all(size is None or type(size) is int and size >= 0 for size in sizes)
    if not is_shape or not isinstance(dtype, str):
        raise ImportModelError(f"input {name!r}: got the sizes {str(sizes)[:80]}; expected numbers; the model is damaged")
    if dtype in ("mixed_float16", "mixed_bfloat16"):
        dtype = "float32"
    return name, tuple(sizes), dtypes.canonical(dtype)


def _add_inputs(
    scope: KerasScope, declared: Sequence[tuple[str, tuple[int | None, ...], str]], shape: ShapeDict, turns: bool
) -> list[Value]:
    labels = DimensionNames([_BATCH])
    typed: list[tuple[str, types.Type]] = []
    for name, sizes, dtype in declared:
        named: list[Dim] = []
        for axis, size in enumerate(sizes):
            open_size = labels.symbol(_BATCH) if axis == 0 else labels.unknown(f"{name}_dim{axis}")
            named.append(open_size if size is None else size)
        if turns and len(sizes) in (4, 5):
            named.insert(1, named.pop())
        typed.append((name, types.TensorType(tuple(named), dtype)))
    check_names([name for name, _ in typed], shape, {})
    inner = KerasScope(scope.graph, scope.state, {}, taken=scope.taken)
    add_inputs(inner, typed, labels, shape)
    values = [inner.required(name) for name, _ in typed]
    for value in values:
        scope.note_sizes(value)
    return [_turned(scope, value, True) for value in values] if turns else values


def _turned(scope: KerasScope, value: Value, to_last: bool) -> Value:
    """An image with its channels last, or first."""
    if value.rank not in (4, 5):
        return value
    spatial = range(2, value.rank) if to_last else range(1, value.rank - 1)
    order = (0, *spatial, 1) if to_last else (0, value.rank - 1, *spatial)
    return Builder(scope.graph).call("transpose", value, axes=order)


def _output_names(model: Layer, found: Any) -> list[str]:
    """What results are called: by the keys of a dictionary, or the layers that give them."""
    if isinstance(found, dict):
        wanted = [key for key in sorted(found) for _ in flat(found[key])]
    elif model.class_name == "Sequential":
        last = [child.name for child in model.children.values()][-1]
        wanted = [last] * len(flat(found))
    else:
        wanted = [leaf.place[0] for leaf in flat(function_of(model).outputs)]
    names: list[str] = []
    for name in wanted:
        unique, number = name, 1
        while unique in names:
            unique, number = f"{name}_{number}", number + 1
        names.append(unique)
    return names
