"""The CPU: groups of operators become loops, loops LLVM IR, and that object code, which is linked or loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from forge import schedule
from forge.backend import Backend, KernelFamilies, Stage, register
from forge.backends.compiled import CompiledModel
from forge.backends.weights import Weights
from forge.codegen.compile import QUICK, compile_modules
from forge.codegen.elf import write_layout
from forge.codegen.entry import emit_library_entry
from forge.codegen.jit import JitLibrary
from forge.codegen.link import find_compiler, link_library
from forge.codegen.module import emit_module
from forge.codegen.tables import MODEL_SYMBOL
from forge.codegen.user_objects import addresses, check_together
from forge.errors import TargetError, option
from forge.kernels import COMPLEX_FAMILIES, FAMILIES, VARIANTS
from forge.kernels.layouts import CpuLayouts
from forge.lowering.program import Lowering
from forge.lowering.texts import groups_text, plan_text
from forge.lowering.times import with_times
from forge.passes import use_winograd
from forge.target import Target, host
from forge.tir.printer import print_function, print_statement
from forge_runtime import Runtime, include_directory

if TYPE_CHECKING:
    from forge.driver.compilation import Compilation, FunctionStages

LLVM_LEVELS = (0, 1, 2, 3, 3)
"""LLVM's optimization level for each of ours; from 2 on, with its loop and straight-line vectorizers."""

ENTRY_LEVEL = 1
"""The highest level of LLVM's passes for entries: calls of kernels, and additions."""


def _group(c: Compilation, fuse: bool) -> None:
    c.lowering = Lowering(c.options.target, fuse, dict(c.options.typical))
    for function in c.functions:
        function.grouped = c.lowering.group(function.graph)


def _plan(c: Compilation) -> None:
    for function in c.functions:
        function.plan = c.lowering.plan(function.grouped)


def _lower(c: Compilation) -> None:
    for function in c.functions:
        name = c.name if function.name == "main" else function.name
        lowered = c.lowering.lower(function.grouped, function.plan, name, c.progress, function.name)
        function.lowered = with_times(lowered) if c.profile else lowered
    c.lowered = c.lowering.library([function.lowered for function in c.functions])


def _sections(c: Compilation, text: Callable[[FunctionStages], str]) -> str:
    """What a stage made of each function, under its name where there are several."""
    titled = len(c.functions) > 1
    return "\n".join((f"@{function.name}\n" if titled else "") + text(function) for function in c.functions)


def _loops_text(c: Compilation) -> str:
    entries = _sections(c, lambda function: print_statement(function.lowered.program.entry))
    return "\n".join([*map(print_function, c.lowered.library.functions), entries])


def _emit(c: Compilation) -> None:
    library, target = c.lowered.library, c.options.target
    c.llvm = [(f.name, emit_module([f], target)) for f in library.functions]
    c.llvm.append(("entry", emit_library_entry(library, target)))


def _compile(c: Compilation) -> None:
    level = QUICK if c.quick else LLVM_LEVELS[c.options.opt_level]
    check_together(c.external.objects)
    weights = Weights(c.lowered.library.weights_size, c.lowered.weights)
    if c.draft is not None:
        c.draft.begin(weights, c.options.target)
    most = [*(f.most_optimized for f in c.lowered.library.functions), ENTRY_LEVEL]
    *kernels, entry = compile_modules(c.llvm, c.options.target, level, lambda *counts: c.progress("compile", *counts), most)
    sizes = [function.plan.arena_size for function in c.functions]
    known = [size for size in sizes if isinstance(size, int)]
    arena = max(known) if known == sizes else ", ".join(map(str, sizes))
    groups = sum(len(lowered.groups) for lowered in c.lowered.functions)
    registered = list(c.lowered.library.registered)
    grown = sum(use_winograd.grown_bytes(function.graph) for function in c.functions)
    summary = {"groups": groups, "kernels": len(kernels), "arena_size": arena, "registered": registered, "winograd_bytes": grown}
    recorded = c.options.recorded
    c.compiled = CompiledModel(c.options.target, kernels, entry, weights, recorded, summary, c.seconds, c.lowered, c.external)


def _objects_text(c: Compilation) -> str:
    return "".join(f"{n}: {len(k)} bytes\n" for (n, _), k in zip(c.llvm, c.compiled.objects))


def _link(library: Path, compiled: CompiledModel, weights_size: int, scratch: Path) -> None:
    layout = link_library(compiled.objects, weights_size, compiled.target, include_directory(), scratch, compiled.external)
    write_layout(library, layout)
    os.chmod(library, 0o755)


def _call(compiled: CompiledModel, threads: int | None) -> Runtime:
    """The model linked into this process."""
    target = compiled.target
    if not target.is_of_host:
        here = host.architecture().name
        raise TargetError(f"run: target {target} is {target.arch}; this machine is {here}; write a library with "
                          f"{option('output_path')} and run it there")
    missing = target.missing_on_host()
    if missing:
        raise TargetError(f"run: this CPU lacks {', '.join(missing)}, which target {target} uses; compile for 'llvm'")
    library = JitLibrary(compiled.objects, [MODEL_SYMBOL], addresses(compiled.external, target))
    address, weights = library.addresses[MODEL_SYMBOL], compiled.weights.in_memory()
    return Runtime.from_jit(address, library, weights, num_threads=threads, copy_weights=False)


def _check(target: Target) -> None:
    target.require_codegen()
    find_compiler(target)


_STAGES = (
    Stage("fusion", 1, lambda c: _group(c, True), "groups of operators become kernels, else single ones", "lower",
          text=lambda c: _sections(c, lambda f: groups_text(f.grouped)), otherwise=lambda c: _group(c, False)),
    Stage("memory_plan", 0, _plan, "intermediate results share an arena", "lower",
          lambda c: _sections(c, lambda f: plan_text(f.grouped, f.plan))),
    Stage("loops", 0, _lower, "each group becomes loops, shaped for the target", "lower", _loops_text),
    Stage("llvm", 0, _emit, "loops become LLVM IR", "emit", lambda c: "\n".join(f"; {n}\n{ir}" for n, ir in c.llvm)),
    Stage("machine_code", 0, _compile, "LLVM makes object code, in worker processes", "llvm", _objects_text),
)

CPU = register(Backend(
    name="CPU", kind="llvm", stages=_STAGES, call=_call, layouts=CpuLayouts,
    families=KernelFamilies(FAMILIES, VARIANTS, COMPLEX_FAMILIES, schedule.build, schedule.build_update),
    emit=emit_module, link=_link, check=_check, keeps_models=True))
