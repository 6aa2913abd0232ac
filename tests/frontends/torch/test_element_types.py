"""What operators do with element types for which torch has rules of their own, next to eager torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import forge  # noqa: E402
from forge.errors import OpAttributeUnimplemented  # noqa: E402

BYTES = torch.randint(0, 256, (2, 5, 13, 17), dtype=torch.uint8, generator=torch.manual_seed(0))
INTEGERS = torch.randint(-99, 99, (2, 3, 10, 7), generator=torch.manual_seed(0))
COMPLEX = torch.randn(4, 4, dtype=torch.complex64, generator=torch.manual_seed(0))


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def compiled(function: Any, *arguments: Any) -> Any:
    exported = torch.export.export(Calls(function), arguments)
    return forge.from_torch(exported, through_onnx=False).get_inference_function()(*(a.numpy() for a in arguments))


@pytest.mark.parametrize("name", ["uint8", "int8", "uint16", "int16", "uint32", "uint64"])
@pytest.mark.parametrize("source", ["float32", "float16", "float64"])
def test_floats_that_an_integer_type_does_not_have_keep_their_low_bits(source: str, name: str) -> None:
    x = torch.tensor([300.0, -1.0, -1.5, -0.5, 255.9, 60000.0, -40000.0, 127.0, -129.0], dtype=getattr(torch, source))
    dtype = getattr(torch, name)
    for function in (lambda x: x.to(dtype), lambda x: x.clamp(-2, 300).to(dtype), lambda x: torch.zeros(9, dtype=dtype).copy_(x)):
        np.testing.assert_array_equal(compiled(function, x), function(x).numpy())


@pytest.mark.parametrize("options", [{"size": (31, 40)}, {"size": (5, 4)}, {"scale_factor": (1.7, 0.6)}], ids=str)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_of_images(mode: str, corners: bool, options: dict[str, Any]) -> None:
    """torch rounds between the axes, with weights of 16 bits; so do we, bit by bit."""
    for more in ({"align_corners": corners}, *([] if corners else [{"antialias": True}])):
        np.testing.assert_array_equal(
            compiled(lambda x: functional.interpolate(x, mode=mode, **options, **more), BYTES),  # noqa: B023
            functional.interpolate(BYTES, mode=mode, **options, **more).numpy())


def test_bytes_of_unknown_sizes_are_refused() -> None:
    model = Calls(lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear"))
    exported = torch.export.export(model, (BYTES,), dynamic_shapes=(({2: torch.export.Dim("rows", min=4, max=64)},),))
    with pytest.raises(OpAttributeUnimplemented, match="supported: uint8 of known sizes, or floating point"):
        forge.from_torch(exported, through_onnx=False)


@pytest.mark.parametrize("options", [
    {"kernel_size": 3}, {"kernel_size": (7, 7)}, {"kernel_size": 3, "padding": 1, "stride": 2, "ceil_mode": True},
    {"kernel_size": (2, 3), "padding": (1, 0), "count_include_pad": False}, {"kernel_size": 3, "divisor_override": 4},
], ids=str)  # fmt: skip
def test_means_of_integers(options: dict[str, Any]) -> None:
    for x in (INTEGERS, INTEGERS // 99 * 49, INTEGERS * 2**40):
        np.testing.assert_array_equal(
            compiled(lambda x: functional.avg_pool2d(x, **options), x), functional.avg_pool2d(x, **options).numpy())


FACTORS: dict[str, Any] = {
    "addmm": lambda x: torch.addmm(x, x, x, beta=0.5 + 2j, alpha=1 - 1j),
    "addr": lambda x: torch.addr(x, x[0], x[1], beta=2j, alpha=3),
    "silu": functional.silu,
    "istft of both halves": lambda x: torch.istft(x, 4, onesided=False, window=torch.ones(4)),
}


@pytest.mark.parametrize("name", FACTORS)
def test_complex_numbers(name: str) -> None:
    np.testing.assert_allclose(compiled(FACTORS[name], COMPLEX), FACTORS[name](COMPLEX).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("real", [torch.float64, torch.float32, torch.int64])
@pytest.mark.parametrize("shapes", [((4,), (4,)), ((4,), ()), ((), (4,)), ((), ())], ids=str)
def test_types_of_complex_and_real_numbers(shapes: Any, real: Any) -> None:
    x, y = torch.ones(shapes[0], dtype=torch.complex64) * 4j, torch.full(shapes[1], 3, dtype=real)
    for function in (torch.add, torch.mul, lambda a, b: (a - b).abs(), lambda a, b: b * 2j):
        expected, got = function(x, y).numpy(), compiled(function, x, y)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_no_differences() -> None:
    np.testing.assert_array_equal(compiled(lambda x, y: torch.diff(x, n=0, prepend=y), INTEGERS, INTEGERS), INTEGERS.numpy())


@pytest.mark.parametrize("dtype", [
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
], ids=str)  # fmt: skip
def test_floats_of_eight_bits(dtype: torch.dtype) -> None:
    """Beyond the ends of the range they become the largest number, infinity or NaN, as the type says, and not the caller."""
    ends = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    numbers = torch.cat([ends, ends.nextafter(torch.tensor(torch.inf)), ends.nextafter(torch.tensor(-torch.inf))])
    for given in (numbers, numbers.half()):
        expected = given.to(dtype).float().numpy()
        got = np.asarray(compiled(lambda x: x.to(dtype).float(), given))
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[expected == 0]))
