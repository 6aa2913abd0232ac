"""Functions of torch that make views and write in place are equal to eager torch, or refused by name."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import forge  # noqa: E402
from forge.errors import ImportModelError, OpAttributeUnimplemented, OpNotImplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from forge.ir.functions.reference import Reference  # noqa: E402
from tests import random_torch_memory  # noqa: E402

FAST, CHUNK = 24, 50
SEEDS = int(os.environ.get("FORGE_RANDOM_TORCH_MEMORY", "600"))


def check(seed: int, is_traced: bool) -> str:
    """What became of the program: "equal", "not exported" (by torch) or "refused"."""
    case = random_torch_memory.make(seed)
    try:
        module = _imported(case, is_traced)
    except (OpNotImplemented, OpAttributeUnimplemented):
        return "refused"
    if module is None:
        return "not exported"
    inputs = random_torch_memory.inputs()
    expected = random_torch_memory.make(seed).module(*[x.clone() for x in inputs])  # another one: calls change its buffer
    got = Reference(module)(*[x.numpy().copy() for x in inputs])
    for found, wanted in zip(got, expected):  # what follows replaces buffers and inputs
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-4, err_msg=f"{seed} {case.names}")
    return "equal"


def _imported(case: random_torch_memory.RandomMemory, is_traced: bool) -> Any:
    """None where torch itself cannot export the program."""
    inputs = random_torch_memory.inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if is_traced:
            seen = case.module.seen.clone()
            try:
                trace = torch.jit.trace(case.module, inputs, check_trace=False)
            except RuntimeError:
                return None
            trace.seen.copy_(seen)
            try:
                return forge.from_torch(trace, through_onnx=False).mod
            except ImportModelError as error:
                if "torch.export failed" not in str(error):
                    raise
                return None
        shapes = ({0: torch.export.Dim("rows", min=2)}, None) if case.is_dynamic else None
        try:
            exported = torch.export.export(case.module, inputs, dynamic_shapes=shapes)
        except Exception:  # noqa: BLE001 - torch raises anything
            return None
    return import_model(exported)


@pytest.mark.parametrize("is_traced", [False, True])
def test_random_programs(is_traced: bool) -> None:
    outcomes = [check(seed, is_traced) for seed in range(FAST)]
    assert outcomes.count("equal") > FAST // 3, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(0, SEEDS, CHUNK))
@pytest.mark.parametrize("is_traced", [False, True])
def test_many_random_programs(chunk: int, is_traced: bool) -> None:
    for seed in range(chunk, min(chunk + CHUNK, SEEDS)):
        check(seed, is_traced)
