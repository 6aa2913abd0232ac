"""Memory of large outputs: kept for later calls, never shared, and given back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from forge_runtime import Runtime
from tests.runtime.building import Build

ROWS = 1 << 16  # of 4 floats: 1 MiB


@pytest.fixture
def model(build: Build) -> Runtime:
    return Runtime(build("rows"))


def call(model: Runtime, first: float) -> np.ndarray:
    x = np.full((ROWS, 4), first, np.float32)
    output: np.ndarray = model(x, np.zeros((ROWS, 1), np.float32), np.arange(3))[0]
    return output


def test_memory_of_a_dropped_output_is_used_again(model: Runtime) -> None:
    output = call(model, 0.0)
    address = output.ctypes.data
    assert address % 64 == 0
    del output
    assert call(model, 1.0).ctypes.data == address


def test_outputs_that_live_keep_their_contents(model: Runtime) -> None:
    outputs = [call(model, float(k)) for k in range(20)]
    views = [output[::1000] for output in outputs]
    del outputs
    more = [call(model, -1.0) for _ in range(5)]
    for k, view in enumerate(views):
        np.testing.assert_array_equal(view, np.tile(np.float32([1, 2, 3, 4]) + np.float32(k), (len(view), 1)))
    assert len({output.ctypes.data for output in more}) == 5


def test_an_output_outlives_its_model(build: Build) -> None:
    model = Runtime(build("rows"))
    output = call(model, 5.0)
    del model
    output += 1
    assert output.flags.writeable and output[0, 0] == 7


RESIDENT = """
import gc, os, sys
import numpy as np
from forge_runtime import Runtime

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

model = Runtime(sys.argv[1])
inputs = (np.zeros((1 << 21, 4), np.float32), np.zeros((1 << 21, 1), np.float32), np.arange(3))
model(*inputs)
kept = resident()
del model
gc.collect()
print(kept - resident())
"""


def test_a_closed_model_leaves_no_memory_behind(build: Build) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RESIDENT, str(Path(build("rows")))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 24 << 20


PARTS = """
import resource, sys
import numpy as np
from forge_runtime import Runtime

def call(rows, number):
    inputs = (np.full((rows, 4), number, np.float32), np.zeros((rows, 1), np.float32), np.arange(3))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    output = model(*inputs)[0]
    return output, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

model = Runtime(sys.argv[1])
call(int(sys.argv[2]), 1)
kept, faults = zip(*(call(rows, rows) for rows in map(int, sys.argv[3:])))
large, _ = call(int(sys.argv[2]), 2)
for rows, output in zip(map(int, sys.argv[3:]), kept):
    np.testing.assert_array_equal(output, np.tile(np.float32([1, 2, 3, 4]) + np.float32(rows), (rows, 1)))
np.testing.assert_array_equal(large[::1000], np.tile(np.float32([3, 4, 5, 6]), (len(large[::1000]), 1)))
print(sum(faults))
"""


@pytest.mark.parametrize(("largest", "others"), [(240000, (20000, 33333, 50001)), (1 << 20, (250000, 131071, 40000))])
def test_smaller_outputs_take_pages_of_a_larger_one(build: Build, largest: int, others: Sequence[int]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARTS, str(Path(build("rows"))), *map(str, (largest, *others))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 16 * sum(others) / 4096 / 2  # of pages that were never used, there is a fault each
