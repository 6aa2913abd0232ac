"""The libraries of the comparison: how each makes its own form of a model, loads it and runs it.

A case lies in a folder: ``model.onnx``, ``inputs.npz`` and what libraries add. Nothing heavy is imported before it is
needed, because the memory of the process is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from forge import peers

Precision = Literal["float32", "bfloat16", "float16"]
Prepare = Callable[["Case", Path, Sequence[int]], float | None]
Load = Callable[[Path, peers.Feed, int], peers.Call]
OURS: Mapping[Precision, str] = MappingProxyType(
    {"float32": "forge", "bfloat16": "forge-bfloat16", "float16": "forge-float16"})
"""Forge's row for each precision: it is compared with peers of the same."""
_NARROW: tuple[Precision, ...] = ("bfloat16", "float16")

_BFLOAT16_LIMIT = 0.5
"""Products of bfloat16 have an error of some 1e-3; a deep network with random weights makes 0.3 of it in OpenVINO too."""

OPTIONAL = ("iree", "forge-float16")
DISTRIBUTIONS = MappingProxyType({
    "openvino-default": "openvino", "mnn": "MNN", "torch-compile": "torch", "iree": "iree-base-runtime"})
"""What is installed for a library, where that has another name."""


@dataclass(frozen=True)
class Case:
    """One model at one size."""

    model: str
    batch: int = 1
    small: bool = False
    dynamic: bool = False

    @property
    def name(self) -> str:
        return f"{self.model}-b{self.batch}" + "-small" * self.small + "-dynamic" * self.dynamic


@dataclass(frozen=True)
class Library:
    """One row of the comparison.

    Attributes:
        load: from the folder of a case, its inputs and the number of threads to a function that runs it once.
        prepare: makes what ``load`` reads for some numbers of threads, in a process of its own; the result is the seconds
            that the library compiled or converted, None where it only stored the network.
        precision: what the library may use besides float32: asked to, or by its own default.
        limit: error above which its results are wrong, and not compared.
    """

    load: Load
    prepare: Prepare | None = None
    precision: Precision = "float32"
    limit: float = 1e-2


def prepare_forge(case: Case, folder: Path, threads: Sequence[int], *, precision: Precision = "float32") -> float:
    """Compiles for this machine, without the compile cache; one library serves any number of threads."""
    os.environ["FORGE_CACHE"] = "0"
    import forge

    start = time.perf_counter()
    module = forge.from_onnx(folder / "model.onnx")
    module.compile(output_path=folder / OURS[precision], force_overwrite=True, set_bfloat16=precision == "bfloat16",
                   set_float16=precision == "float16")
    return time.perf_counter() - start


def load_forge(folder: Path, feed: peers.Feed, threads: int, *, precision: Precision = "float32") -> peers.Call:
    """What ``forge.Runtime`` loads; the compiler is not in this process."""
    import forge

    runtime = forge.Runtime(folder / OURS[precision])
    runtime.set_num_threads(threads)
    arrays = [feed[name] for name in runtime.input_names]
    return lambda: peers.as_list(runtime(*arrays))


def prepare_mnn(case: Case, folder: Path, threads: Sequence[int]) -> float:
    """Calls the function after MNN's converter: the script of that name also installs packages and reports home."""
    start = time.perf_counter()
    failure = _convert_mnn(folder) and _convert_mnn(folder, "--useOriginRNNImpl")
    if failure:
        raise RuntimeError(failure)
    return time.perf_counter() - start


def _convert_mnn(folder: Path, *extra: str) -> str:
    """Why the conversion failed, empty if it did not. The converter may abort, so it has a process of its own."""
    made = folder / "model.mnn"
    options = ["-f", "ONNX", "--modelFile", str(folder / "model.onnx"), "--MNNModel", str(made), "--bizCode", "benchmark", *extra]
    code = "import sys, _tools; _tools.mnnconvert(sys.argv)"
    ended = subprocess.run([sys.executable, "-c", code, *options], cwd=folder, stdout=sys.stderr, check=False)
    if ended.returncode:
        made.unlink(missing_ok=True)
        return f"the converter ended with status {ended.returncode}"
    return "" if made.exists() else "the converter wrote no model"


def load_mnn(folder: Path, feed: peers.Feed, threads: int) -> peers.Call:
    """MNN on the CPU with high precision, which is float32; shapes fixed, weights rearranged when it is loaded."""
    import MNN
    from MNN import expr

    settings = {"backend": "CPU", "numThread": threads, "precision": "high"}
    manager = MNN.nn.create_runtime_manager((settings,))
    network = MNN.nn.load_module_from_file(
        str(folder / "model.mnn"), list(feed), _output_names(folder), runtime_manager=manager,
        shape_mutable=False, rearrange=True)
    arrays = [np.ascontiguousarray(a.astype(np.int32) if a.dtype == np.int64 else a) for a in feed.values()]
    kinds = {np.dtype(np.float32): expr.float, np.dtype(np.int32): expr.int}
    given = [expr.placeholder(list(a.shape), expr.NCHW, kinds[a.dtype]) for a in arrays]

    def call() -> peers.Outputs:
        for variable, array in zip(given, arrays, strict=True):
            variable.write(array)
        return [expr.convert(found, expr.NCHW).read() for found in network.forward(given)]

    return call


def _output_names(folder: Path) -> list[str]:
    """Kept in a file, because reading them from the model would count as MNN's memory."""
    return (folder / "outputs.txt").read_text().split()


def prepare_torch(case: Case, folder: Path, threads: Sequence[int]) -> None:
    """Stores the network that the ONNX file was exported from, with its weights."""
    import torch

    from benchmarks import models

    torch.save(models.network(case.model, small=case.small), folder / "network.pt")


def prepare_torch_compile(case: Case, folder: Path, threads: Sequence[int]) -> float:
    """Compiles the network for each number of threads into a cache of its own; the seconds are those of the first."""
    _set_inductor_cache(folder)
    import torch

    from benchmarks import models

    prepare_torch(case, folder, threads)
    seconds = []
    for count in threads:
        torch.compiler.reset()
        call = load_torch(folder, models.inputs(case.model, case.batch, small=case.small), count, compiled=True)
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds[0]


def load_torch(folder: Path, feed: peers.Feed, threads: int, *, compiled: bool = False) -> peers.Call:
    """Torch, eager or with its compiler; the file was written by `prepare_torch` just now."""
    if compiled:
        _set_inductor_cache(folder)
    import torch

    torch.set_num_threads(threads)
    network: Any = torch.load(folder / "network.pt", weights_only=False, mmap=True)
    run = torch.compile(network) if compiled else network
    tensors = [torch.from_numpy(array) for array in feed.values()]

    def call() -> peers.Outputs:
        with torch.inference_mode():
            outputs = run(*tensors)
        return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]

    return call


def _set_inductor_cache(folder: Path) -> None:
    """Read by torch when it is imported. It compiles within this process, so that stopping it stops everything."""
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def prepare_iree(case: Case, folder: Path, threads: Sequence[int]) -> float:
    """ONNX to IREE's own form to code for this CPU, by its two programs."""
    start = time.perf_counter()
    imported, made = folder / "model.mlir", folder / "model.vmfb"
    steps = (
        [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(folder / "model.onnx"), "-o", str(imported)],
        [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile", str(imported), "-o", str(made),
         "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
         "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
    )
    for command in steps:
        ended = subprocess.run(command, cwd=folder, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(f"{command[2]} ended with status {ended.returncode}: {ended.stderr.strip()[:200]}")
    return time.perf_counter() - start


def load_iree(folder: Path, feed: peers.Feed, threads: int) -> peers.Call:
    """IREE's runtime: on one thread the synchronous device, else a task for each core."""
    from iree import runtime

    if threads > 1:
        runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = runtime.Config("local-sync" if threads == 1 else "local-task")
    module = runtime.load_vm_module(runtime.VmModule.mmap(config.vm_instance, str(folder / "model.vmfb")), config)
    entry = module[next(name for name in module.vm_module.function_names if not name.startswith("__") and "$" not in name)]
    arrays = list(feed.values())

    def call() -> peers.Outputs:
        outputs = entry(*arrays)
        return [np.asarray(o) for o in (outputs if isinstance(outputs, tuple | list) else (outputs,))]

    return call


def _of_onnx(load: peers.Loader) -> Load:
    return lambda folder, feed, threads: load(folder / "model.onnx", feed, threads)


LIBRARIES: Mapping[str, Library] = MappingProxyType(
    {
        OURS["float32"]: Library(load_forge, prepare_forge, limit=1e-4),
        **{OURS[narrow]: Library(partial(load_forge, precision=narrow), partial(prepare_forge, precision=narrow), narrow,
                                 _BFLOAT16_LIMIT) for narrow in _NARROW},
        "onnxruntime": Library(_of_onnx(peers.load_onnxruntime)),
        "openvino": Library(_of_onnx(peers.load_openvino)),
        "openvino-default": Library(_of_onnx(peers.load_openvino_default), precision="bfloat16", limit=_BFLOAT16_LIMIT),
        "mnn": Library(load_mnn, prepare_mnn),
        "torch": Library(load_torch, prepare_torch),
        "torch-compile": Library(partial(load_torch, compiled=True), prepare_torch_compile),
        "iree": Library(load_iree, prepare_iree),
    }
)
"""All libraries, in the order of the table; those in `OPTIONAL` only when they are asked for."""
