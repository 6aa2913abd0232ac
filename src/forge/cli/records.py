"""Arguments of verbs that stand for the fields of a record of options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from forge.driver import check_options
from forge.options import CompileOptions, Option, OutputOptions, options_of

_RECORDS: dict[Any, Callable[..., Any]] = {CompileOptions: check_options, OutputOptions: OutputOptions}


def takes_records(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For a verb: each parameter that is a record of options becomes one argument for each option that the command line has.

    Args:
        without: flags that this verb does not take, or declares itself.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(verb, include_extras=True)
        parameters: list[inspect.Parameter] = []
        records: dict[str, list[str]] = {}
        for parameter in inspect.signature(verb).parameters.values():
            known = options_of(hints[parameter.name]) if hints[parameter.name] in _RECORDS else ()
            taken = [o for o in known if o.flag and o.flag not in without]
            if known:
                records[parameter.name] = [o.name for o in taken]
            parameters += [_argument(o) for o in taken] or [parameter.replace(annotation=hints[parameter.name])]

        @functools.wraps(verb)
        def run(**given: Any) -> None:
            for name, options in records.items():
                given[name] = _RECORDS[hints[name]](**{option: given.pop(option) for option in options})
            verb(**given)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _argument(option: Option) -> inspect.Parameter:
    said = option.declaration
    limits: dict[str, Any] = {"min": said.values[0], "max": said.values[-1]} if isinstance(said.values, range) else {}
    kind: Any = str | None if option.default is None else list[str] if option.default == () else type(option.default)
    annotation = Annotated[kind, typer.Option(*said.flags, metavar=said.metavar or None, help=said.help, **limits)]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation)
