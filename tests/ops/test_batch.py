"""Where operators carry a batch: what they tell, against their NumPy meaning on operands in which one element was changed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from forge.errors import ForgeError
from forge.ir.batch import Batch, MixesBatch
from forge.ir.edits.follow import BatchFollower
from forge.ir.graph import Graph
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.op import Trait
from forge.ir.parser import parse_module
from forge.ir.types import TensorType
from tests.ops import harness
from tests.ops.case import Case
from tests.ops.test_cases import CASES, by_id

SMALL = 4096
FEW = 2


def few_of_each() -> list[Case]:
    found: dict[str, list[Case]] = {}
    for case in CASES:
        arrays = [a for a in case.arrays() if a is not None]
        if sum(a.size for a in arrays) <= SMALL and any(a.ndim > 1 and a.shape[0] > 1 for a in arrays):
            found.setdefault(case.op, []).append(case)
    return [case for cases in found.values() for case in cases[-FEW:]]


def carried(graph: Graph, value: Value, axis: int) -> list[Batch | None] | None:
    """Where the batch is in the outputs; None: it is mixed."""
    follower = BatchFollower({value: Batch(axis)})
    try:
        for node in graph.nodes:
            follower.follow(node)
    except MixesBatch:
        return None
    return [follower.batches.get(v) for v in graph.outputs]


def axes(graph: Graph) -> Iterator[tuple[int, Value, int]]:
    for position, value in enumerate(graph.inputs):
        if isinstance(value.type, TensorType):
            yield from ((position, value, axis) for axis, size in enumerate(value.shape) if size > 1)


def untouched(array: np.ndarray, batch: Batch | None, count: int, element: int) -> np.ndarray:
    """What of a result belongs to other elements of the batch."""
    if batch is None:
        return array
    others = [k for k in range(array.shape[batch.axis]) if k // int(str(batch.after)) % count != element]
    return array.take(others, batch.axis)


@by_id(few_of_each())
def test_an_element_changes_what_is_its_own_only(case: Case) -> None:
    graph = harness.build_graph(case)
    if any(n.op_def.traits & Trait.RANDOM for n in graph.walk()):
        return
    inputs = harness.input_arrays(case)
    before = None
    for position, value, axis in axes(graph):
        batches = carried(graph, value, axis)
        if batches is None:
            continue
        before = run_graph(graph, inputs) if before is None else before
        element = inputs[position].shape[axis] - 1
        changed = np.array(inputs[position])
        np.moveaxis(changed, axis, 0)[element] = np.moveaxis(inputs[position], axis, 0)[0]
        try:
            after = run_graph(graph, [*inputs[:position], changed, *inputs[position + 1 :]])
        except ForgeError:
            continue
        for old, new, batch in zip(before, after, batches, strict=True):
            parts = [untouched(np.asarray(r), batch, element + 1, element) for r in (old, new)]
            same = parts[0].tobytes() == parts[1].tobytes() if parts[0].dtype != object else bool((parts[0] == parts[1]).all())
            assert same, f"operand {position}, axis {axis}"


@pytest.mark.parametrize(("body", "axis"), [
    ("nn.relu(%x)", 0), ("add(%x, %x)", 0), ("transpose(%x, axes=[1, 0, 2])", 1), ("sum(%x, axis=[1])", 0), ("nn.softmax(%x)", 0),
    ("cumsum(%x, axis=1)", 0), ("sort(%x)", 0), ("%0 = topk(%x, k=2); %0.1", 0), ("reverse(%x, axis=1)", 0),
    ("strided_slice(%x, begin=[0], end=[2], axes=[1])", 0), ("concatenate(%x, %x, axis=1)", 0), ("argmax(%x, axis=[2])", 0),
    ("nn.matmul(%x, %x, transpose_b=True)", 0), ("reshape(%x, newshape=[b, 24])", 0), ("expand_dims(%x, axis=0)", 1),
    ("%0 = reshape(%x, newshape=[4*b, 6]); %1 = tanh(%0); reshape(%1, newshape=[b, 2, 12])", 0), ("variance(%x, axis=[1])", 0),
    ("nn.pad(%x, pad_width=[[0, 0], [1, 1], [0, 0]])", 0), ('einsum(%x, %x, equation="bij,bkj->ibk")', 1), ("shape_of(%x)", None),
    ("logcumsumexp(%x, axis=1)", 0), ("%0 = cummax(%x, axis=2); %0.0", 0), ("%0 = nn.batch_flatten(%x); clip(%0, a_max=1f)", 0),
])  # fmt: skip
def test_where_the_batch_goes(body: str, axis: int | None) -> None:
    graph = parse_module(f"def @main(%x: Tensor[(b, 4, 6), float32]) {{ {body} }}").main
    assert carried(graph, graph.inputs[0], 0) == [None if axis is None else Batch(axis)]


ROUNDED = """nn.lstm(%x, full(1i8, shape=[1, 8, 6]), full(1i8, shape=[1, 8, 2]), None, None, None, None, None,
    full(0.1f, shape=[1, 8]), None, full(0.1f, shape=[1, 8]), activations=["sigmoid", "tanh", "tanh"], layout=1,
    activation_alpha=[0f, 0f, 0f], activation_beta=[0f, 0f, 0f], dynamic_quantization=True)"""


@pytest.mark.parametrize(("body", "reason", "certain"), [
    ("sum(%x, axis=[0])", "combines all entries along axis 0", True), ("nn.softmax(%x, axis=0)", "combines", True),
    ("cumsum(%x, axis=0)", "combines", True), ("sort(%x, axis=0)", "combines", True), ("max(%x)", "combines", True),
    ("topk(%x, k=2, axis=0)", "combines", True), ("argmax(%x, axis=[0])", "combines", True), ("variance(%x)", "combines", True),
    ("logcumsumexp(%x, axis=0)", "combines", True), ("cummin(%x, axis=-3)", "combines", True),
    ('einsum(%x, %x, equation="bij,bij->ij")', "combines", True),
    ('einsum(%x, %x, equation="bij,cij->bc")', "hold a batch", True),
    ("%0 = transpose(%x, axes=[1, 0, 2]); %1 = reshape(%0, newshape=[4*b, 6]); %2 = reshape(%x, newshape=[4*b, 6]); add(%1, %2)",
     "in different orders", True),
    ("reverse(%x, axis=0)", "moves entries", False), ("concatenate(%x, %x, axis=0)", "moves", False),
    ("strided_slice(%x, begin=[0], end=[2], axes=[0])", "", False), ("reshape(%x, newshape=[24, b])", "no axis holds", False),
    ("%0 = transpose(%x, axes=[1, 0, 2]); trilu(%0, 0i64)", "the place along axis 1", False),
    ("take(%x, %i, axis=0)", "depends on contents|moves", False), (f"%0 = {ROUNDED}; %0.1", "the range of all rows", True),
])  # fmt: skip
def test_what_is_told_where_elements_mix(body: str, reason: str, certain: bool) -> None:
    text = f"def @main(%x: Tensor[(b, 4, 6), float32], %i: Tensor[(3), int64]) {{ {body} }}"
    graph = parse_module(text).main
    starts = {graph.inputs[0]: Batch(0)}
    follower = BatchFollower(starts)
    with pytest.raises(MixesBatch, match=reason) as caught:
        for node in graph.nodes:
            follower.follow(node)
    assert caught.value.certain == certain
