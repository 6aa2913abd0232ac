"""``torch.compile(model, backend="forge")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import GraphModule

from forge import errors
from forge.driver import check_options
from forge.errors import OpNotImplemented, OptionError
from forge.options import CompileOptions, options_of
from forge.torch.compiled import Call, Settings, given_of
from forge.torch.gradients import with_history
from forge.torch.parts import compile_graph, compile_with_fallback
from forge.torch.tracing import trace
from forge.torch.wrappers import is_wrapper, parts

_WHERE = "torch.compile"
_MODES: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "reduce-overhead": {}, "max-autotune": {"opt_level": 4}, "max-autotune-no-cudagraphs": {"opt_level": 4}})
"""Modes of inductor -> the options that come nearest; what graphs of CUDA save, calls of compiled code do not spend."""


def forge(
    module: GraphModule, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """What Dynamo calls with each graph that it captures, and example arguments; the options are those of `parse_options`.

    Returns:
        What runs in the place of the graph: compiled code; with ``fallback=True``, ``module`` itself where autograd records, and
        eager operators where there is no native code for them.

    Raises:
        OptionError, TargetError: a bad option; OpNotImplemented: operators cannot be compiled, all listed; CompileError.
    """
    known, fallback = parse_options(options, mode)
    return compiled(module, examples, Settings(known, _WHERE), fallback)


def compiled(module: GraphModule, examples: Sequence[Any], settings: Settings, fallback: bool = False) -> Callable[..., Any]:
    """What `forge` returns."""
    eager: Callable[..., Any] = module.forward
    tensors = [e for e in (*examples, *module.parameters(), *module.buffers()) if isinstance(e, torch.Tensor)]
    if fallback and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _recording(eager, settings)
    try:
        traced, own, history = trace(module, examples)
    except OpNotImplemented as error:
        if not fallback:
            raise
        errors.warn(f"all of a graph runs eagerly: {error}")
        return eager
    if fallback and history.records:
        return _recording(eager, settings)
    if all(node.op in ("placeholder", "output") for node in traced.graph.nodes):
        return eager  # there is nothing to compute
    given = given_of(module, examples, own)
    code = compile_with_fallback(traced, given, settings) if fallback else compile_graph(traced, given, settings)
    if code is None:
        return eager
    call = with_history(code, history, module)
    if own:
        call = partial(_with_own, call, tuple(part for tensor in own.values() for _, part in parts(tensor)))
    return partial(_with_parts, call) if any(map(is_wrapper, examples)) else call


def _recording(eager: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    errors.warn(f"{settings.where}: a graph runs eagerly: autograd records; use torch.no_grad()")
    return eager


def _with_own(code: Call, own: Sequence[Any], *arguments: Any) -> Any:
    return code(*arguments, *own)


def _with_parts(code: Call, *arguments: Any) -> Any:
    return code(*(part for argument in arguments for _, part in parts(argument)))


def parse_options(options: Mapping[str, Any] | None, mode: str | None) -> tuple[CompileOptions, bool]:
    """The options of the compiler, by the names of ``IRModule.compile``, and ``fallback``: whether what it cannot compile runs
    eagerly, with a warning that lists it.

    Raises:
        OptionError, TargetError: which option, what was given, what is expected.
    """
    if mode not in (None, "default", *_MODES):
        known = ", ".join(map(repr, _MODES))
        raise OptionError(f"{_WHERE}: mode: got {mode!r}; expected None, 'default', {known}, or options={{'opt_level': 4}}")
    given = {**_MODES.get(mode or "", {}), **dict(options or {})}
    if mode in _MODES:
        nearest = given or "the defaults"
        errors.warn(f"{_WHERE}: mode {mode!r} is inductor's; options={nearest} come nearest and are taken")
    fallback = given.pop("fallback", False)
    if not isinstance(fallback, bool):
        raise OptionError(f"{_WHERE}: fallback: got {fallback!r}; expected True or False")
    names = {known.python: known.name for known in options_of(CompileOptions)}
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise OptionError(f"{_WHERE}: options: got {unknown!r}; expected names of {', '.join([*names, 'fallback'])}")
    return check_options(**{names[name]: value for name, value in given.items()}), fallback
