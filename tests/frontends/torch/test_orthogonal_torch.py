"""QR, singular values, symmetric eigenvalues and what is made of them, next to eager torch.

Where vectors are not unique, what they are defined by is compared in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of torch's own tests, which `tests.torch_databases.cases` imports

from forge.errors import OpAttributeUnimplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.cases import Call  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

L = torch.linalg
Dim = torch.export.Dim
Function = Callable[..., Any]


def tensors(found: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(found)


def check(function: Function, *cases: tuple[Any, ...], shapes: Any = None, view: Function = lambda *found: found) -> None:
    """``view`` of the compiled results is that of torch's, for the arguments it was exported with and, of other sizes, more."""
    exported = torch.export.export(Call(function, (cases[0], {})), cases[0], dynamic_shapes=None if shapes is None else (shapes,))
    module = import_model(exported)
    for case in cases:
        expected = tensors(function(*case))
        found = [torch.from_numpy(v) for v in run(module, case, compiled=True)]
        for result, wanted in zip(found, expected, strict=True):
            assert result.dtype == wanted.dtype and result.shape == wanted.shape
        wrong = [difference(f.numpy(), e) for f, e in zip(tensors(view(*found)), tensors(view(*expected)), strict=True)]
        assert wrong == [""] * len(wrong)


def matrices(kind: str, *shape: int, dtype: Any = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    if kind in ("random", "transposed"):
        return x.to(dtype) if kind == "random" else x.mT.contiguous().to(dtype).mT
    u, values, vh = L.svd(x, full_matrices=False)
    count = values.shape[-1]
    values = torch.ones(count) if kind == "deficient" else 10.0 ** torch.linspace(0, -9, count)
    values[(count + 1) // 2 if kind == "deficient" else count :] = 0
    return (u * values @ vh).to(dtype)


KINDS = ("random", "transposed", "deficient", "graded")
SIZES = ((6, 3), (3, 6), (2, 2, 5, 5), (2, 0, 3), (3, 0), (0, 4, 4), (1, 1))


def singular(u: Any, s: Any, vh: Any) -> Any:
    count = s.shape[-1]
    return s, (u[..., :count] * s[..., None, :]) @ vh[..., :count, :], u.mH @ u, vh @ vh.mH


def eigen(values: Any, vectors: Any) -> Any:
    return values, (vectors * values[..., None, :]) @ vectors.mH, vectors.mH @ vectors


def factors(q: Any, r: Any) -> Any:
    return q @ r, q.mH @ q, r.tril(-1)


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_decompositions(shape: tuple[int, ...]) -> None:
    cases = [(matrices(kind, *shape),) for kind in KINDS]
    check(lambda v: L.svd(v), *cases, view=singular)
    check(lambda v: torch.svd(v), *cases, view=lambda u, s, v: singular(u, s, v.mH))
    check(L.svdvals, *cases)
    check(lambda v: L.qr(v), *cases, view=factors)
    for function in (torch.geqrf, lambda v: L.qr(v, "complete"), lambda v: L.qr(v, "r")):  # unique, where ranks are full
        check(function, *cases[: KINDS.index("deficient")])


@pytest.mark.parametrize("size", [(1,), (5,), (2, 4), (0, 3)], ids=str)
def test_symmetric(size: tuple[int, ...]) -> None:
    given = [matrices(kind, *size, size[-1], dtype=torch.float64) for kind in KINDS]
    whole = [(x @ x.mT if kind == "deficient" else x + x.mT).float() for kind, x in zip(KINDS, given)]
    for uplo in ("L", "U"):
        cases = [(x.tril() if uplo == "L" else x.triu(),) for x in whole]
        check(lambda v, uplo=uplo: L.eigh(v, uplo), *cases, view=eigen)
    check(L.eigvalsh, *((x,) for x in whole))
    check(lambda v: L.matrix_rank(v, hermitian=True), *((x,) for x in whole))
    check(lambda v: L.pinv(v, hermitian=True), (whole[KINDS.index("deficient")],))


def test_float64() -> None:
    x = matrices("random", 3, 6, 4, dtype=torch.float64)
    check(lambda v: L.svd(v), (x,), view=singular)
    check(lambda v: L.eigh(v @ v.mT), (x,), view=eigen)
    check(lambda v: L.qr(v), (x,))
    check(L.pinv, (x,))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_of_reflections(left: bool, transpose: bool) -> None:
    a, tau = torch.geqrf(matrices("random", 2, 6, 4))
    other = matrices("random", 2, *((6, 3) if left else (3, 6)))
    check(lambda *v: torch.ormqr(*v, left=left, transpose=transpose), (a, tau, other))
    check(lambda *v: torch.ormqr(*v, left=left, transpose=transpose), (a[..., :2], tau[..., :2], other))


def test_orthogonal_matrices_of_reflections() -> None:
    a, tau = torch.geqrf(matrices("random", 2, 6, 4))
    check(L.householder_product, (a, tau))
    check(L.householder_product, (a, tau[..., :2]))
    check(torch.orgqr, (a[0], tau[0]))
    check(L.householder_product, (a[:, :, :0], tau[:, :0]))


@pytest.mark.parametrize("shape", [(5, 5), (2, 6, 3), (3, 6), (0, 3), (2, 3, 0)], ids=str)
def test_ranks_and_pseudoinverses(shape: tuple[int, ...]) -> None:
    cases = [(matrices(kind, *shape),) for kind in ("random", "deficient")]
    for function in (L.matrix_rank, L.pinv, lambda v: torch.pinverse(v, 1e-3), lambda v: L.pinv(v, atol=0.5),
                     lambda v: L.matrix_rank(v, 0.5), lambda v: L.matrix_rank(v, rtol=0.4)):
        check(function, *cases)


def test_tolerances_of_each_matrix() -> None:
    x, limits = matrices("random", 3, 4, 4), torch.tensor([0.1, 1.5, 0.0])
    check(lambda v, t: L.matrix_rank(v, atol=t), (x, limits))
    check(lambda v, t: L.matrix_rank(v, t), (x, limits))
    check(lambda v, t: L.pinv(v, rtol=t), (x, limits / 2 + 1e-3))


ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@pytest.mark.parametrize("order", ORDERS)
def test_norms_of_matrices(order: Any) -> None:
    for dim, keepdim in (((-2, -1), False), ((-1, 0), True), ((1, 0), False)):
        check(lambda v, dim=dim, keepdim=keepdim: L.matrix_norm(v, order, dim, keepdim), (matrices("random", 2, 3, 4),))
    check(lambda v: L.norm(v, order, dtype=torch.float64), (matrices("random", 4, 3),))
    if order in ("fro", "nuc", 1, 2, math.inf):
        for shape in ((0, 3), (2, 0, 0)):
            check(lambda v: L.matrix_norm(v, order), (torch.zeros(shape),))


def test_norms_of_vectors() -> None:
    x = matrices("random", 4, 3)
    for order in (None, 2, 1, 0, 3.5, math.inf, -math.inf):
        check(lambda v, order=order: L.norm(v[0], order), (x,))
        check(lambda v, order=order: L.norm(v, order, dim=1, keepdim=True), (x,))
    check(L.norm, (x,))
    check(lambda v: torch.norm(v, "nuc"), (x,))


@pytest.mark.parametrize("order", [None, *ORDERS])
def test_condition(order: Any) -> None:
    check(lambda v: L.cond(v, order), (matrices("random", 2, 4, 4),))
    check(lambda v: L.cond(v, order), (torch.zeros(2, 0, 0),))
    if order in (None, 2, -2):
        check(lambda v: L.cond(v, order), (matrices("random", 2, 4, 3),))
    elif order != "nuc":
        check(lambda v: L.cond(v, order), (torch.diag(torch.tensor([2.0, 0, 1])),))


@pytest.mark.parametrize(
    ("function", "view"),
    [(L.svdvals, None), (L.svd, singular), (L.qr, None), (lambda v: L.norm(v.flatten(0, 1), "nuc"), None)],
)
def test_sizes_of_the_run(function: Function, view: Function | None) -> None:
    sizes = {0: Dim("b", max=9), 1: Dim("m", min=2, max=30), 2: Dim("n", min=2, max=30)}
    cases = [(matrices("random", *shape),) for shape in ((2, 6, 4), (3, 4, 7), (1, 5, 5))]
    check(function, *cases, shapes=(sizes,), view=view or (lambda *found: found))


@pytest.mark.parametrize("function", [L.pinv, L.matrix_rank])
def test_batches_of_the_run(function: Function) -> None:
    """Torch fixes the sizes of the matrices."""
    check(function, *((matrices("random", b, 3, 4),) for b in (2, 5)), shapes=({0: Dim("b", max=9)},))


@pytest.mark.parametrize("function", [L.eigh, L.eigvalsh, lambda v: L.pinv(v, hermitian=True)])
def test_sizes_of_square_matrices(function: Function) -> None:
    side = Dim("n", min=2, max=30)
    cases = [(x @ x.mT,) for x in (matrices("random", n, n) for n in (4, 7))]
    check(function, *cases, shapes=({0: side, 1: side},), view=lambda *found: eigen(*found) if len(found) == 2 else found)


def test_low_rank_models_have_the_right_shapes() -> None:
    x = matrices("random", 6, 4)
    program = torch.export.export(Call(lambda v: torch.pca_lowrank(v, 3), ((x,), {})), (x,))
    u, values, v = run(import_model(program), (x,), compiled=True)
    expected = L.svdvals(x - x.mean(0))[:3]
    assert u.shape == (6, 3) and v.shape == (4, 3)
    assert not difference(values[:1], expected[:1]) or values[0] <= expected[0]


def test_elements_that_are_not_finite() -> None:
    x = matrices("random", 2, 3, 3)
    x[0, 1, 0] = math.nan
    for function in (L.svd, L.eigh, L.svdvals):
        program = torch.export.export(Call(function, ((matrices("random", 2, 3, 3),), {})), (matrices("random", 2, 3, 3),))
        for result in run(import_model(program), (x,), compiled=True):
            assert torch.from_numpy(result)[0].isnan().all() and torch.from_numpy(result)[1].isfinite().all()


def complex_matrices(*shape: int) -> Any:
    return torch.complex(matrices("random", *shape), matrices("random", *shape, 1)[..., 0])


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5), (0, 3, 3)], ids=str)
def test_values_of_complex_matrices(shape: tuple[int, ...]) -> None:
    x = complex_matrices(*shape)
    deficient = x @ x.mH[..., :2] @ x.mH[..., :2].mH if shape[-1] > 1 else x
    for function in (L.svdvals, L.pinv, L.matrix_rank, lambda v: L.matrix_norm(v, "nuc"), lambda v: L.cond(v[..., :3, :3])):
        check(function, (x,))
    check(L.matrix_rank, (deficient,))


@pytest.mark.parametrize("order", [1, -1, math.inf, -math.inf, "fro", "nuc", 2, -2])
def test_condition_numbers_of_complex_matrices(order: Any) -> None:
    x = complex_matrices(3, 3, 3)
    x[1, 2] = 0
    check(lambda v: L.cond(v, order), (x,))


@pytest.mark.parametrize("size", [(1,), (4,), (2, 3)], ids=str)
def test_values_of_hermitian_matrices(size: tuple[int, ...]) -> None:
    x = complex_matrices(*size, size[-1])
    for uplo in ("L", "U"):
        check(lambda v, uplo=uplo: L.eigvalsh(v, uplo), (x,))
    check(lambda v: L.pinv(v, hermitian=True), (x + x.mH,))
    check(lambda v: L.matrix_rank(v, hermitian=True), (x @ x.mH[..., :1] @ x.mH[..., :1].mH @ x.mH,))


@pytest.mark.parametrize("function", [L.svd, L.eigh, L.qr, torch.geqrf])
def test_complex_matrices_are_refused(function: Function) -> None:
    x = torch.randn(3, 3, dtype=torch.complex64)
    with pytest.raises(OpAttributeUnimplemented, match="matrices of complex64; supported: real ones"):
        import_model(torch.export.export(Call(function, ((x,), {})), (x,)))
