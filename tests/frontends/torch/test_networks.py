"""The benchmark networks, exported with dynamic sizes, next to torch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils import _pytree as pytree  # noqa: E402

from benchmarks import models  # noqa: E402
from forge.driver import compile_module  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from forge.ir import types as T  # noqa: E402

UNNAMED = {"llama_prefill"}
"""Networks whose length torch does not take by name: its solver of constraints fails."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(models.MODELS))
def test_networks(name: str) -> None:
    network, symbolic = models.network(name, small=True), models.MODELS[name].symbolic
    example = {key: torch.from_numpy(array) for key, array in models.inputs(name, batch=2, small=True).items()}
    limits = {"length": {"min": 2, "max": 16}}
    sizes = {axis: torch.export.Dim(label, **limits.get(label, {})) for axis, label in enumerate(symbolic)}
    if name in UNNAMED:
        sizes = dict.fromkeys(sizes, torch.export.Dim.AUTO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(network, tuple(example.values()), dynamic_shapes=[sizes] * len(example))
    module = import_model(exported)
    if name not in UNNAMED:
        assert {s for v in module.main.inputs for s in T.symbols(v.type)} == set(symbolic)
    run = compile_module(module).runtime()
    for batch, length in ((1, None), (3, 11 if len(symbolic) > 1 else None)):
        arrays = models.inputs(name, batch=batch, length=length, small=True)
        with torch.no_grad():
            expected = pytree.tree_leaves(network(*map(torch.from_numpy, arrays.values())))
        got = run(*arrays.values())
        for found, wanted in zip(got if isinstance(got, list | tuple) else [got], expected, strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-4)
