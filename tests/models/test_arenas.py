"""Arenas of the benchmark networks where the sizes of inputs are known at run time only."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

import forge  # noqa: E402
from benchmarks import models  # noqa: E402
from forge import dims  # noqa: E402
from forge.driver import check_options, optimized_graph  # noqa: E402
from tests.lowering.test_memory import check_lifetimes, check_size, planned  # noqa: E402

IMAGES = ["resnet18", "densenet", "mobilenetv3", "unet"]
SEQUENCES = ["minilm", "gpt2", "speech", "lstm"]
SIZES = ([1, 64, 64], [1, 96, 160], [5, 37, 101], [2, 320, 256])


@pytest.mark.parametrize("name", [*IMAGES, *SEQUENCES])
def test_arenas_are_as_small_as_with_known_sizes(name: str) -> None:
    model = onnx.load(models.build(name, dynamic=True, small=True))
    for axis, extent in enumerate(model.graph.input[0].type.tensor_type.shape.dim):
        if name in IMAGES and axis >= 2:
            extent.dim_param = f"size_{axis}"
    for value in (*model.graph.output, *model.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    graph = optimized_graph(forge.from_onnx(model).mod, check_options("llvm -mcpu=x86-64-v3"))
    symbols = dims.symbols(*(d for value in graph.inputs for d in value.shape))
    assert len(symbols) == (3 if name in IMAGES else len(models.MODELS[name].symbolic))
    steps, plan = planned(graph)
    for sizes in SIZES:
        known = dict(zip(symbols, sizes, strict=False))
        check_lifetimes(steps, plan, known)
        check_size(steps, plan, known)
