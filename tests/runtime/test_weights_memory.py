"""Weights of a library on disk are in memory once, in the copy that calls read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import forge

MEBIBYTE = 1 << 20
PRODUCT = """def @main(%x: Tensor[(1, 4096), float32], %w: Tensor[(4096, 2048), float32]) {
  nn.matmul(%x, %w)
}"""
WEIGHTS = np.random.default_rng(0).standard_normal((4096, 2048)).astype(np.float32)

PEAK = """
import sys
import numpy as np
from forge_runtime import Runtime

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10

before = peak()
model = Runtime(sys.argv[1])
result = model(np.ones((1, 4096), np.float32))
print(peak() - before)
np.save(sys.argv[2], result)
"""


def test_peak_memory_holds_the_weights_once(tmp_path: Path) -> None:
    forge.IRModule(PRODUCT, {"w": WEIGHTS}).compile(output_path=tmp_path / "model")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PEAK, str(tmp_path / "model"), str(tmp_path / "result.npy")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert WEIGHTS.nbytes < int(done.stdout) < WEIGHTS.nbytes + 16 * MEBIBYTE
    expected = WEIGHTS.astype(np.float64).sum(0)
    np.testing.assert_allclose(np.load(tmp_path / "result.npy")[0], expected, atol=1e-2)
