"""Memory bandwidth of single operators, beside torch and onnxruntime.

    python -m benchmarks.operators --sizes small,large --rounds 15 --json operators.json

Each operator is an ONNX model of one node, timed in turns with its peers on as many threads. GB/s counts what the operator must
read and write once; the fraction is of what ``memcpy`` reaches when it moves as much. The ratio is Forge's median latency over
the faster peer's: above 1.2 the row is marked. A row agrees if a peer has the same results: at large sizes one may lose digits.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import rich.box
from onnx import helper, numpy_helper
from rich.console import Console
from rich.table import Table

import forge
from benchmarks.operator_table import OPERATORS, Array, Arrays, Operator
from forge import peers
from forge.driver.latency import Latencies, measure

LIMIT = 1.2
_CPUS = frozenset(os.sched_getaffinity(0))
SIZES = {"small": 1 << 12, "medium": 1 << 18, "large": 1 << 24}


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
        """GB/s; NaN for a peer that was not measured."""
        if name not in self.latencies:
            return math.nan
        return self.bytes / self.latencies[name].median / 1e9

    @property
    def ratio(self) -> float:
        """Forge's latency over the faster peer's."""
        others = [found.median for name, found in self.latencies.items() if name in ("torch", "onnxruntime")]
        return self.latencies["forge"].median / min(others)


def model(operator: Operator, arrays: Arrays, constants: Arrays) -> onnx.ModelProto:
    """The operator's node between inputs ``x0``, ``x1``, .. and outputs ``y0``, .."""
    kind = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(f"x{k}", kind(a.dtype), a.shape) for k, a in enumerate(arrays)]
    tensors = [numpy_helper.from_array(np.asarray(a), f"c{k}") for k, a in enumerate(constants)]
    names = operator.operands([v.name for v in inputs], [t.name for t in tensors])
    for position in operator.absent:
        names.insert(position, "")
    results = [f"y{k}" for k in range(operator.outputs)]
    node = helper.make_node(operator.op_type, names, results, **operator.attrs)
    graph = helper.make_graph([node], "operator", inputs, [onnx.ValueInfoProto(name=y) for y in results], tensors)
    untyped = helper.make_model(graph, opset_imports=[helper.make_opsetid("", operator.opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(untyped, data_prop=True)


@contextmanager
def all_cpus() -> Iterator[None]:
    """Lifts the restriction to some CPUs for as long as the compiler works; its processes inherit it."""
    restricted = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CPUS)
    try:
        yield
    finally:
        os.sched_setaffinity(0, restricted)


def load_forge(path: Path, arrays: Arrays, threads: int) -> peers.Call:
    with tempfile.TemporaryDirectory() as folder, all_cpus():
        forge.from_onnx(path).compile(output_path=folder, force_overwrite=True)
        runtime = forge.Runtime(folder)
    runtime.set_num_threads(threads)
    return lambda: peers.as_list(runtime(*arrays))


def load_torch(operator: Operator, operands: Sequence[Array], threads: int) -> Callable[[], Sequence[Any]]:
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(np.asarray(a)) for a in operands]

    def call() -> Sequence[Any]:
        with torch.inference_mode():
            results = operator.torch(torch, tensors)
        return [results] if isinstance(results, torch.Tensor) else results[: operator.outputs]

    return call


def load_memcpy(size: int) -> peers.Call:
    source, target = np.ones(size // 2, np.uint8), np.zeros(size // 2, np.uint8)

    def call() -> peers.Outputs:
        np.copyto(target, source)
        return [target]

    return call


def run(operator: Operator, size: str, rounds: int, threads: int) -> Row:
    """Measures one operator at one size. ``memcpy`` moves as many bytes as the operator, half of them read."""
    elements = SIZES[size]
    arrays, constants = operator.inputs(elements), operator.constants(elements)
    feed = {f"x{k}": a for k, a in enumerate(arrays)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "operator.onnx"
        onnx.save(model(operator, arrays, constants), path)
        calls: dict[str, Callable[[], Sequence[Any]]] = {"forge": load_forge(path, arrays, threads)}
        if operator.onnxruntime:
            calls["onnxruntime"] = peers.load_onnxruntime(path, feed, threads)
    calls["torch"] = load_torch(operator, operator.operands(arrays, constants), threads)
    results = {name: call() for name, call in calls.items()}
    moved = sum(a.nbytes for a in (*arrays, *results["forge"])) + _table_bytes(operator, constants, results["forge"])
    agrees = any(_agree(results["forge"], found) for name, found in results.items() if name != "forge")
    calls["memcpy"] = load_memcpy(moved)
    return Row(operator.name, size, elements, moved, measure(calls, rounds, pause=0.001), agrees)


def _table_bytes(operator: Operator, constants: Arrays, results: Sequence[Array]) -> int:
    """What is read of constants that hold data, as an embedding's."""
    return min(sum(a.nbytes for a in constants), sum(r.nbytes for r in results)) if operator.constants_first else 0


def _agree(found: Sequence[Array], expected: Sequence[Any]) -> bool:
    return all(np.allclose(f, _as_numpy(e), rtol=1e-3, atol=1e-4) for f, e in zip(found, expected, strict=True))


def _as_numpy(result: Any) -> Array:
    """Torch's bfloat16 has no NumPy array of its own."""
    if isinstance(result, np.ndarray):
        return result
    return np.asarray(result.float() if str(result.dtype) == "torch.bfloat16" else result)


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
    parser.add_argument("--threads", type=int, default=1, help="of each library")
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args(argv)
    chosen = options.operators.split(",") if options.operators else [o.name for o in OPERATORS]
    operators = [o for o in OPERATORS if o.name in chosen]
    rows = [run(o, size, options.rounds, options.threads) for o in operators for size in options.sizes.split(",")]
    show(rows)
    if options.json:
        options.json.write_text(as_json(rows), encoding="utf-8")
    return 0 if all(r.agrees for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
