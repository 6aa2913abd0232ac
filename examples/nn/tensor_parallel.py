"""The Llama decoder on several processes: each has some of the heads and some of the hidden numbers, and sums go over all.

    python -m examples.nn.tensor_parallel
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np

from examples.nn import llama
from examples.nn.llama import SPEC, Config, Llama, generate
from examples.nn.weights import fill
from forge import nn


class Attention(llama.Attention):
    """Some of the heads; the products with their part of the last matrix are summed over all workers."""

    def forward(self, x: nn.Tensor, places: nn.Tensor, total: Any) -> nn.Tensor:
        return nn.ccl_allreduce(super().forward(x, places, total))


class Mlp(llama.Mlp):
    """Some of the hidden numbers; the products with their part of the last matrix are summed over all workers."""

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return nn.ccl_allreduce(super().forward(x))


class Parallel(nn.Mutator):
    """Puts a worker's part of each layer in its place."""

    def __init__(self, config: Config, workers: int) -> None:
        self.part = replace(
            config, size_of_head=config.head_dim, num_attention_heads=config.num_attention_heads // workers,
            num_key_value_heads=config.num_key_value_heads // workers, intermediate_size=config.intermediate_size // workers)

    def visit_module(self, name: str, node: nn.Module) -> Any:
        if isinstance(node, llama.Attention):
            return Attention(self.part)
        return Mlp(self.part) if isinstance(node, llama.Mlp) else self.visit(name, node)


def part(name: str, weight: np.ndarray, worker: int, workers: int) -> np.ndarray:
    """A worker's part of a weight: rows of the first matrices of a layer, columns of the last."""
    if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "gate_proj.weight", "up_proj.weight")):
        return np.split(weight, workers, axis=0)[worker]
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        return np.split(weight, workers, axis=1)[worker]
    return weight


def worker_model(config: Config, worker: int, workers: int, seed: int = 0) -> Llama:
    """The model of one worker, with its part of the weights of the whole."""
    whole = Llama(config)
    fill(whole, seed)
    model = Parallel(config, workers).visit("", Llama(config))
    parts = {name: part(name, np.asarray(p.data), worker, workers) for name, p in whole.state_dict().items()}
    model.load_state_dict(parts)
    return model


def run_worker(worker: int, workers: int, folder: str) -> None:
    """A process: it generates words, and worker 0 prints them."""
    import torch.distributed as dist

    from forge_runtime import collectives

    meeting, limit = f"file://{folder}/meeting", timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=meeting, rank=worker, world_size=workers, timeout=limit)
    collectives.use("torch")
    run = worker_model(Config(), worker, workers).jit(SPEC, out_format="numpy")
    words = generate(run, [3, 1, 4, 1, 5], 8)
    if worker == 0:
        print(f"words {words}", flush=True)
    dist.destroy_process_group()


def main(workers: int = 2) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "examples.nn.tensor_parallel"]
        processes = [subprocess.Popen([*command, str(worker), str(workers), folder]) for worker in range(workers)]
        failed = [process.wait() for process in processes]
    if any(failed):
        raise SystemExit(f"workers ended with {failed}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    else:
        main()
