"""Every operator meets operands and attributes that make no sense: a node or an error of the catalogue comes out, in time.

What is accepted obeys the rules of the IR, and its text reads back.
"""

from __future__ import annotations

import random
import signal
import typing
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.errors import ForgeError
from forge.ir import Builder, Graph, Module, OptionalType, SequenceType, TensorType, Type, UnrankedType, Value
from forge.ir.op import OpDef, all_ops
from forge.ir.parser import parse_module
from forge.ir.printer import print_module
from forge.ir.shapes import known_dims
from forge.ir.verifier import verify

N, M = dims.symbol("n"), dims.symbol("m")
EXTENTS = [0, 1, 2, 3, 4, 8, N, M, 2 * N, N // 2, 10**12, 2**40]
DTYPES = ["float32", "float32", "int64", "int64", "bool", "float16", "int8", "string", "complex64", "uint4"]
INTEGERS = [0, 1, -1, 2, 3, -2, 7, 2**31, 2**63 - 1, -(2**63), 2**80]
FLOATS = [0.0, 1.0, -1.0, float("nan"), float("inf"), 1e300]
TEXTS = ["", "float32", "int64", "string", "float33", "NCHW", "NHWC", "NCHW16c", "NCHW0c", "NCHW999999999999c", "OIHW",
 "constant", "edge",
         "linear", "max", "SAME", "ij,jk->ik", "...ij->...ji", "i" * 500, "forward", "bidirectional"]  # fmt: skip
CONTENTS = [[0], [1, 2], [3, -1, 2**62], [0] * 4, [2**63 - 1] * 2, 5, -1, 2**40, []]
SEQUENCES: list[Type] = [
    SequenceType(TensorType((N,), "float32")), OptionalType(TensorType((), "bool")), UnrankedType("float32"),
    SequenceType(UnrankedType("int64")),
]  # fmt: skip
OPERATORS = [op for op in all_ops() if op.name not in ("constant", "call")]


def attribute(rng: random.Random, annotation: Any) -> Any:
    """A value of the annotated type, or now and then of another one."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if rng.random() < 0.03:
        return rng.choice([None, "x", 1.5, (1, 2), (), True])
    if origin is tuple:
        count = rng.choice([0, 1, 2, 2, 3, 4, 4]) if arguments[-1] is Ellipsis else len(arguments)
        return tuple(attribute(rng, arguments[0]) for _ in range(count))
    if arguments:
        return attribute(rng, rng.choice(arguments))
    pools: dict[Any, list[Any]] = {int: INTEGERS, float: FLOATS, bool: [True, False], str: TEXTS, dims.DimExpr: [N, M, 2 * N]}
    return rng.choice(pools.get(annotation, [None]))


def operand(rng: random.Random, build: Builder) -> Value | None:
    kind = rng.random()
    if kind < 0.1:
        return None
    if kind < 0.25:
        return build.constant(np.array(rng.choice(CONTENTS), dtype=np.int64))
    if kind < 0.3:
        return build.call(
            "shape_of", build.input(TensorType(tuple(rng.choice([2, N, M]) for _ in range(rng.randint(0, 4))), "float32"))
        )
    if kind < 0.35:
        return build.input(rng.choice(SEQUENCES))
    shape = tuple(rng.choice(EXTENTS) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 4, 5])))
    try:
        return build.input(TensorType(shape, rng.choice(DTYPES)))
    except ForgeError:
        return build.input(TensorType((2,), "float32"))


def region(rng: random.Random) -> Graph:
    graph = Graph()
    types = [TensorType((), "int64"), TensorType((), "bool"), TensorType((N,), "float32")]
    values = [graph.add_input(rng.choice(types)) for _ in range(rng.randint(1, 3))]
    graph.outputs = [rng.choice(values) for _ in range(rng.randint(0, 3))]
    return graph


def attempt(rng: random.Random, op: OpDef[Any]) -> bool:
    """Whether inference accepted the node."""
    build = Builder()
    build.input(TensorType((N, M), "float32"))
    required = sum(not o.optional and not o.variadic for o in op.operands)
    count = rng.randint(required, len(op.operands) + 2 * (bool(op.operands) and op.operands[-1].variadic))
    hints = typing.get_type_hints(op.Attrs)
    attributes = {f.name: attribute(rng, hints[f.name]) for f in op.attribute_fields() if rng.random() < 0.6}
    try:
        node = build.node(op, [operand(rng, build) for _ in range(count)], attributes, [region(rng) for _ in op.regions])
        for value in node.results:
            known_dims(value)
        module = Module(build.output(*node.results))
        verify(module)
    except ForgeError:
        return False
    text = print_module(module, metadata=True)
    assert print_module(parse_module(text), metadata=True) == text
    return True


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Ends a hang."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("inference takes too long")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_nonsense_is_refused_in_time(op: OpDef[Any]) -> None:
    rng = random.Random(op.name)
    for _ in range(60):
        attempt(rng, op)


def test_some_of_it_is_accepted() -> None:
    rng = random.Random(0)
    accepted = {op.name for op in OPERATORS for _ in range(20) if attempt(rng, op)}
    assert len(accepted) > len(OPERATORS) / 3
