"""Converts calls of layers: a model's graph, one call after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forge import dtypes
from forge.errors import ImportModelError, OpAttributeInvalid, OpNotImplemented
from forge.frontends.convert import located
from forge.frontends.converter import Converter
from forge.frontends.keras import masks
from forge.frontends.keras.context import Context
from forge.frontends.keras.graph import Function, function_of
from forge.frontends.keras.registry import REGISTRY, is_for_training
from forge.frontends.keras.scope import KerasScope, Tensor, flat, mapped, masks_of, values_of
from forge.frontends.keras.tree import FUNCTIONS, OPS, Layer
from forge.frontends.scope import name_nodes
from forge.ir.nodes import Value

_KEEPS_TYPES = frozenset({
    "Embedding", "Hashing", "HashedCrossing", "IntegerLookup", "StringLookup", "TextVectorization", "CategoryEncoding",
    "RandomFlip", "RandomCrop", "Pipeline", "InputLayer", "ReversibleEmbedding"})
"""Layers that get their inputs as they are."""
_NOT_READ = ("training", "name")
"""Arguments of calls that do not matter to results."""


def call_layer(scope: KerasScope, layer: Layer, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a layer gives for structures of `Tensor`, as such a structure.

    Raises:
        ForgeError: it cannot be converted; the message names it.
    """
    scope.state.count_node()
    with located(f"{REGISTRY.full_name(layer.domain, layer.class_name)} {scope.prefix + layer.name!r}"):
        row = REGISTRY.lookup(layer.domain, layer.class_name, 1)
        if layer.is_model and (row is None or not row.is_own):
            return _call_model(scope, layer, arguments)
        if row is None:
            raise OpNotImplemented(f"no converter; {REGISTRY.refusal(layer.domain, layer.class_name) or 'register one'}")
        return _converted(scope, row, layer, arguments, named)


def _run(scope: KerasScope, layer: Layer, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """`call_layer` for values, without masks."""
    wrapped = mapped((list(arguments), dict(named)), Tensor, Value)
    return values_of(call_layer(scope, layer, wrapped[0], wrapped[1]))


def _converted(scope: KerasScope, row: Converter, layer: Layer, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    context = Context(scope, layer, _run)
    start = len(scope.graph.nodes)
    bound = _bound(context, row, layer, arguments, named)
    if layer.domain not in (OPS, FUNCTIONS) and bound and not all(isinstance(leaf, Tensor) for leaf in flat(bound[0])):
        raise OpAttributeInvalid(f"got {str(bound[0])[:80]}; expected a tensor, or a list of them")
    operands = [_computed(context, value) for value in values_of(bound)]
    attributes = {
        name: _frozen(value) for name, value in {**layer.config, **values_of(_options(row, layer, named))}.items()
        if name in row.attributes or not is_for_training(name)}
    if row.is_own and not row.takes_all:
        attributes = {name: value for name, value in attributes.items() if name in row.attributes}
    found = REGISTRY.convert(row, context, operands, attributes)
    made = scope.graph.nodes.before(None, len(scope.graph.nodes) - start)
    producers = [v.producer for v in flat(found) if isinstance(v, Value) and v.producer is not None]
    ids = {id(node) for node in made}
    name_nodes(made, {node: context.name for node in producers if id(node) in ids}, context.name)
    return _with_masks(context, layer, bound, found)


def _frozen(found: Any) -> Any:
    return tuple(_frozen(item) for item in found) if isinstance(found, list | tuple) else found


def _bound(context: Context, row: Converter, layer: Layer, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Arguments by the converter's positional parameters; masks that its inputs have are given where it takes them."""
    if row.max_operands is None:
        return [*arguments]
    given = dict(zip(row.operands, arguments))
    if len(arguments) > len(row.operands):
        raise OpAttributeInvalid(f"got {len(arguments)} arguments; expected at most {len(row.operands)}")
    for name, value in named.items():
        if name in row.operands:
            given[name] = value
        elif name not in (*_NOT_READ, *_options(row, layer, named)) and value is not None and not (
                layer.domain == OPS and value is False):
            raise OpAttributeInvalid(f"got the argument {name!r}; expected one of: {', '.join(row.operands) or 'none'}")
    if not layer.domain or row.is_own:
        _give_masks(row, given)
    last = max((k for k, name in enumerate(row.operands) if name in given), default=-1)
    return [given.get(name) for name in row.operands[: max(last + 1, row.min_operands)]]


def _options(row: Converter, layer: Layer, named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a function of TensorFlow that are attributes of its converter."""
    if layer.domain != FUNCTIONS:
        return {}
    return {k: v for k, v in named.items() if k not in (*row.operands, *_NOT_READ) and v is not None}


def _give_masks(row: Converter, given: dict[str, Any]) -> None:
    tensors = {name: value for name, value in given.items() if any(isinstance(leaf, Tensor) for leaf in flat(value))}
    if len(tensors) == 1 and "mask" in row.operands:
        (value,) = tensors.values()
        found = masks_of(value)
        if given.get("mask") is None and any(leaf is not None for leaf in flat(found)):
            given["mask"] = mapped(found, Tensor, Value)
        return
    for name, value in tensors.items():
        if f"{name}_mask" in row.operands and given.get(f"{name}_mask") is None and isinstance(value, Tensor):
            given[f"{name}_mask"] = None if value.mask is None else Tensor(value.mask)


def _computed(context: Context, found: Any) -> Any:
    """Arguments of a layer in the type that it computes in."""
    layer = context.layer
    if layer.domain in (OPS, FUNCTIONS) or layer.class_name in _KEEPS_TYPES:
        return found
    return mapped(
        found, lambda v: context.cast(v, layer.policy.compute) if dtypes.is_float(v.dtype) else v, Value)


def _with_masks(context: Context, layer: Layer, bound: Sequence[Any], found: Any) -> Any:
    rule = masks.RULES.get(layer.class_name) if not layer.domain else None
    if rule is None:
        return mapped(found, Tensor, Value)
    return rule(context, bound, found)


def _call_model(scope: KerasScope, model: Layer, arguments: Sequence[Any]) -> Any:
    inner = scope.inlined(f"{scope.prefix}{model.name}/")
    return run_model(inner, model, arguments[0] if arguments else [])


def run_model(scope: KerasScope, model: Layer, inputs: Any) -> Any:
    """The results of a functional or sequential model for its inputs, a structure of `Tensor`."""
    if model.class_name == "Sequential":
        for child in model.children.values():
            if child.class_name != "InputLayer":
                inputs = call_layer(scope, child, [inputs], {})
        return inputs
    return _run_function(scope, function_of(model), inputs)


def _run_function(scope: KerasScope, function: Function, inputs: Any) -> Any:
    found: dict[tuple[str, int], list[Any]] = {}
    given = function.arranged(inputs)
    if len(given) != len(function.inputs):
        raise ImportModelError(f"got {len(given)} inputs; expected {len(function.inputs)}: {', '.join(function.inputs)}")
    for name, tensor in zip(function.inputs, given):
        found[name, 0] = [tensor]
    for call in function.ordered():
        arguments, named = function.resolved(call, found)
        results = call_layer(scope, call.layer, arguments, named)
        found[call.layer.name, call.number] = flat(results)
    return function.results(found)
