"""The committed demo model is what the demo says it is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from examples.digits import demo

MODEL = demo.FOLDER / "digits.onnx"


def test_files_are_small_and_hold_no_pickle() -> None:
    stored = [MODEL, demo.FOLDER / "digits_test.npz"]
    assert sum(path.stat().st_size for path in stored) < 300_000
    with np.load(stored[1], allow_pickle=False) as arrays:
        assert set(arrays.files) == {"images", "labels"}


def test_batch_is_symbolic_and_no_path_of_a_machine_is_inside() -> None:
    model = onnx.load(MODEL)
    onnx.checker.check_model(model, full_check=True)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert b"site-packages" not in MODEL.read_bytes()


def test_onnxruntime_classifies_the_test_split() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    images, labels = demo.load_pictures()
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"image": images})
    assert logits.shape == (450, 10)
    assert (logits.argmax(axis=1) == labels).mean() >= demo.MIN_ACCURACY
