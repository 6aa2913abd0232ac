"""What a call from Python costs over the same call from C, for small models: arrays and tensors of torch in and out.

    python -m benchmarks.calls [--rounds 40] [--calls 2000]

Every round measures all ways in turn; the least of all rounds counts. The call from C is a loop over ``forge_run`` that lets the
runtime allocate the outputs and frees them. Needs torch and a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import forge
from forge_runtime import include_directory

EIGHT = range(8)
MODELS = {
    "one dense layer": "def @main(%x: Tensor[(4, 16), float32], %w: Tensor[(16, 16), float32]) { nn.relu(nn.matmul(%x, %w)) }",
    "8 inputs, 8 outputs": "\n".join((
        f"def @main({', '.join(f'%x{i}: Tensor[(8), float32]' for i in EIGHT)}) {{",
        *(f"%{i} = nn.relu(%x{i});" for i in EIGHT),
        f"({', '.join(f'%{i}' for i in EIGHT)}) }}",
    )),
}

LOOP = """
#include <forge_runtime.h>
int32_t calls(const forge_tensor *inputs, forge_tensor *outputs, int64_t count) {
  const forge_model *model = forge_model_get();
  for (int64_t k = 0; k < count; k++) {
    const int32_t status = forge_run(model, inputs, outputs, 0, 0);
    for (int32_t i = 0; i < model->n_outputs; i++)
      forge_free_output(0, &outputs[i]);
    if (status) return status;
  }
  return 0;
}
"""


class Tensor(ctypes.Structure):
    """``forge_tensor``."""

    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
                ("capacity", ctypes.c_int64)]


Calls = Callable[[int], None]
"""Makes so many calls."""


def native(folder: Path, arrays: Sequence[Any], outputs: int) -> Calls:
    """Calls from C, of arrays of float32."""
    source, library = folder / "loop.c", folder / "loop.so"
    source.write_text(LOOP, encoding="utf-8")
    inputs = [f"-I{include_directory()}", str(source), str(folder / "modelLibrary.so"), f"-Wl,-rpath,{folder}"]
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *inputs, "-o", library], check=True)
    loop = ctypes.CDLL(str(library))
    float32 = 11
    given = (Tensor * len(arrays))(*(Tensor(a.ctypes.data, float32, a.ndim, (ctypes.c_int64 * 8)(*a.shape)) for a in arrays))
    taken = (Tensor * outputs)()

    def run(count: int) -> None:
        if loop.calls(given, taken, ctypes.c_int64(count)):
            raise RuntimeError("the call from C failed")

    return run


def repeated(call: Callable[[], Any]) -> Calls:
    def run(count: int) -> None:
        for _ in range(count):
            call()

    return run


def ways(folder: Path, runtime: forge.Runtime) -> dict[str, Calls]:
    """Every way to call the model; the first is the one from C."""
    import torch

    random = np.random.default_rng(0)
    shapes: list[Any] = runtime.input_shapes
    arrays = [random.standard_normal(shape, np.float32) for shape in shapes]
    tensors = [torch.from_numpy(array) for array in arrays]
    strict, free = runtime.returning(torch.Tensor), runtime.returning(torch.Tensor, detach=True)
    parameters = [torch.nn.Parameter(tensor) for tensor in tensors]
    strided = [torch.empty((*tensor.shape, 2))[..., 0].copy_(tensor) for tensor in tensors]
    results: list[Any] = runtime.output_shapes

    def given() -> None:
        runtime.run(tensors, [torch.empty(shape) for shape in results])

    def taken_over() -> None:
        for result in runtime.run(tensors):
            torch.from_dlpack(result)

    return {
        "C": native(folder, arrays, len(results)),
        "NumPy to NumPy": repeated(lambda: runtime(*arrays)),
        "torch to NumPy": repeated(lambda: runtime(*tensors)),
        "torch to torch": repeated(lambda: strict(*tensors)),
        "torch to torch, detach, parameters": repeated(lambda: free(*parameters)),
        "torch to torch, strided inputs": repeated(lambda: strict(*strided)),
        "torch to NumPy, from_dlpack": repeated(taken_over),
        "torch to torch.empty": repeated(given),
    }


def measure(calls: dict[str, Calls], rounds: int, count: int) -> dict[str, float]:
    """Microseconds a call, the least of all rounds."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, run in calls.items():
            start = time.perf_counter()
            run(count)
            least[name] = min(least[name], (time.perf_counter() - start) / count * 1e6)
    return least


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=2000, help="of each way in each round")
    options = parser.parse_args(arguments)
    console = Console()
    for title, text in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            forge.IRModule(text).compile(output_path=folder, force_overwrite=True)
            calls = ways(Path(folder), forge.Runtime(folder, num_threads=1))
            least = measure(calls, options.rounds, options.calls)
        shown = Table("way", "us a call", "over C", title=title)
        for name, microseconds in least.items():
            shown.add_row(name, f"{microseconds:.2f}", f"{microseconds - least['C']:.2f}")
        console.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
