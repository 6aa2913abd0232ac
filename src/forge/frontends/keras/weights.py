"""Weights of a model: by the paths of Keras 3's files, or in the order of whole-model HDF5 files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from forge.errors import ImportModelError
from forge.frontends.keras.hdf5 import Group
from forge.frontends.keras.tree import Layer
from forge.frontends.keras.variables import in_old_order

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

    def __init__(self, files: Callable[[str], Sequence[Group]]) -> None:
        self._files = files

    def find(self, path: str, number: int | str) -> np.ndarray | None:
        parent, _, last = path.rpartition("/")
        for root in self._files(path):
            for place in (path, f"{parent}/_{last}".lstrip("/")):  # attributes with and without a property
                found = root.find("/".join(filter(None, (self._path(root, place), "vars", str(number)))))
                if found is not None:
                    return found.array()
        return None

    @staticmethod
    def _path(root: Group, path: str) -> str:
        return path.replace("layers", _OLD_LAYERS) if _OLD_LAYERS in root.links else path


class OrderedWeights:
    """Those of whole-model files, which are in the order of the layers' variables."""

    def __init__(self, model: Layer, root: Group) -> None:
        """Raises ImportModelError: there are more or fewer than the model has."""
        self._arrays: dict[tuple[str, int | str], Group] = {}
        stored = _texts(root, "layer_names")
        groups = [(name, found) for name in stored if (found := list(_members(root, name)))]
        wanted = [(child, own) for child in model.children.values() if (own := in_old_order(child))]
        if len(groups) != len(wanted):
            raise ImportModelError(f"got weights of {len(groups)} layers; expected those of the {len(wanted)} that have some")
        by_name = dict(groups)
        are_named = all(child.name in by_name for child, _ in wanted)
        for (child, variables), (name, arrays) in zip(wanted, groups):
            arrays = by_name[child.name] if are_named else arrays
            if len(arrays) != len(variables):
                raise ImportModelError(f"layer {child.name!r}: got {len(arrays)} weights ({name}); expected {len(variables)}")
            for (_, variable), array in zip(variables, arrays):
                self._arrays[variable.path, variable.number] = array

    def find(self, path: str, number: int | str) -> np.ndarray | None:
        found = self._arrays.get((path, number))
        return None if found is None else found.array()


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


def sharded(weight_map: Mapping[str, Any], open_file: Callable[[str], Group]) -> StoredWeights:
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

    return StoredWeights(files)
