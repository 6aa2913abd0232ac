"""Weights of a model: by the paths of Keras 3's files, or in the order of whole-model HDF5 files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from forge.errors import ImportModelError
from forge.frontends.keras.hdf5 import Group
from forge.frontends.keras.tree import Layer, snake_case
from forge.frontends.keras.variables import in_old_order, in_order

TOP_LEVEL = "top_level_model_weights"
_OLD_LAYERS = "_layer_checkpoint_dependencies"


class Weights(Protocol):
    """The weights of a model."""

    def find(self, path: str, number: int | str) -> np.ndarray | None:
        """The variable of this number among those of the layer at ``path``; None where there is none."""


class NoWeights:
    """Those of a model that was saved without."""

    def find(self, path: str, number: int | str) -> np.ndarray | None:
        raise ImportModelError(
            f"layer {path!r}: the file has no weights; pass weights= with the path of a .weights.h5, or load a .keras file")


class StoredWeights:
    """Those of ``.weights.h5`` files of Keras 3, each variable at its path."""

    def __init__(self, files: Callable[[str], Sequence[Group]], model: Layer) -> None:
        self._files = files
        self._model = model

    @cached_property
    def _old_paths(self) -> Mapping[str, str]:
        return old_paths(self._model)

    def find(self, path: str, number: int | str) -> np.ndarray | None:
        parent, _, last = path.rpartition("/")
        for root in self._files(path):
            for place in (path, f"{parent}/_{last}".lstrip("/")):  # attributes with and without a property
                found = root.find("/".join(filter(None, (self._path(root, place), "vars", str(number)))))
                if found is not None:
                    return found.array()
        return None

    def _path(self, root: Group, path: str) -> str:
        if _OLD_LAYERS not in root.links:
            return path
        inner, rest = path, ""
        while inner and inner not in self._old_paths:
            inner, _, last = inner.rpartition("/")
            rest = f"/{last}{rest}"
        return self._old_paths.get(inner, inner) + rest if inner else path


def old_paths(model: Layer) -> dict[str, str]:
    """The paths of layers' weights in files of Keras 2.12 and 2.13, by those of Keras 3.

    A model has each layer with weights twice there, and so it counts twice among those of its class.
    """
    found: dict[str, str] = {}
    pending = [(model, "")]
    while pending:
        parent, above = pending.pop()
        used: dict[str, int] = {}
        for child in parent.children.values():
            name = snake_case(child.class_name)
            count = used.get(name, 0)
            used[name] = count + (2 if any(in_order(one) for one in child.walk()) else 1)
            place = f"{above}/{_OLD_LAYERS}/{name}_{count}" if count else f"{above}/{_OLD_LAYERS}/{name}"
            found[child.path] = place.lstrip("/")
            if child.is_model:
                pending.append((child, place))
    return found


class OrderedWeights:
    """Those of whole-model files, which are in the order of the layers' variables."""

    def __init__(self, model: Layer, root: Group) -> None:
        self._model, self._root = model, root

    @cached_property
    def _arrays(self) -> Mapping[tuple[str, int | str], Group]:
        """Variables by place and number.

        Raises:
            ImportModelError: there are more or fewer than the model has.
        """
        stored = {name: found for name in _texts(self._root, "layer_names") if (found := list(_members(self._root, name)))}
        wanted = {child.name: (child, _variables(child, len(stored.get(child.name, ())))) for child in
                  self._model.children.values()}
        wanted = {name: both for name, both in wanted.items() if both[1]}
        if len(stored) != len(wanted):
            raise ImportModelError(f"got weights of {len(stored)} layers; expected those of the {len(wanted)} that have some")
        arrays: dict[tuple[str, int | str], Group] = {}
        for (name, (child, variables)), (position, groups) in zip(wanted.items(), stored.items()):
            groups = stored[name] if stored.keys() == wanted.keys() else groups
            if len(groups) != len(variables):
                raise ImportModelError(
                    f"layer {child.name!r}: got {len(groups)} weights ({position}); expected {len(variables)}")
            arrays.update(zip(variables, groups))
        return arrays

    def find(self, path: str, number: int | str) -> np.ndarray | None:
        found = self._arrays.get((path, number))
        return None if found is None else found.array()


def _variables(layer: Layer, stored: int) -> list[tuple[str, int | str]]:
    """Places and numbers of a layer's variables; those of a custom layer are all that are ``stored`` under its name."""
    known: list[tuple[str, int | str]] = [(variable.path, variable.number) for _, variable in in_old_order(layer)]
    return known or [(layer.path, number) for number in range(stored)]


def _members(root: Group, name: str) -> Iterator[Group]:
    group = root.find(name)
    if group is None:
        raise ImportModelError(f"weights of layer {name[:100]!r} are missing; the file is damaged")
    for weight in _texts(group, "weight_names"):
        found = group.find(weight)
        if found is None:
            raise ImportModelError(f"weight {weight[:100]!r} of layer {name[:100]!r} is missing; the file is damaged")
        yield found


def _texts(group: Group, name: str) -> list[str]:
    """A list of texts, which long ones are cut into: ``name0``, ``name1`` ..."""
    found = group.attributes.get(name)
    if found is None:
        parts: list[Any] = []
        while f"{name}{len(parts)}" in group.attributes:
            parts.append(group.attributes[f"{name}{len(parts)}"])
        found = [text for part in parts for text in part]
    if not isinstance(found, list):
        raise ImportModelError(f"{group.path!r}: got {name} {found!r}; expected a list; the file is damaged")
    return found


def sharded(weight_map: Mapping[str, Any], open_file: Callable[[str], Group], model: Layer) -> StoredWeights:
    """Weights in several files; ``weight_map`` says which ones have those of a layer."""
    opened: dict[str, Group] = {}

    def files(path: str) -> list[Group]:
        names = weight_map.get(f"/{path}/vars" if path else "/vars", weight_map.get(path, []))
        found = []
        for name in [names] if isinstance(names, str) else names if isinstance(names, list) else []:
            if name not in opened:
                opened[name] = open_file(str(name))
            found.append(opened[name])
        return found

    return StoredWeights(files, model)
