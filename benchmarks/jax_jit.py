"""Networks written in flax: Forge beside ``jax.jit`` on the CPU: time to the first result, and calls in turns.

    python -m benchmarks.jax_jit [MODEL ...] [--threads 1] [--batch 1] [--seconds 10] [--dynamic] [--small] [--json FILE]

``jax.jit`` gets the variables as arguments that lie on the device, and the call ends when its results are there; Forge gets the
function with the variables as constants. Each network runs in a process of its own with empty caches, on as many cores as there
are threads. With ``--dynamic`` Forge's sizes of a batch are known at run time only. The ratio is the time of ``jax.jit`` over
Forge's, of the least and of the median of the calls.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.pairs import Comparison
from benchmarks.turns import take_turns

NAMES = (
    "resnet18", "resnet50", "vgg", "mobilenetv2", "mobilenetv3", "efficientnet", "convnext", "densenet", "unet", "segmentation",
    "yolo", "edsr", "vit", "mlp", "bert", "minilm", "gpt2", "translator", "llama_prefill", "llama_scan", "llama_decode",
    "llama_greedy", "lstm", "gru", "gru_by_hand", "tagger", "crnn", "conv_lstm", "mel", "speech", "wav2vec", "conformer",
    "vocoder",
)
"""Of `jax_networks`, which needs jax; a test compares."""

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


COMPARISON = Comparison(
    "benchmarks.jax_jit", "jax", NAMES, measure, TOLERANCE,
    {"small": "the small variants", "dynamic": "sizes of a batch are known at run time only"}, {"JAX_PLATFORMS": "cpu"})


def main(arguments: Sequence[str] | None = None) -> int:
    return COMPARISON.run(__doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
