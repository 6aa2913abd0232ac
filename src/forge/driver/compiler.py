"""From a module to machine code."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forge.codegen.compile import compile_modules
from forge.codegen.entry import emit_program_entry
from forge.codegen.module import emit_module
from forge.driver import cache, tuning
from forge.driver.compiled import CompiledModel
from forge.driver.pass_context import FUSION, PassContext
from forge.driver.pipeline import FUSION_LEVEL, LLVM_LEVELS, Observer, check_level, run_graph_stages
from forge.errors import OptionError, TargetError, option
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Module
from forge.ir.retype import check_param, sizes_of_params, substitute_in_graph
from forge.ir.verifier import verify
from forge.lowering.program import LoweredProgram, lower_graph
from forge.lowering.times import with_times
from forge.passes import base
from forge.passes.base import DEFAULT_LEVEL
from forge.target import Target

TargetLike = str | Mapping[str, Any] | Target
Progress = Callable[[str, int, int], None]

PAGE = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """Checked options of a compilation."""

    target: Target
    host: Target | None
    opt_level: int
    float16: bool
    channel_layout: str | None
    winograd: bool = True
    bfloat16: bool = False
    tuned: bool = False
    required_pass: tuple[str, ...] = ()
    disabled_pass: tuple[str, ...] = ()

    @property
    def recorded(self) -> dict[str, Any]:
        """What the metadata keep, besides the target."""
        host = None if self.host is None else str(self.host)
        return {"opt_level": self.opt_level, "float16": self.float16, "bfloat16": self.bfloat16,
                "channel_layout": self.channel_layout, "winograd": self.winograd, "host": host,
                "tuned": self.target.choices.digest,
                "required_pass": list(self.required_pass), "disabled_pass": list(self.disabled_pass)}


def check_options(
    target: TargetLike = "llvm", host: TargetLike | None = None, opt_level: int = DEFAULT_LEVEL, float16: bool = False,
    channel_layout: str | None = None, winograd: bool = True, bfloat16: bool = False, tuned: bool = False,
) -> Options:
    """The options, after all were checked; ``tuned`` adds to the target what `forge.driver.tuning` knows about it.

    A level that is not given follows the ``PassContext`` around the caller, and so do other options at their defaults.

    Raises:
        OptionError, TargetError: which option, what was given, what is expected.
    """
    check_level("compile", opt_level)
    context = PassContext.current()
    if context is not None:
        opt_level = context.opt_level if opt_level is DEFAULT_LEVEL else opt_level
        float16 = context.config.get("set_float16", False) if float16 is False else float16
        bfloat16 = context.config.get("set_bfloat16", False) if bfloat16 is False else bfloat16
        channel_layout = context.config.get("set_channel_layout") if channel_layout is None else channel_layout
        winograd = context.config.get("winograd", True) if winograd is True else winograd
        tuned = context.config.get("tuned", False) if tuned is False else tuned
    for name, value in (("set_float16", float16), ("set_bfloat16", bfloat16), ("winograd", winograd), ("tuned", tuned)):
        if not isinstance(value, bool):
            raise OptionError(f"compile: {option(name)}: got {value!r}; expected True or False")
    if float16 and bfloat16:
        both = f"{option('set_float16')} and {option('set_bfloat16')}"
        raise OptionError(f"compile: {both}: got both; expected at most one of them")
    if channel_layout not in (None, "first", "last"):
        raise OptionError(f"compile: {option('set_channel_layout')}: got {channel_layout!r}; expected 'first', 'last' or None")
    resolved = Target.parse(target)
    resolved.require_codegen()
    described = None if host is None else Target.parse(host)
    if described is not None and described.arch != resolved.arch:
        raise TargetError(f"compile: host is {described.arch}, target is {resolved.arch}; expected the same architecture")
    if tuned:
        resolved = replace(resolved, choices=tuning.choices(resolved))
    required, disabled = (context.required_pass, context.disabled_pass) if context is not None else ((), ())
    return Options(resolved, described, int(opt_level), float16, channel_layout, winograd, bfloat16, tuned, required, disabled)


def compile_module(
    module: Module,
    *,
    target: TargetLike = "llvm",
    host: TargetLike | None = None,
    opt_level: int = DEFAULT_LEVEL,
    float16: bool = False,
    channel_layout: str | None = None,
    winograd: bool = True,
    bfloat16: bool = False,
    tuned: bool = False,
    name: str = "main",
    observer: Observer | None = None,
    progress: Progress | None = None,
    use_cache: bool = True,
    profile: bool = False,
) -> CompiledModel:
    """Compiles ``main`` of ``module``, which is not changed. Equal modules with equal options come from the compile cache.

    Args:
        observer: sees the graph after every stage (and turns the cache off).
        progress: called with phase, number done, number in all.
        profile: the code tells when each of its kernels ended, in one more output (and turns the cache off).

    Raises:
        OptionError: a bad option; TargetError: a bad target; InvalidGraphError: the module breaks a rule of the IR;
        CompileError: an operator has no native code.
    """
    options = check_options(target, host, opt_level, float16, channel_layout, winograd, bfloat16, tuned)
    verify(module)
    cached = use_cache and observer is None and not profile
    key = cache.key(module, options.target, {**options.recorded, "name": name}) if cached else None
    if key is not None:
        known = cache.load(key, options.target)
        if known is not None:
            _log.info("compile: from the cache, entry %s", key)
            return known
    compiled = _compile(module, options, name, observer, progress, profile)
    _log.info("compile: %s", ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in compiled.seconds.items()))
    if key is not None:
        cache.store(key, compiled)
    return compiled


def optimized_graph(
    module: Module, options: Options, stop_after: str | None = None, observer: Observer | None = None
) -> Graph:
    """``main`` after the graph stages, up to and including ``stop_after``; ``module`` is not changed.

    Raises:
        OptionError: ``stop_after`` names no stage; InvalidGraphError: ``params`` do not fit.
    """
    graph = bound_main(module)
    context = base.PassContext(options.target, options.opt_level, {**options.recorded, "module": module})
    run_graph_stages(graph, context, stop_after, observer)
    return graph


def _compile(
    module: Module, options: Options, name: str, observer: Observer | None, progress: Progress | None, profile: bool
) -> CompiledModel:
    clock = _Clock()
    target, level = options.target, options.opt_level
    graph = optimized_graph(module, options, observer=observer)
    clock.lap("graph")
    fuse = level >= FUSION_LEVEL and FUSION not in options.disabled_pass
    lowered = lower_graph(graph, name, target, fuse=fuse, progress=progress)
    if profile:
        lowered = with_times(lowered)
    clock.lap("lower")
    texts = [(f.name, emit_module([f], target)) for f in lowered.program.functions]
    texts += [(f"entry{embedded:d}", emit_program_entry(lowered.program, target, embedded)) for embedded in (False, True)]
    clock.lap("emit")
    report = None if progress is None else _phase(progress, "compile")
    *kernels, entry, embedded_entry = compile_modules(texts, target, LLVM_LEVELS[level], report)
    clock.lap("llvm")
    size = lowered.plan.arena_size
    arena = size if isinstance(size, int) else str(size)
    summary = {"groups": len(lowered.groups), "kernels": len(kernels), "arena_size": arena}
    weights = weights_blob(lowered)
    return CompiledModel(target, kernels, entry, embedded_entry, weights, options.recorded, summary, clock.seconds, lowered)


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Ends ``phase``, which began where the one before ended."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now


def weights_blob(lowered: LoweredProgram) -> np.ndarray:
    """All weights in one array of bytes, aligned to a page; zeros between them."""
    blob = aligned_bytes(lowered.program.weights_size)
    end = 0
    for offset, array in lowered.weights:
        blob[end:offset] = 0
        end = offset + array.nbytes
        blob[offset:end] = array.reshape(-1).view(np.uint8)
    blob[end:] = 0
    return blob


def aligned_bytes(size: int) -> np.ndarray:
    """``size`` bytes that start at a page."""
    backing = np.empty(size + PAGE, np.uint8)
    start = -backing.ctypes.data % PAGE
    return backing[start : start + size]


def _phase(progress: Progress, phase: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(phase, done, total)


def bound_main(module: Module) -> Graph:
    """A copy of main in which ``params`` are constants, and symbols in their shapes are numbers.

    Raises:
        InvalidGraphError: ``params`` names no input of main, or its arrays do not fit.
    """
    graph = module.main.copy()
    inputs = {v.name: v for v in graph.inputs}
    first = graph.nodes[0] if graph.nodes else None
    for name, array in module.params.items():
        check_param(module, name, array)
    sizes = sizes_of_params(module)
    if sizes:
        substitute_in_graph(graph, sizes)
    for name, array in module.params.items():
        value = inputs[name]
        graph.replace_uses(value, Builder(graph, before=first).constant(array, name=name))
        graph.inputs.remove(value)
    return graph
