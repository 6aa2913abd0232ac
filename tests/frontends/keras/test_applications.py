"""Networks of ``keras.applications`` give the same module by every door, which computes what Keras does.

``python -m tests.frontends.keras.applications`` runs all of them, and shows what it finds.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.keras import applications

SMALL = (
    "MobileNet", "MobileNetV2", "MobileNetV3Small", "MobileNetV3Large", "EfficientNetB0", "EfficientNetV2B0", "ConvNeXtTiny",
    "DenseNet121", "NASNetMobile", "ResNet50", "ResNet50V2", "VGG16", "Xception")
"""One of each family but Inception's, where images of 75 by 75 become one pixel: TensorFlow has 8e-5, Winograd's 4e-4."""
ACCURACY = 1e-5
"""Of logits, relative to the largest one, unless a deep network makes roundings larger."""
MOST = 3
"""Times TensorFlow's own error. In ResNet50 that is 4.9e-5; Forge's is 6.4e-5, and by Winograd's algorithm 9.5e-5."""
MOVED = ("transpose", "layout_transform")


@pytest.mark.slow
@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", SMALL)
def test_all_doors_agree(name: str) -> None:
    pytest.importorskip("tensorflow", reason="needs the extra tflite, which has TensorFlow")
    import keras

    if keras.backend.backend() != "tensorflow":
        pytest.skip("another backend is in use; KERAS_BACKEND says which")
    found = applications.compared(name)
    assert found.spread > 0.05
    for outcome in found.outcomes:
        assert outcome.error < max(ACCURACY, MOST * found.own), outcome
        assert not {"transpose", "nn.batch_norm", "shape_of"} & outcome.operators.keys(), outcome
    assert found.apart < max(ACCURACY, MOST * found.own)
    last = [outcome.operators for outcome in found.outcomes if outcome.door != applications.FIRST]
    assert all(operators == last[0] for operators in last)
    first = next(outcome.operators for outcome in found.outcomes if outcome.door == applications.FIRST)
    assert np.sum([first.get(op, 0) for op in MOVED]) <= np.sum([last[0].get(op, 0) for op in MOVED]) + 1
