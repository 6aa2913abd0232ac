"""How models are compiled, ``PassContext``, and steps from a module to a module, ``Pass``.

    @transform.module_pass(opt_level=0, name="scale")
    def scale(mod, ctx):
        ...
        return mod

    torch.compile(model, backend=relax_dynamo(transform.Sequential([scale, lambda mod: mod])))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forge.driver.pass_context import PassContext
from forge.errors import OptionError
from forge.module import IRModule

Step = Callable[[IRModule], IRModule]


class Pass:
    """A step from a module to a module, which gets a copy; derive a class with ``transform_module``, or use `module_pass`.

    Args:
        opt_level: in a `PassContext` of a lower level, the step is left out.
        name: for messages.
    """

    def __init__(self, opt_level: int = 0, name: str = "") -> None:
        self.opt_level = opt_level
        self.name = name or type(self).__name__

    def transform_module(self, mod: IRModule, ctx: PassContext | None) -> IRModule:
        """The module that comes out; ``ctx`` is the `PassContext` around the call."""
        raise NotImplementedError(f"{self.name}: has no transform_module(mod, ctx)")

    def __call__(self, mod: IRModule) -> IRModule:
        """Raises OptionError: what goes in or comes out is not a module."""
        ctx = PassContext.current()
        given = checked(self.name, "got", mod)
        if ctx is not None and ctx.opt_level < self.opt_level:
            return given
        return checked(self.name, "gave", self.transform_module(given.copy(), ctx))


class Sequential(Pass):
    """Steps one after the other: passes, or functions from a module to a module."""

    def __init__(self, passes: Sequence[Step], opt_level: int = 0, name: str = "sequential") -> None:
        super().__init__(opt_level, name)
        wrong = next((step for step in passes if not callable(step)), None)
        if wrong is not None:
            raise OptionError(f"Sequential: got {wrong!r}; expected passes, or functions from IRModule to IRModule")
        self.passes = list(passes)

    def transform_module(self, mod: IRModule, ctx: PassContext | None) -> IRModule:
        for step in self.passes:
            mod = checked(getattr(step, "name", repr(step)), "gave", step(mod))
        return mod


class _FunctionPass(Pass):
    def __init__(self, function: Callable[..., IRModule], opt_level: int, name: str) -> None:
        super().__init__(opt_level, name)
        self.function = function

    def transform_module(self, mod: IRModule, ctx: PassContext | None) -> IRModule:
        return self.function(mod, ctx)


def module_pass(pass_func: Callable[..., IRModule] | None = None, opt_level: int = 0, name: str | None = None) -> Any:
    """A `Pass` out of ``pass_func(mod, ctx)``; without it, a decorator that makes one."""
    if pass_func is None:
        return lambda function: module_pass(function, opt_level, name)
    return _FunctionPass(pass_func, opt_level, name or str(getattr(pass_func, "__name__", "pass")))


def checked(name: str, verb: str, mod: Any) -> IRModule:
    """``mod``, of a step called ``name``.

    Raises:
        OptionError: it is not a module.
    """
    if not isinstance(mod, IRModule):
        raise OptionError(f"pass {name!r}: {verb} {type(mod).__name__}; expected an IRModule")
    return mod


__all__ = ["Pass", "PassContext", "Sequential", "module_pass"]


class AttachExternModules(Pass):
    """Gives a module the external modules whose functions it calls: after it was read from a file, say, which never has code.

    Args:
        ext_mods: modules of ``forge.nn``, beside those that the module has.
    """

    def __init__(self, ext_mods: Sequence[Any]) -> None:
        super().__init__(0, "AttachExternModules")
        wrong = next((m for m in ext_mods if not hasattr(m, "object_code")), None)
        if wrong is not None:
            raise OptionError(f"AttachExternModules: got {type(wrong).__name__}; expected external modules")
        self.ext_mods = list(ext_mods)

    def transform_module(self, mod: IRModule, ctx: PassContext | None) -> IRModule:
        known = mod.mod.external_modules
        mod.mod.external_modules = (*known, *(m for m in self.ext_mods if m not in known))
        return mod
