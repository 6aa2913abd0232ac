"""Greedy suppression of boxes of any number, against the operator's NumPy meaning."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.types import TensorType
from forge.kernels.cpu import suppression
from forge.ops.vision.non_max_suppression import BoxSuppression, SuppressionAttrs
from tests import guard
from tests.schedule.support import TARGETS

RNG = np.random.default_rng(0)


def graph_of(boxes: dims.Dim, classes: int, dtype: str, has_least: bool) -> Graph:
    builder = Builder()
    shapes = [((2, boxes, 4), dtype), ((2, classes, boxes), dtype), ((1,), "int64"), ((1,), dtype)]
    shapes += [((1,), dtype)] if has_least else []
    return builder.output(builder.call("vision.box_suppression", *(builder.input(TensorType(s, d)) for s, d in shapes)))


def inputs(boxes: int, classes: int, dtype: str, limit: int, least: float | None, spread: float = 30) -> list[np.ndarray]:
    corners = RNG.random((2, boxes, 2)) * spread
    data = np.concatenate([corners, corners + RNG.random((2, boxes, 2)) * 9], axis=2).astype(dtype)
    scores = RNG.random((2, classes, boxes)).round(3).astype(dtype)
    if boxes > 9:
        scores[0, 0, 3:6] = np.nan, np.inf, -np.inf
    return [data, scores, np.array([limit]), np.array([0.5], dtype), *([] if least is None else [np.array([least], dtype)])]


def check(target: str, boxes: int, given: list[np.ndarray], symbolic: bool) -> None:
    graph = graph_of(dims.symbol("n") if symbolic else boxes, given[1].shape[1], str(given[0].dtype), len(given) == 5)
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    (want,) = BoxSuppression().reference(SuppressionAttrs(), *given, *([None] if len(given) == 4 else []))
    (got,) = guard.run(compiled, graph, given)
    np.testing.assert_array_equal(got, want)


def test_an_overlap_is_compared_as_it_is() -> None:
    """Not rounded to the type of the threshold: 0.5002 is more than a half."""
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 2047 / 1024]]] * 2, np.float16)
    given = [boxes, np.array([[[0.9, 0.8]]] * 2, np.float16), np.array([5]), np.array([0.5], np.float16)]
    check("llvm", 2, given, False)
    (kept,) = BoxSuppression().reference(SuppressionAttrs(), *given, None)
    assert kept.tolist() == [[[1, 0]]] * 2


@TARGETS
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("boxes", "limit", "least"), [
    (0, 5, None), (1, 5, 0.0), (37, 0, None), (37, 9, None), (200, 1000, 0.7), (700, 50, 0.97), (150, 150, None),
])
def test_numbers_of_boxes(target: str, boxes: int, limit: int, least: float | None, symbolic: bool) -> None:
    check(target, boxes, inputs(boxes, 2, "float32", limit, least), symbolic)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_element_types(dtype: str) -> None:
    check("llvm", 150, inputs(150, 2, dtype, 60, 0.2), True)


@pytest.mark.parametrize("least", [None, 0.02, 0.9])
def test_more_boxes_than_have_room(monkeypatch: pytest.MonkeyPatch, least: float | None) -> None:
    """On the stack: to be sorted, and as corners of kept ones."""
    monkeypatch.setattr(suppression, "LARGEST", 64)
    monkeypatch.setattr(suppression, "CORNERS", 32)
    for symbolic in (False, True):
        check("llvm", 300, inputs(300, 1, "float32", 200, least, spread=200), symbolic)
