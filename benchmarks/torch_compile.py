"""``torch.compile`` with Forge, inductor (with freezing) and openvino: time to the first result, and calls in turns.

    python -m benchmarks.torch_compile [MODEL ...] [--threads 1] [--seconds 10] [--backends forge inductor] [--bfloat16] [--small]

Models are those of ``benchmarks/models.py``, and ``real:NAME`` those of ``benchmarks/architectures.py``. Each runs in a process
of its own. All backends compute in float32 (openvino would take bfloat16 where the CPU has it), or with ``--bfloat16`` in that.
Compile caches are empty at first. ``max-autotune`` is inductor's mode of that name. The ratio is the time of the fastest other
backend over Forge's, of the least and of the median of the calls; calls include what Dynamo checks.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import architectures, models
from benchmarks.turns import take_turns

BACKENDS = ("forge", "inductor", "max-autotune", "openvino")
REAL = ("bert", "gpt2", "llama", "vit", "swin", "clip")
TOLERANCES = {False: 1e-3, True: 1e-1}
"""Of the largest element, in float32 and bfloat16."""


def made(name: str, small: bool) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A network in evaluation mode and the arguments of its calls."""
    import torch

    if name.startswith("real:"):
        own = name.removeprefix("real:")
        network = architectures.network(own, small=small)
        of = architectures.ARCHITECTURES[own]
        torch.manual_seed(1)
        return network, (), of.inputs(network, of.sizes[0])
    arrays = models.inputs(name, small=small).values()
    return models.network(name, small=small), tuple(map(torch.from_numpy, arrays)), {}


def compiled(backend: str, network: Any, bfloat16: bool) -> Callable[..., Any]:
    """``network`` as a backend compiles it at the first call."""
    import torch
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    dynamo.inline_inbuilt_nn_modules = backend != "openvino"  # which sets it for the whole process when it is imported
    inductor.freezing = True
    if backend == "openvino":
        precision = "bf16" if bfloat16 else "f32"
        config = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": torch.get_num_threads()}
        options = {"config": config, "aot_autograd": True}
        return torch.compile(network, backend="openvino", options=options)  # type: ignore[no-any-return]
    if backend == "max-autotune":
        return torch.compile(network, mode="max-autotune")  # type: ignore[no-any-return]
    return torch.compile(network, backend=backend)  # type: ignore[no-any-return]


def measure(name: str, backends: Sequence[str], *, small: bool, threads: int, seconds: float, bfloat16: bool) -> dict[str, Any]:
    """By backend: seconds to the first result, times of calls in seconds, the largest error relative to the largest element."""
    import torch

    torch.set_num_threads(threads)
    network, args, kwargs = made(name, small)
    with torch.inference_mode(False), torch.no_grad():
        expected = tensors_of(network(*args, **kwargs))
        if bfloat16:
            network = network.bfloat16()
            args, kwargs = torch.utils._pytree.tree_map(_to_bfloat16, (args, kwargs))
        return timed(network, args, kwargs, expected, backends, seconds=seconds, bfloat16=bfloat16)


def timed(network: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Sequence[Any], backends: Sequence[str], *,
          seconds: float, bfloat16: bool = False) -> dict[str, Any]:
    """What `measure` gives, of calls of a network in turns for some seconds."""
    first, errors, failed = {}, {}, {}
    runs: dict[str, Callable[[], Any]] = {}
    for backend in backends:
        begin = time.perf_counter()
        try:
            run = compiled(backend, network, bfloat16)
            results = tensors_of(run(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - what a backend cannot do is a result
            failed[backend] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            continue
        first[backend] = time.perf_counter() - begin
        errors[backend] = max(map(_error, results, expected))
        runs[backend] = lambda run=run: run(*args, **kwargs)  # type: ignore[misc]
    runs["eager"] = lambda: network(*args, **kwargs)
    return {"first": first, "times": take_turns(runs, seconds), "errors": errors, "failed": failed}


def tensors_of(results: Any) -> list[Any]:
    """Copies of the tensors among results."""
    import torch

    return [leaf.clone() for leaf in architectures.leaves(results) if isinstance(leaf, torch.Tensor)]


def _to_bfloat16(value: Any) -> Any:
    import torch

    return value.bfloat16() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


def _error(got: Any, wanted: Any) -> float:
    return float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp(min=1e-30))


def in_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What `measure` finds in a process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "FORGE_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "OMP_NUM_THREADS": str(options.threads)}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.torch_compile", name, "--worker", "--threads",
                   str(options.threads), "--seconds", str(options.seconds), "--backends", *options.backends]
        flags = [f"--{flag}" for flag in ("small", "bfloat16") if getattr(options, flag)]
        done = subprocess.run([*command, *flags], env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"failed": {"all": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


Ratios = tuple[float, ...]


def row(name: str, found: Mapping[str, Any], backends: Sequence[str], tolerance: float) -> tuple[list[str], Ratios | None]:
    """Cells of the table, and Forge's ratios: of the least time, of the median, and of the time to the first result."""
    failed = "; ".join(f"{backend}: {text}" for backend, text in found["failed"].items())
    times = found.get("times", {})
    others = [backend for backend in backends if backend != "forge" and backend in times]
    if "forge" not in times or not others:
        return [name, *[""] * (2 * len(backends) + 4), failed], None
    least, median = ({b: f(t) for b, t in times.items()} for f in (min, statistics.median))
    ratios = (*(min(by[b] for b in others) / by["forge"] for by in (least, median)),
              min(found["first"][b] for b in others) / found["first"]["forge"])
    worst = found["errors"]["forge"]
    error = f"{worst:.0e}{'' if worst < tolerance else ' WRONG'}"
    cells = [f"{1e3 * least[b]:.3f}" if b in least else "-" for b in (*backends, "eager")]
    firsts = [f"{found['first'][b]:.1f}" if b in found["first"] else "-" for b in backends]
    return [name, *cells, f"{ratios[0]:.2f}", f"{ratios[1]:.2f}", *firsts, error, failed], ratios


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_compile", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*models.MODELS, *(f"real:{name}" for name in REAL)]
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all if none is given: {', '.join(known)}")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--bfloat16", action="store_true", help="models in bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="of calls, for each model")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models if name not in known]:
        parser.error(f"got {unknown[0]!r}; expected some of {', '.join(known)}")
    if options.worker:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measure(options.models[0], options.backends, small=options.small, threads=options.threads,
                            seconds=options.seconds, bfloat16=options.bfloat16)
        print(json.dumps(found))
        return 0
    backends = options.backends
    table = Table("model", *(f"ms: {b}" for b in (*backends, "eager")), "ratio: least", "median",
                  *(f"first, s: {b}" for b in backends), "error", "failed")
    ratios: list[Ratios] = []
    for name in options.models or known:
        cells, found_ratios = row(name, in_process(name, options), backends, TOLERANCES[options.bfloat16])
        table.add_row(*cells)
        print("\t".join(cells), file=sys.stderr, flush=True)
        ratios += [found_ratios] if found_ratios else []
    if ratios:
        means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios)]
        table.caption = (
            f"geometric means of {len(ratios)}: {means[0]:.2f} of the least, {means[1]:.2f} of the median; time to the first "
            f"result {means[2]:.2f}; least ratio {min(r[0] for r in ratios):.2f}")
    Console(width=240).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
