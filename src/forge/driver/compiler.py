"""From a module to machine code."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import numpy as np

from forge.codegen.compile import compile_modules
from forge.codegen.entry import emit_program_entry
from forge.codegen.module import emit_module
from forge.driver import cache
from forge.driver.compiled import CompiledModel
from forge.driver.pass_context import check_options
from forge.driver.pipeline import FUSION, FUSION_LEVEL, LLVM_LEVELS, Observer, run_graph_stages
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Module
from forge.ir.retype import check_param, sizes_of_params, substitute_in_graph
from forge.ir.verifier import verify
from forge.lowering.program import LoweredProgram, lower_graph
from forge.lowering.times import with_times
from forge.options import CompileOptions
from forge.passes import base

Progress = Callable[[str, int, int], None]

PAGE = 4096

_log = logging.getLogger(__name__)


def compile_module(
    module: Module,
    options: CompileOptions | None = None,
    *,
    name: str = "main",
    observer: Observer | None = None,
    progress: Progress | None = None,
    use_cache: bool = True,
    profile: bool = False,
) -> CompiledModel:
    """Compiles ``main`` of ``module``, which is not changed. Equal modules with equal options come from the compile cache.

    Args:
        options: as `check_options` makes them; None: what it makes of nothing.
        observer: sees the graph after every stage (and turns the cache off).
        progress: called with phase, number done, number in all.
        profile: the code tells when each of its kernels ended, in one more output (and turns the cache off).

    Raises:
        InvalidGraphError: the module breaks a rule of the IR; CompileError: an operator has no native code.
    """
    options = options or check_options()
    verify(module)
    cached = use_cache and observer is None and not profile
    key = cache.key(module, options, name) if cached else None
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
    module: Module, options: CompileOptions, stop_after: str | None = None, observer: Observer | None = None
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
    module: Module, options: CompileOptions, name: str, observer: Observer | None, progress: Progress | None, profile: bool
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
