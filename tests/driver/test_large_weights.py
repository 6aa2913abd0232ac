"""A model of a gigabyte compiles, cold and from the cache, in memory that its weights would not fit in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import forge
from tests.driver.support import files

WIDTH, LAYERS = 8200, 4
MEMORY = 700 << 20
"""Bytes of private memory that each process may have; the weights are 1,076 MB."""

COMPILE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[4]),) * 2)
import forge
forge.from_onnx(sys.argv[1]).compile(output_path=sys.argv[2], weights=sys.argv[3])
"""


@pytest.fixture
def diagonal(tmp_path: Path) -> Path:
    """Layers that multiply by 2, 3, 4 and 5; the rest of their weights are holes of a file."""
    weights = np.memmap(tmp_path / "weights.bin", np.float32, "w+", shape=(LAYERS, WIDTH * WIDTH))
    for layer, row in enumerate(weights):
        row[:: WIDTH + 1] = layer + 2
    tensors = []
    for layer in range(LAYERS):
        tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=(WIDTH, WIDTH), data_location=1)
        for key, value in (("location", "weights.bin"), ("offset", str(layer * weights[0].nbytes))):
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    nodes = [helper.make_node("Gemm", [f"x{k}", f"w{k}"], [f"x{k + 1}"], transB=k % 2) for k in range(LAYERS)]
    ends = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, [1, WIDTH]) for k in (0, LAYERS)]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_a_gigabyte_of_weights_in_less_memory(diagonal: Path, tmp_path: Path, weights: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FORGE_CACHE": "1"}
    environment["FORGE_CACHE_DIR"] = str(tmp_path / "cache")
    for name in ("cold", "cached"):
        command = [sys.executable, "-c", COMPILE, str(diagonal), str(tmp_path / name), weights, str(MEMORY)]
        subprocess.run(command, env=environment, check=True)
    (entry,) = (tmp_path / "cache" / "models").iterdir()
    assert sum(f.stat().st_size for f in entry.iterdir()) < 10 << 20, "the cache holds no views of the model's weights"
    x = np.arange(WIDTH, dtype=np.float32)[None]
    np.testing.assert_array_equal(forge.Runtime(tmp_path / "cached")(x), x * 120)
    assert len(files(tmp_path / "cold")) == {"inside": 1, "beside": 2}[weights]
