"""The compiler on one page: the list of its stages, from the imported graph to the library.

A stage runs when ``opt_level`` is at least its level and its options are set. ``forge compile --dump all`` writes what each stage
made, ``--stop-after NAME`` prints it and ends there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from forge.backend import Backend, Stage
from forge.backends import CPU
from forge.backends.cpu import LLVM_LEVELS
from forge.driver.compilation import Compilation
from forge.errors import OptionError
from forge.ir.edits import journal
from forge.ir.graph import Module
from forge.ir.text.printer import print_module
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
    integers,
    pack_blocks,
    pack_weights,
    recurrent_codes,
    split_groups,
    split_recurrent,
    to_bfloat16,
    to_float16,
    to_unsigned,
    unroll_scans,
    untranspose,
    use_winograd,
    widen_conv1d,
)
from forge.passes.base import GraphPass

Observer = Callable[[Stage, Compilation], None]

ENABLED: dict[str, Callable[[CompileOptions], bool]] = {
    "drop_checks": lambda o: not o.check_indices,
    "to_float16": lambda o: o.float16,
    "convert_layout": lambda o: o.channel_layout is not None,
    "to_bfloat16": lambda o: o.bfloat16,
    "split_groups": lambda o: o.channel_layout is None,
    "untranspose": lambda o: o.channel_layout is None,
    "channels_first": lambda o: o.channel_layout is None,
    "integers_first": lambda o: o.channel_layout is None,
    "choose_layouts": lambda o: o.channel_layout is None,
    "use_winograd": lambda o: o.winograd,
}
"""Stages that options turn on or off."""


def _pass(name: str, level: int, run: GraphPass, purpose: str) -> Stage:
    def on_functions(c: Compilation) -> object:
        return journal.staged(name, lambda: sum(run(f.graph, c.options) for f in c.functions))

    return Stage(name, level, on_functions, purpose, text=_graphs_text, when=ENABLED.get(name, lambda options: True))


def _shape(name: str, level: int, run: GraphPass, purpose: str) -> Stage:
    """A pass that brings the graph into the shape that a backend's kernels read."""
    return replace(_pass(name, level, run, purpose), asks_layouts=True)


def _graphs_text(c: Compilation) -> str:
    return print_module(_module(c), types=True)


def _module(c: Compilation) -> Module:
    module = Module()
    module.graphs = {function.name: function.graph for function in c.functions}
    return module


def _link(c: Compilation) -> None:
    assert c.draft is not None
    c.progress("link", 0, 1)
    c.artifact = c.draft.finish(c.compiled, c.module, c.identity.fingerprint)
    c.progress("link", 1, 1)


def _files_text(c: Compilation) -> str:
    return "".join(f"{p.name}: {p.stat().st_size} bytes\n" for p in sorted(c.artifact.iterdir()))


GRAPH_STAGES: tuple[Stage, ...] = (
    Stage("inline_calls", 0, lambda c: [inline_calls.run(f.graph, c.module) for f in c.functions],
          "functions of the module become part of those that call them", text=_graphs_text),
    _pass("canonicalize", 1, canonicalize.run, "one form for equal things; no-ops go"),
    _pass("unroll_scans", 2, unroll_scans.run, "short loops over layers or frames become what their rounds do"),
    _shape("integers_first", 2, convert_layout.run_integers_to_first,
           "convolutions by quantized kernels whose channels are last get them first, unless `set_channel_layout` is given"),
    _pass("to_unsigned", 2, to_unsigned.run, "int8 between quantization and dequantization becomes uint8"),
    _shape("recurrent_codes", 2, recurrent_codes.run, "weights of recurrent layers stay integers of 8 bits"),
    _pass("to_integers", 2, integers.run, "products of quantized numbers are summed as integers"),
    _shape("pack_blocks", 2, pack_blocks.run, "weights of few bits stay packed where matrix products read them"),
    _pass("drop_checks", 0, drop_checks.run, "`check_indices` off: indices, divisors and factors are not checked"),
    _pass("fold_constants", 1, fold_constants.run, "what depends on constants only is evaluated"),
    _pass("eliminate_common_subexpr", 1, eliminate_common_subexpr.run, "equal nodes are merged"),
    Stage("append_states", 1, lambda c: append_states.run([f.graph for f in c.functions]),
          "states that calls lengthen are stored with that axis first", text=_graphs_text),
    _pass("fold_sequences", 1, fold_sequences.run, "sequences and optionals whose structure is known become plain tensors"),
    _pass("fold_batch_norm", 1, fold_batch_norm.run, "batch normalization goes into the weights before it"),
    _pass("fold_scale", 2, fold_scale.run, "constant scales and shifts go into weights"),
    _pass("fuse_patterns", 2, fuse_patterns.run, "what exporters write in primitives becomes one operator"),
    _pass("to_float16", 0, to_float16.run, "`set_float16`: operators compute in float16 where that is safe and faster"),
    _pass("convert_layout", 0, convert_layout.run, "`set_channel_layout`: the layout that the user asked for"),
    _pass("decompose", 0, decompose.run, "composite operators become simpler ones"),
    _pass("simplify", 1, canonicalize.run, "`canonicalize` again, for what decomposition left"),
    _pass("to_bfloat16", 0, to_bfloat16.run, "`set_bfloat16`: operators compute in bfloat16 where that is safe and faster"),
    _pass("fuse_attention", 2, fuse_attention.run, "products, softmax and masks of attention become one operator"),
    _shape("channels_first", 2, convert_layout.run_to_first,
           "convolutions whose channels are last get them first, unless `set_channel_layout` is given"),
    _shape("widen_conv1d", 2, widen_conv1d.run, "convolutions along one axis become those of images one row high"),
    _shape("split_groups", 2, split_groups.run, "grouped convolutions become one a group, unless `set_channel_layout` is given"),
    _shape("untranspose", 2, untranspose.run,
          "transposed convolutions become forward ones that do the same work, unless `set_channel_layout` is given"),
    _shape("choose_layouts", 2, choose_layouts.run, "convolutions get blocked layouts, unless `set_channel_layout` is given"),
    _shape("use_winograd", use_winograd.LEVEL, use_winograd.run,
          "3x3 convolutions with fewer multiplications, larger weights and errors of 1e-5, unless `winograd` is off"),
    _shape("fuse_norms", 2, fuse_patterns.run_norms, "normalizations of images in plain layouts run row by row"),
    _shape("split_recurrent", 2, split_recurrent.run, "recurrent layers read products of all their inputs"),
    _shape("pack_weights", 2, pack_weights.run, "matrix products get packed weights"),
    _pass("fold_weights", 1, fold_constants.run, "`fold_constants` again: weights that were cast, transposed or packed"),
    _pass("merge", 1, eliminate_common_subexpr.run, "equal layout changes are merged"),
    _pass("eliminate_dead_code", 0, eliminate_dead_code.run, "what no output needs goes"),
)
"""From the imported graph to the one that a backend gets."""

LINK = Stage("link", 0, _link, "object code and weights become a library", "link", _files_text)


def stages_of(backend: Backend) -> tuple[Stage, ...]:
    """All stages of compilations for targets of ``backend``."""
    return (*GRAPH_STAGES, *backend.stages, *([LINK] if backend.link is not None else []))


STAGES = stages_of(CPU)
"""For the machine that runs the compiler: what help and pages list."""


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
    rows.append(("LLVM", "optimization of machine code", [f"O{LLVM_LEVELS[level]}" for level in OPT_LEVELS]))
    heading = ["stage", "what it does", *map(str, OPT_LEVELS)]
    lines = [heading, ["---", "---", *[":-:"] * len(OPT_LEVELS)], *[[name, purpose, *cells] for name, purpose, cells in rows]]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _marks(level: int) -> list[str]:
    return ["x" if level <= given else " " for given in OPT_LEVELS]
