"""Networks of ``keras.applications`` by every door: ``python -m tests.frontends.keras.applications [NETWORK ...]``.

Each network, for small images, in a process of its own. It is given as an object, as a ``.keras`` and an ``.h5`` file, as a
SavedModel, as a frozen graph and as a concrete function, all with any size of a batch; as a ``.keras`` file also with channels
first. Modules with one fingerprint are compiled once. Errors are those of logits, relative to the largest, from what Keras
computes in float64; so is TensorFlow's own. What is left in optimized modules is counted.
Needs keras and tensorflow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import forge
from benchmarks.keras_applications import network
from forge.driver import check_options, optimized_graph

NAMES = (
    *(f"ConvNeXt{size}" for size in ("Tiny", "Small", "Base", "Large", "XLarge")), "DenseNet121", "DenseNet169", "DenseNet201",
    *(f"EfficientNetB{size}" for size in range(8)),
    *(f"EfficientNetV2{size}" for size in ("B0", "B1", "B2", "B3", "S", "M", "L")),
    "InceptionV3", "InceptionResNetV2", "MobileNet", "MobileNetV2", "MobileNetV3Small", "MobileNetV3Large", "NASNetMobile",
    "NASNetLarge", "ResNet50", "ResNet101", "ResNet152", "ResNet50V2", "ResNet101V2", "ResNet152V2", "VGG16", "VGG19", "Xception")
SIZE = 64
LEAST = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
"""Sizes of images for networks that take none of `SIZE`."""
CLASSES = 7
IN_COMMON = ("transpose", "layout_transform", "nn.pad", "nn.batch_norm", "reshape", "shape_of")
"""What is counted in optimized modules."""
FIRST = "channels first"
"""The door whose module takes images with channels first."""


@dataclass(frozen=True)
class Outcome:
    """What became of a network by a door.

    Attributes:
        error: from float64, relative to the largest logit.
        seconds: to load, and to compile.
        operators: of the optimized module, without constants.
    """

    door: str
    error: float
    seconds: tuple[float, float]
    operators: dict[str, int]


@dataclass(frozen=True)
class Found:
    """What became of a network.

    Attributes:
        own: TensorFlow's error.
        apart: the largest difference between doors, relative to the largest logit.
        spread: the difference between logits of two images, relative to the largest.
    """

    layers: int
    parameters: int
    own: float
    apart: float
    spread: float
    outcomes: Sequence[Outcome]


def model_of(name: str) -> Any:
    """The network, whose batch normalizations know the statistics of some images, or without any, whose weights keep variances.

    All images have nearly the same logits otherwise.
    """
    model = network(name, LEAST.get(name, SIZE), classes=CLASSES, classifier_activation=None)
    normalizations = [layer for layer in model.layers if type(layer).__name__ == "BatchNormalization"]
    for layer in normalizations:
        layer.momentum = 0.0
    if normalizations:
        model(images(model, 8), training=True)
    else:  # Glorot's weights halve variances, in which images would differ, at each ReLU
        model.set_weights([w * 2**0.5 if w.ndim == 4 else w for w in model.get_weights()])
    return model


def images(model: Any, count: int) -> np.ndarray:
    """Of the range that the model takes: numbers of bytes where it scales them itself."""
    found = np.random.default_rng(count).uniform(-1, 1, (count, *model.input_shape[1:])).astype(np.float32)
    scales = any(type(layer).__name__ in ("Rescaling", "Normalization") for layer in model.layers)
    return found * 127.5 + 127.5 if scales else found


def exact(name: str, model: Any, x: np.ndarray) -> np.ndarray:
    """What the model computes in float64."""
    import keras

    keras.config.set_dtype_policy("float64")
    try:
        wide = network(name, LEAST.get(name, SIZE), classes=CLASSES, classifier_activation=None)
        wide.set_weights(model.get_weights())
        return np.asarray(wide(x.astype(np.float64), training=False))
    finally:
        keras.config.set_dtype_policy("float32")


def function_of(model: Any) -> Any:
    """The concrete function that computes the model for any number of images."""
    import tensorflow as tf

    sizes = (None, *model.input_shape[1:])
    return tf.function(lambda x: model(x, training=False)).get_concrete_function(tf.TensorSpec(sizes, tf.float32, "x"))


def frozen(model: Any) -> bytes:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    data: bytes = convert_variables_to_constants_v2(function_of(model)).graph.as_graph_def().SerializeToString()
    return data


def doors(model: Any, folder: Path) -> Iterator[tuple[str, Callable[[], forge.IRModule]]]:
    """What loads the model by each door; files are written before."""
    yield "object", lambda: forge.from_keras(model, layout="NHWC")
    for ending in ("keras", "h5"):
        path = folder / f"model.{ending}"
        model.save(path)
        yield f".{ending}", lambda: forge.from_keras(path, layout="NHWC")  # noqa: B023
    yield FIRST, lambda: forge.from_keras(folder / "model.keras")
    model.export(folder / "saved", verbose=False)
    yield "SavedModel", lambda: forge.from_tensorflow(folder / "saved")
    data = frozen(model)
    yield "frozen", lambda: forge.from_tensorflow(data)
    function = function_of(model)
    yield "function", lambda: forge.from_tensorflow(function)


def optimized(ir: forge.IRModule) -> dict[str, int]:
    """Operators of the optimized module."""
    found = Counter(node.op for node in optimized_graph(ir.mod, check_options("llvm")).nodes)
    del found["constant"]
    return dict(sorted(found.items()))


def compared(name: str) -> Found:
    model = model_of(name)
    x = images(model, 2)
    wanted = exact(name, model, x)
    largest = float(np.abs(wanted).max())

    def apart(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.abs(one.astype(np.float64) - other).max()) / largest

    outcomes: list[Outcome] = []
    results: list[np.ndarray] = []
    known: dict[str, tuple[np.ndarray, float, dict[str, int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for door, load in doors(model, Path(folder)):
            times = [time.perf_counter()]
            ir = load()
            times.append(time.perf_counter())
            if ir.fingerprint not in known:
                given = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if door == FIRST else x
                begin = time.perf_counter()
                run = ir.get_inference_function()
                seconds = time.perf_counter() - begin
                known[ir.fingerprint] = np.asarray(run(given)), seconds, optimized(ir)
            found, seconds, operators = known[ir.fingerprint]
            results.append(found)
            outcomes.append(Outcome(door, apart(found, wanted), (times[1] - times[0], seconds), operators))
    own = apart(np.asarray(model(x, training=False)), wanted)
    between = max(apart(one, results[0]) for one in results)
    return Found(len(model.layers), model.count_params(), own, between, apart(wanted[:1], wanted[1:]), outcomes)


def _in_a_process(name: str) -> dict[str, Any]:
    """`compared` in a process of its own, with the most memory that it used, in GB; or what it ended with."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--worker", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"failed": lines[-1] if lines and done.returncode > 0 else f"signal {-done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _worker(name: str) -> None:
    import resource

    found = asdict(compared(name))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    sys.stdout.write(json.dumps({**found, "memory": memory}) + "\n")


def _row(name: str, found: dict[str, Any]) -> list[str]:
    if "failed" in found:
        return [name, found["failed"]]
    outcomes = found["outcomes"]
    same = {json.dumps(o["operators"]) for o in outcomes if o["door"] != FIRST}
    left = outcomes[0]["operators"]
    return [
        name, f"{found['layers']}", f"{found['parameters'] / 1e6:.1f}", f"{found['own']:.0e}",
        f"{max(o['error'] for o in outcomes):.0e}", f"{found['apart']:.0e}",
        f"{found['spread']:.2f}", " ".join(str(o["operators"].get("transpose", 0)) for o in outcomes),
        " ".join(f"{op}:{left[op]}" for op in IN_COMMON[1:] if op in left), "same" if len(same) == 1 else f"{len(same)} graphs",
        " ".join(f"{o['seconds'][0]:.1f}" for o in outcomes), " ".join(f"{o['seconds'][1]:.0f}" for o in outcomes),
        f"{found['memory']:.1f}"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.keras.applications", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NETWORK")
    parser.add_argument("--worker", metavar="NETWORK", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all that was found is written, a line for each network")
    given = parser.parse_args(arguments)
    if given.worker:
        _worker(given.worker)
        return 0
    table = Table(
        "network", "layers", "million parameters", "TensorFlow's error", "Forge's", "between doors", "spread",
        "transposes by door", "left", "operators by door", "to load, s", "to compile, s", "GB")
    failed = 0
    for name in given.names or NAMES:
        found = _in_a_process(name)
        failed += "failed" in found
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps({"name": name, **found}) + "\n")
        row = _row(name, found)
        sys.stdout.write(" | ".join(row) + "\n")
        sys.stdout.flush()
        table.add_row(*row)
    Console(width=240).print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
