"""The compiler on one page: the list of its stages, from the imported graph to the program.

A stage runs when ``opt_level`` is at least its level. ``forge compile --dump all`` writes the module after every stage,
``--stop-after NAME`` ends early. What follows the graph stages: groups and kernels (``lowering``), machine code (``codegen``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge.errors import OptionError
from forge.ir.nodes import Graph
from forge.passes import (
    canonicalize,
    choose_layouts,
    convert_layout,
    decompose,
    eliminate_common_subexpr,
    eliminate_dead_code,
    fold_batch_norm,
    fold_constants,
    fold_scale,
    fold_sequences,
    fuse_attention,
    fuse_patterns,
    inline_calls,
    pack_weights,
    split_groups,
    split_recurrent,
    to_bfloat16,
    to_float16,
    use_winograd,
    widen_conv1d,
)
from forge.passes.base import GraphPass, PassContext


@dataclass(frozen=True)
class Stage:
    """One graph pass in its place."""

    name: str
    level: int
    run: GraphPass
    purpose: str


def _choose_layouts(graph: Graph, context: PassContext) -> int:
    """Blocked layouts, unless the user chose one."""
    return choose_layouts.run(graph, context) if context.options.get("channel_layout") is None else 0


def _split_groups(graph: Graph, context: PassContext) -> int:
    """For the kernels of blocked layouts."""
    return split_groups.run(graph, context) if context.options.get("channel_layout") is None else 0


GRAPH_STAGES: tuple[Stage, ...] = (
    Stage("inline_calls", 0, inline_calls.run, "functions of the module become part of main"),
    Stage("canonicalize", 1, canonicalize.run, "one form for equal things; no-ops go"),
    Stage("fold_constants", 1, fold_constants.run, "what depends on constants only is evaluated"),
    Stage("eliminate_common_subexpr", 1, eliminate_common_subexpr.run, "equal nodes are merged"),
    Stage("fold_sequences", 1, fold_sequences.run, "sequences and optionals whose structure is known become plain tensors"),
    Stage("fold_batch_norm", 1, fold_batch_norm.run, "batch normalisation goes into the weights before it"),
    Stage("fold_scale", 2, fold_scale.run, "constant scales and shifts go into weights"),
    Stage("fuse_patterns", 2, fuse_patterns.run, "what exporters write in primitives becomes one operator"),
    Stage("to_float16", 0, to_float16.run_if_asked, "`set_float16`: safe operators compute in float16"),
    Stage("convert_layout", 0, convert_layout.run, "`set_channel_layout`: the layout that the user asked for"),
    Stage("decompose", 0, decompose.run, "composite operators become simpler ones"),
    Stage("simplify", 1, canonicalize.run, "`canonicalize` again, for what decomposition left"),
    Stage("to_bfloat16", 0, to_bfloat16.run_if_asked, "`set_bfloat16`: safe operators compute in bfloat16"),
    Stage("fuse_attention", 2, fuse_attention.run, "products, softmax and masks of attention become one operator"),
    Stage("widen_conv1d", 2, widen_conv1d.run, "convolutions along one axis become those of images one row high"),
    Stage("split_groups", 2, _split_groups, "grouped convolutions become one a group, unless `set_channel_layout` is given"),
    Stage("choose_layouts", 2, _choose_layouts, "convolutions get blocked layouts, unless `set_channel_layout` is given"),
    Stage("use_winograd", 3, use_winograd.run_unless_refused,
          "3x3 convolutions with fewer multiplications, larger weights and errors of 1e-5, unless `winograd` is off"),
    Stage("fuse_norms", 2, fuse_patterns.run_norms, "normalisations of images in plain layouts run row by row"),
    Stage("split_recurrent", 2, split_recurrent.run, "recurrent layers read products of all their inputs"),
    Stage("pack_weights", 2, pack_weights.run, "matrix products get packed weights"),
    Stage("fold_weights", 1, fold_constants.run, "`fold_constants` again: weights that were cast, transposed or packed"),
    Stage("merge", 1, eliminate_common_subexpr.run, "equal layout changes are merged"),
    Stage("eliminate_dead_code", 0, eliminate_dead_code.run, "what no output needs goes"),
)

OPT_LEVELS = range(5)

FUSION = "fusion"
FUSION_LEVEL = 1
"""Fusion groups of more than one node are formed from this level on."""

LLVM_LEVELS = (0, 1, 2, 3, 3)
"""LLVM's optimisation level for each of ours; from 2 on, with its loop and straight-line vectorisers."""

Observer = Callable[[Stage, Graph], None]


def run_graph_stages(
    graph: Graph, context: PassContext, stop_after: str | None = None, observer: Observer | None = None,
    stages: Sequence[Stage] = GRAPH_STAGES,
) -> None:
    """Runs the stages of ``context`` on ``graph``, in place; ``observer`` sees the graph after each.

    Those are the stages of its ``opt_level``, and what its options ``required_pass`` and ``disabled_pass`` say.

    Raises:
        OptionError: ``stop_after`` names no stage.
    """
    if stop_after is not None:
        check_stage(stop_after, stages)
    for stage in stages:
        if _is_on(stage, context):
            stage.run(graph, context)
            if observer is not None:
                observer(stage, graph)
        if stage.name == stop_after:
            return


def _is_on(stage: Stage, context: PassContext) -> bool:
    if stage.name in context.options.get("disabled_pass", ()):
        return False
    return context.opt_level >= stage.level or stage.name in context.options.get("required_pass", ())


def check_stage(name: str, stages: Sequence[Stage] = GRAPH_STAGES) -> None:
    """Raises OptionError unless a stage is called ``name``."""
    names = [s.name for s in stages]
    if name not in names:
        raise OptionError(f"compile: no stage is called {name!r}; expected one of: {', '.join(names)}")


def levels_table() -> str:
    """What each ``opt_level`` turns on, in Markdown."""
    fusion = "element-wise work runs inside the kernels beside it"
    rows = [(f"`{s.name}`", s.purpose, _marks(s.level)) for s in GRAPH_STAGES]
    rows.append(("fusion", fusion, _marks(FUSION_LEVEL)))
    rows.append(("LLVM", "optimisation of machine code", [f"O{LLVM_LEVELS[level]}" for level in OPT_LEVELS]))
    heading = ["stage", "what it does", *map(str, OPT_LEVELS)]
    lines = [heading, ["---", "---", *[":-:"] * len(OPT_LEVELS)], *[[name, purpose, *cells] for name, purpose, cells in rows]]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _marks(level: int) -> list[str]:
    return ["x" if level <= given else " " for given in OPT_LEVELS]
