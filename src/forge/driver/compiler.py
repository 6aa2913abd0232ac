"""From a module to machine code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forge.codegen.compile import compile_modules
from forge.codegen.entry import emit_program_entry
from forge.codegen.module import emit_module
from forge.driver import cache
from forge.driver.compiled import CompiledModel
from forge.driver.pipeline import FUSION_LEVEL, Observer, run_graph_stages
from forge.errors import ForgeError, TargetError
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Module
from forge.lowering.program import LoweredProgram, lower_graph
from forge.passes.base import PassContext
from forge.target import Target

TargetLike = str | Mapping[str, Any] | Target
Progress = Callable[[str, int, int], None]

PAGE = 4096


def compile_module(
    module: Module,
    *,
    target: TargetLike = "llvm",
    host: TargetLike | None = None,
    opt_level: int = 3,
    float16: bool = False,
    channel_layout: str | None = None,
    name: str = "main",
    stop_after: str | None = None,
    observer: Observer | None = None,
    progress: Progress | None = None,
    use_cache: bool = True,
) -> CompiledModel:
    """Compiles ``main`` of ``module``, which is not changed. Equal modules with equal options come from the compile cache.

    Args:
        observer: sees the graph after every stage (and turns the cache off).
        progress: called with phase, number done, number in all.

    Raises:
        ValueError: a bad option; TargetError: a bad target; CompileError: an operator has no native code.
    """
    resolved = check_options(target, host, opt_level, channel_layout)
    recorded = {"opt_level": opt_level, "float16": float16, "channel_layout": channel_layout}
    key = cache.key(module, resolved, {**recorded, "name": name}) if use_cache and observer is None and stop_after is None else None
    if key is not None:
        known = cache.load(key, resolved)
        if known is not None:
            return known
    compiled = _compile(module, resolved, recorded, name, stop_after, observer, progress)
    if key is not None:
        cache.store(key, compiled)
    return compiled


def _compile(
    module: Module, target: Target, options: dict[str, Any], name: str, stop_after: str | None, observer: Observer | None,
    progress: Progress | None,
) -> CompiledModel:
    began = time.perf_counter()
    graph = _bound_main(module)
    level = options["opt_level"]
    context = PassContext(target, level, {**options, "module": module})
    run_graph_stages(graph, context, stop_after, observer)
    optimised = time.perf_counter()
    lowered = lower_graph(graph, name, target, fuse=level >= FUSION_LEVEL, progress=progress)
    built = time.perf_counter()
    texts = [(f.name, emit_module([f], target)) for f in lowered.program.functions]
    texts += [(f"entry{embedded:d}", emit_program_entry(lowered.program, target, embedded)) for embedded in (False, True)]
    emitted = time.perf_counter()
    *kernels, entry, embedded_entry = compile_modules(texts, target, level, None if progress is None else _phase(progress, "compile"))
    done = time.perf_counter()
    weights = weights_blob(lowered)
    seconds = {"graph": optimised - began, "lower": built - optimised, "emit": emitted - built, "llvm": done - emitted}
    summary = {"groups": len(lowered.groups), "kernels": len(kernels), "arena_size": str(lowered.plan.arena_size)}
    return CompiledModel(target, kernels, entry, embedded_entry, weights, options, summary, seconds, lowered)


def weights_blob(lowered: LoweredProgram) -> np.ndarray:
    """All weights in one array of bytes, aligned to a page."""
    size = lowered.program.weights_size
    backing = np.empty(size + PAGE, np.uint8)
    start = -backing.ctypes.data % PAGE
    blob = backing[start : start + size]
    end = 0
    for offset, array in lowered.weights:
        blob[end:offset] = 0
        end = offset + array.nbytes
        blob[offset:end] = array.reshape(-1).view(np.uint8)
    return blob


def _phase(progress: Progress, phase: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(phase, done, total)


def check_options(target: TargetLike, host: TargetLike | None, opt_level: int, channel_layout: str | None) -> Target:
    """The target, after all options were checked.

    Raises:
        ValueError, TargetError: which option, what was given, what is expected.
    """
    if isinstance(opt_level, bool) or not isinstance(opt_level, int) or not 0 <= opt_level <= 4:
        raise ValueError(f"compile: opt_level: got {opt_level!r}; expected an integer from 0 to 4")
    if channel_layout not in (None, "first", "last"):
        raise ValueError(f"compile: set_channel_layout: got {channel_layout!r}; expected 'first', 'last' or None")
    resolved = Target.parse(target)
    if host is not None:
        described = Target.parse(host)
        if described.arch != resolved.arch:
            raise TargetError(f"compile: host is {described.arch}, target is {resolved.arch}; expected the same architecture")
    resolved.require_codegen()
    return resolved


def _bound_main(module: Module) -> Graph:
    """A copy of main in which ``params`` are constants and every output has a name."""
    graph = module.main.copy()
    unknown = [n for n in module.params if n not in {v.name for v in graph.inputs}]
    if unknown:
        raise ForgeError(f"compile: params: {unknown[0]!r} names no input of main")
    first = graph.nodes[0] if graph.nodes else None
    for value in list(graph.inputs):
        if value.name in module.params:
            graph.replace_uses(value, Builder(graph, before=first).constant(module.params[value.name], name=value.name))
            graph.inputs.remove(value)
    return graph
