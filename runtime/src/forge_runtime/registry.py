"""Functions that compiled models call by name: ``call_registered`` in a model calls what was registered here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar, overload

import numpy as np

from forge_runtime import _native
from forge_runtime.arrays import Array, as_array, dtype_name, output_dtypes
from forge_runtime.errors import FunctionError

_LARGE = 128 << 10
"""Bytes from which on arrays take memory that the runtime keeps: for such blocks NumPy's allocator asks the system each time."""

F = TypeVar("F", bound=Callable[..., Any])
Described = tuple[memoryview, str, tuple[int, ...]]  # memory of the model, element type, shape


class _Entry:
    """What native code holds under a name, from the first registration on for ever; ``function`` is None while there is none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.function: Callable[..., Any] | None = None

    def __call__(self, inputs: Sequence[Described], outputs: Sequence[Described]) -> str | None:
        """Calls the function for a model.

        The function gets memory of its own, because what it keeps (in a list, or in the traceback of an exception) outlives the
        call, and the model's memory does not.

        Returns:
            What is wrong with its results, or None.
        """
        try:
            values = [_copy(*described) for described in inputs]
            results = [_empty(_numpy_type(dtype), shape, memory.nbytes) for memory, dtype, shape in outputs]
            made = self.run(values, results)
            if isinstance(made, str):
                return made
            for (memory, dtype, shape), result in zip(outputs, made, strict=True):
                np.copyto(np.ndarray(shape, _numpy_type(dtype), memory), result)
            return None
        finally:
            for memory, _, _ in (*inputs, *outputs):
                memory.release()

    def run(self, values: Sequence[Array], results: Sequence[Array]) -> Sequence[Array] | str:
        """The ``results`` that the function fills, or returns, for ``values``, which become read-only; or what is wrong."""
        if self.function is None:
            return "it is not registered any more; register it again"
        for value in values:
            value.flags.writeable = False
        returned = self.function(*values, *results)
        return results if returned is None else _checked(returned, results)


_ENTRIES: dict[str, _Entry] = {}
_WRITING = threading.RLock()
"""Held by who registers or removes; what the collector of garbage runs meanwhile may register, too."""


@overload
def register_func(name: F, *, override: bool = False) -> F: ...
@overload
def register_func(name: str, function: F, *, override: bool = False) -> F: ...
@overload
def register_func(name: str | None = None, *, override: bool = False) -> Callable[[F], F]: ...
def register_func(name: Any = None, function: Any = None, *, override: bool = False) -> Any:
    """Registers a function that models call by name (operator ``call_registered``), for the whole process.

    ``@register_func``, ``@register_func("name")`` and ``register_func("name", function)``; without a name, the function's own.
    The function is called as ``function(*values, *results)`` with NumPy arrays, in the thread that called the model, with the
    interpreter lock. ``values`` are read-only; it fills ``results``, or returns arrays of exactly their shapes and element types
    (one array, or a tuple of them where there are several). The arrays are copies, which it may keep. What it raises ends the
    call of the model and is raised there, with a note that says where in the model the call is.

    Models look for functions here when they are loaded and at every call, so that ``override`` also takes effect on models that
    are loaded already.

    Raises:
        FunctionError: the name is taken, and ``override`` is False; or there is no name, or no function.
    """
    if callable(name):
        return _registered(getattr(name, "__name__", ""), name, override)
    if function is not None:
        return _registered(name, function, override)
    return lambda decorated: _registered(getattr(decorated, "__name__", "") if name is None else name, decorated, override)


def get_registered_func(name: str) -> Callable[..., Any] | None:
    """The function registered under ``name``; None where there is none."""
    entry = _ENTRIES.get(name)
    return entry and entry.function


def remove_registered_func(name: str) -> None:
    """Takes the name out of the registry; calls of it that have begun go on, later ones fail.

    Raises:
        FunctionError: no function has that name.
    """
    with _WRITING:
        if get_registered_func(name) is None:
            raise FunctionError(f"remove_registered_func: no function is registered as {name!r}")
        _native.unregister_function(name)
        _ENTRIES[name].function = None


def call(name: str, values: Sequence[Array], results: Sequence[Array]) -> Sequence[Array]:
    """What the function registered under ``name`` makes of ``values``: ``results``, which it has filled, or what it returned.

    Raises:
        FunctionError: there is none, or it returns something else than ``results`` are.
    """
    entry = _ENTRIES.get(name) or _Entry(name)
    if entry.function is None:
        raise FunctionError(f"call_registered: the function {name!r} is not registered; register it with register_func")
    made = entry.run([np.array(value) for value in values], results)
    if isinstance(made, str):
        raise FunctionError(f"call_registered: the function {name!r}: {made}")
    return made


def _registered(name: object, function: Any, override: bool) -> Any:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise FunctionError(f"register_func: name; got {name!r}; expected printable text that is not empty")
    if not callable(function):
        raise FunctionError(f"register_func: {name!r}; got {type(function).__name__}; expected a function")
    with _WRITING:
        if not override and get_registered_func(name) is not None:
            raise FunctionError(f"register_func: {name!r} is registered already; pass override=True to replace it")
        entry = _ENTRIES.setdefault(name, _Entry(name))
        entry.function = function
        _native.register_function(name, entry)
    return function


@cache
def _numpy_type(dtype: str) -> np.dtype[Any]:
    storage, view = output_dtypes(dtype)
    return storage if view is None else view


def _copy(memory: memoryview, dtype: str, shape: tuple[int, ...]) -> Array:
    copied = _empty(_numpy_type(dtype), shape, memory.nbytes)  # first: what this raises must not hold the model's memory
    np.copyto(copied, np.ndarray(shape, copied.dtype, memory))
    return copied


def _empty(dtype: np.dtype[Any], shape: tuple[int, ...], size: int) -> Array:
    return np.ndarray(shape, dtype, None if size < _LARGE else memoryview(_native.allocate(size)))


def _checked(returned: Any, results: Sequence[Array]) -> Sequence[Array] | str:
    """What a function returned, as arrays of the types of ``results``; or what is wrong with it."""
    given = returned if isinstance(returned, tuple | list) and len(results) != 1 else (returned,)
    if len(given) != len(results):
        return f"number of results; got {len(given)}; expected {len(results)}, or None where it fills its last arguments"
    arrays = []
    for number, (value, result) in enumerate(zip(given, results)):
        array = _as_array(value)
        if array is None or array.dtype != result.dtype or array.shape != result.shape:
            got = type(value).__name__ if array is None else _described(array)
            return f"result {number}; got {got}; expected {_described(result)}; nothing is converted or broadcast silently"
        arrays.append(array)
    return arrays


def _as_array(value: Any) -> Array | None:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    with contextlib.suppress(BufferError, RuntimeError, TypeError, ValueError):
        return as_array(value, "result") if hasattr(value, "__dlpack__") else None
    return None


def _described(array: Array) -> str:
    return f"{dtype_name(array.dtype)} {list(array.shape)}"
