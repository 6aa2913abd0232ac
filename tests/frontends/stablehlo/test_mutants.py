"""Modules that are damaged are loaded, or refused with an error of Forge."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

from forge import errors
from forge.frontends.stablehlo import import_module
from forge.frontends.stablehlo.module import Operation, StablehloModule, TensorType, TokenType, TupleType
from forge.frontends.stablehlo.sources import Source, read

jax = pytest.importorskip("jax")

from tests.frontends.stablehlo.test_jax_functions import CASES  # noqa: E402

MUTANTS = 600
FAMILIES = ("indexing", "control", "products", "windows", "reductions", "sorts", "linalg", "shapes")


def _other(value: Any, draw: random.Random) -> Any:
    """A value of an attribute near to ``value``."""
    match value:
        case bool():
            return not value
        case int():
            return draw.choice((-1, 0, value + 1, 1 << 40, "x", None))
        case float():
            return draw.choice((float("nan"), "x", 0))
        case str():
            return draw.choice(("", "GE", value + "x", 3))
        case list():
            return draw.choice(([], value * 2, [_other(v, draw) for v in value], [1 << 40] * len(value), None))
        case dict():
            return {name: _other(v, draw) if draw.random() < 0.4 else v for name, v in value.items()}
        case np.ndarray():
            return draw.choice((value.reshape(-1)[:1], value.astype("int64"), value[..., None], np.zeros((0,), value.dtype)))
    return draw.choice((None, 3, "x"))


def _mutate(module: StablehloModule, draw: random.Random) -> None:
    operations: list[Operation] = list(module.operations())
    operation, other = draw.choice(operations), draw.choice(operations)
    match draw.randrange(8):
        case 0 if operation.attributes:
            name = draw.choice(list(operation.attributes))
            operation.attributes[name] = _other(operation.attributes[name], draw)
        case 1 if operation.attributes:
            del operation.attributes[draw.choice(list(operation.attributes))]
        case 2 if operation.operands:
            operation.operands.pop(draw.randrange(len(operation.operands)))
        case 3 if operation.operands:
            values = [v for o in operations for v in (*o.results, *o.operands)]
            operation.operands[draw.randrange(len(operation.operands))] = draw.choice(values)
        case 4 if operation.results:
            tensors = (TensorType((), "float32"), TensorType((1 << 40, 1 << 40), "int8"), TensorType((None,), "bool"))
            types = (TokenType(), TupleType(()), *tensors)
            draw.choice(operation.results).type = draw.choice(types)
        case 5 if operation.regions:
            operation.regions[draw.randrange(len(operation.regions))].operations.pop()
        case 6:
            operation.name = other.name
        case _:
            operation.regions, other.regions = other.regions, operation.regions


def test_mutants() -> None:
    draw = random.Random(0)
    texts = [
        jax.jit(function).lower(*arguments).as_text() for name, function, arguments in CASES
        if name.partition("-")[0] in FAMILIES and draw.random() < 0.25]
    loaded, refused, slowest = 0, 0, 0.0
    for _ in range(MUTANTS):
        module = read(draw.choice(texts)).module
        for _ in range(draw.randrange(1, 4)):
            _mutate(module, draw)
        start = time.process_time()
        try:
            import_module(Source(module, "mutant"))
            loaded += 1
        except errors.ForgeError:
            refused += 1
        slowest = max(slowest, time.process_time() - start)
    assert loaded > MUTANTS / 20 and refused > MUTANTS / 4 and slowest < 10
