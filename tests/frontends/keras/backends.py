"""Models of the cases, as this process's backend gives them: ``KERAS_BACKEND=NAME python -m tests.frontends.keras.backends``.

``traced``: with a custom layer around them, which only the backend can trace. Others: what ``model.export`` writes, by format.
Each case is a line of JSON on the standard output: its name, and what is wrong with it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import forge
from forge.errors import ForgeError, ImportModelError
from tests.frontends.keras.case import Case, difference
from tests.frontends.keras.record import cases, flat, plain, with_weights

NOT_KERAS = "Keras itself fails: "


def wrapped(keras: Any, model: Any) -> Any:
    """A functional model of one custom layer, which calls ``model``."""

    class Around(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            super().__init__(dtype=inner.dtype_policy)
            self.inner = inner

        def call(self, inputs: Any) -> Any:
            return self.inner(inputs)

        def compute_output_spec(self, inputs: Any) -> Any:
            return self.inner.compute_output_spec(inputs)

    around = Around(model)
    around.built = True
    inputs = [keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name) for x in model.inputs]
    given = inputs[0] if len(inputs) == 1 else inputs
    return keras.Model(given, around(given))


def traced(keras: Any, model: Any, inputs: Sequence[np.ndarray]) -> Any:
    """The module of a model that the backend traces; with known sizes where PyTorch fails without, as in loops of Keras."""
    around = wrapped(keras, model)
    try:
        return forge.from_keras(around, layout="NHWC")
    except ImportModelError as error:
        if "cannot trace it" not in str(error) or keras.backend.backend() != "torch":
            raise
        shape = {one.name: x.shape for one, x in zip(around.inputs, inputs)}
        return forge.from_keras(around, layout="NHWC", shape=shape)


def exported(kind: str, load: Callable[[Path], Any]) -> Callable[[Any, Any, Sequence[np.ndarray]], Any]:
    def module(keras: Any, model: Any, inputs: Sequence[np.ndarray]) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model.{kind}"
            try:
                model.export(path, format=kind, verbose=False)
            except Exception as error:  # a framework may raise anything
                raise RuntimeError(f"{NOT_KERAS}{type(error).__name__}: {error}") from error
            return load(path)

    return module


WAYS: dict[str, Callable[[Any, Any, Sequence[np.ndarray]], Any]] = {
    "traced": traced,
    "tf_saved_model": exported("tf_saved_model", forge.from_tensorflow),
    "onnx": exported("onnx", forge.from_onnx),
    "litert": exported("litert", lambda path: forge.from_tflite(path, layout="NHWC")),
}


def outcome(keras: Any, case: Case, way: str) -> str:
    """What is wrong with what Forge gives; "" where nothing is."""
    model = with_weights(case.model) if case.is_random else case.model
    try:
        wanted = [plain(keras.ops.convert_to_numpy(y)) for y in flat(model(
            list(case.inputs) if len(case.inputs) > 1 else case.inputs[0], training=False))]
    except Exception as error:  # noqa: BLE001 - a backend may raise anything
        return f"{NOT_KERAS}{type(error).__name__}: {error}"
    try:
        run = WAYS[way](keras, model, case.inputs).get_inference_function()
        found = [np.asarray(one) for one in flat(run(*case.inputs))]
    except (ForgeError, RuntimeError) as error:
        return str(error)
    return difference(found, wanted, case.accuracy)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.keras.backends", description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("names", nargs="*", metavar="CASE")
    given = parser.parse_args()
    import keras

    warnings.simplefilter("ignore")
    failed = 0
    for case in cases(keras):
        if not given.names or case.name in given.names:
            found = outcome(keras, case, given.way)
            failed += bool(found)
            sys.stdout.write(json.dumps([case.name, " ".join(found.split())]) + "\n")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
