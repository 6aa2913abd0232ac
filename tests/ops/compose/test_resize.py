"""Resizing against torch and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from forge.compose.resize import AxisPlan, Method, resize, resized
from forge.driver import check_options, compile_module
from forge.errors import OpAttributeInvalid
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests import guard
from tests.ops.compare import check
from tests.ops.compose.support import build, run, run_compiled

rng = np.random.default_rng(23)
IMAGE = rng.standard_normal((1, 2, 5, 7)).astype(np.float32)


def torch_resized(sizes: tuple[int, int], **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    result: np.ndarray = torch.nn.functional.interpolate(torch.from_numpy(IMAGE), size=sizes, **options).numpy()
    return result


def to_sizes(sizes: Any, method: Method) -> Any:
    return lambda g, x: resize(g, x, [2, 3], method, sizes=g.constant(sizes, "int64"))


@pytest.mark.parametrize("sizes", [(10, 14), (3, 4), (5, 9), (1, 1)])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        (Method("nearest", "asymmetric", "floor"), {"mode": "nearest"}),
        (Method("nearest", "half_pixel", "round_prefer_ceil"), {"mode": "nearest-exact"}),
        (Method("linear", "half_pixel"), {"mode": "bilinear"}),
        (Method("linear", "align_corners"), {"mode": "bilinear", "align_corners": True}),
        (Method("linear", "half_pixel", antialias=True, exclude_outside=True), {"mode": "bilinear", "antialias": True}),
        (Method("cubic", "half_pixel"), {"mode": "bicubic"}),
        (Method("cubic", "align_corners"), {"mode": "bicubic", "align_corners": True}),
    ],
    ids=["nearest", "nearest-exact", "bilinear", "corners", "antialias", "bicubic", "bicubic corners"],
)
def test_agrees_with_torch(method: Method, options: dict[str, Any], sizes: tuple[int, int]) -> None:
    wanted = torch_resized(sizes, **options)
    check(run(to_sizes(sizes, method), IMAGE)[0], wanted, Accuracy.ACCUMULATING)
    at_run_time = run(lambda g, x, s: resize(g, x, [2, 3], method, sizes=s), IMAGE, np.array(sizes))
    check(at_run_time[0], wanted, Accuracy.ACCUMULATING)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("coordinates", ["tf_half_pixel_for_nn", "pytorch_half_pixel", "asymmetric", "align_corners"])
def test_scales_agree_with_onnxruntime(coordinates: str, known: bool) -> None:
    ort = pytest.importorskip("onnxruntime")
    scales = np.array([1, 1, 2, 3 if coordinates == "align_corners" else 0.5], np.float32)
    graph = f"""<ir_version: 8, opset_import: ["" : 11]>
        g (float[1,2,5,7] x, float[0] r, float[4] s) => (float[a,b,c,d] y) {{
            y = Resize<mode="nearest", nearest_mode="floor", coordinate_transformation_mode="{coordinates}">(x, r, s)
        }}"""
    session = ort.InferenceSession(onnx.parser.parse_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": IMAGE, "r": np.zeros(0, np.float32), "s": scales})

    def compose(g: Composer, x: Value, s: Value | None = None) -> Value:
        given = g.constant(scales) if s is None else s
        return resize(g, x, list(range(4)), Method("nearest", coordinates, "floor"), scales=given)

    (got,) = run(compose, IMAGE) if known else run_compiled(compose, IMAGE, scales)
    assert np.array_equal(got, wanted)


def test_one_scale_for_all_axes() -> None:
    sizes = np.array([8, 8])
    for policy, wanted in (("not_larger", (6, 8)), ("not_smaller", (8, 11))):
        (got,) = run(lambda g, x, p=policy: resize(g, x, [2, 3], Method(), sizes=g.constant(sizes), policy=p), IMAGE)
        (later,) = run(lambda g, x, s, p=policy: resize(g, x, [2, 3], Method(), sizes=s, policy=p), IMAGE, sizes)
        assert got.shape[2:] == wanted
        assert np.array_equal(got, later)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither scales nor sizes"),
        ({"method": Method("wavelet")}, "expected one of nearest"),
        ({"method": Method(coordinates="odd"), "sizes": [2, 3]}, "expected one of half_pixel"),
        ({"method": Method(nearest="up"), "sizes": [2, 3]}, "expected round_prefer_floor"),
        ({"sizes": [2]}, "expected 2"),
        ({"sizes": [2, 3], "policy": "odd"}, "not_larger or not_smaller"),
    ],
)
def test_what_does_not_fit_is_an_error(options: dict[str, Any], message: str) -> None:
    method, sizes, rest = options.pop("method", Method()), options.pop("sizes", None), options

    def compose(g: Composer, x: Value) -> Value:
        return resize(g, x, [2, 3], method, sizes=None if sizes is None else g.constant(sizes, "int64"), **rest)

    with pytest.raises(OpAttributeInvalid, match=message):
        build(compose, [IMAGE])


WHOLE = [
    Method(mode, coordinates, "round_prefer_floor" if coordinates == "half_pixel" else "floor")
    for mode in ("nearest", "linear", "cubic") for coordinates in ("half_pixel", "asymmetric", "pytorch_half_pixel")
]
AS_WIDE = [
    Method(mode, coordinates, antialias=True, exclude_outside=exclude)
    for exclude in (False, True) for mode in ("linear", "cubic")
    for coordinates in ("half_pixel", "asymmetric", "pytorch_half_pixel")
]


@pytest.mark.parametrize("method", WHOLE, ids=lambda m: f"{m.mode} {m.coordinates}")
@pytest.mark.parametrize("scales", [(2, 2), (1, 4), (3, 1), (1.5, 2), (0.5, 0.25), (0.25, 0.5)])
@pytest.mark.parametrize("shape", [(1, 2, 5, 7), (1, 2, 3, 40), (1, 2, 3, 4)])
def test_symbolic_sizes_give_what_known_ones_give(method: Method, scales: tuple[float, float], shape: tuple[int, ...]) -> None:
    assert_symbolic_like_known(method, scales, shape)


@pytest.mark.parametrize("method", AS_WIDE, ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 2, 4), (1, 2, 9, 43)])
def test_symbolic_sizes_are_shrunk_as_known_ones(method: Method, shape: tuple[int, ...]) -> None:
    assert_symbolic_like_known(method, (0.5, 0.25), shape)


def assert_symbolic_like_known(method: Method, scales: tuple[float, float], shape: tuple[int, ...]) -> None:
    image = rng.standard_normal(shape).astype(np.float32)

    def compose(g: Composer, x: Value) -> Value:
        return resize(g, x, [2, 3], method, scales=g.constant(scales, "float32"))

    def singly(g: Composer, x: Value) -> Value:
        axes = [AxisPlan(k, x.shape[k], int(np.floor(x.shape[k] * s)), s) for k, s in zip((2, 3), scales)]
        return resized(g, x, axes, method)

    (wanted,) = run(singly, image)
    for symbolic in (False, True):
        (got,) = run_compiled(compose, image, symbolic=symbolic)
        check(got, wanted, Accuracy.ACCUMULATING)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("factor", [2, 4])
def test_rows_of_all_lengths_stay_inside(factor: int, mode: str, target: str) -> None:
    """Their ends are single elements or vectors, as many as fit."""

    def compose(g: Composer, x: Value) -> Value:
        return resize(g, x, [2, 3], Method(mode), scales=g.constant((2, factor), "float32"))

    module = Module(build(compose, [IMAGE], symbolic=True))
    compiled = compile_module(module, check_options(target), use_cache=False)
    for width in (1, 2, 3, 8, 11, 12, 15, 16, 17, 25, 31, 32, 40, 41, 48, 55, 64):
        image = rng.standard_normal((1, 2, 3, width)).astype(np.float32)
        (got,) = guard.run(compiled, module.main, [image])
        check(got, run(compose, image)[0], Accuracy.ACCUMULATING, f"{width} elements")


def test_integers_are_rounded_once() -> None:
    image = rng.integers(0, 99, (1, 2, 8, 12)).astype(np.int32)

    def compose(g: Composer, x: Value) -> Value:
        return resize(g, x, [2, 3], Method("linear"), scales=g.constant((0.5, 0.5), "float32"))

    (known,), (unknown,) = run_compiled(compose, image), run_compiled(compose, image, symbolic=True)
    np.testing.assert_array_equal(unknown, known)


def test_an_axis_with_fewer_elements_than_a_step_is_empty() -> None:
    def compose(g: Composer, x: Value) -> Value:
        return resize(g, x, [2, 3], Method("linear", antialias=True), scales=g.constant((0.5, 0.5), "float32"))

    for shape in ((1, 2, 0, 4), (1, 2, 1, 4)):
        (got,) = run_compiled(compose, np.zeros(shape, np.float32), symbolic=True)
        assert got.shape == (1, 2, 0, 2)


def test_whole_factors_keep_the_name_of_sizes() -> None:
    def compose(g: Composer, x: Value) -> Value:
        return resize(g, x, [2, 3], Method("linear"), scales=g.constant([2, 4], "float32"))

    graph = build(compose, [IMAGE], symbolic=True)
    assert str(graph.outputs[0].type) == "Tensor[(1, 2, 2*d0_2, 4*d0_3), float32]"


def test_other_scales_keep_the_name_of_sizes() -> None:
    graph = build(lambda g, x: resize(g, x, [3], Method("linear"), scales=g.constant([1.5], "float32")), [IMAGE], symbolic=True)
    assert str(graph.outputs[0].type) == "Tensor[(1, 2, d0_2, (d0_3 // 2) + d0_3), float32]"
