"""The vocabulary of loops that schedules and kernel families share: loop forms, register accumulators, vectorization, costs.

What a kernel family is given is in ``loops.contract``.
"""

from forge.loops.accumulators import (
    LARGEST_NUMBER,
    Accumulators,
    AxisAccumulators,
    RegisterTile,
    combine,
    identity,
    long_nest,
    tree,
)
from forge.loops.cost import (
    PARALLEL_WORK,
    element_size,
    expression_cost,
    memory_dtypes,
    memory_sizes,
    statement_cost,
    supports_masks,
)
from forge.loops.nest import (
    GroupBody,
    Loop,
    axes,
    blocks,
    each_vector,
    group_loop,
    guard,
    likely_iterations,
    nest,
    parallel,
    parallel_nest,
    places,
    ravel,
    rows_along,
    serial,
    unroll,
    unroll_by,
    vector_loop,
)
from forge.loops.totals import BLOCK, LONG, Totals, in_blocks, is_long, two_sum
from forge.loops.values import (
    HALF,
    Cell,
    bind,
    bit_length,
    bound,
    bound_indices,
    ceildiv,
    clamped,
    finished,
    known,
    local,
    multiply_add,
    next_power_of_two,
    product,
    round_up,
    static,
    tail_mask,
    unravel,
)
from forge.loops.vectorizer import Vectorizer

__all__ = [
    "BLOCK", "HALF", "LARGEST_NUMBER", "LONG", "PARALLEL_WORK", "Accumulators", "AxisAccumulators", "Cell", "GroupBody", "Loop",
    "RegisterTile", "Totals", "Vectorizer", "axes", "bind", "bit_length", "blocks", "bound", "bound_indices", "ceildiv",
    "clamped", "combine", "each_vector", "element_size", "expression_cost", "finished", "group_loop", "guard", "identity",
    "in_blocks", "is_long", "known", "likely_iterations", "local", "long_nest", "memory_dtypes", "memory_sizes",
    "multiply_add", "nest", "next_power_of_two", "parallel", "parallel_nest", "places", "product", "ravel", "round_up",
    "rows_along", "serial", "statement_cost", "static", "supports_masks", "tail_mask", "tree", "two_sum", "unravel", "unroll",
    "unroll_by", "vector_loop",
]
