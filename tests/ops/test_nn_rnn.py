"""Recurrent layers: the reference against onnxruntime in all variants, and messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import TypeInferenceError
from forge.ir.interp import run_graph
from forge.ir.op import get_op
from tests.ops.nn_check import random, single

T, B, INPUTS, H = 5, 3, 4, 6
ONNX_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hard_sigmoid": "HardSigmoid", "softsign": "Softsign",
    "affine": "Affine"}
KINDS = {"lstm": (4, 3, 2), "gru": (3, 2, 1), "rnn": (1, 1, 1)}
DEFAULTS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}


def operands(kind: str, directions: int, *present: str, layout: int = 0) -> list[np.ndarray | None]:
    gates = KINDS[kind][0]
    state = (B, directions, H) if layout else (directions, B, H)
    made: dict[str, np.ndarray] = {
        "x": random(*((B, T, INPUTS) if layout else (T, B, INPUTS))), "w": random(directions, gates * H, INPUTS, seed=1) / 2,
        "r": random(directions, gates * H, H, seed=2) / 2, "bias": random(directions, 2 * gates * H, seed=3),
        "lengths": np.array([5, 2, 3], np.int32), "h0": random(*state, seed=4), "c0": random(*state, seed=5),
        "peephole": random(directions, 3 * H, seed=6),
    }
    names = ["x", "w", "r", "bias", "lengths", "h0", *(["c0", "peephole"] if kind == "lstm" else [])]
    return [made[n] if n in ("x", "w", "r", *present) else None for n in names]


def attributes(kind: str, directions: int, **others: Any) -> dict[str, Any]:
    names = others.pop("activations", DEFAULTS[kind] * directions)
    numbers = {"activation_alpha": (0.3,) * len(names), "activation_beta": (0.1,) * len(names)}
    return {"activations": names, **numbers, **others}


def onnx_results(kind: str, arrays: list[np.ndarray | None], attrs: dict[str, Any]) -> list[np.ndarray]:
    import onnxruntime
    from onnx import helper

    names = [f"v{k}" if a is not None else "" for k, a in enumerate(arrays)]
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names,
            arrays) if a is not None
    ]
    outputs = ["y", "h", "c"][: 1 + KINDS[kind][2]]
    options = {k: v for k, v in attrs.items() if not k.startswith("activation") and k != "layout" and v is not None}
    parametric = [k for k, n in enumerate(attrs["activations"]) if n in ("hard_sigmoid", "affine")]
    node = helper.make_node(
        kind.upper(), names, outputs, hidden_size=H, activations=[ONNX_NAMES[n] for n in attrs["activations"]],
        **{k: int(v) if isinstance(v, bool) else v for k, v in options.items()},
        **({"activation_alpha": [0.3] * len(parametric), "activation_beta": [0.1] * len(parametric)} if parametric else {}),
    )
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info(n, 1, None) for n in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {n: a for n, a in zip(names, arrays) if a is not None})  # type: ignore[no-any-return]


def results(kind: str, arrays: list[np.ndarray | None], attrs: dict[str, Any]) -> list[np.ndarray]:
    graph = single(f"nn.{kind}", arrays, **attrs)
    found = run_graph(graph, [a for a in arrays if a is not None])
    assert [a.shape for a in found] == [v.shape for v in graph.outputs]
    return found


CASES: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("lstm", (), {}),
    ("lstm", ("bias", "h0", "c0", "peephole"), {}),
    ("lstm", ("bias", "lengths", "h0", "c0"), {"direction": "bidirectional"}),
    ("lstm", ("bias", "lengths"), {"direction": "reverse"}),
    ("lstm", ("bias",), {"clip": 0.4}),
    ("lstm", ("bias", "peephole"), {"input_forget": True}),
    ("lstm", ("bias",), {"activations": ("hard_sigmoid", "softsign", "relu")}),
    ("gru", (), {}),
    ("gru", ("bias", "lengths", "h0"), {"direction": "bidirectional"}),
    ("gru", ("bias", "h0"), {"linear_before_reset": True}),
    ("gru", ("bias",), {"direction": "reverse", "clip": 0.5}),
    ("rnn", (), {}),
    ("rnn", ("bias", "lengths", "h0"), {"direction": "bidirectional"}),
    ("rnn", ("bias",), {"activations": ("affine",)}),
]


@pytest.mark.parametrize(("kind", "present", "options"), CASES)
def test_agrees_with_onnxruntime(kind: str, present: tuple[str, ...], options: dict[str, Any]) -> None:
    directions = 2 if options.get("direction") == "bidirectional" else 1
    arrays, attrs = operands(kind, directions, *present), attributes(kind, directions, **options)
    for got, want in zip(results(kind, arrays, attrs), onnx_results(kind, arrays, attrs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", list(KINDS))
def test_batch_first_only_permutes(kind: str) -> None:
    first, second = operands(kind, 2, "h0", "c0"), operands(kind, 2, "h0", "c0", layout=1)
    for k in (0, 5, 6):
        array = first[k] if k < len(first) else None
        if array is not None:
            second[k] = np.ascontiguousarray(np.swapaxes(array, 0, 1))
    attrs = attributes(kind, 2, direction="bidirectional")
    plain, swapped = results(kind, first, attrs), results(kind, second, {**attrs, "layout": 1})
    np.testing.assert_allclose(swapped[0], plain[0].transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    for got, want in zip(swapped[1:], plain[1:], strict=True):
        np.testing.assert_allclose(got, want.swapaxes(0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", list(KINDS))
def test_products_of_the_input_may_be_given(kind: str) -> None:
    arrays, attrs = operands(kind, 2, "bias"), attributes(kind, 2, direction="bidirectional")
    x, w = arrays[0], arrays[1]
    assert x is not None
    assert w is not None
    products = np.concatenate([x @ part.T for part in w], axis=-1)
    for got, want in zip(results(kind, [products, None, *arrays[2:]], attrs), results(kind, arrays, attrs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"direction": "sideways"}, "direction"),
        ({}, {"activations": ("tanh",)}, "numbers of activations"),
        ({}, {"activations": ("tanh", "tanh", "cosh")}, "cosh"),
        ({1: random(1, 24, 5)}, {}, "axis 2 of w"),
        ({4: np.zeros(3, np.float32)}, {}, "lengths"),
        ({1: None}, {}, "products of w"),
        ({}, {"layout": 2}, "layout"),
    ],
)
def test_mistakes_are_named(change: dict[int, Any], options: dict[str, Any], message: str) -> None:
    arrays = operands("lstm", 1)
    for k, array in change.items():
        arrays[k] = array
    with pytest.raises(TypeInferenceError, match=message):
        single("nn.lstm", arrays, **attributes("lstm", 1, **options))


PANELS = {"r": np.zeros((1, 4, 2, 8, 4), np.int8), "r_scale": np.ones((1, 24), np.float32), "r_sums": np.zeros((1, 24), np.int32)}
"""Of an LSTM with 6 units."""


@pytest.mark.parametrize(("changes", "options", "message"), [
    ({"r": np.zeros((1, 4, 2, 4, 4), np.int8)}, {}, "axis 1 of r"),
    ({"r": np.zeros((1, 4, 1, 8, 4), np.int8)}, {}, "axis 2 of r"),
    ({"r": np.zeros((1, 4, 2, 8, 3), np.int8)}, {}, "groups of 1, 2 or 4"), ({"r_sums": None}, {}, "r_sums for 2 or 4"),
    ({"r": np.zeros((1, 4, 6, 8, 1), np.int8), "r_sums": None}, {"dynamic_quantization": True}, "1 only without rounding"),
    ({"r_zero_point": np.zeros((1, 24), np.int8)}, {}, "none for packed r without rounding"),
    ({"r_scale": None}, {}, "packed weights with r_scale"), ({"r": np.zeros((1, 24, 6), np.uint8)}, {}, "dtype int8"),
    ({"r": np.zeros((1, 24, 6), np.float32)}, {"dynamic_quantization": True}, "dtype int8"),
    ({"x": np.zeros((1, 1, 24), np.float64), "r_scale": np.ones((1, 24))}, {"dynamic_quantization": True}, "dtype float32 for"),
])
def test_mistakes_of_codes_are_named(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    """Kernels read panels without looking at their sizes."""
    names = [o.name for o in get_op("nn.lstm").operands]
    given = {"x": np.zeros((1, 1, 24), np.float32), **PANELS, **changes}
    with pytest.raises(TypeInferenceError, match=message):
        single("nn.lstm", [given.get(name) for name in names], **attributes("lstm", 1, **options))
