"""What Keras gives for the cases: ``KERAS_BACKEND=jax python -m tests.frontends.keras.record``; needs keras and a backend.

Models, inputs and results are kept in one file, so that the tests need no Keras. Cases that are there already are kept, unless
``--all`` is given.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.keras.case import DRAW, Case
from tests.frontends.keras.cases import layers, operations, sequences

FILE = Path(__file__).parent / "recorded.npz.xz"
ABOUT = "about"


@dataclass(frozen=True)
class Recorded:
    """A case.

    Attributes:
        data: the bytes of its file.
    """

    name: str
    data: bytes
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    accuracy: float


def cases(keras: Any) -> Iterator[Case]:
    for module in (layers, sequences, operations):
        for group in module.GROUPS:
            yield from group(keras)


def flat(found: Any) -> list[Any]:
    """What is in lists, tuples and dictionaries, in Keras's order."""
    if isinstance(found, dict):
        return [leaf for key in sorted(found) for leaf in flat(found[key])]
    if isinstance(found, list | tuple):
        return [leaf for item in found for leaf in flat(item)]
    return [found]


def with_weights(model: Any) -> Any:
    """The model with weights that are drawn anew."""
    for variable in model.variables:
        name = variable.path.rpartition("/")[2]
        if "seed" in variable.path or not str(variable.dtype).startswith(("float", "bfloat")):
            continue
        found = DRAW.normal(0, 0.4, variable.shape)
        variable.assign((np.abs(found) + 0.5 if name in ("moving_variance", "gamma", "variance") else found).astype(np.float32))
    return model


def recorded(case: Case) -> Recorded:
    model = with_weights(case.model) if case.is_random else case.model
    given = [np.asarray(x) for x in case.inputs]
    found = flat(model(given if len(given) > 1 else given[0], training=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{case.suffix}"
        model.save(path)
        data = path.read_bytes()
    return Recorded(case.name, data, given, [plain(np.asarray(v)) for v in found], case.accuracy)


def plain(found: np.ndarray) -> np.ndarray:
    """bfloat16, which files of NumPy do not have, as float32."""
    return found.astype(np.float32) if found.dtype.kind == "V" or str(found.dtype) == "bfloat16" else found


def write(found: list[Recorded], file: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    about = {}
    for case in found:
        about[case.name] = {"inputs": len(case.inputs), "outputs": len(case.outputs), "accuracy": case.accuracy}
        arrays[f"{case.name}:file"] = np.frombuffer(case.data, np.uint8)
        arrays.update({f"{case.name}:x{k}": x for k, x in enumerate(case.inputs)})
        arrays.update({f"{case.name}:y{k}": y for k, y in enumerate(case.outputs)})
    arrays[ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    file.write_bytes(lzma.compress(buffer.getvalue(), preset=9))


def kept() -> list[Recorded]:
    """What the file has."""
    with np.load(io.BytesIO(lzma.decompress(FILE.read_bytes())), allow_pickle=False) as stored:
        about = json.loads(bytes(stored[ABOUT]))
        return [
            Recorded(
                name, bytes(stored[f"{name}:file"]), [stored[f"{name}:x{k}"] for k in range(how["inputs"])],
                [stored[f"{name}:y{k}"] for k in range(how["outputs"])], how["accuracy"])
            for name, how in about.items()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.keras.record", description=__doc__)
    parser.add_argument("--all", action="store_true", help="record the cases anew that are there already")
    given = parser.parse_args()
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    known = {} if given.all or not FILE.exists() else {case.name: case for case in kept()}
    found = [known.get(case.name) or recorded(case) for case in cases(keras)]
    write(found, FILE)
    sys.stdout.write(f"{len(found)} cases, {FILE.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
