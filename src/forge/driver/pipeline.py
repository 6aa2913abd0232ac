"""The compiler on one page: the list of its stages, from the imported graph to the program.

A stage runs when ``opt_level`` is at least its level. ``forge compile --dump all`` writes the module after every stage,
``--stop-after NAME`` ends early. What follows the graph stages: groups and kernels (``lowering``), machine code (``codegen``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from forge.errors import ForgeError
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
    fuse_patterns,
    inline_calls,
    pack_weights,
    split_recurrent,
    to_float16,
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


GRAPH_STAGES: tuple[Stage, ...] = (
    Stage("to_float16", 0, to_float16.run_if_asked, "set_float16: safe operators compute in float16"),
    Stage("convert_layout", 0, convert_layout.run, "set_channel_layout: the layout that the user asked for"),
    Stage("inline_calls", 0, inline_calls.run, "functions of the module become part of main"),
    Stage("canonicalize", 1, canonicalize.run, "one form for equal things; no-ops go"),
    Stage("fold_constants", 1, fold_constants.run, "what depends on constants only is evaluated"),
    Stage("eliminate_common_subexpr", 1, eliminate_common_subexpr.run, "equal nodes are merged"),
    Stage("fold_batch_norm", 1, fold_batch_norm.run, "batch normalisation goes into the weights before it"),
    Stage("fuse_patterns", 2, fuse_patterns.run, "layer norm, gelu, silu ... from their parts"),
    Stage("fold_scale", 2, fold_scale.run, "constant scales and shifts go into weights"),
    Stage("decompose", 0, decompose.run, "composite operators become simpler ones"),
    Stage("simplify", 1, canonicalize.run, "again, for what decomposition left"),
    Stage("choose_layouts", 2, _choose_layouts, "convolutions get blocked layouts"),
    Stage("split_recurrent", 2, split_recurrent.run, "recurrent layers read products of all their inputs"),
    Stage("pack_weights", 2, pack_weights.run, "matrix products get packed weights"),
    Stage("fold_weights", 1, fold_constants.run, "weights are packed now"),
    Stage("merge", 1, eliminate_common_subexpr.run, "equal layout changes are merged"),
    Stage("eliminate_dead_code", 0, eliminate_dead_code.run, "what no output needs goes"),
)

FUSION_LEVEL = 1
"""Fusion groups of more than one node are formed from this level on."""

Observer = Callable[[Stage, Graph], None]


def run_graph_stages(
    graph: Graph, context: PassContext, stop_after: str | None = None, observer: Observer | None = None,
    stages: Iterable[Stage] = GRAPH_STAGES,
) -> None:
    """Runs the stages of ``context.opt_level`` on ``graph``, in place; ``observer`` sees the graph after each.

    Raises:
        ForgeError: ``stop_after`` names no stage.
    """
    names = [s.name for s in stages]
    if stop_after is not None and stop_after not in names:
        raise ForgeError(f"compile: no stage is called {stop_after!r}; expected one of: {', '.join(names)}")
    for stage in stages:
        if context.opt_level >= stage.level:
            stage.run(graph, context)
            if observer is not None:
                observer(stage, graph)
        if stage.name == stop_after:
            return
