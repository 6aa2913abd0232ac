"""The vocabulary of loops that schedules and kernel families share: loop forms, register accumulators, vectorisation, costs.

What a kernel family is given is in ``loops.contract``.
"""

from forge.loops.accumulators import LARGEST_NUMBER, Accumulators, RegisterTile, combine, identity, tree
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
    Loop,
    each_vector,
    group_loop,
    guard,
    nest,
    parallel,
    parallel_nest,
    serial,
    unroll,
    unroll_by,
    vector_loop,
)
from forge.loops.values import (
    HALF,
    bind,
    bound,
    bound_indices,
    ceildiv,
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
    "HALF", "LARGEST_NUMBER", "PARALLEL_WORK", "Accumulators", "Loop", "RegisterTile", "Vectorizer", "bind", "bound",
    "bound_indices", "ceildiv", "combine", "each_vector", "element_size", "expression_cost", "finished", "group_loop", "guard",
    "identity", "known", "local", "memory_dtypes", "memory_sizes", "multiply_add", "nest", "next_power_of_two", "parallel",
    "parallel_nest", "product", "round_up", "serial", "static", "statement_cost", "supports_masks", "tail_mask", "tree",
    "unravel", "unroll", "unroll_by", "vector_loop",
]
