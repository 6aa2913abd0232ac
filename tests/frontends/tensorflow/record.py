"""What TensorFlow gives for the cases: ``python -m tests.frontends.tensorflow.record [--all] [NAME ...]``; needs tensorflow.

Results are kept in one file, so that the tests need no TensorFlow. Cases that are there already are kept, but for those whose
names begin with a NAME; ``--all`` records all anew.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forge import dtypes
from tests.frontends.tensorflow.case import Case
from tests.frontends.tensorflow.cases import CASES
from tests.frontends.tensorflow.writer import Graph

FILE = Path(__file__).parent / "recorded.npz.xz"
ABOUT = "about"
"""The entry of the file that has element types."""


def kept() -> dict[str, list[np.ndarray]]:
    """What the file has: results of cases by their names."""
    if not FILE.exists():
        return {}
    with np.load(io.BytesIO(lzma.decompress(FILE.read_bytes())), allow_pickle=False) as stored:
        described = json.loads(bytes(stored[ABOUT]))
        return {
            name: [stored[f"{name}:{k}"].view(dtypes.numpy_dtype(dtype)) for k, dtype in enumerate(kinds)]
            for name, kinds in described.items()
        }


def keep(recorded: Mapping[str, Sequence[np.ndarray]]) -> None:
    described = {name: [dtypes.canonical(v.dtype) for v in outputs] for name, outputs in recorded.items()}
    arrays = {ABOUT: np.frombuffer(json.dumps(described).encode(), np.uint8)}
    for name in sorted(recorded, key=lambda name: (name.split("-")[1], name)):
        for k, value in enumerate(recorded[name]):
            arrays[f"{name}:{k}"] = value.view(np.uint16) if described[name][k] == "bfloat16" else value
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    FILE.write_bytes(lzma.compress(data.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def completed(graph: Graph) -> Any:
    """The graph as TensorFlow wants it: types and numbers of inputs are attributes."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    found = tf.compat.v1.GraphDef.FromString(graph.data())
    types: dict[str, int] = {}
    for node in found.node:
        definition = op_def_registry.get(node.op)
        if "T" in node.attr and "T" not in {attr.name for attr in definition.attr}:
            del node.attr["T"]
        place = 0
        for arg in definition.input_arg:
            alike = sum(other.number_attr == arg.number_attr for other in definition.input_arg)
            count = (len(node.input) - len(definition.input_arg) + alike) // alike if arg.number_attr else 1
            if arg.number_attr and arg.number_attr not in node.attr:
                node.attr[arg.number_attr].i = count
            given = [types.get(name, 0) for name in node.input[place : place + count]]
            if arg.type_attr and arg.type_attr not in node.attr and given and given[0]:
                node.attr[arg.type_attr].type = given[0]
            place += count
        types[node.name] = node.attr["dtype"].type if node.op in ("Placeholder", "Const") else 0
    return found


def record(case: Case) -> list[np.ndarray]:
    """TensorFlow's results for a case."""
    import tensorflow as tf

    graph, inputs = case.made()
    with tf.Graph().as_default() as whole:
        tf.import_graph_def(completed(graph), name="")
        names = [name if ":" in name else f"{name}:0" for name in case.outputs]
        with tf.compat.v1.Session(graph=whole) as session:
            found = session.run(names, {f"x{k + 1}:0": value for k, value in enumerate(inputs)})
    return [np.asarray(one) for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="all cases anew")
    arguments = parser.parse_args()
    known = kept()
    recorded: dict[str, list[np.ndarray]] = {}
    for case in CASES:
        again = arguments.all or case.name not in known or any(case.name.startswith(name) for name in arguments.names)
        try:
            recorded[case.name] = record(case) if again else known[case.name]
        except Exception as error:  # noqa: BLE001 whatever TensorFlow raises, it has no result
            sys.stdout.write(f"{case.name}: {type(error).__name__}: {str(error).strip()[:300]}\n")
    keep(recorded)
    sys.stdout.write(f"{len(recorded)} of {len(CASES)} cases; {FILE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
