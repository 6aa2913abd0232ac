"""Factors of matrices and functions of matrices next to eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forge.errors import OpAttributeUnimplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from tests.frontends.torch.test_layers_torch import check  # noqa: E402
from tests.torch_databases.cases import Call  # noqa: E402
from tests.torch_databases.compare import run  # noqa: E402

Dim = torch.export.Dim
SHAPES = [(4, 4), (5, 3), (3, 5), (1, 4), (4, 1), (2, 3, 6, 4), (3, 1, 1), (2, 0, 3), (0, 3, 3)]


def uniform(*shape: int, dtype: Any = torch.float64) -> Any:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype) * 2 - 1


def call(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """The module that applies ``function``; checked."""
    return check(Call(function, (operands, options)), tuple(o for o in operands if isinstance(o, torch.Tensor)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lu(shape: tuple[int, ...], dtype: Any) -> None:
    a = uniform(*shape, dtype=dtype)
    call(torch.linalg.lu, a)
    call(torch.linalg.lu_factor, a)
    call(torch.linalg.lu_factor_ex, a)
    call(torch.lu_unpack, *torch.linalg.lu_factor(a))


def test_lu_of_singular_matrices() -> None:
    """``info`` is the first pivot that is 0, and rows without a pivot stay where they are."""
    a = uniform(3, 4, 4)
    a[0, :, 2] = 0
    a[1] = 0
    a[2, 3] = a[2, 1]
    a[2, 2] = -a[2, 1]
    a[2, 2, 0] = a[2, 1, 0]
    call(torch.linalg.lu_factor_ex, a[:2])
    call(torch.linalg.lu_factor_ex, a[2])


def test_lu_takes_the_first_of_equal_pivots() -> None:
    call(torch.linalg.lu, torch.tensor([[2.0, 1, 5], [-2, 4, 1], [2, 3, 3]]))


@pytest.mark.parametrize("options", [{"unpack_data": False}, {"unpack_pivots": False}])
def test_lu_unpack_of_parts(options: dict[str, Any]) -> None:
    call(torch.lu_unpack, *torch.linalg.lu_factor(uniform(2, 5, 3)), **options)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("shapes", [((4, 4), (4, 3)), ((2, 3, 5, 5), (3, 5, 2)), ((3, 3), (2, 3, 4)), ((1, 1), (1, 5))])
def test_lu_solve(shapes: Any, left: bool, adjoint: bool) -> None:
    a, b = (uniform(*shape) for shape in shapes)
    call(torch.linalg.lu_solve, *torch.linalg.lu_factor(a), b if left else b.mT.contiguous(), left=left, adjoint=adjoint)
    if left and not adjoint:
        call(torch.lu_solve, b, *torch.linalg.lu_factor(a))


def test_lu_of_sizes_known_at_run_time() -> None:
    def solve(a: Any, b: Any) -> Any:
        factors, pivots = torch.linalg.lu_factor(a)
        return torch.linalg.lu_solve(factors, pivots, b), torch.linalg.slogdet(a)

    given = (uniform(2, 4, 4), uniform(2, 4, 3))
    others = ((uniform(5, 6, 6), uniform(5, 6, 2)),)
    batch, size, columns = Dim("batch"), Dim("size", min=2), Dim("columns")
    check(Call(solve, (given, {})), given, others, shapes=(({0: batch, 1: size, 2: size}, {0: batch, 1: size, 2: columns}),))


def test_lu_without_pivoting_is_refused() -> None:
    exported = torch.export.export(Call(torch.linalg.lu, ((uniform(3, 3),), {"pivot": False})), (uniform(3, 3),))
    with pytest.raises(OpAttributeUnimplemented, match=r"linalg_lu.*got pivot=False; supported: with pivoting"):
        import_model(exported)


def symmetric(*shape: int, dtype: Any = torch.float64) -> Any:
    """Matrices with pivots of one and of two rows: their diagonals are small."""
    a = uniform(*shape, dtype=dtype)
    return a + a.mT - 1.8 * torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (5, 5), (6, 7, 7), (2, 3, 12, 12), (0, 3, 3), (2, 0, 0), (70, 70)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ldl(shape: tuple[int, ...], dtype: Any) -> None:
    a = symmetric(*shape, dtype=dtype)
    call(torch.linalg.ldl_factor, a)
    call(torch.linalg.ldl_factor_ex, a)
    call(torch.linalg.ldl_solve, *torch.linalg.ldl_factor(a), uniform(*shape[:-1], 3, dtype=dtype))


def test_ldl_of_matrices_whose_pivots_need_exchanges() -> None:
    a = torch.tensor(
        [[[0, 1, 2], [1, 0, 3], [2, 3, 0]], [[1, 9, 2], [9, 1, 8], [2, 8, 30]], [[0.1, 1, 0], [1, 50, 0], [0, 0, 1]]]
    )
    _, pivots = torch.linalg.ldl_factor(a)
    assert len({tuple(p) for p in pivots.tolist()}) == 3
    call(torch.linalg.ldl_factor_ex, a)
    call(torch.linalg.ldl_solve, *torch.linalg.ldl_factor(a), uniform(3, 2, dtype=torch.float32).expand(3, 3, 2).contiguous())


def test_ldl_of_singular_matrices() -> None:
    a = torch.zeros(3, 4, 4)
    a[1, 0, 0] = 1
    a[2, 3, 0] = a[2, 0, 3] = 2
    call(torch.linalg.ldl_factor_ex, a)


@pytest.mark.parametrize(("shape", "ind"), [((6, 2, 3), 1), ((2, 3, 6), 2), ((2, 3, 3, 2), 2), ((2, 3, 2, 3, 4), 3)])
def test_tensorinv(shape: tuple[int, ...], ind: int) -> None:
    call(torch.linalg.tensorinv, uniform(*shape), ind=ind)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 20.0])
def test_matrix_exp(dtype: Any, scale: float) -> None:
    call(torch.linalg.matrix_exp, uniform(3, 5, 5, dtype=dtype) * scale)


def test_matrix_exp_in_half_precision() -> None:
    """As of float32: torch's own is NaN for matrices as large as these."""
    x = uniform(3, 3) * 2
    module = import_model(torch.export.export(Call(torch.linalg.matrix_exp, ((x.half(),), {})), (x.half(),)))
    (found,) = run(module, (x.half(),), compiled=True)
    expected = torch.linalg.matrix_exp(x.half().float()).half().numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_matrix_exp_of_matrices_of_different_norms() -> None:
    scales = torch.tensor([0.0, 1e-5, 1.0, 5.0, 40.0, 400.0, 1e6], dtype=torch.float64)
    a = uniform(7, 4, 4)
    skew = (a - a.mT) * scales[:, None, None]
    call(torch.linalg.matrix_exp, skew)
    call(torch.linalg.matrix_exp, torch.tensor([[0.0, 1e4], [0.0, 0.0]]))


@pytest.mark.parametrize("shape", [(1, 1), (0, 0), (0, 3, 3), (2, 0, 0)])
def test_matrix_exp_of_small_matrices(shape: tuple[int, ...]) -> None:
    call(torch.linalg.matrix_exp, uniform(*shape))


def test_matrix_exp_of_sizes_known_at_run_time() -> None:
    batch, size = Dim("batch"), Dim("size", min=2)
    module = Call(torch.linalg.matrix_exp, ((uniform(2, 4, 4),), {}))
    check(module, (uniform(2, 4, 4),), ((uniform(5, 6, 6) * 9,),), shapes=(({0: batch, 1: size, 2: size},),))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_matrix_exp_that_is_not_finite(value: float) -> None:
    call(torch.linalg.matrix_exp, torch.tensor([[[value, 1.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]))
