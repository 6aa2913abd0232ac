"""Products of float16 in tile registers, and in float32 where those do not take them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from forge.backends import core_rates
from forge.codegen.module import emit_module, llvm_features
from forge.ir.op import Accuracy
from forge.kernels.layouts import CpuLayouts
from forge.target import Target
from forge.target.blocking import group_size
from forge.tir import interpret
from tests.kernels.case import Case, Spec
from tests.kernels.emulated_tiles import EMULATED
from tests.kernels.in_tiles import CONVOLUTIONS, SIZES, convolution, expect, of_unknown_size, packed, results, targets
from tests.kernels.support import run
from tests.ops.compare import check, mismatch
from tests.passes.checks import parse

pytestmark = pytest.mark.usefixtures("narrow_layers", "products")
RNG = np.random.default_rng(7)
AVX512 = "llvm -mcpu=x86-64-v4"
TARGETS = [*targets("float16"), *([] if Target.parse(AVX512).missing_on_host() else [f"{AVX512} {EMULATED}"])]
WITH, WITHOUT = "llvm -mcpu=graniterapids", "llvm -mcpu=sapphirerapids"


def normal(*shape: int, dtype: type = np.float16) -> np.ndarray:
    """Numbers that float16 holds."""
    return RNG.standard_normal(shape).astype(np.float16).astype(dtype)


def assert_narrow(found: np.ndarray, want: np.ndarray) -> None:
    """Equal up to float16's share of the accuracy of sums."""
    wrong = mismatch(found, want, Accuracy.ACCUMULATING, "float16")
    assert wrong is None, wrong


def dense(x: np.ndarray, weight: np.ndarray, target: str, dtype: str = "float16") -> tuple[Case, list[np.ndarray]]:
    """A dense layer with a weight [N, K] in pairs, and its operands."""
    (rows, depth), units = x.shape, len(weight)
    w = packed(weight, 2, CpuLayouts(Target.parse(target)).dense_panel("float16", units, rows, depth))
    case = Case("dense_pack", [Spec(x.shape, dtype), Spec(w.shape, "float16")], Spec((rows, units)), {"units": units})
    return case, [x, w]


def product(a: np.ndarray, b: np.ndarray, transpose_a: bool, transpose_b: bool) -> tuple[Case, list[np.ndarray]]:
    """A batch of products, and its operands."""
    given = [np.ascontiguousarray(x.swapaxes(1, 2)) if turned else x for x, turned in ((a, transpose_a), (b, transpose_b))]
    return Case("matmul", [Spec(x.shape, "float16") for x in given], Spec((len(a), a.shape[1], b.shape[2])),
                {"transpose_a": transpose_a, "transpose_b": transpose_b}), given


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("rows", "depth", "units", "in_tiles"), [
    *((*size, size[0] > 1) for size in SIZES), (20, 34, 40, False), (9, 2, 16, False)])
def test_dense(
    rows: int, depth: int, units: int, in_tiles: bool, dtype: str, target: str, products: Callable[[], int]
) -> None:
    x, weight = normal(rows, depth), normal(units, depth)
    case, (_, w) = dense(x, weight, target, dtype)
    want = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(run(case, [x.astype(dtype), w], target), want, rtol=1e-5, atol=1e-5 * np.sqrt(depth))
    expect(products, target, in_tiles)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 16, 50])
def test_a_graph_with_the_option(rows: int, target: str, products: Callable[[], int]) -> None:
    text = f"def @main(%x: Tensor[({rows}, 64), float32]) {{ nn.relu(nn.dense(%x, meta[relay.Constant][0])) }}"
    weight, x = normal(50, 64, dtype=np.float32), normal(rows, 64, dtype=np.float32)
    assert_narrow(*results(parse(text, [weight]), target, x, float16=True))
    expect(products, target, rows > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_a_graph_of_float16(rows: int, target: str, products: Callable[[], int]) -> None:
    text = f"""def @main(%x: Tensor[({rows}, 64), float16], %y: Tensor[(40, 30), float16]) {{
      %0 = nn.dense(%x, meta[relay.Constant][0]);
      nn.matmul(%0, %y)
    }}"""
    check(*results(parse(text, [normal(40, 64)]), target, normal(rows, 64), normal(40, 30)), Accuracy.ACCUMULATING)
    expect(products, target, rows > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 2, 45])
def test_rows_of_a_number_known_at_run_time_only(rows: int, target: str, products: Callable[[], int]) -> None:
    """One row is multiplied by the same weights in pairs."""
    graph = parse("def @main(%x: Tensor[(n, 128), float32]) { nn.dense(%x, meta[relay.Constant][0]) }",
                  [normal(50, 128, dtype=np.float32)])
    assert_narrow(*results(graph, target, normal(rows, 128, dtype=np.float32), float16=True))
    expect(products, target, rows > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
@pytest.mark.parametrize(("rows", "depth", "columns"), [
    (9, 40, 21), (32, 128, 64), (70, 1300, 50), (17, 2, 16), (19, 197, 64), (40, 1301, 21), (1, 64, 33)])
def test_matmul(
    rows: int, depth: int, columns: int, transposed: tuple[bool, bool], target: str, products: Callable[[], int]
) -> None:
    a, b = normal(2, rows, depth), normal(2, depth, columns)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(run(*product(a, b, *transposed), target), want, rtol=1e-5, atol=1e-5 * np.sqrt(depth))
    expect(products, target, rows > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 40, 21), (20, 41, 50), (33, 1027, 16), (5, 1, 7)])
def test_matmul_of_unknown_sizes(
    rows: int, depth: int, columns: int, transposed: bool, target: str, products: Callable[[], int]
) -> None:
    right = "n, k" if transposed else "k, n"
    graph = parse(f"""def @main(%a: Tensor[(2, m, k), float32], %b: Tensor[(2, {right}), float32]) {{
      nn.matmul(%a, %b, transpose_b={transposed})
    }}""", [])
    b = normal(2, columns, depth) if transposed else normal(2, depth, columns)
    assert_narrow(*results(graph, target, normal(2, rows, depth, dtype=np.float32), b.astype(np.float32), float16=True))
    expect(products, target, rows > 1 and depth > 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("unknown", ["", "nhw"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, unknown: str, target: str, products: Callable[[], int]) -> None:
    shape, taps, attributes = convolution(name)
    image = of_unknown_size(shape, unknown)
    text = f"def @main(%x: Tensor[{image}, float32]) {{ nn.conv2d(%x, meta[relay.Constant][0], {attributes}) }}"
    x, weight = normal(*shape, dtype=np.float32), normal(*taps, dtype=np.float32)
    assert_narrow(*results(parse(text, [weight]), target, x, float16=True))
    expect(products, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("operator", "data", "shape", "taps"), [
    ("nn.conv3d", "1, 7, 5, 6, 7", (1, 7, 5, 6, 7), (9, 7, 3, 3, 3)),
    ("nn.conv2d_transpose", "1, 16, 9, 7", (1, 16, 9, 7), (16, 20, 3, 3))])
def test_convolutions_that_tile_registers_do_not_take(
    operator: str, data: str, shape: tuple[int, ...], taps: tuple[int, ...], target: str, products: Callable[[], int]
) -> None:
    moves = f"strides={[2] * (len(taps) - 2)}, padding={[1] * (2 * len(taps) - 4)}"
    text = f"def @main(%x: Tensor[({data}), float32]) {{ {operator}(%x, meta[relay.Constant][0], {moves}) }}"
    x, weight = normal(*shape, dtype=np.float32), normal(*taps, dtype=np.float32)
    assert_narrow(*results(parse(text, [weight]), target, x, float16=True))
    expect(products, target, used=False)


def special(*shape: int) -> np.ndarray:
    """Numbers of all magnitudes, many subnormal ones, infinities and NaN."""
    values = (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-25, 14, shape)).astype(np.float16)
    places = RNG.integers(0, 60, shape)
    for number, value in enumerate((np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0**-24, -(2.0**-15), 65504.0)):
        values[places == number] = value
    return values


@pytest.mark.parametrize("target", TARGETS)
def test_the_interpreter_and_the_machine_agree_to_the_bit(target: str, products: Callable[[], int]) -> None:
    x, weight = special(19, 64), special(20, 64)
    x[:9], weight[:9] = normal(9, 64), normal(9, 64)
    x[9:12], weight[9:12] = (RNG.integers(-1023, 1024, (2, 3, 64)) * 2.0**-24).astype(np.float16)
    case, operands = dense(x, weight, target)
    meaning = np.zeros((19, 20), np.float32)
    interpret.run(case.function(target), [*operands, meaning])
    found = run(case, operands, target)
    np.testing.assert_array_equal(found, meaning)  # NaN has no sign that counts
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(meaning[meaning == 0]))
    assert {"nan", "inf", "-inf"} <= set(map(str, found.ravel().tolist()))
    expect(products, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 3])
def test_subnormal_numbers_are_not_lost(rows: int, target: str, products: Callable[[], int]) -> None:
    """The smallest product of float16 is far from the smallest float32."""
    x, weight = (np.full((count, 64), 2.0**-24, np.float16) for count in (rows, 16))
    case, operands = dense(x, weight, target)
    np.testing.assert_array_equal(run(case, operands, target), np.full((rows, 16), 64 * 2.0**-48, np.float32))
    expect(products, target, rows > 1)


def assembly(case: Case, target: str) -> str:
    """The code of a kernel, as text."""
    import llvmlite.binding as llvm

    parsed = Target.parse(target)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-linux-gnu").create_target_machine(
        cpu=parsed.cpu, features=llvm_features(parsed), opt=3)
    return machine.emit_assembly(llvm.parse_assembly(emit_module([case.function(target)], parsed)))


CASES: dict[str, Callable[[], Case]] = {
    "dense": lambda: dense(normal(40, 64), normal(40, 64), WITH)[0],
    "matmul": lambda: product(normal(2, 40, 64), normal(2, 64, 40), False, True)[0],
    "convolution": lambda: Case(
        "conv2d_nchwc", [Spec((1, 1, 9, 11, 16), "float16"), Spec((2, 1, 3, 3, 8, 16, 2), "float16")], Spec((1, 2, 9, 11, 16)),
        {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "in_channels": 16, "pad_value": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_granite_rapids_has_the_instruction(name: str) -> None:
    case = CASES[name]()
    assert "tdpfp16ps" in assembly(case, WITH) and "tdpfp16ps" not in assembly(case, WITHOUT)


def test_which_targets_have_pairs() -> None:
    pairs = {WITH: 2, WITHOUT: 1, f"{WITH} -mattr=-amx-fp16": 1, "llvm -mcpu=x86-64-v3": 1, "llvm -mcpu=znver5": 1, TARGETS[0]: 2}
    assert {target: group_size(Target.parse(target), "float16", "float16") for target in pairs} == pairs
    assert group_size(Target.parse(WITH), "float16", "float16", tiles=False) == 1
    assert group_size(Target.parse(WITH), "bfloat16", "bfloat16", tiles=False) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_the_rate_of_products_can_be_measured(target: str, products: Callable[[], int]) -> None:
    parsed = Target.parse(target)
    memory = np.full(256, np.nan, np.float32)
    assert core_rates.native(parsed, core_rates.tile_products(parsed, 3, "dot_f16"))(memory.ctypes.data) == 0
    assert products() == (3 * 4 if EMULATED in target else 0)
    assert not memory.any()
