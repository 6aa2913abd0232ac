"""The options of a compilation, each declared once: as a field of a record.

From the field follow the check of its value, its spelling in messages, the argument of ``forge compile`` and the other verbs, the
entry of ``PassContext(config=...)``, its line in the docstring of ``IRModule.compile``, and its row in
``docs/reference/settings.md``.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from forge import backend
from forge.backend import Layouts
from forge.errors import OptionError, TargetError, option
from forge.target import Target

F = TypeVar("F", bound=Callable[..., Any])

OPT_LEVELS = range(5)

UNSET: Any = object()
"""What stands for an option that was not given: None is a value of some."""

_KEY = "option"


@dataclass(frozen=True)
class Declaration:
    """What a field says of its option.

    Attributes:
        help: one line.
        detail: what the Python documentation says besides.
        python: the parameter of ``IRModule.compile``; empty: the field's name.
        flags: spellings on the command line, the long one first; empty: it cannot be given there.
        metavar: what stands for a value in the help of the command line; empty: its type.
        config: whether ``PassContext(config=...)`` takes it.
        values: those that it can have, besides None.
    """

    help: str
    detail: str = ""
    python: str = ""
    flags: tuple[str, ...] = ()
    metavar: str = ""
    config: bool = False
    values: Sequence[Any] = ()


def says(text: str, **declaration: Any) -> dict[str, Declaration]:
    """Metadata of the field of an option."""
    return {_KEY: Declaration(text, **declaration)}


@dataclass(frozen=True)
class Option:
    """An option, as its field declares it."""

    name: str
    default: Any
    declaration: Declaration

    @property
    def python(self) -> str:
        return self.declaration.python or self.name

    @property
    def flag(self) -> str:
        """The long spelling on the command line; empty where it has none."""
        return self.declaration.flags[0] if self.declaration.flags else ""

    @property
    def text(self) -> str:
        """What the Python documentation says."""
        return f"{self.declaration.help} {self.declaration.detail}".rstrip()

    def check(self, where: str, value: Any) -> None:
        """Raises OptionError where the option cannot have ``value``."""
        values = self.declaration.values
        if isinstance(self.default, bool):
            fits, expected = isinstance(value, bool), "True or False"
        elif isinstance(values, range):
            fits = isinstance(value, int) and not isinstance(value, bool) and value in values
            expected = f"an integer from {values[0]} to {values[-1]}"
        else:
            fits, expected = not values or value is None or value in values, f"{', '.join(map(repr, values))} or None"
        if not fits:
            raise OptionError(f"{where}: {option(self.python)}: got {value!r}; expected {expected}")


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """What machine code depends on, besides the module. ``forge.driver.check_options`` makes one from what a user gives.

    Raises:
        OptionError, TargetError: which option, what was given, what is expected.
    """

    target: Target = field(default=cast(Target, "llvm"), metadata=says(
        "Target text, tag or JSON; 'llvm' is this machine.", flags=("--target",),
        detail='Or a dictionary, or a ``Target``. Text is as in ``"llvm -mcpu=x86-64-v3"``.'))
    host: Target | None = field(default=None, metadata=says(
        "Description of the host; must be of the target's architecture.", flags=("--host",)))
    opt_level: int = field(default=3, metadata=says(
        "Optimization level.", flags=("--opt-level", "-O"), values=OPT_LEVELS,
        detail="0 to 4; ``docs/reference/opt_levels.md`` says what each turns on."))
    float16: bool = field(default=False, metadata=says(
        "Let layers compute in float16 where that is safe and saves time.", python="set_float16", flags=("--float16",),
        config=True,
        detail="Those that wait for weights from memory do, and all that tile registers multiply where they take float16 "
        "(Intel's CPUs from Granite Rapids on); others stay float32. Inputs and outputs keep their types."))
    bfloat16: bool = field(default=False, metadata=says(
        "Let layers compute in bfloat16 where that is safe and saves time.", python="set_bfloat16", flags=("--bfloat16",),
        config=True,
        detail="Matrix products take half of the time where the CPU multiplies it quickly (AMD from Zen 4 on), less in tile "
        "registers (Intel's AMX); elsewhere layers that wait for weights from memory do, and others stay float32. Errors are "
        "some 1e-2 of the largest output, and more in deep networks; inputs and outputs keep their types."))
    channel_layout: str | None = field(default=None, metadata=says(
        "Inner layout of convolutions: first or last.", python="set_channel_layout", flags=("--channel-layout",), config=True,
        values=("first", "last"), detail="None lets the compiler choose."))
    winograd: bool = field(default=True, metadata=says(
        "Let 3x3 convolutions use fewer multiplications (errors of 1e-5, larger weights).",
        flags=("--winograd/--no-winograd",), config=True,
        detail="The errors are relative to the largest output; weights are up to four times larger (from ``opt_level`` 3 on)."))
    float32_products: str | int = field(default="6", metadata=says(
        "Products of bfloat16 that replace one of float32: 6, 3 or exact.", flags=("--float32-products",), config=True,
        values=("6", "3", "exact"), detail="Where tile registers multiply bfloat16 (Intel's AMX) and that is faster. Errors of "
        "six products are smaller than those of multiply-adds of float32, those of three some 4e-6 of the products' sizes; "
        "weights grow by a half with six. ``exact``: multiply-adds always, as on all other CPUs."))
    exact: bool = field(default=False, metadata=says(
        "Round quantized numbers where the model does.", flags=("--exact",), config=True,
        detail="By default one product and one rounding quantize a sum of integers, less than a step from what the model says "
        "(``docs/guides/quantized_models.md``)."))
    check_indices: bool = field(default=True, metadata=says(
        "Let calls fail for indices out of range, integers divided by 0 and singular matrices.",
        flags=("--check-indices/--no-check-indices",), config=True,
        detail="Without, an index counts as the nearest that fits, a quotient is 0, and an inverse not finite."))
    typical: tuple[tuple[str, int], ...] = field(default=(), metadata=says(
        "Typical size of a symbolic dimension, as in height=640.", flags=("--typical",), metavar="NAME=SIZE", config=True,
        detail="Kernels and memory are planned for it; the model is right for all sizes. A dictionary, or texts such as "
        "``'height=640'``. Others count as 256, the number of samples as 1."))
    tuned: bool = field(default=False, metadata=says(
        "Use what 'forge tune' measured on this CPU.", flags=("--tuned",), config=True,
        detail="Or `IRModule.tune`. A ``target`` that names a CPU takes what was measured on that CPU."))
    required_pass: tuple[str, ...] = ()
    disabled_pass: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.float32_products, int):  # as Python writes it
            object.__setattr__(self, "float32_products", str(self.float32_products))
        for known in options_of(CompileOptions):
            known.check("compile", getattr(self, known.name))
        object.__setattr__(self, "typical", _sizes(self.typical))
        if self.float16 and self.bfloat16:
            both = f"{option('set_float16')} and {option('set_bfloat16')}"
            raise OptionError(f"compile: {both}: got both; expected at most one of them")
        object.__setattr__(self, "target", Target.parse(self.target))
        if self.host is not None:
            object.__setattr__(self, "host", Target.parse(self.host))
            if self.host.arch != self.target.arch:
                raise TargetError(
                    f"compile: host is {self.host.arch}, target is {self.target.arch}; expected the same architecture")

    @property
    def layouts(self) -> Layouts:
        """What the kernels of the target's backend read."""
        return backend.layouts(self.target)

    @property
    def recorded(self) -> dict[str, Any]:
        """What the metadata keep, besides the target."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "target"}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return plain | {"host": self.host and str(self.host), "tuned": self.target.choices.digest}


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where an artifact goes, and what it holds besides the library.

    Raises:
        OptionError: which option, what was given, what is expected.
    """

    output_path: str | PathLike[str] | None = field(default="./compile_output", metadata=says(
        "The directory to create.", flags=("--output", "-o"), metavar="<path>"))
    force_overwrite: bool = field(default=False, metadata=says(
        "Write into a directory that exists.", flags=("--force", "-f"),
        detail="Files of an earlier compilation are replaced, others stay."))
    export_relay: bool = field(default=False, metadata=says(
        "Also write model.relay and its weights.", flags=("--export-relay",),
        detail="``model.relay`` is text, its weights are ``model.relay.safetensors``; `load` reads both. With "
        "``encrypt_password`` the text only, for the weights could be read by anyone."))
    export_metadata: bool = field(default=False, metadata=says("Also write metadata.json.", flags=("--export-metadata",)))
    uuid: str | None = field(default=None, metadata=says(
        "Identifier to record.", flags=("--uuid",), detail="None: a random one."))
    weights: str | None = field(default=None, metadata=says(
        "Where weights go: 'inside' the library, or 'beside' it.", flags=("--weights",), values=("inside", "beside"),
        detail="In ``modelWeights-DIGEST.safetensors`` beside it, processes share them, and so may artifacts with equal weights: "
        "the file can be a link. Those inside are copied to huge pages on loading. None: inside up to 1.5 GiB."))
    encrypt_password: str | None = field(default=None, metadata=says(
        "Encrypt the library with this password.", flags=("--encrypt",),
        detail="Loading needs ``modelLibrary.key``, too, which is written next to the library."))

    def __post_init__(self) -> None:
        for known in options_of(OutputOptions):
            known.check("compile", getattr(self, known.name))
        path = self.output_path
        if path is not None and (not isinstance(path, str | PathLike) or "\0" in str(path) or not str(path)):
            raise OptionError(f"compile: {option('output_path')}: got {path!r}; expected the path of a directory")
        for name in ("uuid", "encrypt_password"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                shown = repr(value) if name == "uuid" or not value else type(value).__name__  # never a password
                raise OptionError(f"compile: {option(name)}: got {shown}; expected a text that is not empty, or None")
        if self.weights == "beside" and self.encrypt_password is not None:
            given = f"{option('weights')} beside and {option('encrypt_password')}"
            raise OptionError(f"compile: {given}: got both; expected weights inside the library, which is encrypted whole")

    @property
    def path(self) -> Path:
        """The output directory, absolute."""
        default = next(o.default for o in options_of(OutputOptions) if o.name == "output_path")
        return Path(default if self.output_path is None else self.output_path).absolute()


def _sizes(given: Any) -> tuple[tuple[str, int], ...]:
    """Sizes by name, in order of names, of a dictionary, texts NAME=SIZE or pairs."""
    where = f"compile: {option('typical')}"
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise OptionError(f"{where}: got {given!r}; expected sizes by name, as in {{'height': 640}}")
    pairs = list(given.items()) if isinstance(given, Mapping) else [
        tuple(item.rsplit("=", 1)) if isinstance(item, str) else item for item in given]
    sizes: dict[str, int] = {}
    for pair in pairs:
        name, size = pair if isinstance(pair, tuple | list) and len(pair) == 2 else ("", None)
        number = int(size) if isinstance(size, str) and size.isascii() and size.isdigit() else size
        if not isinstance(name, str) or not name or type(number) is not int or not 0 < number < 1 << 31:
            shown = "=".join(map(str, pair)) if isinstance(pair, tuple | list) else repr(pair)
            raise OptionError(f"{where}: got {shown}; expected NAME=SIZE, a size from 1 on, as in height=640")
        sizes[name] = number
    return tuple(sorted(sizes.items()))


@functools.cache
def options_of(record: type[Any]) -> tuple[Option, ...]:
    """The options that a record declares."""
    return tuple(Option(f.name, f.default, f.metadata[_KEY]) for f in fields(record) if _KEY in f.metadata)


def all_options() -> tuple[Option, ...]:
    return options_of(CompileOptions) + options_of(OutputOptions)


def spellings() -> dict[str, str]:
    """How the command line writes the options of Python."""
    return {o.python: o.flag.partition("/")[0] for o in all_options() if o.flag}


def settings_table() -> str:
    """All options, in Markdown."""
    lines = ["| Python | command line | `PassContext` | default | meaning |", "| --- | --- | --- | --- | --- |"]
    for o in all_options():
        flags = ", ".join(f"`{flag}`" for flag in o.declaration.flags)
        entry = "config" if o.declaration.config else "yes" if o.name == "opt_level" else ""
        lines.append(f"| `{o.python}` | {flags} | {entry} | `{o.default!r}` | {o.text.replace('``', '`')} |")
    return "".join(f"{line}\n" for line in lines)


def takes_options(method: F) -> F:
    """For a method with parameters that are options: those of `CompileOptions` that the caller leaves out reach it as `UNSET`.

    So a value that is given counts, be it the default, or None. In the docstring, ``{options}`` becomes what the fields say.
    """
    signature = inspect.signature(method)
    known = [o for o in all_options() if o.python in signature.parameters]
    text = method.__doc__ or ""
    before = text.partition("{options}")[0].rpartition("\n")[2]
    method.__doc__ = text.replace("{options}", _described(known, before))
    unset = {o.python: UNSET for o in known if o in options_of(CompileOptions)}

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            from difflib import get_close_matches

            unknown = [name for name in kwargs if name not in signature.parameters]
            near = [known for name in unknown for known in get_close_matches(name, signature.parameters)]
            raise TypeError(f"{method.__name__}: {error}" + (f"; did you mean {' or '.join(near)}" if near else "")) from None
        for o in known:
            o.check(method.__name__, given.get(o.python, o.default))
        return method(**{**unset, **given})

    return call  # type: ignore[return-value]


def _described(known: Iterable[Option], indent: str) -> str:
    """Lines for the section of arguments of a method's docstring, where ``{options}`` is at its indentation."""
    wrapper = textwrap.TextWrapper(130, initial_indent=indent, subsequent_indent=indent + " " * 4)
    return "\n".join(wrapper.fill(f"{o.python}: {o.text}") for o in known).lstrip()
