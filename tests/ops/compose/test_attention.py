"""Attention with caches and heads, and rotary embeddings, against torch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose.attention import attention, rotary_embedding
from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import build, run, run_compiled

rng = np.random.default_rng(3)


def draw(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def composed(**options: Any) -> Any:
    return lambda g, q, k, v, mask=None: attention(g, q, k, v, mask=mask, **options).out


def torch_attention(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    tensors = [None if x is None else torch.from_numpy(x) for x in (q, k, v, mask)]
    result: np.ndarray = torch.nn.functional.scaled_dot_product_attention(*tensors, **options).numpy()
    return result


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("mask", "options"),
    [
        (None, {}),
        (None, {"is_causal": True}),
        (None, {"scale": 0.3}),
        (draw(5, 7), {}),
        (rng.integers(0, 2, (2, 1, 5, 7)).astype(bool), {}),
    ],
    ids=["plain", "causal", "scale", "added mask", "bool mask"],
)
def test_agrees_with_torch(mask: Any, options: dict[str, Any], symbolic: bool) -> None:
    operands = (draw(2, 4, 5, 8), draw(2, 4, 7, 8), draw(2, 4, 7, 6), mask)
    check(run(composed(**options), *operands, symbolic=symbolic)[0], torch_attention(*operands, **options), Accuracy.ACCUMULATING)


def test_grouped_heads_agree_with_torch() -> None:
    operands = (draw(2, 6, 5, 8), draw(2, 2, 7, 8), draw(2, 2, 7, 6))
    wanted = torch_attention(*operands, enable_gqa=True)
    check(run(composed(), *operands)[0], wanted, Accuracy.ACCUMULATING)


def test_heads_side_by_side() -> None:
    q, k, v = draw(2, 5, 6 * 8), draw(2, 7, 2 * 8), draw(2, 7, 2 * 4)
    apart = [x.reshape(2, x.shape[1], heads, -1).transpose(0, 2, 1, 3) for x, heads in ((q, 6), (k, 2), (v, 2))]
    (wanted,) = run(composed(), *apart)
    (got,) = run(composed(num_heads=6, num_kv_heads=2), q, k, v)
    assert np.array_equal(got, wanted.transpose(0, 2, 1, 3).reshape(2, 5, -1))


def with_cache(g: Composer, *values: Value) -> list[Value]:
    q, k, v, past_key, past_value = values
    result = attention(g, q, k, v, past_key=past_key, past_value=past_value, is_causal=True)
    return [result.out, result.key, result.value]


@pytest.mark.parametrize("symbolic", [False, True])
def test_steps_with_a_cache_give_what_the_whole_sequence_gives(symbolic: bool) -> None:
    q, k, v = draw(1, 3, 6, 4), draw(1, 3, 6, 4), draw(1, 3, 6, 4)
    (whole,) = run(composed(is_causal=True), q, k, v)
    keys, values = k[:, :, :0], v[:, :, :0]
    for first, last in ((0, 4), (4, 5), (5, 6)):
        new = [x[:, :, first:last] for x in (q, k, v)]
        out, keys, values = run_compiled(with_cache, *new, keys, values, symbolic=symbolic)
        check(out, whole[:, :, first:last], Accuracy.ACCUMULATING)
    assert np.array_equal(keys, k)
    assert np.array_equal(values, v)


def test_a_sole_cache_is_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match="both, or none"):
        build(lambda g, q, k, v, p: attention(g, q, k, v, past_key=p).out, [draw(1, 2, 3, 4)] * 4)


def test_rank_without_heads_is_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match="number of heads"):
        build(composed(), [draw(1, 3, 4)] * 3)


def complex_rotation(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Pairs (2k, 2k + 1) as complex numbers."""
    pairs = x.reshape(*x.shape[:-1], -1, 2).astype(np.float64)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)[:, None]
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


def halves_to_pairs(x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(x.shape)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotation_is_that_of_complex_numbers(interleaved: bool) -> None:
    x, angles = draw(2, 3, 5, 8), rng.uniform(0, 6, (2, 5, 4)).astype(np.float32)
    (got,) = run(lambda g, *v: rotary_embedding(g, *v, interleaved=interleaved), x, np.cos(angles), np.sin(angles))
    if not interleaved:
        x, got = halves_to_pairs(x), halves_to_pairs(got)
    check(got, complex_rotation(x, angles).astype(np.float32), Accuracy.ACCUMULATING)


def test_rotation_of_some_elements_by_position() -> None:
    x, angles = draw(1, 2, 3, 6), rng.uniform(0, 6, (9, 2)).astype(np.float32)
    positions = np.array([[7, 0, 3]])

    def compose(g: Composer, *values: Value) -> Value:
        x, cosines, sines, where = values
        return rotary_embedding(g, x, cosines, sines, positions=where, interleaved=True, rotated=4)

    (got,) = run_compiled(compose, x, np.cos(angles), np.sin(angles), positions)
    wanted = np.concatenate([complex_rotation(x[..., :4], angles[positions]), x[..., 4:]], -1)
    check(got, wanted.astype(np.float32), Accuracy.ACCUMULATING)


def test_an_odd_rotation_is_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match="even number"):
        build(lambda g, *v: rotary_embedding(g, *v), [draw(1, 2, 3, 5), draw(1, 3, 2), draw(1, 3, 2)])


def test_rotation_of_unknown_size_is_refused() -> None:
    with pytest.raises(OpAttributeUnimplemented, match="size of a head"):
        build(lambda g, *v: rotary_embedding(g, *v), [draw(1, 2, 3, 4), draw(1, 3, 2), draw(1, 3, 2)], symbolic=True)
