"""Cases of torch's own databases: every sample of an operator, or of a module, is a module that is exported."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import settings
from hypothesis.errors import InvalidArgument
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

from tests.torch_databases.gauges import GAUGES, Gauge

with suppress(InvalidArgument):  # outside of the tests there is none
    settings.load_profile("forge")  # what was imported from torch.testing has loaded one of its own
MAX_SAMPLES = 8
"""Of an operator and an element type; which of them, a hash says."""


class Call(torch.nn.Module):
    """Applies a function to its inputs, which stand for the tensors among the arguments."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        leaves, self.spec = pytree.tree_flatten(arguments)
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


@dataclass
class Case:
    """A module and the tensors to call it with; ``gauge`` makes what is compared of results that are not unique."""

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]
    gauge: Gauge | None = None


def operator_names() -> list[str]:
    """Names of all operators, with their variants."""
    return sorted({_name(info) for info in op_db})


def _name(info: Any) -> str:
    return info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")


def operator_cases(name: str, dtype: torch.dtype) -> Iterator[Case]:
    """Some of the samples of an operator; none where it does not take the element type."""
    for info in (i for i in op_db if _name(i) == name):
        if dtype not in info.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
        for sample in chosen(samples, f"{name} {dtype}"):
            arguments = ((sample.input, *sample.args), sample.kwargs)
            tensors = tuple(leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor))
            yield Case(Call(info.op, arguments).eval(), tensors, GAUGES.get(name))


def chosen(samples: Sequence[Any], seed: str) -> list[Any]:
    """At most `MAX_SAMPLES` of them, the first one included."""
    key = [hashlib.sha256(f"{seed} {k}".encode()).hexdigest() if k else "" for k in range(len(samples))]
    return [samples[k] for k in sorted(sorted(range(len(samples)), key=lambda k: key[k])[:MAX_SAMPLES])]


def module_names() -> list[str]:
    return sorted({info.name for info in module_db})


def module_cases(name: str, dtype: torch.dtype = torch.float32) -> Iterator[Case]:
    """The samples of a module, in evaluation mode."""
    for info in (i for i in module_db if i.name == name):
        if dtype not in info.dtypes:
            continue
        torch.manual_seed(0)
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=False)
        for sample in chosen(list(inputs), name):
            build, call = sample.constructor_input, sample.forward_input
            module = info.module_cls(*build.args, **build.kwargs).eval()
            if any(True for _ in module.parameters()):
                module = module.to(dtype)
            arguments = (call.args, call.kwargs)
            tensors = tuple(leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor))
            yield Case(Called(module, arguments).eval(), tensors)


class Called(Call):
    """A module, whose parameters are those of this one."""

    def __init__(self, module: torch.nn.Module, arguments: Any) -> None:
        super().__init__(module, arguments)


def export(case: Case) -> torch.export.ExportedProgram | None:
    """None: torch cannot export it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.export(case.module, case.inputs)
        except Exception:  # noqa: BLE001 - torch raises anything
            return None
