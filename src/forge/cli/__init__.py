"""The command line: ``forge VERB``, the verbs being those of `VERBS`.

A verb is a module of this package: a function whose signature is its options, and ``EXAMPLES``, which the tests execute. It is
imported when it is used, so that ``forge --version`` does not wait for the compiler.
"""

from __future__ import annotations

import ast
import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from forge._version import __version__

VERBS = tuple(
    "inspect view export quantize compress compile run bench profile compare bisect tune support cache doctor".split())
"""The verbs: each a module of this package, with a function of its name (``compile_``: Python has a ``compile``)."""

OPTIONS = {"calib_data": "--data", "ir.tune()": "'forge tune MODEL'"} | {name: f"--{name.replace('_', '-')}" for name in (
    "seconds", "shape", "bits", "group", "scheme", "size", "embeddings", "activation_dtype", "kernel_dtype", "per_channel",
    "calib_method", "exclude", "bias_correction", "calib_guard")} | {
    f"{name}=False": f"--no-{name.replace('_', '-')}" for name in ("bias_correction", "calib_guard")}
"""How messages write the options of the Python interface here, besides those that `forge.options` declares."""

INTERNAL_ERROR, INTERRUPTED = 70, 130
_SETTINGS = {"help_option_names": ["-h", "--help"]}
_STYLE: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}


def function(verb: str) -> Callable[..., None]:
    """What a verb does."""
    found: Callable[..., None] = getattr(_module(verb), f"{verb}_" if verb == "compile" else verb)
    return found


def examples(verb: str) -> tuple[str, ...]:
    """Command lines that show a verb's use."""
    lines: tuple[str, ...] = _module(verb).EXAMPLES
    return lines


def summary(verb: str) -> str:
    """The first line of what a verb's function says of itself, without importing it."""
    tree = ast.parse(Path(__file__).with_name(f"{verb}.py").read_text(encoding="utf-8"))
    named = (part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name.rstrip("_") == verb)
    return (ast.get_docstring(next(named)) or "").partition("\n")[0]


def _module(verb: str) -> Any:
    return importlib.import_module(f"forge.cli.{verb}")


class _Verbs(typer.core.TyperGroup):
    """The verbs, imported one by one as they are asked for; the help of all and completion only tell what they are for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(VERBS)
        self._is_listing = False

    @contextmanager
    def _listing(self) -> Iterator[None]:
        self._is_listing = True
        try:
            yield
        finally:
            self._is_listing = False

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with self._listing():
            super().format_commands(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(_fail("interrupted", INTERRUPTED)) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in VERBS and self._is_listing:
            return typer.core.TyperCommand(cmd_name, help=summary(cmd_name))
        if cmd_name in VERBS and self.commands[cmd_name] is None:
            single = typer.Typer(add_completion=False, **_STYLE)
            lines = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples(cmd_name))])
            single.command(cmd_name, epilog=lines, context_settings=_SETTINGS)(function(cmd_name))
            self.commands[cmd_name] = typer.main.get_command(single)
        return self.commands.get(cmd_name)


app = typer.Typer(name="forge", cls=_Verbs, no_args_is_help=True, context_settings=_SETTINGS, **_STYLE)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"forge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what is being done.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Compiles trained models into small, fast native libraries."""
    from forge import knobs
    from forge.errors import spelled
    from forge.options import spellings

    context.with_resource(spelled({**OPTIONS, **spellings()}))
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", force=True)
    logging.getLogger("forge").setLevel(logging.INFO if verbose else logging.WARNING)
    knobs.check_names()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    It is 0, 1 for an error, 2 for wrong usage, 70 for a defect of Forge, or 130 after Ctrl-C.
    """
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="forge")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        return _report(error)
    return 0


def _report(error: Exception) -> int:
    """Prints what went wrong as one line; returns the exit status."""
    from forge.errors import ForgeError

    if isinstance(error, ForgeError):
        return _fail(str(error) or type(error).__name__, 1)
    if isinstance(error, OSError):
        places = ", ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        return _fail(f"{places}: {reason}" if places else reason, 1)
    logging.getLogger("forge").info("traceback", exc_info=error)
    problem = f"internal error: {type(error).__name__}: {error}"
    return _fail(f"{problem}; this is a defect of Forge: please report it, with what 'forge -v ...' prints", INTERNAL_ERROR)


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def run_main() -> None:
    """Entry point of the ``forge`` script."""
    sys.exit(main())
