"""The graph of a functional model: which call of which layer reads the results of which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError
from forge.frontends.keras.scope import flat
from forge.frontends.keras.tree import Layer

_CONSTANT = "_CONSTANT_VALUE"
Place = tuple[str, int, int]
"""A result: a layer, which of its calls, which of its results."""


@dataclass(frozen=True)
class Reference:
    """A result of another call, in arguments."""

    place: Place


@dataclass(frozen=True)
class Call:
    """A call of a layer: which one, and its arguments with `Reference` in them."""

    layer: Layer
    number: int
    arguments: Sequence[Any]
    named: Mapping[str, Any]

    def references(self) -> list[Place]:
        return [leaf.place for leaf in flat([list(self.arguments), dict(self.named)]) if isinstance(leaf, Reference)]


@dataclass
class Function:
    """A functional model.

    Attributes:
        inputs: names of its input layers, flattened.
        structure: of its inputs, with their names.
        outputs: the structure of its results, with `Reference`.
        calls: by layer and number.
    """

    inputs: Sequence[str]
    structure: Any
    outputs: Any
    calls: Mapping[tuple[str, int], Call]

    def arranged(self, given: Any) -> list[Any]:
        """Inputs in the order of the input layers."""
        if isinstance(given, dict) and all(name in given for name in self.inputs):
            return [given[name] for name in self.inputs]
        return flat(given)

    def ordered(self) -> Iterator[Call]:
        """Calls that results need, each after those whose results it reads.

        Raises:
            ImportModelError: there is a cycle, or a call is missing.
        """
        done = {(name, 0) for name in self.inputs}
        pending = [leaf.place[:2] for leaf in reversed(flat(self.outputs)) if isinstance(leaf, Reference)]
        opened = set()
        while pending:
            key = pending[-1]
            if key in done:
                pending.pop()
                continue
            call = self.calls.get(key)
            if call is None:
                raise ImportModelError(f"call {key[1]} of layer {key[0][:100]!r} is read, and is not in the model; it is damaged")
            missing = [place[:2] for place in call.references() if place[:2] not in done]
            if not missing:
                pending.pop()
                done.add(key)
                yield call
                continue
            if key in opened:
                raise ImportModelError(f"layer {key[0][:100]!r} reads its own result; the model is damaged")
            opened.add(key)
            pending += reversed(missing)

    def resolved(self, call: Call, found: Mapping[tuple[str, int], Sequence[Any]]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of a call, with results in the place of references."""
        return _replaced(list(call.arguments), found), _replaced(dict(call.named), found)

    def results(self, found: Mapping[tuple[str, int], Sequence[Any]]) -> Any:
        return _replaced(self.outputs, found)


def _replaced(given: Any, found: Mapping[tuple[str, int], Sequence[Any]]) -> Any:
    if isinstance(given, Reference):
        name, number, position = given.place
        results = found[name, number]
        if position >= len(results):
            raise ImportModelError(
                f"result {position} of layer {name[:100]!r} is read; it has {len(results)}; the model is damaged")
        return results[position]
    if isinstance(given, list | tuple):
        return type(given)(_replaced(item, found) for item in given)
    if isinstance(given, dict):
        return {key: _replaced(item, found) for key, item in given.items()}
    return given


def function_of(model: Layer) -> Function:
    """The graph of a functional model.

    Raises:
        ImportModelError: it is not that of Keras.
    """
    layers = {child.name: child for child in model.children.values()}
    if len(layers) != len(model.children):
        raise ImportModelError(f"model {model.name!r} has two layers of one name; the model is damaged")
    at_border = _places(layers, lambda layer: 1 if layer.is_model and layer.class_name != "Sequential" else 0)
    structure = at_border(model.config.get("input_layers"))
    inputs = [leaf.place[0] for leaf in flat(structure) if isinstance(leaf, Reference)]
    outputs = _single(at_border(model.config.get("output_layers")))
    if not inputs or not flat(outputs) or not all(isinstance(leaf, Reference) for leaf in flat([structure, outputs])):
        raise ImportModelError(f"model {model.name!r}: its inputs or outputs are not results of layers; the model is damaged")
    calls = {}
    inside = _places(layers, lambda layer: 1 if layer.is_model else 0)
    for layer in layers.values():
        for number, node in enumerate(layer.calls):
            arguments, named = _arguments(node, layers, inside)
            calls[layer.name, number] = Call(layer, number, arguments, named)
    return Function(inputs, structure, outputs, calls)


def _single(found: Any) -> Any:
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def _places(layers: Mapping[str, Layer], first: Callable[[Layer], int]) -> Callable[[Any], Any]:
    """What makes references of ``[layer, call, result]`` in a structure; calls of a layer are counted from ``first``."""

    def read(found: Any) -> Any:
        if isinstance(found, list) and len(found) >= 3 and isinstance(found[0], str) and found[0] in layers:
            layer = layers[found[0]]
            number, position = found[1], found[2]
            if type(number) is not int or type(position) is not int or position < 0:
                raise ImportModelError(f"got the place {str(found)[:80]}; expected a layer and two numbers; the model is damaged")
            return Reference((layer.name, _number(layer, number - first(layer)), position))
        if isinstance(found, list) and len(found) in (3, 4) and found[0] == _CONSTANT:
            return found[2]
        if isinstance(found, list | tuple):
            return [read(item) for item in found]
        if isinstance(found, dict):
            return {key: read(item) for key, item in found.items()}
        return found

    return read


def _number(layer: Layer, number: int) -> int:
    """Which call; models count a call that made them, in some versions of Keras."""
    return max(0, min(number, len(layer.calls) - 1)) if layer.is_model else max(number, 0)


def _arguments(node: Any, layers: Mapping[str, Layer], inside: Callable[[Any], Any]) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(node, list):
        named: dict[str, Any] = {}
        if node and isinstance(node[0], str):
            node = [node]
        for item in node:
            if isinstance(item, list) and len(item) == 4 and isinstance(item[3], dict):
                named |= inside(item[3])
        return [_single([inside(item) for item in node])], named
    if not isinstance(node, dict):
        raise ImportModelError(f"got {str(node)[:80]!r}; expected a call with args and kwargs; the model is damaged")
    arguments, named = (revived(node.get(key) or empty, layers) for key, empty in (("args", []), ("kwargs", {})))
    if not isinstance(arguments, list | tuple) or not isinstance(named, dict):
        raise ImportModelError(f"got {str(node)[:80]!r}; expected a call with args and kwargs; the model is damaged")
    return list(arguments), named


def revived(found: Any, layers: Mapping[str, Layer]) -> Any:
    """A serialized argument: references, arrays, slices and plain values."""
    if isinstance(found, list | tuple):
        return [revived(item, layers) for item in found]
    if not isinstance(found, dict):
        return found
    kind, config = found.get("class_name"), found.get("config")
    if not isinstance(kind, str) or not isinstance(config, dict):
        return {key: revived(item, layers) for key, item in found.items()}
    if kind == "__keras_tensor__":
        history = config.get("keras_history")
        is_place = isinstance(history, list) and len(history) == 3 and isinstance(history[0], str) and history[0] in layers
        if not isinstance(history, list) or not is_place or any(type(number) is not int or number < 0 for number in history[1:]):
            raise ImportModelError(f"got the tensor {str(history)[:80]}; expected a result of a layer; the model is damaged")
        return Reference((history[0], _number(layers[history[0]], history[1]), history[2]))
    if kind in ("__tensor__", "__numpy__"):
        return _array(config)
    if kind == "__slice__":
        return slice(*(revived(config.get(key), layers) for key in ("start", "stop", "step")))
    if kind == "__ellipsis__":
        return Ellipsis
    if kind == "__tuple__":
        return tuple(revived(config.get("value", []), layers))
    return found


def _array(config: Mapping[str, Any]) -> np.ndarray:
    try:
        kind = dtypes.numpy_dtype(dtypes.canonical(config.get("dtype")))
        found = np.asarray(config.get("value"), kind)
    except (TypeError, ValueError) as error:
        raise ImportModelError(f"got a constant that is not an array ({str(error)[:100]}); the model is damaged") from error
    return found
