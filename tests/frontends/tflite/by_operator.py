"""Each operator of a model on what the interpreter gave it.

``python -m tests.frontends.tflite.by_operator FILE ... [--compiled]``

Differences do not add up, as they do from the first layer of a model to its last. Needs ai-edge-litert.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import forge
from forge.errors import ForgeError
from forge.frontends.tflite.model import Operator, Subgraph, TfliteModel
from forge.frontends.tflite.sources import read

SEED = 0
OF_SIZES = ("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")
"""Operators that need to know sizes, which models compute from those of other tensors."""


@dataclass(frozen=True)
class Comparison:
    """What an operator of Forge and of the interpreter give for equal inputs.

    Attributes:
        difference: the greatest, in steps where the output is quantized.
        equal: the share of equal elements.
    """

    operator: Operator
    output: str
    dtype: str
    difference: float
    equal: float


def of_one(
    model: TfliteModel, operator: Operator, inputs: list[int], sizes: Mapping[int, np.ndarray] = MappingProxyType({})
) -> TfliteModel:
    """A model of one operator of the main subgraph, which takes the tensors ``inputs``; contents of ``sizes`` are constants."""
    main = model.subgraphs[0]
    tensors = [replace(one, contents=partial(sizes.get, n)) if n in sizes else one for n, one in enumerate(main.tensors)]
    outputs = tuple(number for number in operator.outputs if number >= 0)
    graph = Subgraph(main.name, tuple(tensors), tuple(inputs), outputs, (operator,))
    return replace(model, subgraphs=(graph, *model.subgraphs[1:]), signatures=())


def compared(path: str, *, compiled: bool = False, reference: bool = True) -> Iterator[Comparison | tuple[Operator, str]]:
    """Comparisons of all outputs of operators, or why there is none."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    interpreter = Interpreter(path, experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    random = np.random.default_rng(SEED)
    for entry in interpreter.get_input_details():
        interpreter.set_tensor(entry["index"], sample(random, entry))
    interpreter.invoke()
    model = read(path).model
    main = model.subgraphs[0]
    for operator in main.operators:
        inputs = [n for n in dict.fromkeys(operator.inputs) if n >= 0 and main.tensors[n].contents is None]
        inputs = [n for n in inputs if not main.tensors[n].is_variable]
        sizes = {n: interpreter.get_tensor(n) for n in inputs if main.tensors[n].dtype == "int32" and operator.name in OF_SIZES}
        inputs = [n for n in inputs if n not in sizes]
        try:
            module = forge.from_tflite(of_one(model, operator, inputs, sizes))
            run = module.get_inference_function(*(() if compiled else ("reference",)))
            given = run(*(interpreter.get_tensor(n) for n in inputs))
        except (ForgeError, NotImplementedError) as error:
            yield operator, str(error).replace("\n", " ")[:300]
            continue
        found = given if isinstance(given, list | tuple) else [given]
        for number, value in zip([n for n in operator.outputs if n >= 0], found):
            wanted = interpreter.get_tensor(number)
            yield _comparison(operator, main, number, np.asarray(value), wanted)


def sample(random: np.random.Generator, entry: dict[str, Any]) -> np.ndarray:
    """An input for the interpreter."""
    shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
    if dtype.kind == "f":
        return random.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if dtype.itemsize <= 2 else (0, 3)
    return random.integers(low, high + 1, shape).astype(dtype)


def _comparison(operator: Operator, graph: Subgraph, number: int, value: np.ndarray, wanted: np.ndarray) -> Comparison:
    name = graph.tensors[number].name
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        return Comparison(operator, name, f"{value.dtype} {value.shape}, not {wanted.dtype} {wanted.shape}", np.inf, 0.0)
    difference = np.abs(value.astype(np.float64) - wanted.astype(np.float64))
    largest = float(difference.max(initial=0))
    if value.dtype.kind == "f":
        largest /= float(np.abs(wanted.astype(np.float64)).max(initial=1e-30))
    return Comparison(operator, name, str(value.dtype), largest, float((difference == 0).mean()) if value.size else 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--compiled", action="store_true", help="compiled code in the place of NumPy's meaning")
    parser.add_argument("--xnnpack", action="store_true", help="the interpreter's fast kernels, not its reference ones")
    arguments = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    for path in arguments.files:
        table = Table("operator", "dtype", "count", "largest difference", "least share of equal", "worst", title=path)
        found: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
        for entry in compared(path, compiled=arguments.compiled, reference=not arguments.xnnpack):
            if isinstance(entry, Comparison):
                found[entry.operator.name, entry.dtype].append(entry)
            else:
                console.print(f"{entry[0].name}: {entry[1]}", markup=False)
        for (name, dtype), entries in found.items():
            worst = max(entries, key=lambda e: (e.difference, -e.equal))
            least = min(e.equal for e in entries)
            table.add_row(name, dtype, str(len(entries)), f"{worst.difference:.3g}", f"{least:.5f}", escape(worst.output[-40:]))
        console.print(table)


if __name__ == "__main__":
    main()
