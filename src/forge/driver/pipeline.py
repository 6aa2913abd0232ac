"""The compiler on one page: the list of its stages, from the imported graph to the library.

A stage runs when ``opt_level`` is at least its level and its options are set. ``forge compile --dump all`` writes what each stage
made, ``--stop-after NAME`` prints it and ends there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge.codegen.compile import compile_modules
from forge.codegen.entry import emit_library_entry
from forge.codegen.module import emit_module
from forge.driver.compilation import Compilation, FunctionStages
from forge.driver.compiled import CompiledModel
from forge.driver.texts import groups_text, plan_text
from forge.driver.weights import Weights
from forge.errors import OptionError
from forge.ir.edits import journal
from forge.ir.nodes import Module
from forge.ir.text.printer import print_module
from forge.lowering.program import Lowering
from forge.lowering.times import with_times
from forge.options import OPT_LEVELS, CompileOptions
from forge.passes import (
    append_states,
    canonicalize,
    choose_layouts,
    convert_layout,
    decompose,
    drop_checks,
    eliminate_common_subexpr,
    eliminate_dead_code,
    fold_batch_norm,
    fold_constants,
    fold_scale,
    fold_sequences,
    fuse_attention,
    fuse_patterns,
    inline_calls,
    pack_blocks,
    pack_weights,
    recurrent_codes,
    split_groups,
    split_recurrent,
    to_bfloat16,
    to_float16,
    to_integers,
    to_unsigned,
    untranspose,
    use_winograd,
    widen_conv1d,
)
from forge.passes.base import GraphPass
from forge.tir.printer import print_function, print_statement


@dataclass(frozen=True)
class Stage:
    """One step of the compiler.

    Attributes:
        level: the ``opt_level`` from which it runs.
        phase: to which its time is counted.
        text: what dumps show after it.
        otherwise: what runs in its place where it is off.
    """

    name: str
    level: int
    run: Callable[[Compilation], object]
    purpose: str
    phase: str = "graph"
    text: Callable[[Compilation], str] = lambda c: print_module(_module(c), types=True)
    otherwise: Callable[[Compilation], object] = lambda compilation: None

    def is_on(self, options: CompileOptions) -> bool:
        if self.name in options.disabled_pass or (self.name in ENABLED and not ENABLED[self.name](options)):
            return False
        return options.opt_level >= self.level or self.name in options.required_pass


Observer = Callable[[Stage, Compilation], None]


def _pass(name: str, level: int, run: GraphPass, purpose: str) -> Stage:
    return Stage(name, level, lambda c: journal.staged(name, lambda: sum(run(f.graph, c.options) for f in c.functions)), purpose)


def _module(c: Compilation) -> Module:
    module = Module()
    module.graphs = {function.name: function.graph for function in c.functions}
    return module


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
    level = LLVM_LEVELS[c.options.opt_level]
    weights = Weights(c.lowered.library.weights_size, c.lowered.weights)
    if c.draft is not None:
        c.draft.begin(weights, c.options.target)
    levels = [*(min(level, f.most_optimized) for f in c.lowered.library.functions), level]
    *kernels, entry = compile_modules(c.llvm, c.options.target, levels, lambda *counts: c.progress("compile", *counts))
    sizes = [function.plan.arena_size for function in c.functions]
    known = [size for size in sizes if isinstance(size, int)]
    arena = max(known) if known == sizes else ", ".join(map(str, sizes))
    groups = sum(len(lowered.groups) for lowered in c.lowered.functions)
    registered = list(c.lowered.library.registered)
    summary = {"groups": groups, "kernels": len(kernels), "arena_size": arena, "registered": registered}
    recorded = c.options.recorded
    c.compiled = CompiledModel(c.options.target, kernels, entry, weights, recorded, summary, c.seconds, c.lowered)


def _objects_text(c: Compilation) -> str:
    return "".join(f"{n}: {len(k)} bytes\n" for (n, _), k in zip(c.llvm, c.compiled.objects))


def _link(c: Compilation) -> None:
    assert c.draft is not None
    c.progress("link", 0, 1)
    c.artifact = c.draft.finish(c.compiled, c.module, c.identity.fingerprint)
    c.progress("link", 1, 1)


def _files_text(c: Compilation) -> str:
    return "".join(f"{p.name}: {p.stat().st_size} bytes\n" for p in sorted(c.artifact.iterdir()))


STAGES: tuple[Stage, ...] = (
    Stage("inline_calls", 0, lambda c: [inline_calls.run(f.graph, c.module) for f in c.functions],
          "functions of the module become part of those that call them"),
    _pass("canonicalize", 1, canonicalize.run, "one form for equal things; no-ops go"),
    _pass("to_unsigned", 2, to_unsigned.run, "int8 between quantisation and dequantisation becomes uint8"),
    _pass("recurrent_codes", 2, recurrent_codes.run, "weights of recurrent layers stay integers of 8 bits"),
    _pass("to_integers", 2, to_integers.run, "products of quantised numbers are summed as integers"),
    _pass("pack_blocks", 2, pack_blocks.run, "weights of few bits stay packed where matrix products read them"),
    _pass("drop_checks", 0, drop_checks.run, "`check_indices` off: indices, divisors and factors are not checked"),
    _pass("fold_constants", 1, fold_constants.run, "what depends on constants only is evaluated"),
    _pass("eliminate_common_subexpr", 1, eliminate_common_subexpr.run, "equal nodes are merged"),
    Stage("append_states", 1, lambda c: append_states.run([f.graph for f in c.functions]),
          "states that calls lengthen are stored with that axis first"),
    _pass("fold_sequences", 1, fold_sequences.run, "sequences and optionals whose structure is known become plain tensors"),
    _pass("fold_batch_norm", 1, fold_batch_norm.run, "batch normalisation goes into the weights before it"),
    _pass("fold_scale", 2, fold_scale.run, "constant scales and shifts go into weights"),
    _pass("fuse_patterns", 2, fuse_patterns.run, "what exporters write in primitives becomes one operator"),
    _pass("to_float16", 0, to_float16.run, "`set_float16`: safe operators compute in float16"),
    _pass("convert_layout", 0, convert_layout.run, "`set_channel_layout`: the layout that the user asked for"),
    _pass("decompose", 0, decompose.run, "composite operators become simpler ones"),
    _pass("simplify", 1, canonicalize.run, "`canonicalize` again, for what decomposition left"),
    _pass("to_bfloat16", 0, to_bfloat16.run, "`set_bfloat16`: safe operators compute in bfloat16"),
    _pass("fuse_attention", 2, fuse_attention.run, "products, softmax and masks of attention become one operator"),
    _pass("widen_conv1d", 2, widen_conv1d.run, "convolutions along one axis become those of images one row high"),
    _pass("split_groups", 2, split_groups.run, "grouped convolutions become one a group, unless `set_channel_layout` is given"),
    _pass("untranspose", 2, untranspose.run,
          "transposed convolutions become forward ones that do the same work, unless `set_channel_layout` is given"),
    _pass("choose_layouts", 2, choose_layouts.run, "convolutions get blocked layouts, unless `set_channel_layout` is given"),
    _pass("use_winograd", use_winograd.LEVEL, use_winograd.run,
          "3x3 convolutions with fewer multiplications, larger weights and errors of 1e-5, unless `winograd` is off"),
    _pass("fuse_norms", 2, fuse_patterns.run_norms, "normalisations of images in plain layouts run row by row"),
    _pass("split_recurrent", 2, split_recurrent.run, "recurrent layers read products of all their inputs"),
    _pass("pack_weights", 2, pack_weights.run, "matrix products get packed weights"),
    _pass("fold_weights", 1, fold_constants.run, "`fold_constants` again: weights that were cast, transposed or packed"),
    _pass("merge", 1, eliminate_common_subexpr.run, "equal layout changes are merged"),
    _pass("eliminate_dead_code", 0, eliminate_dead_code.run, "what no output needs goes"),
    Stage("fusion", 1, lambda c: _group(c, True), "groups of operators become kernels, else single ones", "lower",
          text=lambda c: _sections(c, lambda f: groups_text(f.grouped)), otherwise=lambda c: _group(c, False)),
    Stage("memory_plan", 0, _plan, "intermediate results share an arena", "lower",
          lambda c: _sections(c, lambda f: plan_text(f.grouped, f.plan))),
    Stage("loops", 0, _lower, "each group becomes loops, shaped for the target", "lower", _loops_text),
    Stage("llvm", 0, _emit, "loops become LLVM IR", "emit", lambda c: "\n".join(f"; {n}\n{ir}" for n, ir in c.llvm)),
    Stage("machine_code", 0, _compile, "LLVM makes object code, in worker processes", "llvm", _objects_text),
    Stage("link", 0, _link, "object code and weights become a library", "link", _files_text),
)

ENABLED: dict[str, Callable[[CompileOptions], bool]] = {
    "drop_checks": lambda o: not o.check_indices,
    "to_float16": lambda o: o.float16,
    "convert_layout": lambda o: o.channel_layout is not None,
    "to_bfloat16": lambda o: o.bfloat16,
    "split_groups": lambda o: o.channel_layout is None,
    "untranspose": lambda o: o.channel_layout is None,
    "choose_layouts": lambda o: o.channel_layout is None,
    "use_winograd": lambda o: o.winograd,
}
"""Stages that options turn on or off."""

GRAPH_STAGES = tuple(stage for stage in STAGES if stage.phase == "graph")

LLVM_LEVELS = (0, 1, 2, 3, 3)
"""LLVM's optimisation level for each of ours; from 2 on, with its loop and straight-line vectorisers."""


def run_stages(
    compilation: Compilation, stages: Sequence[Stage] = STAGES, stop_after: str | None = None, observer: Observer | None = None
) -> None:
    """Runs those of ``stages`` that the options turn on, up to and including ``stop_after``; ``observer`` sees each result.

    Raises:
        OptionError: ``stop_after`` names no stage.
    """
    if stop_after is not None:
        stage_of(stop_after, "compile")
    for stage in stages:
        begin = time.perf_counter()
        is_on = stage.is_on(compilation.options)
        (stage.run if is_on else stage.otherwise)(compilation)
        compilation.seconds[stage.phase] = compilation.seconds.get(stage.phase, 0.0) + time.perf_counter() - begin
        if observer is not None and (is_on or stage.phase != "graph"):
            observer(stage, compilation)
        if stage.name == stop_after:
            return


def stage_of(name: str, where: str) -> Stage:
    """The stage of this name.

    Raises:
        OptionError: there is none.
    """
    for stage in STAGES:
        if stage.name == name:
            return stage
    raise OptionError(f"{where}: no stage is called {name!r}; expected one of: {', '.join(s.name for s in STAGES)}")


def levels_table() -> str:
    """What each ``opt_level`` turns on, in Markdown."""
    rows = [(f"`{s.name}`", s.purpose, _marks(s.level)) for s in STAGES]
    rows.append(("LLVM", "optimisation of machine code", [f"O{LLVM_LEVELS[level]}" for level in OPT_LEVELS]))
    heading = ["stage", "what it does", *map(str, OPT_LEVELS)]
    lines = [heading, ["---", "---", *[":-:"] * len(OPT_LEVELS)], *[[name, purpose, *cells] for name, purpose, cells in rows]]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _marks(level: int) -> list[str]:
    return ["x" if level <= given else " " for given in OPT_LEVELS]
