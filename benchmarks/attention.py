"""Times of attention over long sequences next to onnxruntime, openvino and torch: ``python -m benchmarks.attention``.

A shape is HEADSxTOKENSxSIZE, with ``c`` after it for a causal mask: ``--shapes 12x512x64,8x1024x64c``. All take turns in one
process; least time of many rounds in ms. Outputs are compared with a product in float64.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import forge
from benchmarks.turns import take_turns
from forge import peers
from forge.driver import compile_module

NAMES = ("forge", "onnxruntime", "openvino", "torch")
SHAPES = "12x128x64,12x512x64,12x512x64c,8x1024x64,8x1024x64c,4x2048x64,2x4096x128c"


@dataclass(frozen=True)
class Shape:
    """Of query, key and value: ``(1, heads, tokens, size)``."""

    heads: int
    tokens: int
    size: int
    causal: bool

    @staticmethod
    def parse(text: str) -> Shape:
        heads, tokens, size = (int(part) for part in text.removesuffix("c").split("x"))
        return Shape(heads, tokens, size, text.endswith("c"))

    def __str__(self) -> str:
        return f"{self.heads}x{self.tokens}x{self.size}" + (" causal" if self.causal else "")

    def feed(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        shape = (1, self.heads, self.tokens, self.size)
        return {name: rng.standard_normal(shape).astype(np.float32) for name in ("query", "key", "value")}

    def mask(self) -> np.ndarray:
        return np.where(np.tri(self.tokens, dtype=bool), 0, -np.inf).astype(np.float32)

    def expected(self, feed: dict[str, np.ndarray]) -> np.ndarray:
        """Head by head in float64."""
        query, key, value = (feed[name][0].astype(np.float64) for name in ("query", "key", "value"))
        out = np.empty((1, *query.shape))
        for head in range(self.heads):
            scores = query[head] @ key[head].T / np.sqrt(self.size) + (self.mask() if self.causal else 0)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[0, head] = weights / weights.sum(axis=-1, keepdims=True) @ value[head]
        return out


def model(shape: Shape) -> onnx.ModelProto:
    """Transposed key, product, scale, mask, softmax, product: as exporters write it."""
    full = [1, shape.heads, shape.tokens, shape.size]
    nodes = [
        helper.make_node("Transpose", ["key"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["query", "turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        *([helper.make_node("Add", ["scores", "mask"], ["masked"])] if shape.causal else []),
        helper.make_node("Softmax", ["masked" if shape.causal else "scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "value"], ["out"]),
    ]
    constants = {"scale": np.array(shape.size**-0.5, np.float32), **({"mask": shape.mask()} if shape.causal else {})}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, full) for name in ("query", "key", "value")]
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, full)]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "attention", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def variants(shape: Shape, threads: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """What takes part, by name; torch only where it is installed."""
    feed, path = shape.feed(), folder / "attention.onnx"
    proto = model(shape)
    onnx.save(proto, path)
    compiled = compile_module(forge.from_onnx(proto).typed_mod).runtime(num_threads=threads)
    arrays = list(feed.values())
    found: dict[str, Callable[[], Any]] = {
        "forge": lambda: compiled(*arrays),
        "onnxruntime": peers.load_onnxruntime(path, feed, threads),
        "openvino": peers.load_openvino(path, feed, threads),
    }
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(array) for array in arrays]
    attention = torch.nn.functional.scaled_dot_product_attention
    found["torch"] = lambda: attention(*tensors, is_causal=shape.causal)
    return found


def _error(outputs: Any, expected: np.ndarray) -> float:
    return float(np.abs(np.asarray(peers.as_list(outputs)[0]) - expected).max())


def measure(shape: Shape, threads: int, seconds: float) -> dict[str, tuple[float, float]]:
    """Least time in seconds and largest error, by variant."""
    expected = shape.expected(shape.feed())
    with tempfile.TemporaryDirectory() as folder:
        taking_part = variants(shape, threads, Path(folder))
        errors = {name: _error(call(), expected) for name, call in taking_part.items()}
        times = take_turns(taking_part, seconds)
    return {name: (min(times[name]), errors[name]) for name in taking_part}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention", description=__doc__)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each shape")
    options = parser.parse_args(arguments)
    table = Table("shape", *(f"{name} ms" for name in NAMES), "best peer / forge", "error")
    for text in options.shapes.split(","):
        shape = Shape.parse(text)
        found = measure(shape, options.threads, options.seconds)
        ours, error = found["forge"]
        best = min(seconds for name, (seconds, _) in found.items() if name != "forge")
        cells = [f"{found[name][0] * 1e3:.3f}" if name in found else "" for name in NAMES]
        table.add_row(str(shape), *cells, f"{best / ours:.2f}", f"{error:.1e}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
