"""Saves `programs` and what TensorFlow gives: ``python -m tests.frontends.tensorflow.record_programs``; needs tensorflow."""

from __future__ import annotations

import io
import json
import lzma
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "programs.npz.xz"
ABOUT = "about"


@dataclass
class Recorded:
    """A program: its files, and calls with what they gave.

    Attributes:
        files: by names in its folder; of a graph, ``graph.pb``.
        outputs: names of outputs of a graph.
        calls: the signature, its arguments, and its results by name.
    """

    files: dict[str, bytes]
    outputs: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, np.ndarray], dict[str, np.ndarray]]] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Writes the files; returns the path to load."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder / "graph.pb" if self.outputs else folder


def kept() -> dict[str, Recorded]:
    """What the file has."""
    found: dict[str, Recorded] = {}
    with np.load(io.BytesIO(lzma.decompress(FILE.read_bytes())), allow_pickle=False) as stored:
        for name, about in json.loads(bytes(stored[ABOUT])).items():
            program = found[name] = Recorded(
                {file: bytes(stored[f"{name}/file/{file}"]) for file in about["files"]}, about["outputs"])
            for k, (signature, inputs, outputs) in enumerate(about["calls"]):
                sides = [
                    {key: stored[f"{name}/{k}/{side}/{key}"] for key in keys}
                    for side, keys in (("in", inputs), ("out", outputs))]
                program.calls.append((signature, *(_restored(side) for side in sides)))  # type: ignore[arg-type]
    return found


def _restored(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key: v.astype(object) if v.dtype.kind == "U" else v for key, v in arrays.items()}


def _keep(recorded: Mapping[str, Recorded]) -> None:
    about: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for name, program in recorded.items():
        about[name] = {
            "files": list(program.files), "outputs": program.outputs,
            "calls": [(signature, list(inputs), list(outputs)) for signature, inputs, outputs in program.calls]}
        for file, data in program.files.items():
            arrays[f"{name}/file/{file}"] = np.frombuffer(data, np.uint8)
        for k, (_, inputs, outputs) in enumerate(program.calls):
            arrays |= {f"{name}/{k}/in/{key}": v for key, v in inputs.items()}
            arrays |= {f"{name}/{k}/out/{key}": v for key, v in outputs.items()}
    arrays[ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    FILE.write_bytes(lzma.compress(data.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _saved(make: Any) -> Recorded:
    import tensorflow as tf

    module, signatures, calls = make()
    with tempfile.TemporaryDirectory() as folder:
        if signatures:
            tf.saved_model.save(module, folder, signatures=dict(signatures))
        else:
            module.export(folder, verbose=False)
        files = {
            str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and path.name != "fingerprint.pb"}
        loaded = tf.saved_model.load(folder)
        found = Recorded(files)
        for signature, arguments in calls:
            results = loaded.signatures[signature](**{key: tf.constant(v) for key, v in arguments.items()})
            found.calls.append((signature, dict(arguments), {key: v.numpy() for key, v in results.items()}))
    return found


def _frozen(name: str) -> Recorded:
    import tensorflow as tf

    from tests.frontends.tensorflow.programs import old_graph

    graph, outputs, feeds = old_graph(name)
    with tf.compat.v1.Session(graph=graph) as session:
        results = session.run(outputs, {f"{key}:0": v for key, v in feeds.items()})
    found = Recorded({"graph.pb": graph.as_graph_def().SerializeToString()}, list(outputs))
    found.calls.append(("main", dict(feeds), dict(zip(outputs, results))))
    return found


def main() -> None:
    from tests.frontends.tensorflow.programs import OLD, PROGRAMS

    recorded = {name: _saved(make) for name, make in PROGRAMS.items()}
    recorded |= {name: _frozen(name) for name in OLD}
    _keep(recorded)
    sys.stdout.write(f"{len(recorded)} programs; {FILE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
