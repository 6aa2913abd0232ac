"""Variables, views and computed sizes, by a format whose importer uses only what importers share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from forge import ops  # noqa: F401
from forge.dims import Dim, symbol
from forge.errors import ImportModelError, OpAttributeUnimplemented
from forge.frontends.context import ImportContext
from forge.frontends.promotion import NUMPY
from forge.frontends.scope import ImportState
from forge.frontends.state.cells import Cell
from forge.frontends.state.scope import MemoryScope
from forge.frontends.state.strides import contiguous, overlaps, storage_order
from forge.frontends.state.writes import Memories, assign, module_of
from forge.ir import interp
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType

Node = tuple[str, str, str]
"""An operator, what it uses, and what it gives."""


def from_variables(*nodes: Node, outputs: str, inputs: Mapping[str, tuple[Dim, ...]], **variables: Any) -> Module:
    scope = MemoryScope(Graph(name="main"), ImportState(size=len(nodes)), {})
    memories = Memories()
    for op, uses, gives in nodes:
        if op == "assign":
            memories.write(uses.split()[:1])
        elif op in ("row", "maybe_row"):
            memories.share([gives], uses.split()[0])
    for name, shape in inputs.items():
        value = scope.graph.add_input(TensorType(shape, "float32"), name)
        scope.bind_symbols(shape, value)
        scope.note_sizes(value)
        scope.cells[name] = Cell(value)
    for name, array in variables.items():
        make = scope.variable if name in memories.written else partial(constant, scope)
        scope.lazy[name] = partial(make, name, np.asarray(array, np.float32))
    for op, uses, gives in nodes:
        convert(ImportContext(scope, op, [gives]), scope, op, uses.split(), gives)
    after = [(name, scope.cell(name).read()) for name in (*inputs, *variables) if name in memories.written]
    return module_of(scope, [(name, scope.cell(name).read()) for name in outputs.split()], after)


def constant(scope: MemoryScope[ImportState], name: str, array: np.ndarray) -> Value:
    return Builder(scope.graph).constant(array, name=name)


def convert(g: ImportContext, scope: MemoryScope[ImportState], op: str, uses: list[str], gives: str) -> None:
    if op == "assign":
        assign(g, scope.cell(uses[0]), scope.cell(uses[1]).read())
    elif op in ("row", "maybe_row"):
        base, begin = scope.cell(uses[0]), int(uses[1])
        place = {"begin": (begin,), "end": (begin + 1,), "strides": (1,), "axes": (0,)}
        read = partial(g.call, "strided_slice", **place)
        write = partial(g.call, "strided_set", **place)
        scope.cells[gives] = Cell(read(base.read()), base, read, write) if op == "row" else Cell(read(base.read()), base)
    elif op == "size":
        scope.cells[gives] = Cell(scope.size(g, scope.resolved(symbol(uses[0]) * 2 + 1)))
    else:
        operands = [scope.cell(name).read() for name in uses]
        dtype = NUMPY.of(*operands)
        scope.cells[gives] = Cell(g.call(op, *(g.cast(value, dtype) for value in operands)))


ROWS = [[1, 2], [3, 4]]


def test_a_variable_that_is_written_through_a_view_is_a_state() -> None:
    module = from_variables(
        ("row", "total 1", "second"), ("add", "second x", "sum"), ("assign", "second sum", ""), ("add", "total second", "y"),
        outputs="y sum", inputs={"x": (1, 2)}, total=ROWS)
    state = module.main.states["total"]
    assert state.initial is not None and state.initial.tolist() == ROWS
    assert [v.name for v in module.main.outputs] == ["y", "sum", "total_after"] and state.output == 2
    y, added, total = interp.run_module(module, {"x": np.array([[10, 20]], np.float32), "total": np.array(ROWS, np.float32)})
    assert np.asarray(added).tolist() == [[13, 24]]
    assert np.asarray(total).tolist() == [[1, 2], [13, 24]]
    assert np.asarray(y).tolist() == [[14, 26], [26, 48]]


def test_a_write_to_a_variable_is_seen_by_its_views() -> None:
    module = from_variables(
        ("row", "total 0", "first"), ("assign", "total x", ""), outputs="first", inputs={"x": (1, 2)}, total=ROWS)
    first, total = interp.run_module(module, {"x": np.array([[5, 6]], np.float32), "total": np.array(ROWS, np.float32)})
    assert np.asarray(first).tolist() == [[5, 6]] and np.asarray(total).tolist() == [[5, 6], [5, 6]]


def test_a_variable_that_is_read_only_is_a_constant() -> None:
    module = from_variables(("add", "x total", "y"), outputs="y", inputs={"x": (2, 2)}, total=ROWS)
    assert not module.main.states and [v.name for v in module.main.inputs] == ["x"]


def test_an_input_that_is_written_is_donated() -> None:
    module = from_variables(("assign", "x total", ""), outputs="total", inputs={"x": (2, 2)}, total=ROWS)
    assert module.main.donated == {"x": 1} and not module.main.states


def test_names_of_new_values_are_free() -> None:
    module = from_variables(
        ("add", "x x", "total_after"), ("assign", "total x", ""), outputs="total_after", inputs={"x": (2, 2)}, total=ROWS)
    assert [v.name for v in module.main.outputs] == ["total_after", "total_after_"]


def test_what_may_be_a_view_is_refused_after_a_write() -> None:
    with pytest.raises(OpAttributeUnimplemented, match="may share its memory, or not; supported: writes through views"):
        from_variables(("maybe_row", "total 0", "a"), ("assign", "a x", ""), outputs="total", inputs={"x": (1, 2)}, total=ROWS)
    with pytest.raises(OpAttributeUnimplemented, match="may share its memory, or not"):
        from_variables(("maybe_row", "total 0", "a"), ("assign", "total x", ""), outputs="a", inputs={"x": (1, 2)}, total=ROWS)


def test_sizes_are_numbers_of_the_tensors_that_have_them() -> None:
    module = from_variables(("size", "n", "count"), ("add", "x count", "y"), outputs="y", inputs={"x": (symbol("n"),)})
    (y,) = interp.run_module(module, {"x": np.zeros(3, np.float32)})
    assert np.asarray(y).tolist() == [7, 7, 7] and np.asarray(y).dtype == np.float64  # as NumPy promotes int64
    with pytest.raises(ImportModelError, match="size 'm' is read as a number, and no tensor has it"):
        from_variables(("size", "m", "count"), outputs="count", inputs={"x": (symbol("n"),)})


def test_strides() -> None:
    n = symbol("n")
    assert contiguous((2, n, 3)) == (3 * n, 3, 1)
    assert storage_order((2, 3), (1, 2)) == (1, 0) and storage_order((2, 3), (4, 1)) is None
    assert overlaps((2, 3), (1, 1)) and not overlaps((2, 3), (4, 1))
