"""``PassContext``: how models are compiled inside a ``with`` block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from forge import knobs
from forge.driver import tuning
from forge.driver.pipeline import STAGES
from forge.errors import OptionError
from forge.options import UNSET, CompileOptions, options_of
from forge.target import TargetLike

CONFIG = {o.python: o.name for o in options_of(CompileOptions) if o.declaration.config}
"""The entries of ``config``, and the fields of `CompileOptions` that they set."""

_LEVEL = next(o for o in options_of(CompileOptions) if o.name == "opt_level")
_entered: ContextVar[tuple[PassContext, ...]] = ContextVar("forge_pass_contexts", default=())


class PassContext:
    """Options of everything that is compiled inside ``with PassContext(...):``, by this thread.

    Options that are passed to ``IRModule.compile`` and the like win, even if they are the defaults. Blocks nest; the innermost
    counts.

    Args:
        opt_level: 0 to 4; ``docs/reference/opt_levels.md`` says what each turns on.
        required_pass: names of stages that run although their level is above ``opt_level``.
        disabled_pass: names of stages that do not run. Stages of level 0 cannot be left out.
        config: other options by name, as of ``IRModule.compile``: those that ``docs/reference/settings.md`` marks.
        instruments: accepted for compatibility; must be empty.

    Raises:
        OptionError: an option that does not exist, or cannot be.
    """

    def __init__(
        self,
        opt_level: int = 3,
        *,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        _LEVEL.check("PassContext", opt_level)
        self.opt_level = opt_level
        levels = {stage.name: stage.level for stage in STAGES}
        self.required_pass = _names("required_pass", required_pass, list(levels))
        self.disabled_pass = _names("disabled_pass", disabled_pass, [name for name, level in levels.items() if level])
        both = [name for name in self.required_pass if name in self.disabled_pass]
        if both:
            raise OptionError(f"PassContext: {both[0]!r} is in required_pass and in disabled_pass; expected one of them")
        if instruments is not None and len(instruments):
            raise OptionError("PassContext: instruments: got some; expected none; 'forge compile --dump all' writes the module "
                              "after each stage, 'forge profile' measures what is compiled")
        if config is not None and not isinstance(config, Mapping):
            raise OptionError(f"PassContext: config: got {config!r}; expected values by name, as in {{'set_float16': True}}")
        self.config = dict(config or {})
        unknown = [name for name in self.config if name not in CONFIG]
        if unknown:
            raise OptionError(f"PassContext: config: unknown entry {unknown[0]!r}; expected {', '.join(CONFIG)}")

    @property
    def given(self) -> dict[str, Any]:
        """Fields of `CompileOptions` that it sets."""
        passes = {"required_pass": self.required_pass, "disabled_pass": self.disabled_pass}
        return {"opt_level": self.opt_level, **passes, **{CONFIG[name]: value for name, value in self.config.items()}}

    @staticmethod
    def current() -> PassContext | None:
        """That of the innermost block around the caller; None outside of all."""
        return _entered.get()[-1] if _entered.get() else None

    def __enter__(self) -> PassContext:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        _entered.set(_entered.get()[:-1])

    def __repr__(self) -> str:
        return (f"PassContext(opt_level={self.opt_level}, required_pass={list(self.required_pass)}, "
                f"disabled_pass={list(self.disabled_pass)}, config={self.config})")


def _names(option: str, given: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(name, str) for name in given or ()):
        raise OptionError(f"PassContext: {option}: got {given!r}; expected a list of names of stages")
    for name in given or ():
        if name not in known:
            needed = any(stage.name == name for stage in STAGES)
            what = f"stage {name!r} is needed at every level" if needed else f"no stage is called {name!r}"
            raise OptionError(f"PassContext: {option}: {what}; expected some of: {', '.join(known)}")
    return tuple(dict.fromkeys(given or ()))



def check_options(target: TargetLike | None = None, **given: Any) -> CompileOptions:
    """The options of a compilation: what is ``given``, else what the `PassContext` around the caller says, else the defaults.

    Args:
        target: text, tag, dictionary or `Target`; None: this machine.
        given: other fields of `CompileOptions`; `UNSET`: not given.

    Raises:
        OptionError, TargetError: which option, what was given, what is expected.
    """
    knobs.check_names()
    context = PassContext.current()
    given["target"] = UNSET if target is None else target
    known = {name: value for name, value in given.items() if value is not UNSET}
    options = CompileOptions(**{**(context.given if context is not None else {}), **known})
    options.target.require_codegen()
    if options.tuned:
        options = replace(options, target=replace(options.target, choices=tuning.choices(options.target)))
    return options
