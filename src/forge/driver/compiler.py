"""From a module to machine code."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from forge.codegen.compile import compile_modules
from forge.codegen.entry import MODEL_SYMBOL, emit_program_entry
from forge.codegen.jit import JitLibrary
from forge.codegen.module import emit_module
from forge.driver.pipeline import FUSION_LEVEL, Observer, run_graph_stages
from forge.errors import ForgeError, TargetError
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Module
from forge.lowering.program import LoweredProgram, lower_graph
from forge.passes.base import PassContext
from forge.target import Target
from forge_runtime import Runtime

TargetLike = str | Mapping[str, Any] | Target
Progress = Callable[[str, int, int], None]


@dataclass
class CompiledModel:
    """Object code of a model's kernels, and what the entry needs.

    Attributes:
        lowered: kernels, entry, groups, memory plan, weights.
        objects: object files of the kernels.
        seconds: time spent by phase.
    """

    lowered: LoweredProgram
    target: Target
    opt_level: int
    objects: list[bytes]
    options: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def weights(self) -> np.ndarray:
        """All weights in one array of bytes, aligned to a page."""
        size = self.lowered.program.weights_size
        backing = np.empty(size + 4096, np.uint8)
        start = -backing.ctypes.data % 4096
        blob = backing[start : start + size]
        end = 0
        for offset, array in self.lowered.weights:
            blob[end:offset] = 0
            end = offset + array.nbytes
            blob[offset:end] = array.reshape(-1).view(np.uint8)
        return blob

    def entry_object(self, embedded_weights: bool) -> bytes:
        """Object code of the entry and the model's tables."""
        text = emit_program_entry(self.lowered.program, self.target, embedded_weights)
        return compile_modules([("entry", text)], self.target, min(self.opt_level, 1))[0]

    def runtime(self, **options: Any) -> Runtime:
        """The model linked into this process, ready to call.

        Raises:
            TargetError: the code needs CPU features that this machine lacks.
        """
        missing = self.target.missing_on_host()
        if missing:
            raise TargetError(f"run: this CPU lacks {', '.join(missing)}, which target {self.target} uses; compile for 'llvm'")
        library = JitLibrary([*self.objects, self.entry_object(embedded_weights=False)], [MODEL_SYMBOL])
        return Runtime.from_jit(library.addresses[MODEL_SYMBOL], library, self.weights, **options)


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
) -> CompiledModel:
    """Compiles ``main`` of ``module``, which is not changed.

    Args:
        progress: called with phase, number done, number in all.

    Raises:
        ValueError: a bad option; TargetError: a bad target; CompileError: an operator has no native code.
    """
    resolved = check_options(target, host, opt_level, channel_layout)
    began = time.perf_counter()
    graph = _bound_main(module)
    options = {"module": module, "channel_layout": channel_layout, "float16": float16}
    context = PassContext(resolved, opt_level, options)
    run_graph_stages(graph, context, stop_after, observer)
    optimised = time.perf_counter()
    lowered = lower_graph(graph, name, resolved, fuse=opt_level >= FUSION_LEVEL, progress=progress)
    built = time.perf_counter()
    texts = [(f.name, emit_module([f], resolved)) for f in lowered.program.functions]
    emitted = time.perf_counter()
    objects = compile_modules(texts, resolved, opt_level, None if progress is None else _phase(progress, "compile"))
    seconds = {
        "graph": optimised - began, "lower": built - optimised, "emit": emitted - built, "llvm": time.perf_counter() - emitted,
    }
    recorded = {"opt_level": opt_level, "float16": float16, "channel_layout": channel_layout}
    return CompiledModel(lowered, resolved, opt_level, objects, recorded, seconds)


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
