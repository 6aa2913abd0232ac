"""How models written with ``forge.nn`` call registered functions with numbers and texts: in debug mode, and by ``extern``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from forge_runtime.arrays import Array
from forge_runtime.errors import FunctionError
from forge_runtime.registry import get_registered_func, register_func

INVOKE = "vm.builtin.invoke_debug_func"
PRINT = "vm.builtin.debug_print"
CALL = "forge.builtin.invoke_function"


@register_func(INVOKE)
def invoke_debug_func(call: Array, *tensors: Array) -> None:
    """Calls ``function(line, *arguments)``, as `invoke_function` does."""
    invoke_function(call, *tensors)


@register_func(CALL)
def invoke_function(call: Array, *arrays: Array) -> Any:
    """Calls ``function(*arguments, *results)``, and returns what that does.

    Args:
        call: UTF-8 text of a JSON object: ``function``, the name of a registered function, and ``arguments``: numbers and texts,
            and null where the next one of ``arrays`` is.
        arrays: tensors among the arguments, then results.

    Raises:
        FunctionError: it is not registered, or ``call`` is none.
    """
    try:
        described = json.loads(bytes(call).decode())
        name, arguments = described["function"], list(described["arguments"])
    except (ValueError, KeyError, TypeError) as error:
        raise FunctionError(f"call_registered: the model does not say what it calls ({error})") from error
    function = get_registered_func(name)
    if function is None:
        raise FunctionError(f"call_registered: the function {name!r} is not registered; register it with register_func")
    given = iter(arrays)
    listed = [next(given, None) if argument is None else argument for argument in arguments]
    return function(*listed, *given)


@register_func(PRINT)
def debug_print(line: str, value: Any) -> None:
    """Prints a value and where the program does so."""
    print(f"{line}: {value}", flush=True)  # noqa: T201 - which is what it is for


@register_func("vm.builtin.multinomial_from_uniform")
def multinomial_from_uniform(prob: Array, uniform_sample: Array, *rest: Array) -> None:
    """As ``nn.multinomial_from_uniform``; ``rest`` is the result, after ``sample_indices`` if they are there."""
    result = rest[-1]
    rows = np.asarray(prob)[rest[0].reshape(-1)] if len(rest) > 1 else np.asarray(prob)
    below = (np.cumsum(rows, axis=1, dtype=np.float64) <= uniform_sample).sum(axis=1, keepdims=True)
    np.copyto(result, np.minimum(below, rows.shape[1] - 1), casting="unsafe")
