"""Winograd convolution against the direct sum in float64, on odd sizes, at every vector width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forge import dims, dtypes
from forge.errors import CompileError
from forge.kernels.cpu import tiles, winograd, winograd_bytes
from forge.kernels.cpu.winograd_plan import most_tiles
from forge.ops.packed.pairs import paired
from forge.target import Target
from forge.target.choices import Choices
from forge.tir import expr as E
from forge.tir.printer import print_function
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import (
    IMAGES,
    AnySize,
    block_channels,
    convolve,
    guarded,
    of_any_size,
    pack_convolution,
    run,
    targets_here,
    unblock_channels,
)

RNG = np.random.default_rng(13)

FILTERS = np.array([[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [0, 0, 1], [-1 / 6, 1 / 6, -1 / 6],
                    [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6]])
PLACES = np.array([
    [0, 1, 4, 9, 16, 25],
    [3, 2, 5, 10, 17, 26],
    [7, 8, 6, 11, 18, 27],
    [13, 14, 15, 12, 19, 28],
    [21, 22, 23, 24, 20, 29],
    [31, 32, 33, 34, 35, 30],
])
ERRORS = {2: 2e-6, 4: 2e-5}

ROWS = {
    # input channels, output channels, image, padding, batch
    "same": (24, 40, (13, 11), (1, 1, 1, 1), 2),
    "valid": (16, 16, (10, 10), (0, 0, 0, 0), 1),
    "asymmetric": (72, 24, (9, 17), (0, 2, 1, 0), 1),
    "one output": (1, 3, (3, 3), (0, 0, 0, 0), 1),
    "smaller than a patch": (8, 8, (2, 3), (1, 1, 1, 1), 3),
    "dilated": (24, 40, (21, 13), (2, 3, 2, 3), 2),
    "dilated, valid": (16, 16, (11, 17), (0, 0, 0, 0), 1),
    "dilated by more than there is": (8, 24, (5, 7), (12, 5, 12, 5), 1),
}
DILATIONS = {"dilated": (2, 3), "dilated, valid": (1, 4), "dilated by more than there is": (12, 5)}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def transformed(weight: np.ndarray, block: int, tile: int = 4) -> np.ndarray:
    """[O, I, 3, 3] as [O/c, positions, I/c, c, c]."""
    out, inner = weight.shape[:2]
    o, i, g = -(-out // block), -(-inner // block), FILTERS[: tile + 2]
    positions = len(g) ** 2
    padded = np.zeros((positions, o * block, i * block), np.float32)
    padded[PLACES[: len(g), : len(g)], :out, :inner] = np.einsum("yh,oihw,xw->yxoi", g, weight.astype(np.float64), g)
    return np.ascontiguousarray(padded.reshape(positions, o, block, i, block).transpose(1, 0, 3, 4, 2))


def winograd_case(name: str, lanes: int, batch: object = None, tile: int = 4, size: tuple[int, int] | None = None,
                  **options: object) -> Case:
    inner, out, image, padding, images = ROWS[name]
    image = size or image
    o, i = -(-out // lanes), -(-inner // lanes)
    dilation = dilation_of(name)
    sizes = [image[axis] + padding[axis] + padding[axis + 2] - 2 * dilation[axis] for axis in (0, 1)]
    n = images if batch is None else batch
    return Case("conv2d_winograd_nchwc", [Spec((n, i, *image, lanes)), Spec((o, (tile + 2) ** 2, i, lanes, lanes))],
                Spec((n, o, *sizes, lanes)),
                {"strides": (1, 1), "padding": padding, "dilation": dilation, "in_channels": inner, "kernel": (3, 3)}, **options)


def dilation_of(name: str) -> tuple[int, int]:
    return DILATIONS.get(name, (1, 1))


def assert_near(got: np.ndarray, want: np.ndarray, tile: int = 4) -> None:
    error = np.abs(got - want).max(initial=0.0) / (np.abs(want).max(initial=0.0) or 1.0)
    assert error <= ERRORS[tile], f"relative error {error:.1e}"


@pytest.mark.parametrize("tile", ERRORS)
@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ROWS)
def test_matches_numpy(target: str, name: str, tile: int) -> None:
    inner, out, image, padding, batch = ROWS[name]
    lanes = Target.parse(target).lanes("float32")
    x, w = normal(batch, inner, *image), normal(out, inner, 3, 3)
    got = run(winograd_case(name, lanes, tile=tile), [block_channels(x, lanes), transformed(w, lanes, tile)], target)
    assert_near(unblock_channels(got, out), convolve(x, w, (1, 1), padding, dilation_of(name)), tile)


@pytest.mark.parametrize("tile", ERRORS)
@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ["same", "valid", "asymmetric", *DILATIONS])
def test_any_size(target: str, name: str, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel for images of all sizes, whatever size is typical."""
    inner, out, _, padding, batch = ROWS[name]
    lanes = Target.parse(target).lanes("float32")
    w = normal(out, inner, 3, 3)
    for typical in (1, 17, 256):
        monkeypatch.setattr(dims, "TYPICAL", typical)
        kernel = AnySize(winograd_case(name, lanes, tile=tile), target)
        for image in IMAGES:
            if all(image[axis] + padding[axis] + padding[axis + 2] > 2 * dilation_of(name)[axis] for axis in (0, 1)):
                x = normal(batch, inner, *image)
                case = winograd_case(name, lanes, tile=tile, size=image)
                got = kernel.run(case, [block_channels(x, lanes), transformed(w, lanes, tile)])
                assert_near(unblock_channels(got, out), convolve(x, w, (1, 1), padding, dilation_of(name)), tile)


@pytest.mark.parametrize("target", targets_here())
def test_small_images_take_small_tiles(target: str) -> None:
    """They read none of the filters for larger ones, which are not numbers here."""
    inner, out, _, padding, batch = ROWS["same"]
    lanes = Target.parse(target).lanes("float32")
    x, w = normal(batch, inner, 40, 37), normal(out, inner, 3, 3)
    kernel = AnySize(winograd_case("same", lanes), target)
    filters = transformed(w, lanes)
    filters[:, 16:] = np.nan
    for height, width in ((1, 1), (2, 37), (40, 37)):
        case, data = winograd_case("same", lanes, size=(height, width)), x[:, :, :height, :width]
        got = unblock_channels(kernel.run(case, [block_channels(data, lanes), filters]), out)
        if height < 40:
            assert_near(got, convolve(data, w, (1, 1), padding, (1, 1)))
        else:
            assert np.isnan(got).all()


@pytest.mark.parametrize("channels", [16, 64, 512])
@pytest.mark.parametrize("target", targets_here())
def test_unknown_sizes_take_blocks_as_large(target: str, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All filters are read again for each block; code that layers of other channels share fits onto the stack all the same."""
    monkeypatch.setitem(ROWS, "wide", (channels, channels, (96, 96), (1, 1, 1, 1), 1))
    case = winograd_case("wide", Target.parse(target).lanes("float32"))
    call = of_any_size(case).call(target)
    known, unknown = winograd.problem_of(case.call(target)), winograd.problem_of(call)
    assert most_tiles(unknown, 1) == most_tiles(known, 1) > 1
    variant = winograd.variant(call)
    assert variant is not None
    build(winograd.conv2d_winograd_nchwc(replace(call, numbers=tuple(map(E.const, variant.numbers)))), target)


@pytest.mark.parametrize("tile", ERRORS)
@pytest.mark.parametrize("target", targets_here())
def test_data_of_bfloat16(target: str, tile: int) -> None:
    inner, out, image, padding, batch = ROWS["same"]
    lanes, narrow = Target.parse(target).lanes("float32"), dtypes.numpy_dtype("bfloat16")
    x, w = normal(batch, inner, *image).astype(narrow), normal(out, inner, 3, 3)
    case = winograd_case("same", lanes, tile=tile)
    case.operands[0] = Spec(case.operands[0].shape, "bfloat16")
    case = replace(case, result=Spec(case.result.shape, "bfloat16"))
    got = run(case, [block_channels(x, lanes), transformed(w, lanes, tile)], target)
    want = convolve(x.astype(np.float32), w, (1, 1), padding, (1, 1))
    assert got.dtype == narrow
    error = ERRORS[tile] * np.abs(want).max()  # of the sums, before they are rounded
    np.testing.assert_allclose(unblock_channels(got.astype(np.float32), out), want, rtol=2**-8, atol=error)


@pytest.mark.parametrize("limit", [24, 40, 64, 100])
def test_blocks_that_tiles_do_not_divide(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "STACK_LIMIT", limit << 10)
    inner, out, image, padding, batch = ROWS["same"]
    x, w = normal(batch, inner, *image), normal(out, inner, 3, 3)
    got = run(winograd_case("same", 8), [block_channels(x, 8), transformed(w, 8)], "llvm -mcpu=x86-64-v3 -num-cores=3")
    assert_near(unblock_channels(got, out), convolve(x, w, (1, 1), padding, (1, 1)))


@pytest.mark.parametrize("target", targets_here())
def test_prologue_and_epilogue(target: str) -> None:
    inner, out, image, padding, batch = ROWS["same"]
    lanes = Target.parse(target).lanes("float32")
    x, w = normal(batch, inner, *image), normal(out, inner, 3, 3)
    bias = normal(-(-out // lanes), 1, 1, lanes)
    case = winograd_case("same", lanes, prologues={0: lambda v: E.binary("max", v + 1.0, 0.0)},
                         epilogue=lambda v, extra: E.binary("max", v + extra(0), 0.0), extras=[Spec(bias.shape)])
    got = run(case, [block_channels(x, lanes), transformed(w, lanes), bias], target)
    want = convolve(np.maximum(x + 1, 0), w, (1, 1), padding, (1, 1)) + bias.reshape(-1)[:out, None, None]
    assert_near(unblock_channels(got, out), np.maximum(want, 0))


def test_symbolic_batch() -> None:
    n = E.var("n")
    inner, out, image, padding, _ = ROWS["same"]
    kernel = build(winograd_case("same", 16, n, symbols=(n,)).function("llvm"), "llvm")
    w = normal(out, inner, 3, 3)
    for batch in (1, 4):
        x = normal(batch, inner, *image)
        want = convolve(x, w, (1, 1), padding, (1, 1))
        y = guarded(np.zeros((batch, 3, *want.shape[2:], 16), np.float32))
        kernel(guarded(block_channels(x, 16)), guarded(transformed(w, 16)), y, batch)
        assert_near(unblock_channels(y, out), want)


def test_strides_are_refused() -> None:
    case = winograd_case("same", 16)
    case.attrs["strides"] = (2, 2)
    with pytest.raises(CompileError, match="Winograd"):
        case.function("llvm")


BYTES = {**{name: row for name, row in ROWS.items() if name not in DILATIONS},
         "most channels": (0, 16, (4, 4), (1, 1, 1, 1), 1), "an odd number": (37, 16, (5, 7), (1, 1, 1, 1), 1)}
MAX_CHANNELS = {4: 1824, 8: 1536, 16: 768}
# A machine with AVX-512 and VNNI can run what is compiled for one without.
BYTE_TARGETS = [*targets_here(), *(["llvm -mcpu=x86-64-v4"] if Target.parse("llvm").has("avx512vnni") else [])]


def bytes_case(name: str, lanes: int) -> tuple[Case, list[np.ndarray], np.ndarray]:
    """A call, its operands, and the integers that are expected; numbers are extreme in the first channel, or in all."""
    inner, out, image, (top, left, bottom, right), batch = BYTES[name]
    inner = max(inner, lanes) if inner else MAX_CHANNELS[lanes]
    x, w = RNG.integers(0, 256, (batch, inner, *image), np.uint8), RNG.integers(-128, 128, (out, inner, 3, 3), np.int8)
    extreme = slice(0, inner if name == "most channels" else 1)
    x[:, extreme], w[:, extreme] = 255, -128
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=9)
    want = convolve(padded, w, (1, 1), (0, 0, 0, 0), (1, 1))
    data, weight = block_channels(x, lanes, 77), paired(pack_convolution(w, lanes, lanes), 2)
    case = Case("conv2d_nchwc", [Spec(data.shape, "uint8"), Spec(weight.shape, "int8")],
                Spec((batch, -(-out // lanes), *want.shape[2:], lanes), "int32"),
                {"strides": (1, 1), "padding": BYTES[name][3], "dilation": (1, 1), "in_channels": inner, "pad_value": 9})
    return case, [data, weight], want


def is_winograd(case: Case, target: str) -> bool:
    return "patches" in print_function(case.function(target))


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_summed_exactly(target: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same integers as the direct sum, also where everything is as large as it can be."""
    monkeypatch.setattr(winograd_bytes, "MARGIN", 0)
    case, operands, want = bytes_case(name, Target.parse(target).lanes("float32"))
    assert is_winograd(case, target)
    np.testing.assert_array_equal(unblock_channels(run(case, operands, target), want.shape[1]), want)


def test_bytes_that_are_summed_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where four times a sum may not fit, and by default where images are small."""
    target = "llvm -mcpu=x86-64-v3"
    assert not is_winograd(bytes_case("one output", 8)[0], target)
    monkeypatch.setattr(winograd_bytes, "MARGIN", 0)
    monkeypatch.setitem(BYTES, "too many", (1832, 16, (4, 4), (1, 1, 1, 1), 1))
    assert not is_winograd(bytes_case("too many", 8)[0], target)


def test_choice_for_bytes_can_be_measured() -> None:
    case, _, _ = bytes_case("same", 8)
    target = Target.parse("llvm -mcpu=x86-64-v3")
    for tile in (0, 2):
        chosen = replace(target, choices=Choices({"winograd 2 x 24 x 40 x 13 x 11 uint8": f"{tile}"}))
        assert ("patches" in print_function(case.function(chosen))) == bool(tile)
