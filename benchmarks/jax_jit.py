"""Networks written in flax: Forge beside ``jax.jit`` on the CPU: time to the first result, and calls in turns.

    python -m benchmarks.jax_jit [MODEL ...] [--threads 1] [--batch 1] [--seconds 10] [--dynamic] [--small] [--json FILE]

``jax.jit`` gets the variables as arguments that lie on the device, and the call ends when its results are there; Forge gets the
function with the variables as constants. Each network runs in a process of its own with empty caches, on as many cores as there
are threads. With ``--dynamic`` Forge's sizes of a batch are known at run time only. The ratio is the time of ``jax.jit`` over
Forge's, of the least and of the median of the calls.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.turns import take_turns

NAMES = (
    "resnet18", "resnet50", "vgg", "mobilenetv2", "mobilenetv3", "efficientnet", "convnext", "densenet", "unet", "segmentation",
    "yolo", "edsr", "vit", "mlp", "bert", "minilm", "gpt2", "translator", "llama_prefill", "llama_scan", "llama_decode",
    "llama_greedy", "lstm", "gru", "gru_by_hand", "tagger", "crnn", "conv_lstm", "mel", "speech", "wav2vec", "conformer",
    "vocoder",
)
"""Of `jax_networks`, which needs jax; a test compares."""

BOTH = ("jax", "forge")
TOLERANCE = 1e-3
"""Of the largest element."""


def symbolic(arguments: tuple[Any, ...], batch: int) -> tuple[Any, ...]:
    """Types of the arguments with a size ``batch`` that is known at run time only."""
    import jax

    (size,) = jax.export.symbolic_shape("batch")

    def of(leaf: Any) -> Any:
        shape = leaf.shape
        return jax.ShapeDtypeStruct((size, *shape[1:]) if shape and shape[0] == batch else shape, leaf.dtype)

    return jax.tree.map(of, arguments)  # type: ignore[no-any-return]


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds to the first result, times of calls in seconds, the largest error relative to the largest element."""
    import jax
    import numpy as np
    from flax import linen as nn

    import forge
    from benchmarks.jax_networks import NETWORKS

    network, variables, arguments = NETWORKS[name](options.small, options.batch)
    function = network.apply if isinstance(network, nn.Module) else network
    placed, on_device = jax.device_put(variables), jax.device_put(arguments)
    begin = time.perf_counter()
    jitted = jax.jit(function)
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.block_until_ready(jitted(placed, *on_device)))]
    first = {"jax": time.perf_counter() - begin}
    begin = time.perf_counter()
    types = symbolic(arguments, options.batch) if options.dynamic else arguments
    run = forge.compile(forge.from_jax(lambda *given: function(placed, *given), *types))
    flat = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    results = [np.asarray(leaf) for leaf in jax.tree.leaves(run(*flat))]
    first["forge"] = time.perf_counter() - begin
    error = max(_error(got, wanted) for got, wanted in zip(results, expected, strict=True))
    runs = {"jax": lambda: jax.block_until_ready(jitted(placed, *on_device)), "forge": lambda: run(*flat)}
    return {"first": first, "times": take_turns(runs, options.seconds), "error": error}


def _error(got: Any, wanted: Any) -> float:
    import numpy as np

    return float(np.abs(got.astype(float) - wanted).max() / max(1e-30, np.abs(wanted.astype(float)).max()))


def in_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What `measure` finds in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"FORGE_CACHE_DIR": folder, "JAX_PLATFORMS": "cpu"}
        flags = [f"--{flag}" for flag in ("small", "dynamic") if getattr(options, flag)]
        numbers = [f"--{n}={getattr(options, n)}" for n in ("threads", "batch", "seconds")]
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.jax_jit", name, "--worker", *flags, *numbers]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"failed": " ".join((done.stderr.strip().splitlines() or ["?"])[-1].split())[:300]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def row(name: str, found: Mapping[str, Any]) -> tuple[list[str], tuple[float, float] | None]:
    """Cells of the table, and the ratios of the least time and of the median."""
    if "times" not in found:
        return [name, *[""] * 7, found["failed"]], None
    least, median = ({b: f(t) for b, t in found["times"].items()} for f in (min, statistics.median))
    ratios = least["jax"] / least["forge"], median["jax"] / median["forge"]
    error = f"{found['error']:.0e}{'' if found['error'] < TOLERANCE else ' WRONG'}"
    times, firsts = [f"{1e3 * least[b]:.3f}" for b in BOTH], [f"{found['first'][b]:.1f}" for b in BOTH]
    return [name, *times, f"{ratios[0]:.2f}", f"{ratios[1]:.2f}", *firsts, error, ""], ratios


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jax_jit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all if none is given: {', '.join(NAMES)}")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--dynamic", action="store_true", help="sizes of a batch are known at run time only")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="of calls, for each model")
    parser.add_argument("--json", type=Path, help="where to write all that was found")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models if name not in NAMES]:
        parser.error(f"got {unknown[0]!r}; expected some of {', '.join(NAMES)}")
    if options.worker:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
        print(json.dumps(measure(options.models[0], options)))
        return 0
    table = Table("model", "ms: jax.jit", "ms: forge", "ratio: least", "median", "first, s: jax.jit", "forge", "error", "failed")
    found = {}
    ratios = []
    for name in options.models or NAMES:
        found[name] = in_process(name, options)
        cells, own = row(name, found[name])
        table.add_row(*cells)
        print("\t".join(cells), file=sys.stderr, flush=True)
        ratios += [own] if own else []
    if ratios:
        means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios)]
        table.caption = (
            f"geometric means of {len(ratios)}: {means[0]:.2f} of the least, {means[1]:.2f} of the median; "
            f"least ratio {min(r[0] for r in ratios):.2f}")
    Console(width=160).print(table)
    if options.json:
        options.json.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
