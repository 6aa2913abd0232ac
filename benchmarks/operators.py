"""Memory bandwidth of single operators, beside torch and onnxruntime, on one thread.

    python -m benchmarks.operators --sizes small,large --rounds 15 --json operators.json

Each operator is an ONNX model of one node (float32), timed in turns with its peers. GB/s counts what the operator must read and
write once; the fraction is of what ``memcpy`` reaches when it moves as much. The ratio is Forge's median latency over the
faster peer's: above 1.2 the row is marked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import rich.box
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import forge
from benchmarks.compare import all_cpus
from forge.cli import peers
from forge.cli.latency import Latencies, measure

LIMIT = 1.2
SIZES = {"small": 1 << 12, "medium": 1 << 18, "large": 1 << 24}
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Operator:
    """One ONNX node. ``shapes`` and ``constants`` are functions of the number of elements; ``torch`` names what torch does."""

    name: str
    op_type: str
    torch: Callable[[Any, list[Any]], Any]
    shapes: Callable[[int], list[tuple[int, ...]]] = lambda n: [(n,)]
    constants: Callable[[int], Arrays] = lambda n: []
    attrs: Mapping[str, Any] = field(default_factory=dict)


def _matrix(n: int) -> list[tuple[int, ...]]:
    return [(n // 1024, 1024)] if n >= 1 << 18 else [(n // 64, 64)]


def _pair(n: int) -> list[tuple[int, ...]]:
    return [(n,), (n,)]


def _image(n: int) -> list[tuple[int, ...]]:
    side = 8 if n < 1 << 18 else 64
    return [(1, n // side**2, side, side)]


def _channels(n: int) -> Arrays:
    count = _image(n)[0][1]
    return [np.linspace(0.5, 1.5, count, dtype=np.float32) for _ in range(2)]


def _row_weights(n: int) -> Arrays:
    return [np.linspace(0.5, 1.5, _matrix(n)[0][1], dtype=np.float32) for _ in range(2)]


def _rows(n: int) -> Arrays:
    return [np.random.default_rng(1).integers(0, _matrix(n)[0][0], _matrix(n)[0][0])]


OPERATORS = (
    Operator("add", "Add", lambda t, x: x[0] + x[1], _pair),
    Operator("multiply by row", "Mul", lambda t, x: x[0] * x[1], _matrix, lambda n: _row_weights(n)[:1]),
    Operator("relu", "Relu", lambda t, x: t.relu(x[0])),
    Operator("exp", "Exp", lambda t, x: t.exp(x[0])),
    Operator("tanh", "Tanh", lambda t, x: t.tanh(x[0])),
    Operator("erf", "Erf", lambda t, x: t.erf(x[0])),
    Operator("sigmoid", "Sigmoid", lambda t, x: t.sigmoid(x[0])),
    Operator("sqrt", "Sqrt", lambda t, x: t.sqrt(x[0])),
    Operator("sum of all", "ReduceSum", lambda t, x: t.sum(x[0]), attrs={"keepdims": 0}),
    Operator("sum of rows", "ReduceSum", lambda t, x: t.sum(x[0], 1), _matrix, lambda n: [np.array([1])], {"keepdims": 0}),
    Operator("sum of columns", "ReduceSum", lambda t, x: t.sum(x[0], 0), _matrix, lambda n: [np.array([0])], {"keepdims": 0}),
    Operator("max of rows", "ReduceMax", lambda t, x: t.amax(x[0], 1), _matrix, lambda n: [np.array([1])], {"keepdims": 0}),
    Operator("argmax of rows", "ArgMax", lambda t, x: t.argmax(x[0], 1), _matrix, attrs={"axis": 1, "keepdims": 0}),
    Operator("softmax", "Softmax", lambda t, x: t.softmax(x[0], -1), _matrix),
    Operator("softmax of columns", "Softmax", lambda t, x: t.softmax(x[0], 0), _matrix, attrs={"axis": 0}),
    Operator("layer norm", "LayerNormalization", lambda t, x: t.layer_norm(x[0], x[1].shape, x[1], x[2]), _matrix, _row_weights),
    Operator("instance norm", "InstanceNormalization",
             lambda t, x: t.instance_norm(*x, None, None, True, 0.0, 1e-5, False), _image, _channels),
    Operator("transpose", "Transpose", lambda t, x: x[0].t().contiguous(), _matrix, attrs={"perm": [1, 0]}),
    Operator("channels last", "Transpose", lambda t, x: x[0].permute(0, 2, 3, 1).contiguous(), _image,
             attrs={"perm": [0, 2, 3, 1]}),
    Operator("gather rows", "Gather", lambda t, x: t.index_select(x[0], 0, x[1]), _matrix, _rows),
    Operator("concat", "Concat", lambda t, x: t.cat(x), _pair, attrs={"axis": 0}),
    Operator("slice", "Slice", lambda t, x: x[0][:, 1:].contiguous(), _matrix,
             lambda n: [np.array([1]), np.array([1 << 30]), np.array([1])]),
    Operator("cumsum", "CumSum", lambda t, x: t.cumsum(x[0], 1), _matrix, lambda n: [np.array(1)]),
)


@dataclass(frozen=True)
class Row:
    """What was measured of one operator at one size."""

    operator: str
    size: str
    elements: int
    bytes: int
    latencies: Mapping[str, Latencies]
    agrees: bool

    def bandwidth(self, name: str) -> float:
        """GB/s."""
        return self.bytes / self.latencies[name].median / 1e9

    @property
    def ratio(self) -> float:
        """Forge's latency over the faster peer's."""
        others = [found.median for name, found in self.latencies.items() if name in ("torch", "onnxruntime")]
        return self.latencies["forge"].median / min(others)


def model(operator: Operator, arrays: Arrays, constants: Arrays) -> onnx.ModelProto:
    """The operator's node between inputs ``x0``, ``x1``, .. and output ``y``."""
    inputs = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, a.shape) for k, a in enumerate(arrays)]
    tensors = [numpy_helper.from_array(a, f"c{k}") for k, a in enumerate(constants)]
    names = [*(v.name for v in inputs), *(t.name for t in tensors)]
    node = helper.make_node(operator.op_type, names, ["y"], **operator.attrs)
    outputs = [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([node], "operator", inputs, outputs, tensors)
    untyped = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(untyped, data_prop=True)


def load_forge(path: Path, arrays: Arrays) -> peers.Call:
    with tempfile.TemporaryDirectory() as folder, all_cpus():
        forge.from_onnx(path).compile(output_path=folder, force_overwrite=True)
        runtime = forge.Runtime(folder)
    runtime.set_num_threads(1)
    return lambda: peers.as_list(runtime(*arrays))


def load_torch(operator: Operator, operands: Arrays) -> peers.Call:
    import torch

    torch.set_num_threads(1)
    tensors = [torch.from_numpy(a) for a in operands]

    def call() -> peers.Outputs:
        with torch.inference_mode():
            return [operator.torch(torch, tensors).numpy()]

    return call


def load_memcpy(size: int) -> peers.Call:
    source, target = np.ones(size // 2, np.uint8), np.zeros(size // 2, np.uint8)

    def call() -> peers.Outputs:
        np.copyto(target, source)
        return [target]

    return call


def run(operator: Operator, size: str, rounds: int) -> Row:
    """Measures one operator at one size. ``memcpy`` moves as many bytes as the operator, half of them read."""
    elements = SIZES[size]
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.1, 2.0, shape).astype(np.float32) for shape in operator.shapes(elements)]
    constants = operator.constants(elements)
    feed = {f"x{k}": a for k, a in enumerate(arrays)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "operator.onnx"
        onnx.save(model(operator, arrays, constants), path)
        calls = {"forge": load_forge(path, arrays), "onnxruntime": peers.load_onnxruntime(path, feed, 1)}
    calls["torch"] = load_torch(operator, [*arrays, *constants])
    results = {name: call()[0] for name, call in calls.items()}
    agrees = all(np.allclose(results["forge"], r, rtol=1e-3, atol=1e-4) for r in results.values())
    moved = sum(a.nbytes for a in arrays) + results["forge"].nbytes
    calls["memcpy"] = load_memcpy(moved)
    return Row(operator.name, size, elements, moved, measure(calls, rounds, pause=0.001), agrees)


def show(rows: Sequence[Row]) -> None:
    """Prints the table."""
    columns = "operator | size | forge GB/s | of memcpy | torch GB/s | onnxruntime GB/s | ratio".split(" | ")
    table = Table(*columns, box=rich.box.SIMPLE)
    for r in rows:
        speeds = [r.bandwidth(name) for name in ("forge", "torch", "onnxruntime")]
        share = speeds[0] / r.bandwidth("memcpy")
        note = f"{r.ratio:.2f}{' *' if r.ratio > LIMIT else ''}{'' if r.agrees else ' WRONG'}"
        table.add_row(r.operator, r.size, f"{speeds[0]:.2f}", f"{share:.0%}", f"{speeds[1]:.2f}", f"{speeds[2]:.2f}", note)
    console = Console()
    console.print(table)
    slow = [r for r in rows if r.ratio > LIMIT]
    console.print(f"{len(slow)} of {len(rows)} are slower than the faster peer by more than {LIMIT} (marked *)")


def as_json(rows: Sequence[Row]) -> str:
    records = [
        {"operator": r.operator, "size": r.size, "elements": r.elements, "bytes": r.bytes, "agrees": r.agrees,
         "seconds": {name: list(found.samples) for name, found in r.latencies.items()}}
        for r in rows
    ]
    return json.dumps(records, indent=1)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--operators", help="comma-separated names; all if left out")
    parser.add_argument("--sizes", default="small,large", help=f"comma-separated, of {', '.join(SIZES)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args(argv)
    chosen = options.operators.split(",") if options.operators else [o.name for o in OPERATORS]
    rows = [run(o, size, options.rounds) for o in OPERATORS if o.name in chosen for size in options.sizes.split(",")]
    show(rows)
    if options.json:
        options.json.write_text(as_json(rows), encoding="utf-8")
    return 0 if all(r.agrees for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
