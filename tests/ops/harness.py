"""Runs a case: with the reference, with its lowering evaluated by NumPy, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import bind_symbols, concrete_attrs, run_graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Accuracy, ReferenceValue, get_op
from forge.ir.types import TensorType
from forge.ops.core.op import Op
from forge.ops.elementwise.rows import Elementwise
from forge.tir.evaluate import evaluate
from tests.ops.case import Case, Constant, Fixed
from tests.ops.compare import check

CANCELLING = {"lgamma", "digamma"}
"""Elementwise operators that lose digits near their zeros, where large terms cancel."""


class NotLowered(Exception):
    """An operator has no lowering that NumPy could evaluate: it has a kernel only, or none at all."""


def build_graph(case: Case, symbolic: bool = False) -> Graph:
    """A graph of one node; operands are inputs, but for constants. ``symbolic``: extents above 1 are symbols."""
    builder = Builder()
    operands = [_operand(builder, spec, array, symbolic) for spec, array in zip(case.operands, case.arrays(), strict=True)]
    return builder.output(*builder.call_multi(case.op, *operands, **case.attrs))


def _operand(builder: Builder, spec: Any, array: np.ndarray | None, symbolic: bool) -> Value | None:
    if array is None:
        return None
    if isinstance(spec, Constant):
        return builder.constant(array)
    symbolic = symbolic and not isinstance(spec, Fixed)
    shape: tuple[Dim, ...] = tuple(dims.symbol(f"s{d}") if symbolic and d > 1 else d for d in array.shape)
    return builder.input(TensorType(shape, dtypes.canonical(array.dtype)))


def accuracy_of(case: Case) -> Accuracy:
    """The accuracy class of the operator on the case's first operand."""
    first = next((a for a in case.arrays() if a is not None), None)
    op = get_op(case.op)
    return op.accuracy if first is None else op.accuracy_on(dtypes.canonical(first.dtype))


def check_result(case: Case, actual: ReferenceValue, expected: ReferenceValue) -> None:
    """Fails the test unless a result of ``case`` is as accurate as its operator promises."""
    alone = isinstance(get_op(case.op), Elementwise) and case.op not in CANCELLING
    check(actual, expected, accuracy_of(case), case.id, alone)


def input_arrays(case: Case) -> list[np.ndarray]:
    """The contents of the graph's inputs."""
    pairs = zip(case.operands, case.arrays(), strict=True)
    return [a for spec, a in pairs if a is not None and not isinstance(spec, Constant)]


def run_reference(case: Case, symbolic: bool = False) -> list[ReferenceValue]:
    """Results of the interpreter."""
    return run_graph(build_graph(case, symbolic), input_arrays(case))


def run_lowered(case: Case, symbolic: bool = False) -> list[np.ndarray]:
    """Results of the tensor expressions.

    Raises:
        NotLowered: an operator has none.
    """
    return evaluate_graph(build_graph(case, symbolic), input_arrays(case))


def evaluate_graph(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs of ``graph`` through decompositions and lowerings only."""
    decompose_all(graph)
    values: dict[Value, Any] = {}
    symbols: dict[str, int] = {}
    for value, array in zip(graph.inputs, inputs, strict=True):
        values[value] = array
        bind_symbols(value, array, symbols)
    for node in graph.nodes:
        constant = node.results[0].constant
        results = [constant] if constant is not None else _evaluate_node(node, values, symbols)
        for value, array in zip(node.results, results, strict=True):
            values[value] = array
    return [values[v] for v in graph.outputs]


def decompose_all(graph: Graph) -> None:
    """Replaces nodes by their decompositions until none has one."""
    changed = True
    while changed:
        changed = False
        for node in graph:
            op = node.op_def
            if not isinstance(op, Op):
                continue
            parts = op.decompose(Builder(graph, before=node), node.attrs, *op.arguments(node.operands))
            if parts is None:
                continue
            for old, new in zip(node.results, parts, strict=True):
                known = _is_static(new) and _is_static(old)
                assert not known or new.type == old.type, f"{node.op}: {old.type} became {new.type}"
                for user, position in list(old.uses):
                    user.set_operand(position, new)
                graph.outputs = [new if v is old else v for v in graph.outputs]
            graph.remove(node)
            changed = True


def _is_static(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.is_static


def _evaluate_node(node: Node, values: Mapping[Value, Any], symbols: dict[str, int]) -> list[np.ndarray]:
    op = node.op_def
    if not isinstance(op, Op):
        raise NotLowered(node.op)
    placeholders = [None if v is None else te.placeholder(v.shape, v.dtype, f"x{k}") for k, v in enumerate(node.operands)]
    inputs = {p: values[v] for p, v in zip(placeholders, node.operands, strict=True) if p is not None and v is not None}
    types = [v.tensor_type for v in node.results]
    for name, definition in op.define_symbols(node.attrs, types, *op.arguments(placeholders)).items():
        symbols[name] = evaluate_scalar(definition, inputs, symbols)
    try:
        tensors = op.lower(node.attrs, types, *op.arguments(placeholders))
    except NotImplementedError as error:
        raise NotLowered(node.op) from error
    results = []
    for tensor, type_ in zip(tensors, types, strict=True):
        assert tensor.dtype == type_.dtype, f"{node.op}: lowering gives {tensor.dtype}; type is {type_}"
        results.append(evaluate(tensor, inputs, symbols))
        expected = tuple(dims.evaluate(d, symbols) for d in type_.shape)
        assert results[-1].shape == expected, f"{node.op}: lowering gives {results[-1].shape}; type is {type_} = {expected}"
    return results


def evaluate_scalar(x: te.Expr, inputs: Mapping[te.Tensor, np.ndarray], symbols: Mapping[str, int]) -> int:
    """The value of an expression over elements of operands."""
    return int(evaluate(te.compute((), lambda: x, "scalar"), inputs, symbols))


def reference_of(case: Case) -> list[ReferenceValue]:
    """The operator's ``reference`` called directly on the case's operands."""
    graph = build_graph(case)
    node = graph.nodes[-1]
    return list(node.op_def.reference(concrete_attrs(node.attrs, {}), *node.op_def.arguments(case.arrays())))


def module_of(case: Case, symbolic: bool = False) -> Module:
    """The case as a module whose inputs and outputs have names."""
    graph = build_graph(case, symbolic)
    for kind, values in (("in", graph.inputs), ("out", graph.outputs)):
        for position, value in enumerate(values):
            value.name = f"{kind}{position}"
    return Module(graph)


def compile_and_run(case: Case, symbolic: bool = False, opt_level: int = 3) -> list[np.ndarray]:
    """Results of compiled code."""
    compiled = compile_module(module_of(case, symbolic), check_options(opt_level=opt_level), use_cache=False)
    results = compiled.runtime()(*input_arrays(case))
    return list(results) if isinstance(results, list | tuple) else [results]
