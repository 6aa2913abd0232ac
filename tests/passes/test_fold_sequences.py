"""fold_sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.ir.graph import Graph
from forge.ir.interp import run_graph
from forge.passes import eliminate_dead_code, fold_sequences
from tests.passes.checks import AVX512, parse, rewrite, text_of

XY = "%x: Tensor[(n, 4), float32], %y: Tensor[(n, 4), float32]"


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def folded(text: str, *inputs: Any) -> Graph:
    """The graph after the pass, which gives the same results."""
    graph = parse(text)
    expected = run_graph(graph, list(inputs))
    rewrite(fold_sequences.run, graph)
    rewrite(eliminate_dead_code.run, graph)
    for got, want in zip(run_graph(graph, list(inputs)), expected, strict=True):
        np.testing.assert_equal(got, want)
    return graph


def operators(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op != "constant"]


@pytest.mark.parametrize(("body", "expected"), [
    ("%0 = sequence_construct(%x, %y); %1 = sequence_at(%0, -1i64); exp(%1)", ["exp"]),
    ("%0 = sequence_construct(%x, %y); sequence_at(%0, 0i64)", ["copy"]),
    ("%0 = sequence_empty(); %1 = sequence_insert(%0, %x); %2 = sequence_insert(%1, %y, 0i64); %3 = sequence_erase(%2); "
     "%4 = sequence_at(%3, 0i64); exp(%4)", ["exp"]),
    ("%0 = sequence_construct(%x, %y); sequence_length(%0)", ["copy"]),
    ("%0 = sequence_construct(%x, %y); concat_from_sequence(%0, axis=1)", ["concatenate", "copy"]),
    ("%0 = sequence_construct(%x, %y); concat_from_sequence(%0, axis=-1, new_axis=True)", ["stack", "copy"]),
    ("%0 = split_to_sequence(%x, axis=1); %1 = sequence_at(%0, 2i64); exp(%1)", ["strided_slice", "exp"]),
    ("%0 = split_to_sequence(%x, axis=1, keepdims=False); %1 = sequence_at(%0, 2i64); exp(%1)",
     ["strided_slice", "squeeze", "exp"]),
    ("%0 = split_to_sequence(%x, 3i64, axis=1); %1 = sequence_at(%0, 1i64); exp(%1)", ["strided_slice", "exp"]),
    ("%0 = optional(%x); %1 = optional_get_element(%0); exp(%1)", ["exp"]),
    ("%0 = optional(%x); optional_has_element(%0)", ["copy"]),
    ("%0 = sequence_construct(%x, %y); %1 = optional(%0); %2 = optional_get_element(%1); %3 = sequence_at(%2, 1i64); exp(%3)",
     ["exp"]),
    ('%0 = optional(None, type="float32"); %1 = optional_has_element(%0); %2 = optional_has_element(%x); logical_or(%1, %2)',
     ["logical_or"]),
])
def test_known_structures(body: str, expected: list[str]) -> None:
    assert operators(folded(f"def @main({XY}) {{ {body} }}", floats(2, 4), floats(2, 4) + 1)) == expected


def test_what_is_returned_stays() -> None:
    graph = folded(f"def @main({XY}) {{ %0 = sequence_construct(%x, %y); %1 = sequence_at(%0, 1i64); %2 = exp(%1); (%0, %2) }}",
                   floats(2, 4), floats(2, 4))
    assert operators(graph) == ["sequence_construct", "exp"]


def test_a_rank_that_becomes_known_reaches_the_types() -> None:
    graph = folded("def @main(%x: Tensor[(n), float32], %y: Tensor[(2, 3), float32]) { %0 = sequence_construct(%x, %y); "
                   "%1 = sequence_at(%0, 1i64); %2 = sequence_construct(%1); %3 = sequence_at(%2, 0i64); exp(%y) }",
                   floats(4), floats(2, 3))
    assert operators(graph) == ["exp"]


@pytest.mark.parametrize("body", [
    "%0 = sequence_construct(%x, %y); sequence_at(%0, 2i64)",
    "%0 = sequence_construct(%x); %1 = sequence_erase(%0); concat_from_sequence(%1)",
    "%0 = split_to_sequence(%x, 0i64, axis=1); sequence_at(%0, 0i64)",
    "%0 = split_to_sequence(%x); sequence_at(%0, 0i64)",
    '%0 = optional(None, type="float32"); optional_get_element(%0)',
])
def test_what_fails_or_is_unknown_stays(body: str) -> None:
    graph = parse(f"def @main({XY}) {{ {body} }}")
    before = text_of(graph)
    assert rewrite(fold_sequences.run, graph, AVX512) == 0
    assert text_of(graph) == before


def test_sizes_that_may_differ_stay() -> None:
    graph = parse("def @main(%x: Tensor[(n), float32], %y: Tensor[(m), float32]) "
                  "{ %0 = sequence_construct(%x, %y); concat_from_sequence(%0, new_axis=True) }")
    assert rewrite(fold_sequences.run, graph, AVX512) == 0
