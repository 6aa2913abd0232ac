"""Inputs of a model as the user describes them: the loaders' ``shape`` and ``dtype``, and names of dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forge import dims, dims_text, dtypes
from forge.dims import Dim, DimExpr
from forge.errors import ImportModelError, OptionError, option
from forge.frontends.scope import Scope
from forge.ir.types import TensorType, Type, substitute

ShapeDict = Mapping[str, Sequence[Any]]
DtypeDict = str | Mapping[str, str]
DEFAULT_DTYPE = "float32"

UNKNOWN_SIZES = frozenset({"", "_", "?", "-1", "None", "none", "null", "unknown", "Unknown", "undefined"})
"""Texts by which exporters say no more of a dimension than that its size is unknown."""


class DimensionNames:
    """Turns dimension texts of a model into symbols.

    A text is a label, never arithmetic: equal texts are equal sizes, ``2*n`` and ``n`` have nothing in common. The symbol has the
    label as its name, shortened where it is longer than names may be. ``UNKNOWN_SIZES`` are not labels.
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        for label in labels:
            if label not in UNKNOWN_SIZES and label not in self._names:
                self._names[label] = self._unused(label)

    def __contains__(self, text: str) -> bool:
        return text in self._names

    def symbol(self, label: str) -> DimExpr:
        """The size that the model calls ``label``."""
        return dims.symbol(self._names[label])

    def unknown(self, name: str) -> DimExpr:
        """A size that the model gives no label; it is called ``name`` if no other is."""
        return dims.symbol(self._unused(name))

    def _unused(self, name: str) -> str:
        unique, number = name[: dims.MAX_NAME], 1
        while unique in self._taken:
            suffix = f"_{number}"
            unique, number = name[: dims.MAX_NAME - len(suffix)] + suffix, number + 1
        self._taken.add(unique)
        return unique


def check_arguments(loader: str, shape: Any, dtype: Any, opset: Any, flags: Mapping[str, Any]) -> None:
    """Raises OptionError where the kind of an argument of ``loader`` is wrong."""
    shapes = shape.items() if isinstance(shape, Mapping) else ()
    if shape is not None and not (isinstance(shape, Mapping) and all(isinstance(name, str) for name in shape)):
        where = f"{loader}: {option('shape')}"
        raise OptionError(f"{where}: got {shape!r}; expected shapes by name of input, as in {{'x': (1, 3, 224, 224)}}")
    for name, sizes in shapes:
        if isinstance(sizes, str) or not isinstance(sizes, Sequence):
            raise OptionError(f"{loader}: {option('shape')}: got {sizes!r} for {name!r}; expected a tuple of sizes")
    if not isinstance(dtype, str) and not (isinstance(dtype, Mapping) and all(isinstance(d, str) for d in dtype.values())):
        where = f"{loader}: {option('dtype')}"
        raise OptionError(f"{where}: got {dtype!r}; expected an element type, or element types by name of input")
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int)):
        raise OptionError(f"{loader}: opset: got {opset!r}; expected a number")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"{loader}: {name}: got {flag!r}; expected True or False")


def add_inputs(scope: Scope[Any], types: Sequence[tuple[str, Type]], labels: DimensionNames, shape: ShapeDict) -> None:
    """Adds inputs of main, with the sizes that ``shape`` gives."""
    sizes = Sizes(labels)
    for name, type_ in types:
        if name in shape:
            sizes.unify(name, type_, shape[name])
    for name, type_ in types:
        scope.define(name, scope.graph.add_input(substitute(type_, sizes.values), scope.unique(name)))


def check_names(names: Sequence[str], shape: ShapeDict, dtype: DtypeDict) -> None:
    """Raises ImportModelError where ``shape`` or ``dtype`` names something else than an input."""
    for what, given in (("shape=", shape), ("dtype=", dtype if isinstance(dtype, Mapping) else {})):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ImportModelError(f"{option(what)} names {unknown[0]!r}; expected an input: {', '.join(names) or 'none'}")


def check_single_dtype(dtype: DtypeDict, types: Sequence[tuple[str, Type]]) -> None:
    """Raises ImportModelError where a single ``dtype``, other than the default, is that of no input."""
    tensors = {name: t.dtype for name, t in types if isinstance(t, TensorType)}
    if not isinstance(dtype, str) or dtype == DEFAULT_DTYPE or not tensors:
        return
    if canonical_dtype(dtype, option("dtype=")) not in tensors.values():
        name, found = next(iter(tensors.items()))
        raise ImportModelError(
            f"input {name!r}: {option('dtype=')} gives {dtype}; the model declares {found}; "
            f"pass {option('dtype=')}{{{name!r}: {dtype!r}}} to replace that"
        )


def canonical_dtype(dtype: str, where: str) -> str:
    """Raises ImportModelError for what is not an element type."""
    try:
        return dtypes.canonical(dtype)
    except TypeError as error:
        raise ImportModelError(f"{where}: {error}") from error


class Sizes:
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
            return self._labels.symbol(size) if size in self._labels else dims_text.parse(size)
        try:
            number = int(size)
        except (TypeError, ValueError):
            number = -1
        if number < 0 or number != size:
            raise ImportModelError(f"{where}: {option('shape=')} gives {size!r}; expected a size, the name of a symbol, or None")
        return number
