"""All combinations of the parameters that seed 001 gives ``quantize``, on a CNN, a transformer and a recurrent network.

`make test` runs one of five hundred, others for every commit.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import forge
from forge.errors import OptionError
from tests.quantization.models import TINY, Net, data

PARAMETERS = {
    "activation_dtype": ("int8", "uint8"), "kernel_dtype": (None, "int8", "uint8"),
    "bias_dtype": (None, "int32", "int8", "uint8"), "per_channel": (False, True),
    "calib_method": ("average", "entropy", "minmax", "percentile", "mse"),
    "quant_type": ("static", "dynamic", "any"),
}
COMBINATIONS = {
    " ".join(map(str, (model, *values))): (model, dict(zip(PARAMETERS, values)))
    for model in ("cnn", "transformer", "rnn") for values in itertools.product(*PARAMETERS.values())
}
FAR = 0.35
"""Of the norm of the outputs: biases of 8 bits with one scale are coarse."""


def recurrent() -> tuple[forge.IRModule, list[np.ndarray]]:
    """An LSTM, which stays real, and a dense layer, which does not."""
    net = Net(6, seed=3)
    sequence = net.call("expand_dims", net.x, axis=0)
    weights = [net.builder.constant(np.stack([net.rng.standard_normal((32, n)).astype(np.float32) / 4])) for n in (6, 8)]
    layer = net.builder.call_multi("nn.lstm", sequence, *weights, activations=("sigmoid", "tanh", "tanh"),
                                    activation_alpha=(0.0,) * 3, activation_beta=(0.0,) * 3)[0]
    flat = net.call("reshape", layer, newshape=(-1, 8))
    return net.module(net.dense(flat, 4)), [net.rng.standard_normal((3, 6)).astype(np.float32) for _ in range(4)]


def test_every_combination_is_there() -> None:
    assert len(COMBINATIONS) == 3 * 2 * 3 * 4 * 2 * 5 * 3


@pytest.mark.sampled(500, by_name=True)
@pytest.mark.parametrize("name", COMBINATIONS)
def test_combination(name: str) -> None:
    model, options = COMBINATIONS[name]
    ir, samples = recurrent() if model == "rnn" else (TINY[model](0), data(model))
    expected = [ir.get_inference_function()(x) for x in samples]
    ir.calibrate(samples)
    ir.quantize(**options, check=False)  # type: ignore[arg-type]
    assert ir.is_quantized
    run = ir.get_inference_function()
    for x, wanted in zip(samples, expected):
        assert np.linalg.norm(run(x) - wanted) < FAR * np.linalg.norm(wanted)


def test_static_needs_statistics() -> None:
    with pytest.raises(OptionError, match="layers without statistics"):
        TINY["cnn"](0).quantize(quant_type="static")
