"""Looking at tensors while a model runs: ``print_``, and functions of the program that it calls."""

from __future__ import annotations

import json
import sys

import numpy as np

from forge.dims import DimExpr
from forge.errors import OptionError
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, tracing
from forge_runtime.debugging import INVOKE, PRINT


def debug_func(name: str, *args: Tensor | DimExpr | int | float | str, _line_info: str | None = None) -> None:
    """Calls a registered function when the model runs: ``function(line, *args)``, with arrays in the place of tensors::

        @forge.register_func("largest")
        def largest(line, x):
            print(line, x.max())

    Calls stay in the order of the program. The module must be exported with ``debug=True``.

    Args:
        name: under which the function is registered when the model runs.
        args: tensors, sizes, numbers and texts.
        _line_info: what the function gets as ``line``; by default the file and line of this call.

    Raises:
        OptionError: the module is not exported in debug mode, or an argument is something else.
    """
    if tracing("debug_func").io is None:
        raise OptionError("debug_func: is called outside of debug mode; expected export(..., debug=True)")
    g = Context("debug_func")
    tensors = [g.value(x) for x in args if isinstance(x, Tensor | DimExpr)]
    wrong = next((x for x in args if not isinstance(x, Tensor | DimExpr | int | float | str)), None)
    if wrong is not None:
        raise OptionError(f"debug_func: {name!r}: got {type(wrong).__name__}; expected tensors, sizes, numbers and texts")
    line = _caller() if _line_info is None else _line_info
    call = json.dumps({"function": name, "arguments": [line, *(None if isinstance(x, Tensor | DimExpr) else x for x in args)]})
    described = g.constant(np.frombuffer(call.encode(), np.uint8))
    g.multi("call_registered", described, *tensors, function=INVOKE, shapes=(), dtypes=())


def print_(tensor: Tensor) -> None:
    """Prints a tensor when the model runs, with the file and line of this call. It is a `debug_func`.

    Raises:
        OptionError: the module is not exported in debug mode.
    """
    debug_func(PRINT, tensor)


def _caller() -> str:
    """The file and line of the program that calls this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("forge.nn"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
