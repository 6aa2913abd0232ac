"""What models written with ``forge.nn`` call in debug mode: functions that look at tensors while the model runs."""

from __future__ import annotations

import json
from typing import Any

from forge_runtime.arrays import Array
from forge_runtime.errors import FunctionError
from forge_runtime.registry import get_registered_func, register_func

INVOKE = "vm.builtin.invoke_debug_func"
PRINT = "vm.builtin.debug_print"


@register_func(INVOKE)
def invoke_debug_func(call: Array, *tensors: Array) -> None:
    """Calls ``function(line, *arguments)``.

    Args:
        call: UTF-8 text of a JSON object: ``function``, the name of a registered function; ``line``, where the program calls it;
            ``arguments``, numbers and texts, and null where the next one of ``tensors`` is.

    Raises:
        FunctionError: it is not registered, or ``call`` is none.
    """
    try:
        described = json.loads(bytes(call).decode())
        name, line, arguments = described["function"], described["line"], list(described["arguments"])
    except (ValueError, KeyError, TypeError) as error:
        raise FunctionError(f"debug_func: the model does not say what it calls ({error})") from error
    function = get_registered_func(name)
    if function is None:
        raise FunctionError(f"debug_func: {line}: the function {name!r} is not registered; register it with register_func")
    given = iter(tensors)
    function(line, *(next(given) if argument is None else argument for argument in arguments))


@register_func(PRINT)
def debug_print(line: str, value: Any) -> None:
    """Prints a value and where the program does so."""
    print(f"{line}: {value}", flush=True)  # noqa: T201 - which is what it is for
