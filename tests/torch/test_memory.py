"""Graphs that write, read bits, and overlap under ``torch.compile``, and operators on lists of tensors, next to eager torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {}


def function(case: Callable[[Any], Any]) -> Callable[[Any], Any]:
    FUNCTIONS[case.__name__] = case
    return case


@function
def bitcast_read(x: Any) -> Any:
    return x.view(torch.int32) + 1


@function
def bitcast_then_write(x: Any) -> Any:
    y = x.clone()
    z = y.view(torch.int32)
    y.add_(1)
    return y, z


@function
def bitcast_write_through(x: Any) -> Any:
    y = x.clone()
    y.view(torch.int32).bitwise_and_(-65536)
    return y


@function
def bitcast_write_through_arg(x: Any) -> Any:
    x.view(torch.int32).add_(1)
    return x * 2


@function
def bitcast_size(x: Any) -> Any:
    return x.view(torch.int16)


@function
def bitcast_size2(x: Any) -> Any:
    return x.to(torch.bfloat16).contiguous().view(torch.float32)


@function
def bitcast_bytes(x: Any) -> Any:
    return x.view(torch.uint8)


@function
def bitcast_bytes_write(x: Any) -> Any:
    y = x.clone()
    y.view(torch.uint8)[..., 3] = 0
    return y


@function
def bitcast_up_write(x: Any) -> Any:
    y = x.to(torch.bfloat16).contiguous()
    y.view(torch.int32).mul_(0)
    return y


@function
def bitcast_elsewhere(x: Any) -> Any:
    y = x.clone()
    z = x.view(torch.int32) * 2
    y.mul_(2)
    return y, z


@function
def bit64(x: Any) -> Any:
    return x.double().view(torch.int64)


@function
def bitcomplex(x: Any) -> Any:
    return torch.view_as_complex(x.reshape(-1, 2)).view(torch.float32)


@function
def foreach_add(x: Any) -> Any:
    return torch._foreach_add([x, x * 2], 1.0)


@function
def foreach_add_(x: Any) -> Any:
    a = [x.clone(), x * 2]
    torch._foreach_add_(a, [x, x], alpha=2)
    torch._foreach_mul_(a, 0.5)
    return a


@function
def foreach_norm(x: Any) -> Any:
    return torch._foreach_norm([x, x * 2])


@function
def foreach_more(x: Any) -> Any:
    return (
        torch._foreach_sqrt([x.abs()]),
        torch._foreach_lerp([x], [x + 1], 0.5),
        torch._foreach_addcmul([x], [x], [x], value=2.0),
        torch._foreach_maximum([x], 0.0),
    )


@function
def foreach_zero_(x: Any) -> Any:
    a = [x.clone()]
    torch._foreach_zero_(a)
    torch._foreach_copy_(a, [x])
    torch._foreach_clamp_min_(a, 0.1)
    return a


@function
def fill_diag(x: Any) -> Any:
    return x.clone().fill_diagonal_(3.0)


@function
def fill_diag_wrap(x: Any) -> Any:
    return torch.zeros(7, 3).fill_diagonal_(1.0, wrap=True) + x[:1, :3]


@function
def fill_diag3(x: Any) -> Any:
    return torch.zeros(3, 3, 3).fill_diagonal_(2.0) + x[0, 0]


@function
def cart(x: Any) -> Any:
    return torch.cartesian_prod(x[0], x[1, :2])


@function
def cart1(x: Any) -> Any:
    return torch.cartesian_prod(x[0])


@function
def cart3(x: Any) -> Any:
    return torch.cartesian_prod(x[0], x[1, :2], x[0, :3])


@function
def unfold_write(x: Any) -> Any:
    y = x.clone()
    y.unfold(1, 2, 2).mul_(2)
    return y


@function
def unfold_overlap_write(x: Any) -> Any:
    y = x.clone()
    y.unfold(1, 2, 1)[:, 0].mul_(2)
    return y


@function
def unfold_fill(x: Any) -> Any:
    y = x.clone()
    y.unfold(1, 3, 1).fill_(7.0)
    return y


@function
def unfold_read_after(x: Any) -> Any:
    y = x.clone()
    u = y.unfold(1, 2, 1)
    y.add_(1)
    return u * 1, y


@function
def bto_write(x: Any) -> Any:
    y = x.clone()
    b = y.broadcast_to(2, *y.shape)
    y.add_(1)
    return b * 1


@function
def bto_write_through(x: Any) -> Any:
    y = x[:1].clone()
    b = y.broadcast_to(3, y.shape[1])
    b[0].add_(1)
    return b * 1, y


@function
def expand_write(x: Any) -> Any:
    y = x.clone()
    y[:, :1].expand(-1, 4)[:, 0].add_(1)
    return y


@function
def expand_fill(x: Any) -> Any:
    y = x[:1].clone()
    y.expand(3, -1).zero_()
    return y


@function
def asstr(x: Any) -> Any:
    y = x.clone()
    torch.as_strided(y, (2, 2), (1, 1)).fill_(0.5)
    return y


@function
def foreach_lists(x: Any) -> Any:
    a = [x.clone(), x * 2]
    torch._foreach_add_(a, [1.0, 2.0])
    torch._foreach_addcdiv_(a, [x, x], [x.exp(), x.exp()], [0.5, 2.0])
    return torch._foreach_pow(a, [2.0, 3.0]), torch._foreach_minimum(a, [x, x]), torch._foreach_sub(a, 2.0)


@function
def einsum_that_moves_axes(x: Any) -> Any:
    y = x.clone()
    torch.einsum("ij->ji", y).mul_(3)
    return y


@function
def meshgrid_of_one(x: Any) -> Any:
    y = x[0].clone()
    z = torch.meshgrid(y, indexing="ij")[0]
    y.add_(1)
    return z, z.sum()


@function
def broadcast_together(x: Any) -> Any:
    row, y = torch.broadcast_tensors(x[0], x.clone())
    y.add_(1)
    return torch.broadcast_tensors(x[0], x)[1], y.sum(), row


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    x = torch.randn(3, 4)
    own = x.clone()
    with torch.no_grad():
        got, wanted = torch.compile(FUNCTIONS[name], backend="forge", fullgraph=True)(own), FUNCTIONS[name](x)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(own, x)


F = torch.nn.functional
REAL: list[Callable[[Any], Any]] = [
    lambda x: F.dropout(x, 0.5, False),
    lambda x: (F.dropout(x, 0.0, True)[1:], F.dropout(x[1:], 0.5, False)),
    lambda x: (torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Flatten()).eval()(x), x.sum()),
    lambda x: (x.view(torch.int32)[:, 1:], x.view(torch.int16)[:, 1::2], x.view(torch.uint8)[1:, 3]),
    lambda x: (x.view(torch.int64)[1:, 1:], x.view(torch.bfloat16).view(torch.float32)),
    lambda x: (torch.view_as_complex(x.view(-1, 2, 2)), x.sum()),
    lambda x: torch.view_as_complex(x.view(-1, 2, 2)).conj().imag,
    lambda x: [y := x * 2, y.view(torch.int32)[1:], y.view(torch.int64)],
    lambda x: (x.add_(1), x.view(torch.int32)),
]
COMPLEX: list[Callable[[Any], Any]] = [
    lambda x: x.conj(),
    lambda x: (x.mH[1:], x.sum()),
    lambda x: (torch.view_as_real(x)[1:], x.conj().conj()),
    lambda x: (x.real, x.imag[1:], x.sum()),
    lambda x: (x.conj().real, x.conj().imag),
    lambda x: [y := x * 2, y.conj(), y.conj().imag[1:]],
    lambda x: (x.mul_(2j), x.conj()),
]
CONJUGATED: list[Callable[[Any], Any]] = [
    lambda x: (x[1:], x.sum()), lambda x: (x.conj(), x.sum()), lambda x: (x.imag[1:], x.real, x.sum())]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(("case", "make"), [
    *((case, lambda: torch.randn(4, 4)[1:]) for case in REAL),
    *((case, lambda: torch.randn(4, 4, dtype=torch.complex64)[1:, 1:]) for case in COMPLEX),
    *((case, lambda: torch.randn(4, 4, dtype=torch.complex64).conj()) for case in CONJUGATED),
])  # fmt: skip
def test_writes_to_results_are_seen_in_arguments(case: Callable[[Any], Any], make: Callable[[], Any], dynamic: bool) -> None:
    x = make()
    own = x.clone() if not x.is_conj() else x.conj().clone().conj()
    with torch.no_grad():
        got = torch.compile(case, backend="forge", fullgraph=True, dynamic=dynamic)(own)
        results = [tree if isinstance(tree, tuple | list) else (tree,) for tree in (got, case(x))]
        assert any(_lies_in(result, x) for result in results[1]) or isinstance(got, list)
        for number, (result, wanted) in enumerate(zip(*results, strict=True)):
            assert _lies_in(result, own) == _lies_in(wanted, x) and (result is own) == (wanted is x)
            assert (result.is_conj(), result.is_neg()) == (wanted.is_conj(), wanted.is_neg())
            for tensor in (result, wanted):
                tensor.mul_(number + 2).add_(1)
        torch.testing.assert_close([*results[0], own], [*results[1], x], equal_nan=True)


def _lies_in(one: Any, other: Any) -> bool:
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def test_lists_of_arguments_that_are_written() -> None:
    def lerp(weights: Any, averages: Any) -> None:
        torch._foreach_lerp_(averages, weights, 0.1)

    weights, averages = ([torch.randn(2, 3), torch.randn(3)] for _ in range(2))
    wanted = [torch.lerp(a, w, 0.1) for a, w in zip(averages, weights)]
    with torch.no_grad():
        torch.compile(lerp, backend="forge", fullgraph=True)(weights, averages)
    torch.testing.assert_close(averages, wanted)
