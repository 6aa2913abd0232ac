"""A Llama with weights of 4 bits, as onnxruntime's quantizer writes it, with Forge and onnxruntime in turns.

    python -m benchmarks.packed_decoder [--threads 1] [--seconds 10] [--accuracy 4] [--block 32] [--bits 4] [--small]

The model has random weights of MatMulNBits and GatherBlockQuantized, GroupQueryAttention and 1.2 billion parameters. *Decode* is
one token after a short cache, *prefill* a prompt. GB/s are the bytes of packed weights, scales included, that a call reads, over
its time; what as many threads read of large arrays is printed below. Gop/s are two for each weight of a product and token.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import forge
from benchmarks.decoders import SMALL, Size
from benchmarks.turns import take_turns
from forge import peers

FULL = Size(layers=16, width=2048, hidden=8192, heads=32, shared_heads=8, vocabulary=128256)
"""1.2 billion parameters."""
CACHED = 64
"""Tokens before the one that is decoded."""


@dataclass
class PackedDecoder:
    """Builds the model node by node. ``products``: how many weights its products read; ``bytes``: how many bytes these take."""

    size: Size
    bits: int
    block: int
    accuracy: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    products: int = 0
    bytes: int = 0

    def add(self, op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "com.microsoft", **attributes: Any
            ) -> None:
        self.nodes.append(helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes))

    def tensor(self, name: str, array: np.ndarray) -> str:
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def packed(self, name: str, rows: int, depth: int) -> tuple[str, str]:
        """Random codes of a matrix and their scales."""
        codes = self.rng.integers(0, 256, (rows, depth // self.block, self.block * self.bits // 8), np.uint8)
        largest = np.float32(2.0 ** (1 - self.bits) / np.sqrt(depth))
        scales = self.rng.random((rows, depth // self.block), np.float32) * largest
        return self.tensor(f"{name}.codes", codes), self.tensor(f"{name}.scales", scales)

    def product(self, x: str, name: str, depth: int, units: int) -> str:
        weight = self.packed(name, units, depth)
        self.products += units * depth
        self.bytes += units * depth * self.bits // 8 + 4 * units * depth // self.block
        self.add("MatMulNBits", [x, *weight], [name], K=depth, N=units, bits=self.bits, block_size=self.block,
                 accuracy_level=self.accuracy)
        return name

    def layer(self, x: str, number: int) -> str:
        of, name = self.size, f"layer{number}"
        head = of.width // of.heads
        normal = self.norm(x, f"{name}.norm")
        joined = self.product(normal, f"{name}.qkv", of.width, of.width + 2 * of.shared_heads * head)
        past = [f"{name}.{kind}" for kind in ("keys", "values")]
        results = [f"{name}.attention", *(f"{p}.new" for p in past)]
        self.add("GroupQueryAttention", [joined, "", "", *past, "last", "total", "cosines", "sines"], results,
                 num_heads=of.heads, kv_num_heads=of.shared_heads, do_rotary=1)
        after = self.sum(x, self.product(f"{name}.attention", f"{name}.out", of.width, of.width), f"{name}.middle")
        normal = self.norm(after, f"{name}.norm2")
        gate, up = (self.product(normal, f"{name}.{part}", of.width, of.hidden) for part in ("gate", "up"))
        self.add("Sigmoid", [gate], [f"{gate}.sigmoid"], "")
        self.add("Mul", [gate, f"{gate}.sigmoid"], [f"{gate}.silu"], "")
        self.add("Mul", [f"{gate}.silu", up], [f"{name}.gated"], "")
        return self.sum(after, self.product(f"{name}.gated", f"{name}.down", of.hidden, of.width), f"{name}.end")

    def norm(self, x: str, name: str) -> str:
        weight = self.tensor(f"{name}.weight", np.ones(self.size.width, np.float32))
        self.add("SimplifiedLayerNormalization", [x, weight], [name], "", epsilon=1e-5)
        return name

    def sum(self, a: str, b: str, name: str) -> str:
        self.add("Add", [a, b], [name], "")
        return name

    def model(self) -> onnx.ModelProto:
        """The whole of it; states are plain inputs and outputs."""
        of = self.size
        head = of.width // of.heads
        codes = self.rng.integers(0, 256, (of.vocabulary, of.width // 2), np.uint8)
        scales = self.rng.random((of.vocabulary, of.width // 32), np.float32)
        table = [self.tensor("table", codes), "tokens", self.tensor("table.scales", scales)]
        self.add("GatherBlockQuantized", table, ["embedded"], bits=4, block_size=32, gather_axis=0, quantize_axis=1)
        angles = np.outer(np.arange(of.positions), 10000.0 ** (-np.arange(head // 2) / (head // 2))).astype(np.float32)
        self.tensor("cosines", np.cos(angles))
        self.tensor("sines", np.sin(angles))
        x = "embedded"
        for number in range(of.layers):
            x = self.layer(x, number)
        logits = self.product(self.norm(x, "norm"), "logits", of.width, of.vocabulary)
        states = [f"layer{n}.{kind}" for n in range(of.layers) for kind in ("keys", "values")]
        shape: list[int | str | None] = [1, of.shared_heads, "past", head]
        value = helper.make_tensor_value_info
        inputs = [value("tokens", TensorProto.INT64, [1, "count"]), value("last", TensorProto.INT32, [1]),
                  value("total", TensorProto.INT32, [1]), *(value(s, TensorProto.FLOAT, shape) for s in states)]
        outputs = [value(logits, TensorProto.FLOAT, [1, "count", of.vocabulary]),
                   *(value(f"{s}.new", TensorProto.FLOAT, [1, of.shared_heads, "whole", head]) for s in states)]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.tensors)
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=9)

    def feed(self, count: int, cached: int) -> dict[str, np.ndarray]:
        """Random tokens after a random cache."""
        of = self.size
        tokens = self.rng.integers(0, of.vocabulary, (1, count))
        whole = np.array([cached + count], np.int32)
        shape = (1, of.shared_heads, cached, of.width // of.heads)
        states = {f"layer{n}.{kind}": self.rng.standard_normal(shape, np.float32) for n in range(of.layers)
                  for kind in ("keys", "values")}
        return {"tokens": tokens, "last": whole - 1, "total": whole, **states}


def read_rate(threads: int, seconds: float = 1.0) -> float:
    """Read bandwidth in GB/s: each thread reduces an array of 256 MiB of its own; the best of many passes."""
    parts = [np.ones(1 << 26, np.float32) for _ in range(threads)]
    best = 0.0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        workers = [threading.Thread(target=part.max) for part in parts]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = max(best, threads * parts[0].nbytes / (time.perf_counter() - start) / 1e9)
    return best


def forge_call(folder: Path, feed: Mapping[str, np.ndarray], threads: int) -> Callable[[], Any]:
    runtime = forge.Runtime(folder)
    runtime.set_num_threads(threads)
    arrays = [feed[name] for name in runtime.input_names]
    return lambda: peers.as_list(runtime(*arrays))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--accuracy", type=int, default=4, help="accuracy_level of MatMulNBits; 4: data of 8 bits")
    parser.add_argument("--small", action="store_true", help="a small model, as tests take it")
    options = parser.parse_args(arguments)
    os.environ["FORGE_CACHE"] = "0"
    built = PackedDecoder(SMALL if options.small else FULL, options.bits, options.block, options.accuracy)
    table = Table("", "Forge, ms", "onnxruntime", "onnxruntime / Forge", "Forge, GB/s", "Forge, Gop/s", "difference")
    with tempfile.TemporaryDirectory() as temporary:
        path, folder = Path(temporary) / "decoder.onnx", Path(temporary) / "compiled"
        onnx.save(built.model(), str(path))
        built.tensors.clear()
        start = time.perf_counter()
        forge.from_onnx(path).compile(output_path=folder)
        compiled = time.perf_counter() - start
        for name, count, cached in (("decode", 1, CACHED), ("prefill", options.prompt, 0)):
            feed = built.feed(count, cached)
            runs = {"forge": forge_call(folder, feed, options.threads),
                    "onnxruntime": peers.load_onnxruntime(path, feed, options.threads)}
            error = peers.disagreement(*(run()[:1] for run in runs.values()))
            times = {k: min(t) for k, t in take_turns(runs, options.seconds).items()}
            own = times["forge"]
            cells = [name, *(f"{1e3 * t:.2f}" for t in times.values()), f"{times['onnxruntime'] / own:.2f}",
                     f"{built.bytes / own / 1e9:.1f}", f"{2 * built.products * count / own / 1e9:.0f}", f"{error:.1e}"]
            table.add_row(*cells)
            print("\t".join(cells), flush=True)
        size = sum(p.stat().st_size for p in folder.iterdir())
    Console(width=120).print(table)
    print(f"{built.bytes / 1e6:.0f} MB of packed weights, artifact {size / 1e6:.0f} MB, compiled in {compiled:.1f} s; "
          f"{options.threads} threads read {read_rate(options.threads):.1f} GB/s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
