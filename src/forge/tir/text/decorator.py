"""Programs out of the source of Python functions."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from forge.errors import OptionError
from forge.tir.text.programs import Program, parse_program, read_program


class Buffer:
    """For annotations of programs: ``Buffer[("n", 4), "float32"]``, which Python evaluates, and which is read as text."""

    def __class_getitem__(cls, _: object) -> type[Buffer]:
        return cls


def program(function: Callable[..., Any]) -> Program:
    """Decorator: the program that the source of ``function`` is; it is read, and never called.

    Names that are neither bound in it nor sizes of its parameters stand for numbers around the function. A name in a shape is a
    size, unless a number has that name.

    Raises:
        OptionError: the source is not at hand, as in an interactive session.
        ParseError: it is not a program.
    """
    text, constants = _source(function, "tir.program")
    return read_program(parse_program(text, constants).text)


def _source(function: Callable[..., Any], what: str) -> tuple[str, dict[str, int | float | bool]]:
    try:
        text = textwrap.dedent(inspect.getsource(function))
        names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        around = inspect.getclosurevars(function).nonlocals
    except (OSError, TypeError, SyntaxError) as error:
        raise OptionError(f"{what}: got {function!r}, whose source is not at hand; expected a function in a file; "
                          "else give its text, or use tir.Builder") from error
    known = {**{n: function.__globals__[n] for n in names if n in function.__globals__}, **around}
    return text, {n: v for n, v in known.items() if isinstance(v, bool | int | float)}
