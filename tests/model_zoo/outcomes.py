"""One architecture: what torch says to it, and what Forge makes of it next to eager torch."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import ConstantArgument
from torch.utils import _pytree as pytree

import forge
from benchmarks.architectures import TOLERANCE
from benchmarks.torch_compile import timed
from forge.frontends.torch import import_model
from forge.frontends.torch.exported import array_of
from tests.model_zoo.lists import EXPORTS, NO_GRAPH, OK, SPEED, Speed
from tests.model_zoo.ready import Ready, line
from tests.torch_databases.cases import Called
from tests.torch_databases.compare import differences, run

SECONDS = 2.0
"""Of calls in turns, where an architecture is timed."""


def outcome(make: Callable[[], tuple[Ready | None, str]], way: str) -> Iterator[str]:
    """Torch's answer, and where it exports the architecture Forge's, by ``way``; each with its reason."""
    try:
        ready, reason = make()
    except Exception as error:  # noqa: BLE001 - models raise anything
        ready, reason = None, f"no model: {line(error)}"
    if ready is None:
        yield reason
        return
    leaves = pytree.tree_leaves(((), ready.inputs))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    module = Called(ready.model, ((), ready.inputs)).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _eager(module, tensors, 1)
        if _differ(expected, _eager(module, tensors, 2)):
            yield "random"
            return
        try:
            exported = torch.export.export(module, tensors)
            again = [array_of(t, "output") for t in _eager(exported.module(), tensors, 1)]
        except Exception as error:  # noqa: BLE001 - torch raises anything
            yield f"no export: {line(error)}"
            return
        if wrong := compared(again, expected):
            yield f"exports wrongly: {wrong}"
            return
        yield f"{EXPORTS}: {ready.recipe}"
        yield BY_WAY[way](exported, module, tensors, expected)


def _eager(module: torch.nn.Module, tensors: tuple[torch.Tensor, ...], seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return [leaf for leaf in pytree.tree_leaves(module(*[t.clone() for t in tensors])) if isinstance(leaf, torch.Tensor)]


def _differ(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) != len(b) or any(x.shape != y.shape or not torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in zip(a, b))


def _exported(exported: Any, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...], expected: list[torch.Tensor]) -> str:
    try:
        got = run(import_model(exported), tensors, compiled=True)
    except forge.ForgeError as error:
        return f"refused: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    is_constant = [isinstance(spec.arg, ConstantArgument) for spec in exported.graph_signature.output_specs]
    if len(got) == len(is_constant):  # numbers, too
        got = [array for array, constant in zip(got, is_constant) if not constant]
    return _judged(got, expected)


def _compiled(exported: Any, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...], expected: list[torch.Tensor]) -> str:
    torch._dynamo.reset()
    try:
        found = torch.compile(module, fullgraph=True, backend="forge")(*[t.clone() for t in tensors])
    except Exception as error:  # noqa: BLE001 - torch wraps what a backend raises
        return f"{_without_forge(module, tensors)}: {line(error)}"
    return _judged([array_of(t, "output") for t in pytree.tree_leaves(found) if isinstance(t, torch.Tensor)], expected)


def _timed(exported: Any, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...], expected: list[torch.Tensor]) -> str:
    torch._dynamo.reset()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:  # empty caches
        os.environ |= {"FORGE_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        found = timed(module, tensors, {}, expected, ("forge", "inductor"), seconds=SECONDS)
    if found["failed"]:
        return "refused: " + "; ".join(f"{backend}: {text}" for backend, text in found["failed"].items())
    least = {backend: 1e3 * min(times) for backend, times in found["times"].items()}
    return str(Speed(least["forge"], least["inductor"], least["eager"], found["first"]["forge"], found["first"]["inductor"]))


BY_WAY = {"export": _exported, "compile": _compiled, SPEED: _timed}


def _without_forge(module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> str:
    """Whose refusal it is: "no graph" where Dynamo alone captures none."""
    torch._dynamo.reset()
    try:
        torch.compile(module, fullgraph=True, backend="eager")(*[t.clone() for t in tensors])
    except Exception:  # noqa: BLE001
        return NO_GRAPH
    return "refused"


def _judged(got: list[np.ndarray], expected: list[torch.Tensor]) -> str:
    wrong = compared(got, expected)
    return f"wrong: {wrong}" if wrong else OK


def compared(got: list[np.ndarray], expected: list[torch.Tensor]) -> str:
    """What differs; empty where nothing does."""
    if len(got) != len(expected):
        return f"{len(got)} outputs; expected {len(expected)}"
    return differences(got, expected, tolerance=TOLERANCE)


def limit_memory(gigabytes: int = 10) -> None:
    """Of this process: what needs more is an outcome, not an end of the machine."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
