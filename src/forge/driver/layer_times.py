"""How long the layers of a model take, computed in several ways.

A layer is a product with what is fused into its kernel. Models are compiled with a clock between their kernels, and run in turns;
times are the least of each kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from forge.backends.compiled import CompiledModel
from forge.driver.compiler import compile_module
from forge.driver.profiler import items_of, sample
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node
from forge.ir.op import Category
from forge.lowering.texts import parts
from forge.options import CompileOptions

Key = TypeVar("Key", bound=Hashable)
CALLS = 3
"""That follow each other in one turn."""
MARK = "product {}"


@dataclass(frozen=True)
class Way:
    """A model that was compiled with a clock between its kernels.

    Attributes:
        run: some calls, ``[calls, items]`` in seconds.
        products: of each item that has some.
    """

    run: Callable[[], np.ndarray]
    products: dict[int, list[Node]]


def way(module: Module, options: CompileOptions, feed: Mapping[str, Any], threads: int) -> Way:
    """Compiles ``main`` and prepares its calls on ``feed``.

    Raises:
        CompileError: an operator cannot be compiled.
    """
    compiled = compile_module(module, options, use_cache=False, profile=True)
    runtime = compiled.runtime(num_threads=threads)
    arrays = [feed[name] for name in runtime.input_names]
    return Way(lambda: sample(lambda: runtime.run(arrays), CALLS)[0], products_of(compiled))


def products_of(compiled: CompiledModel) -> dict[int, list[Node]]:
    """The products that each item of a profiled model computes."""
    items = [parts(item)[0] for item, _ in items_of(compiled)]
    found = {k: [n for n in nodes if n.op_def.category is Category.CONTRACTION] for k, nodes in enumerate(items)}
    return {number: nodes for number, nodes in found.items() if nodes}


def in_turns(ways: Mapping[Key, Way], seconds: float) -> dict[Key, np.ndarray]:
    """The least seconds of each item."""
    best: dict[Key, np.ndarray] = {}
    end = time.perf_counter() + seconds
    while not best or time.perf_counter() < end:
        for name, one in ways.items():
            least = one.run().min(axis=0)
            best[name] = np.minimum(best.get(name, least), least)
    return best


def marked(module: Module, layers: Callable[[Graph], Sequence[Node]]) -> Module:
    """A copy in which the nodes that ``layers`` gives bear their numbers among them as names, which compilation keeps."""
    copy = module.copy()
    for number, node in enumerate(layers(copy.main)):
        node.name = MARK.format(number)
    return copy


def by_number(found: Way, best: np.ndarray) -> dict[int, float]:
    """Seconds of products of a `marked` module; those that share a kernel share its time evenly."""
    times: dict[int, float] = {}
    for item, nodes in found.products.items():
        names = [n.name for n in nodes if n.name.startswith(MARK.format(""))]
        for name in names:
            times[int(name.removeprefix(MARK.format("")))] = float(best[item]) / len(names)
    return times
