"""Networks of ``keras.applications``: Forge beside TensorFlow and ``jax.jit``: time to the first result, and calls in turns.

    python -m benchmarks.keras_applications [NETWORK ...] [--threads 1] [--batch 1] [--seconds 10] [--dynamic] [--json FILE]

Each network is written once as a SavedModel, by Keras on TensorFlow. TensorFlow runs its signature, Forge what it compiles of the
folder, and ``jax.jit`` the same network by Keras on jax, with its weights as arguments that lie on the device. All of them use
as many threads as there are cores for the process. With ``--dynamic`` Forge's size of a batch is known at run time only. The
ratio is the time of the faster peer over Forge's, of the least and of the median of the calls. The error is relative to the
largest element of TensorFlow's result.

Needs the extras ``tflite`` (TensorFlow) and ``jax``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pairs import Comparison
from benchmarks.turns import take_turns

SEED = 0
APPLICATIONS = {
    "MobileNet": 224, "MobileNetV2": 224, "MobileNetV3Small": 224, "MobileNetV3Large": 224, "EfficientNetB0": 224,
    "EfficientNetB3": 300, "EfficientNetV2B0": 224, "EfficientNetV2S": 384, "ResNet50": 224, "ResNet101": 224, "ResNet50V2": 224,
    "DenseNet121": 224, "DenseNet201": 224, "InceptionV3": 299, "InceptionResNetV2": 299, "Xception": 299, "NASNetMobile": 224,
    "ConvNeXtTiny": 224, "ConvNeXtSmall": 224, "VGG16": 224, "VGG19": 224,
}
"""Names, and sizes of images."""
FOLDER = Path.home() / ".cache" / "forge-benchmarks" / "keras"
TOLERANCE = 1e-3


def network(name: str, size: int | None = None, **options: Any) -> Any:
    """The Keras model, with seeded weights that are not those of the begin: its results differ."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(SEED)
    size = size or APPLICATIONS[name]
    model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), **options)
    random = np.random.default_rng(SEED)
    for weight in model.weights:
        kind = weight.path.rpartition("/")[2]
        if kind in ("gamma", "moving_variance"):
            weight.assign(random.uniform(0.8, 1.2, weight.shape))
        elif kind in ("beta", "moving_mean", "bias"):
            weight.assign(random.normal(0, 0.05, weight.shape))
    return model


def saved_model(name: str) -> Path:
    """The folder of a network, which is written once, in a process of its own."""
    folder = FOLDER / name
    if not (folder / "saved_model.pb").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        code = f"from benchmarks.keras_applications import network; network({name!r}).export({str(folder)!r}, verbose=False)"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"import os; os.environ['KERAS_BACKEND'] = 'tensorflow'; {code}"],
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return folder


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds to the first result, times of calls in seconds, the largest error relative to the largest element."""
    import jax
    import numpy as np
    import tensorflow as tf

    import forge

    folder = saved_model(name)
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    size = APPLICATIONS[name]
    x = np.random.default_rng(1).normal(size=(options.batch, size, size, 3)).astype(np.float32)
    first = {}
    begin = time.perf_counter()
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    (key,) = signature.structured_input_signature[1]
    on_tensorflow = tf.constant(x)
    expected = next(iter(signature(**{key: on_tensorflow}).values())).numpy()
    first["tensorflow"] = time.perf_counter() - begin
    model = network(name)
    weights = [[v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables)]
    jitted = jax.jit(lambda trainable, others, data: model.stateless_call(trainable, others, data, training=False)[0])
    on_jax = jax.device_put(x)
    begin = time.perf_counter()
    jax.block_until_ready(jitted(*weights, on_jax))
    first["jax"] = time.perf_counter() - begin
    begin = time.perf_counter()
    run = forge.compile(forge.from_tensorflow(folder, shape=None if options.dynamic else {key: x.shape}))
    found = np.asarray(run(x))
    first["forge"] = time.perf_counter() - begin
    runs = {
        "tensorflow": lambda: next(iter(signature(**{key: on_tensorflow}).values())).numpy(),
        "jax": lambda: jax.block_until_ready(jitted(*weights, on_jax)),
        "forge": lambda: run(x)}
    times = take_turns(runs, options.seconds)
    faster = min(("tensorflow", "jax"), key=lambda peer: min(times[peer]))
    error = float(np.abs(found.reshape(expected.shape) - expected).max() / np.abs(expected).max())
    return {"first": {**first, "peer": first[faster]}, "times": {**times, "peer": times[faster]}, "error": error}


COMPARISON = Comparison(
    "benchmarks.keras_applications", "peer", tuple(APPLICATIONS), measure, TOLERANCE,
    {"dynamic": "the size of a batch is known at run time only"}, {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "jax"})


def main(arguments: Sequence[str] | None = None) -> int:
    return COMPARISON.run(__doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
