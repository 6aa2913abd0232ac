"""Functions of jax, which become modules of StableHLO."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from forge.errors import ImportModelError, OptionError
from forge.frontends.formats import Format
from forge.frontends.stablehlo.registry import CUSTOM_CALL, NO_PYTHON, REGISTRY

if TYPE_CHECKING:
    from forge.ir.graph import Module


def from_jax(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
    """Loads a function of jax, of jitted code, or of a model: what it closes over, weights for example, become constants.

    Args:
        function: what can be traced by ``jax.jit``, or was jitted already.
        args: examples of its arguments, or their types (``jax.ShapeDtypeStruct``); sizes may be symbolic
            (``jax.export.symbolic_shape``). The leaves of nested arguments are inputs of their own, called as the parameter and
            the path to them: ``params_dense_kernel``; results likewise.
        kwargs: those that have names.

    Raises:
        OptionError: ``function`` cannot be called; ImportModelError: jax cannot trace or export it; OpNotImplemented: it needs
        operations without a converter, all listed.
    """
    if not callable(function):
        raise OptionError(f"from_jax: got {type(function).__name__}; expected a function, and examples of its arguments")
    from forge.frontends.stablehlo.loader import import_module
    from forge.frontends.stablehlo.sources import read

    return import_module(read(_exported(function, args, kwargs)))

_ADVICE = {
    "host_callbacks": NO_PYTHON,
    "custom calls whose targets": f"register a converter: @forge.frontends.stablehlo.register(TARGET, domain={CUSTOM_CALL!r})",
}
"""What to do about errors of jax, by words in them."""


def _exported(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``function`` as jax exports it for CPUs, with all of its arguments, called as those of ``function``."""
    import jax
    from jax import export

    @functools.wraps(function)
    def whole(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    whole.__name__ = getattr(function, "__name__", type(function).__name__)
    allowed = [export.DisabledSafetyCheck.custom_call(name) for name in sorted(REGISTRY.names(CUSTOM_CALL))]
    try:
        return export.export(jax.jit(whole, keep_unused=True), platforms=["cpu"], disabled_checks=allowed)(*args, **kwargs)
    except Exception as error:  # whatever the function raises
        advice = next((f"; {advice}" for words, advice in _ADVICE.items() if words in str(error)), "")
        raise ImportModelError(
            f"from_jax: {whole.__name__}: jax cannot export it for these arguments: {type(error).__name__}: {error}{advice}"
        ) from error


FORMAT = Format(name="jax", title="JAX", suffixes=(), load=from_jax)
