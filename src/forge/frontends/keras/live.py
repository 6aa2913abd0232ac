"""Models in memory that no file describes: subclassed ones, and those with custom layers. Their backend traces them.

What is traced is what the model computes at inference, which the importer of the backend reads.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from forge.errors import ForgeError, ImportModelError, OptionError, option
from forge.frontends.formats import find
from forge.frontends.keras.coverage import used_layers
from forge.frontends.keras.loader import import_model
from forge.frontends.keras.sources import read
from forge.frontends.support import MISSING
from forge.ir.graph import Module

_BATCH = "batch"


def import_live(model: Any, shape: Mapping[str, Sequence[Any]] | None, layout: str) -> Module:
    """The module of a model in memory: of its layers where all have converters, else of what its backend traces.

    Raises:
        ForgeError: neither is possible.
    """
    try:
        source = read(model)
    except ImportModelError:  # it cannot be saved
        return traced(model, shape, layout)
    if source.model.is_model and all(use.how != MISSING for use in used_layers(source.model).values()):
        return import_model(source, shape, layout)
    return traced(model, shape, layout)


def traced(model: Any, shape: Mapping[str, Sequence[Any]] | None, layout: str) -> Module:
    """The module of a model that its backend traces; inputs are called as the model's.

    Raises:
        ImportModelError: the shapes of its inputs are not known, or its backend cannot trace it.
    """
    keras = sys.modules.get("keras") or sys.modules[type(model).__mro__[-2].__module__.partition(".")[0]]
    inputs = _inputs(model, shape or {})
    turns = layout == "NCHW" and any(
        getattr(layer, "data_format", None) == "channels_last" for layer in model._flatten_layers())
    given = {name: _turned(sizes) if turns else sizes for name, (sizes, _) in inputs.items()}

    def call(**values: Any) -> Any:
        tensors = [_moved(keras, value, True) if turns else value for value in values.values()]
        found = model(tensors[0] if len(tensors) == 1 else tensors, training=False)
        return keras.tree.map_structure(lambda y: _moved(keras, y, False), found) if turns else found

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in given if name.isidentifier()]
    if len(parameters) == len(given):  # inputs are called as they are
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    backend = keras.backend.backend()
    tracers: dict[str, Callable[..., Module]] = {"jax": _by_jax, "torch": _by_torch, "tensorflow": _by_tensorflow}
    if backend not in tracers:
        raise ImportModelError(f"got a model of the backend {backend!r}; expected one of: {', '.join(tracers)}")
    with _tracing(model, backend):
        return tracers[backend](call, given, {name: dtype for name, (_, dtype) in inputs.items()})


@contextlib.contextmanager
def _tracing(model: Any, backend: str) -> Iterator[None]:
    """Names the model in errors of its backend, which may raise anything; those of the importer pass."""
    try:
        yield
    except ForgeError:
        raise
    except Exception as error:
        raise ImportModelError(
            f"Keras model {model.name!r}: {backend} cannot trace it: {type(error).__name__}: {' '.join(str(error).split())[:500]}"
            f"; where it needs sizes that are known, pass them with {option('shape=')}, as in {{'x': (1, 3)}}") from error


def _inputs(model: Any, shape: Mapping[str, Sequence[Any]]) -> dict[str, tuple[tuple[Any, ...], str]]:
    """Sizes, with texts for those that are open, and types by name."""
    symbolic = getattr(model, "inputs", None)
    if symbolic:
        found = {x.name: (tuple(x.shape), str(x.dtype)) for x in symbolic}
        unknown = [name for name in shape if name not in found]
        if unknown:
            raise ImportModelError(f"{option('shape=')} names {unknown[0]!r}; expected an input: {', '.join(found)}")
        return {name: (_named(name, shape.get(name, sizes)), dtype) for name, (sizes, dtype) in found.items()}
    config: dict[str, Any] = getattr(model, "get_build_config", dict)() or {}
    built = config.get("input_shape")
    if shape:
        return {name: (_named(name, sizes), model.compute_dtype) for name, sizes in shape.items()}
    if not isinstance(built, list | tuple) or any(isinstance(size, list | tuple) for size in built):
        raise OptionError(
            f"from_keras: model {model.name!r}: the shapes of its inputs are not known; expected "
            f"{option('shape=')}, as in {{'x': (None, 3)}}, in the order of its inputs")
    return {"input": (_named("input", built), model.compute_dtype)}


def _named(name: str, sizes: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((_BATCH if axis == 0 else f"{name}_dim{axis}") if size is None else size for axis, size in enumerate(sizes))


def _turned(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    return (sizes[0], sizes[-1], *sizes[1:-1]) if len(sizes) in (4, 5) else sizes


def _moved(keras: Any, value: Any, to_last: bool) -> Any:
    rank = len(value.shape)
    if rank not in (4, 5):
        return value
    order = (0, *range(2, rank), 1) if to_last else (0, rank - 1, *range(1, rank - 1))
    return keras.ops.transpose(value, order)


def _by_jax(call: Callable[..., Any], sizes: Mapping[str, tuple[Any, ...]], dtypes: Mapping[str, str]) -> Module:
    import jax
    from jax import export

    texts = sorted({str(size) for shape in sizes.values() for size in shape if isinstance(size, str)})
    symbols: dict[Any, Any] = dict(zip(texts, export.symbolic_shape(",".join(texts)))) if texts else {}
    given = {
        name: jax.ShapeDtypeStruct(tuple(symbols.get(size, size) for size in shape), dtypes[name])
        for name, shape in sizes.items()}
    return find("jax").load(call, **given)


def _by_torch(call: Callable[..., Any], sizes: Mapping[str, tuple[Any, ...]], dtypes: Mapping[str, str]) -> Module:
    import torch

    class Called(torch.nn.Module):  # type: ignore[misc]
        def forward(self, values: dict[str, Any]) -> Any:
            return call(**values)

    examples = {
        name: torch.ones([3 if isinstance(size, str) else size for size in shape], dtype=getattr(torch, dtypes[name]))
        for name, shape in sizes.items()}
    named = {size: torch.export.Dim(size) for shape in sizes.values() for size in shape if isinstance(size, str)}
    dynamic = {
        name: {axis: named[size] for axis, size in enumerate(shape) if isinstance(size, str)}
        for name, shape in sizes.items()}
    with torch.no_grad():
        program = torch.export.export(Called().eval(), (examples,), dynamic_shapes=(dynamic,))
    return find("torch").load(program)


def _by_tensorflow(call: Callable[..., Any], sizes: Mapping[str, tuple[Any, ...]], dtypes: Mapping[str, str]) -> Module:
    import tensorflow as tf

    specs = {
        name: tf.TensorSpec([None if isinstance(size, str) else size for size in shape], dtypes[name], name)
        for name, shape in sizes.items()}
    return find("tensorflow").load(tf.function(call).get_concrete_function(**specs))
