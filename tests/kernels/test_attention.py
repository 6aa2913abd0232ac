"""Fused attention against NumPy in float64, at every vector width, for each way of masking and of blocking keys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forge import dtypes
from forge.ops.nn.fused_attention import FusedAttention, FusedAttentionAttrs
from forge.tir import expr as E
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import assert_close, guarded, run, targets_here

RNG = np.random.default_rng(5)
BFLOAT16 = dtypes.numpy_dtype("bfloat16")


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order() -> None:
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def truth(arrays: list[np.ndarray], attrs: FusedAttentionAttrs) -> np.ndarray:
    wide = [a if a.dtype == bool else a.astype(np.float64) for a in arrays]
    return np.asarray(FusedAttention().reference(attrs, *FusedAttention().arguments(wide))[0])


def check(arrays: list[np.ndarray], target: str, **options: object) -> None:
    attrs = FusedAttentionAttrs(**options)
    want = truth(arrays, attrs)
    specs = [Spec(a.shape, "bool" if a.dtype == bool else str(a.dtype)) for a in arrays]
    got = run(Case("attention", specs, Spec(want.shape, specs[0].dtype), vars(attrs)), arrays, target)
    assert_close(got, want, arrays[1].shape[-2] + arrays[0].shape[-1])


SHAPES = {
    "one row": ((2, 1, 16), (2, 9, 16), (2, 9, 16)),
    "odd": ((2, 3, 7, 5), (2, 3, 11, 5), (2, 3, 11, 6)),
    "heads": ((1, 2, 33, 64), (1, 2, 33, 64), (1, 2, 33, 64)),
    "wide values": ((70, 8), (20, 8), (20, 75)),
    "shared keys": ((2, 2, 3, 9, 8), (2, 1, 1, 17, 8), (2, 1, 17, 8)),
    "a token": ((2, 2, 3, 1, 16), (2, 2, 1, 200, 16), (2, 2, 1, 200, 48)),
    "few tokens": ((2, 3, 2, 16), (2, 1, 200, 16), (2, 1, 200, 16)),
    "many rows": ((450, 16), (37, 16), (37, 16)),
    "several blocks of keys": ((13, 8), (700, 8), (700, 24)),
    "one key": ((5, 4), (1, 4), (1, 4)),
}


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", SHAPES)
def test_matches_numpy(target: str, name: str) -> None:
    query, key, value = SHAPES[name]
    check([normal(*query), normal(*key), normal(*value)], target, scale=0.4)


@pytest.mark.parametrize("target", targets_here())
def test_float64(target: str) -> None:
    check([RNG.standard_normal(s) for s in ((9, 8), (19, 8), (19, 10))], target)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", [*SHAPES, "odd depth", "transposed key"])
def test_bfloat16(target: str, name: str) -> None:
    """Scores carry the rounding of nothing but their sums; exponentials are rounded to 8 bits."""
    shapes = SHAPES.get(name) or ((7, 6 if name == "transposed key" else 5), (9, 6 if name == "transposed key" else 5), (9, 3))
    arrays = [normal(*shape).astype(BFLOAT16) for shape in shapes]
    if name == "transposed key":
        arrays[1] = np.ascontiguousarray(arrays[1].swapaxes(-1, -2))
    attrs = FusedAttentionAttrs(scale=0.4, transpose_key=name != "transposed key")
    want = truth([a.astype(np.float64) for a in arrays], attrs)
    case = Case("attention", [Spec(a.shape, "bfloat16") for a in arrays], Spec(want.shape, "bfloat16"), vars(attrs))
    got = run(case, arrays, target).astype(np.float64)
    bound = np.abs(arrays[2].astype(np.float64)).max()
    assert np.abs(got - want).max() <= 2**-8 * np.abs(want).max() + 2**-9 * bound


@pytest.mark.parametrize("target", targets_here())
def test_bfloat16_with_masks_and_odd_numbers_of_keys_at_run_time(target: str) -> None:
    n, s = E.var("n"), E.var("s")
    case = Case("attention", [Spec((n, 8), "bfloat16"), Spec((s, 8), "bfloat16"), Spec((s, 10), "bfloat16"), Spec((n, s))],
                Spec((n, 10), "bfloat16"), vars(FusedAttentionAttrs(scale=0.3, softcap=4.0)), symbols=(n, s))
    kernel = build(case.function(target), target)
    for length, keys in ((1, 1), (3, 17), (40, 600), (9, 1031)):
        arrays = [normal(length, 8), normal(keys, 8), normal(keys, 10)]
        arrays = [a.astype(BFLOAT16) for a in arrays]
        mask = np.where(np.arange(keys) > np.arange(length)[:, None] + keys - length, -np.inf, normal(length, keys))
        result = guarded(np.zeros((length, 10)), "bfloat16")
        kernel(*[guarded(a, "bfloat16") for a in arrays], guarded(mask), result, length, keys)
        want = truth([a.astype(np.float64) for a in (*arrays, mask)], FusedAttentionAttrs(scale=0.3, softcap=4.0))
        assert np.abs(result.astype(np.float64) - want).max() <= 0.03


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("keys", [21, 650])
@pytest.mark.parametrize("mask", [(2, 3, 7, None), (1, 1, 7, None), (None,), (2, 1, 1, None), (7, 1), ()], ids=str)
def test_masks_broadcast(target: str, keys: int, mask: tuple[int | None, ...]) -> None:
    shape = tuple(keys if extent is None else extent for extent in mask)
    arrays = [normal(2, 3, 7, 8), normal(2, 3, keys, 8), normal(2, 3, keys, 12)]
    check([*arrays, normal(*shape)], target)
    if shape and shape[-1] == keys:
        visible = RNG.random(shape) < 0.7
        visible[..., 0] = True
        check([*arrays, visible], target, fill=-math.inf)
        check([*arrays, visible], target, fill=-3.4028235e38)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("mask", [(1, 1, 1, 1, None), (2, 1, 3, 1, None), (2, 2, 1, "n", None), ("n", None), ()], ids=str)
def test_masks_of_tokens(target: str, mask: tuple[int | str | None, ...]) -> None:
    """One row of each head, or several: their number is known at run time."""
    n, s = E.var("n"), E.var("s")
    sizes: dict[int | str | None, E.Expr] = {"n": n, None: s}
    attrs = FusedAttentionAttrs(scale=0.3, softcap=4.0, inner=2)
    specs = [Spec((2, 2, 3, n, 16)), Spec((2, 2, 1, s, 16)), Spec((2, 2, 1, s, 32)), Spec(tuple(sizes.get(d, d) for d in mask))]
    kernel = build(Case("attention", specs, Spec((2, n, 2, 3, 32)), vars(attrs), symbols=(n, s)).function(target), target)
    for length, keys in ((1, 1), (1, 21), (1, 650), (5, 40), (7, 512), (33, 600)):
        lengths = {"n": length, None: keys}
        bias = normal(*(lengths.get(d, d) for d in mask))  # type: ignore[arg-type]
        arrays = [normal(2, 2, 3, length, 16), normal(2, 2, 1, keys, 16), normal(2, 2, 1, keys, 32), bias]
        arrays[3] = np.where(np.arange(keys) < keys // 3, np.float32(-np.inf), arrays[3]) if mask else arrays[3]
        result = np.full((2, length, 2, 3, 32), 7, np.float32)
        kernel(*[guarded(a) for a in arrays], result, length, keys)
        assert_close(result, truth(arrays, attrs), keys + 16)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("keys", [20, 1100])
def test_late_keys_outweigh_early_ones(target: str, keys: int) -> None:
    query, key, value = (np.round(normal(n, 8) * 8) / 8 for n in (9, keys, keys))  # scores are exact
    check([query, key, value, np.round(np.linspace(-80, 80, keys, dtype=np.float32))], target)
    check([query, key, value, np.where(np.arange(keys) < keys - 3, -np.inf, 0).astype(np.float32)], target)


def hidden(kind: str, rows: int, keys: int) -> np.ndarray:
    """Which keys a row may not see."""
    i, j = np.arange(rows)[:, None] + max(keys - rows, 0), np.arange(keys)
    return {
        "causal": j > i, "window": (j > i) | (j < i - 30),
        "first half": j + 0 * i < keys // 2, "last half": j + 0 * i >= keys // 2,
        "all of some rows": (i % 3 == 0) | (j > i), "everything": j + i >= 0, "every other": (i + j) % 2 == 0,
    }[kind]


HIDDEN = ["causal", "window", "first half", "last half", "all of some rows", "everything", "every other"]


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("rows", "keys"), [(70, 70), (100, 1100)])
@pytest.mark.parametrize("fill", [-math.inf, -3.4028235e38, -1e9])
@pytest.mark.parametrize("as_bool", [False, True])
def test_hidden_keys_are_left_out(target: str, rows: int, keys: int, fill: float, as_bool: bool) -> None:
    attrs = FusedAttentionAttrs(fill=fill, zero_unseen=fill == -math.inf)
    arrays = [normal(2, rows, 8), normal(2, keys, 8), normal(2, keys, 8)]
    specs = [*(Spec(a.shape) for a in arrays), Spec((rows, keys), "bool" if as_bool else "float32")]
    kernel = build(Case("attention", specs, Spec((2, rows, 8)), vars(attrs)).function(target), target)
    for kind in HIDDEN:
        masked = hidden(kind, rows, keys)
        if fill == -1e9 and not as_bool and masked.all(axis=1).any():
            continue  # its sum with a score is rounded
        mask = ~masked if as_bool else np.where(masked, np.float32(fill), normal(rows, keys))
        result = np.full((2, rows, 8), 7, np.float32)
        kernel(*[guarded(a, str(a.dtype)) for a in (*arrays, mask)], result)
        if kind == "everything" and fill == -math.inf:
            assert not result.any()
        else:
            assert_close(result, truth([*arrays, mask], attrs), keys)


@pytest.mark.parametrize("rows", [1, 40])
def test_a_mask_for_all_rows_hides_keys(rows: int) -> None:
    arrays, padded = [normal(2, rows, 8), normal(2, 1100, 8), normal(2, 1100, 8)], np.arange(1100) >= 77
    for lowest in (-np.inf, -3.4028235e38):
        check([*arrays, np.where(padded, np.float32(lowest), 0)], "llvm")
        check([*arrays, ~padded[None]], "llvm", fill=lowest)
    assert_hidden_values_do_not_matter(arrays, padded)


def assert_hidden_values_do_not_matter(arrays: list[np.ndarray], padded: np.ndarray) -> None:
    """That hidden keys are not read, but for those in a vector with others, shows in numbers that would spoil every sum."""
    attrs = FusedAttentionAttrs()
    case = Case("attention", [*(Spec(a.shape) for a in arrays), Spec(padded.shape, "bool")], Spec(arrays[0].shape), vars(attrs))
    spoiled = [a.copy() for a in arrays]
    for a in spoiled[1:]:
        a[:, (np.argmax(padded) + 15) // 16 * 16:] = np.nan
    assert np.array_equal(run(case, [*spoiled, ~padded], "llvm"), run(case, [*arrays, ~padded], "llvm"))


@pytest.mark.parametrize("keys", [20, 1100])
@pytest.mark.parametrize("zero_unseen", [False, True])
def test_rows_that_see_nothing(keys: int, zero_unseen: bool) -> None:
    visible = np.ones((9, keys), bool)
    visible[4] = False
    arrays = [normal(9, 8), normal(keys, 8), normal(keys, 8), visible]
    attrs = FusedAttentionAttrs(zero_unseen=zero_unseen)
    case = Case("attention", [*(Spec(a.shape) for a in arrays[:3]), Spec(visible.shape, "bool")], Spec((9, 8)), vars(attrs))
    got, want = run(case, arrays, "llvm"), truth(arrays, attrs)
    assert np.array_equal(got[4], np.full(8, 0 if zero_unseen else np.nan), equal_nan=True)
    others = np.arange(9) != 4
    assert_close(got[others], want[others], keys)


@pytest.mark.parametrize("keys", [20, 1100])
def test_nan_and_infinite_scores_make_their_row_nan(keys: int) -> None:
    bias = np.zeros((9, keys), np.float32)
    bias[2, 5], bias[3, keys - 1], bias[6, 1] = np.nan, np.inf, np.inf
    arrays = [normal(9, 8), normal(keys, 8), normal(keys, 8), bias]
    specs = [Spec(a.shape) for a in arrays]
    got = run(Case("attention", specs, Spec((9, 8)), vars(FusedAttentionAttrs())), arrays, "llvm")
    assert np.isnan(got).all(axis=1).tolist() == [i in (2, 3, 6) for i in range(9)]
    assert not np.isnan(got[[0, 1, 4, 5, 7, 8]]).any()


@pytest.mark.parametrize("target", targets_here())
def test_options(target: str) -> None:
    query, key, value = normal(2, 3, 9, 8), normal(2, 3, 30, 8), normal(2, 3, 30, 8)
    check([query, key, value], target, softcap=1.5, scale=2.0)
    check([query, np.ascontiguousarray(key.swapaxes(-1, -2)), value], target, transpose_key=False)
    check([query, key, value], target, inner=1)
    check([query, key, value], target, inner=2)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("length", "keys"), [(1, 1), (1, 37), (5, 5), (13, 600), (100, 3), (0, 3), (6, 512), (6, 513)])
def test_sizes_known_at_run_time(target: str, length: int, keys: int) -> None:
    n, s = E.var("n"), E.var("s")
    case = Case("attention", [Spec((2, n, 8)), Spec((2, s, 8)), Spec((2, s, 10)), Spec((n, s))], Spec((n, 2, 10)),
                vars(FusedAttentionAttrs(inner=1)), symbols=(n, s))
    arrays = [normal(2, length, 8), normal(2, keys, 8), normal(2, keys, 10), normal(length, keys)]
    want = truth(arrays, FusedAttentionAttrs(inner=1))
    result = guarded(np.full(want.shape, 7, np.float32))
    build(case.function(target), target)(*[guarded(a) for a in arrays], result, length, keys)
    if length:
        assert_close(result, want, keys + 8)


def test_no_keys_give_zero() -> None:
    s = E.var("s")
    case = Case("attention", [Spec((4, 8)), Spec((s, 8)), Spec((s, 8))], Spec((4, 8)), vars(FusedAttentionAttrs()), symbols=(s,))
    result = guarded(np.full((4, 8), 7, np.float32))
    build(case.function(), "llvm")(normal(4, 8), normal(0, 8), normal(0, 8), result, 0)
    assert not result.any()
