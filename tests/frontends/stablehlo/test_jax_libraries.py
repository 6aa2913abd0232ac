"""The rest of jax.numpy, and jax.scipy, jax.nn, jax.image and jax.random, function by function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax, random  # noqa: E402
from jax.scipy import integrate, interpolate, linalg, ndimage, signal, special, stats  # noqa: E402
from jax.scipy.cluster import vq  # noqa: E402
from jax.scipy.fft import dct, dctn, idct, idctn  # noqa: E402
from jax.scipy.spatial import transform  # noqa: E402

from tests.frontends.stablehlo.against_jax import check  # noqa: E402

RNG = np.random.default_rng(1)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


X, Y, T, V, W = numbers(4, 5), numbers(4, 5), numbers(2, 4, 6), numbers(7), numbers(7)
SQUARE, SMALL = numbers(4, 4), numbers(3, 3) * 0.3
POSITIVE, PART = np.abs(X) + 0.1, (np.tanh(X) + 1) / 2
COMPLEX = (numbers(3, 4) + 1j * numbers(3, 4)).astype("complex64")
K, J = RNG.integers(-9, 9, (4, 5)).astype("int32"), RNG.integers(1, 9, (4, 5)).astype("int32")
HOLES = np.where(X > 0.8, np.float32(np.nan), X)
BOOL, INDEX, BYTES = X > 0, np.array([3, 0, 2], "int32"), RNG.integers(0, 255, (3, 4)).astype("uint8")
Row = tuple[Any, ...]


def rows(module: Any, names: str, *arguments: Any) -> dict[str, Row]:
    """Functions of a module by their names, for the same arguments."""
    return {name: (getattr(module, name), *arguments) for name in names.split()}


NUMPY: dict[str, Row] = {
    **rows(jnp, "absolute around conjugate degrees radians rad2deg isneginf isposinf isreal iscomplex ones_like zeros_like "
           "fliplr flipud atleast_1d atleast_2d atleast_3d matrix_transpose spacing copy amax amin ediff1d", X),
    **rows(jnp, "bitwise_invert bitwise_not", K),
    **rows(jnp, "atan2 less greater_equal logaddexp2 true_divide isclose allclose array_equal array_equiv append vecdot", X, Y),
    **{name: (lambda x, y, name=name: getattr(jnp, name)([x, y]), X, Y)
       for name in ("vstack", "hstack", "dstack", "column_stack")},
    **rows(jnp, "logical_and logical_or", BOOL, Y > 0),
    **rows(jnp, "bitwise_left_shift bitwise_right_shift lcm", K, J),
    **rows(jnp, "nanargmax nanargmin nancumprod nancumsum nanmedian nanmin nanprod nanstd nansum nanvar", HOLES),
    **rows(jnp, "correlate polyadd polymul polysub", V, W[:4]),
    "apply_along_axis": (lambda x: jnp.apply_along_axis(lambda r: r - r[0], 1, x), X),
    "apply_over_axes": (lambda x: jnp.apply_over_axes(jnp.sum, x, [0, 2]), T),
    "argpartition": (lambda x: jnp.sort(jnp.argpartition(x, 3)[:3]), V),
    "argwhere": (lambda x: jnp.argwhere(x, size=6), BOOL),
    "array_split": (lambda x: jnp.array_split(x, 3), V),
    "bartlett": (lambda x: x * jnp.bartlett(7), V),
    "blackman": (lambda x: x * jnp.blackman(7), V),
    "block": (lambda x, y: jnp.block([[x, y], [y, x]]), X, Y),
    "broadcast_arrays": (lambda x: jnp.broadcast_arrays(x, x[0], 1.0), X),
    "compress": (lambda x: jnp.compress(np.array([True, False, True]), x, 0, size=2), X),
    "concat": (lambda x, y: jnp.concat([x, y], axis=1), X, Y),
    "cumulative_prod": (lambda x: jnp.cumulative_prod(x, axis=1), X),
    "cumulative_sum": (lambda x: jnp.cumulative_sum(x, axis=0, include_initial=True), X),
    "delete": (lambda x: jnp.delete(x, np.array([1, 3]), 1), X),
    "delete_at": (lambda x, i: jnp.delete(x, i, 1, assume_unique_indices=True), X, INDEX),
    "diag_indices_from": (lambda x: x[jnp.diag_indices_from(x)], SQUARE),
    "diagflat": (lambda x: jnp.diagflat(x, 1), V),
    "dsplit": (lambda x: jnp.dsplit(x, 2), T),
    "extract": (lambda c, x: jnp.extract(c, x, size=5, fill_value=0), BOOL, X),
    "fill_diagonal": (lambda x: jnp.fill_diagonal(x, 7.0, inplace=False), SQUARE),
    "flatnonzero": (lambda x: jnp.flatnonzero(x, size=9), BOOL),
    "fromfunction": (lambda x: x + jnp.fromfunction(lambda i, j: i * 2 + j, (4, 5)), X),
    "frompyfunc": (lambda x, y: jnp.frompyfunc(lambda a, b: a * b + a, 2, 1)(x, y), X, Y),
    "full": (lambda x: jnp.full((2, 4, 5), x), X),
    "geomspace": (lambda x: jnp.geomspace(x[0, 0], 9.0, 6), POSITIVE),
    "hamming": (lambda x: x * jnp.hamming(7), V),
    "hanning": (lambda x: x * jnp.hanning(7), V),
    "histogram2d": (lambda x, y: jnp.histogram2d(x, y, bins=3), V, W),
    "histogram_bin_edges": (lambda x: jnp.histogram_bin_edges(x, 4), V),
    "histogramdd": (lambda x: jnp.histogramdd(x, bins=3)[0], X[:, :2]),
    "hsplit": (lambda x: jnp.hsplit(x, 2), T),
    "identity": (lambda x: x @ jnp.identity(5), X),
    "indices": (lambda x: x + jnp.indices((4, 5)).sum(0), X),
    "insert": (lambda x: jnp.insert(x, np.array([1, 2]), 9.0, 1), X),
    "insert_at": (lambda x, i: jnp.insert(x, i, 9.0, 1), X, INDEX),
    "intersect1d": (lambda i, j: jnp.intersect1d(i, j, size=4, fill_value=-1), J[0], J[1]),
    "isin": (jnp.isin, K, J[0]),
    "ix_": (lambda x, i: x[jnp.ix_(i, i)], X, INDEX),
    "kaiser": (lambda x: x * jnp.kaiser(7, 3.0), V),
    "logspace": (lambda x: jnp.logspace(x[0], 2.0, 5), V),
    "mask_indices": (lambda x: x[jnp.mask_indices(4, jnp.triu, size=10)], SQUARE),
    "matvec": (jnp.matvec, SQUARE, SQUARE[0]),
    "nanpercentile": (lambda x: jnp.nanpercentile(x, 30.0), HOLES),
    "nanquantile": (lambda x: jnp.nanquantile(x, 0.7, 1), HOLES),
    "packbits": (jnp.packbits, BOOL),
    "permute_dims": (lambda x: jnp.permute_dims(x, (2, 0, 1)), T),
    "place": (lambda x, c: jnp.place(x, c, np.array([1, 2], "float32"), inplace=False), X, BOOL),
    "polyder": (jnp.polyder, V),
    "polydiv": (lambda u, v: jnp.polydiv(u, v, trim_leading_zeros=False), V, W[:3]),
    "polyfit": (lambda x, y: jnp.polyfit(x, y, 2), V, W),
    "polyint": (jnp.polyint, V),
    "put": (lambda x, i: jnp.put(x, i, 5.0, inplace=False), X, INDEX),
    "put_along_axis": (lambda x, i: jnp.put_along_axis(x, i[None], 5.0, 1, inplace=False), X, INDEX),
    "quantile": (lambda x: jnp.quantile(x, np.array([0.2, 0.7], "float32"), 1, method="lower"), X),
    "ravel_multi_index": (lambda i: jnp.ravel_multi_index((i, i), (4, 5), mode="clip"), INDEX),
    "rollaxis": (lambda x: jnp.rollaxis(x, 2), T),
    "setdiff1d": (lambda i, j: jnp.setdiff1d(i, j, size=5, fill_value=-1), J[0], J[1]),
    "setxor1d": (lambda i, j: jnp.setxor1d(i, j, size=9, fill_value=-1), J[0], J[1]),
    "tri": (lambda x: x @ jnp.tri(5, 3, 1), X),
    "tril_indices": (lambda x: x[jnp.tril_indices(4)], SQUARE),
    "triu_indices_from": (lambda x: x[jnp.triu_indices_from(x, 1)], SQUARE),
    "union1d": (lambda i, j: jnp.union1d(i, j, size=9, fill_value=-1), J[0], J[1]),
    "unique_all": (lambda i: tuple(jnp.unique_all(i, size=5)), J[0]),
    "unique_counts": (lambda i: tuple(jnp.unique_counts(i, size=5)), J[0]),
    "unique_inverse": (lambda i: tuple(jnp.unique_inverse(i, size=5)), J[0]),
    "unpackbits": (jnp.unpackbits, BYTES),
    "unstack": (lambda x: jnp.unstack(x, axis=1), X),
    "vecmat": (jnp.vecmat, SQUARE[0], SQUARE),
    "vectorize": (jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()"), X, Y),
    "vsplit": (lambda x: jnp.vsplit(x, 2), X),
    "poly": (lambda x: jnp.poly(x), V[:3]),
    "gradient": (jnp.gradient, X),
    "trapezoid": (jnp.trapezoid, X),
    "cross_2d": (lambda x, y: jnp.cross(x[:, :3], y[:, :3]), X, Y),
    "cov": (jnp.cov, X),
    "corrcoef": (jnp.corrcoef, X),
    "percentile": (lambda x: jnp.percentile(x, 40.0, 0), X),
    "convolve_same": (lambda x, y: jnp.convolve(x, y, "same"), V, W[:3]),
    "vander": (lambda x: jnp.vander(x, 4), V),
    "meshgrid": (lambda x, y: jnp.meshgrid(x, y, indexing="ij"), V, W),
    "tensorsolve": (lambda a, b: jnp.linalg.tensorsolve(a, b), numbers(2, 3, 6), numbers(2, 3)),
    "tensorinv": (lambda a: jnp.linalg.tensorinv(a, 2), numbers(2, 3, 6)),
    "matrix_norm": (jnp.linalg.matrix_norm, X),
    "matrix_rank": (jnp.linalg.matrix_rank, X),
    "multi_dot": (lambda a, b: jnp.linalg.multi_dot([a, b.T, a]), X, Y),
    "svdvals": (jnp.linalg.svdvals, X),
    "vector_norm": (lambda x: jnp.linalg.vector_norm(x, axis=1, ord=3), X),
    "linalg_vecdot": (jnp.linalg.vecdot, X, Y),
    "linalg_trace": (jnp.linalg.trace, SQUARE),
    "linalg_cross": (lambda x, y: jnp.linalg.cross(x[:, :3], y[:, :3]), X, Y),
    "linalg_outer": (jnp.linalg.outer, V, W),
    "eigvalsh": (lambda x: jnp.linalg.eigvalsh(x + x.T), SQUARE),
    "cond": (jnp.linalg.cond, SQUARE),
}
for _name in ("bool", "int8", "uint8", "int16", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
    NUMPY[f"astype_{_name}"] = (lambda x, n=_name: x.astype(n).astype("float32"), X)

FOURIER: dict[str, Row] = {
    **rows(jnp.fft, "ifft ifftn fftn ifft2 hfft irfftn irfft2", COMPLEX),
    **rows(jnp.fft, "rfftn ihfft ifftshift", X),
    "fftfreq": (lambda x: x * jnp.fft.fftfreq(7), V),
    "rfftfreq": (lambda x: x[:4] * jnp.fft.rfftfreq(7), V),
    "fft_longer": (lambda x: jnp.fft.fft(x, 9, norm="ortho"), X),
    "dct": (lambda x: dct(x, norm="ortho"), T),
    "dctn": (dctn, T),
    "idct": (lambda x: idct(x, norm="ortho"), T),
    "idctn": (idctn, T),
}
SPECIAL: dict[str, Row] = {
    **rows(special, "exp1 expi gammasgn loggamma spence erfcx dawsn factorial i0 i1 sici fresnel", POSITIVE),
    **rows(special, "beta betaln gammainc gammaincc boxcox boxcox1p poch kl_div rel_entr", POSITIVE, POSITIVE[::-1]),
    "comb": (special.comb, np.array([5, 6, 7], "float32"), np.array([2, 3, 0], "float32")),
    "bernoulli": (lambda x: x[:4] * special.bernoulli(3), V),
    "bessel_jn": (lambda x: special.bessel_jn(x, v=3, n_iter=20), POSITIVE[0]),
    "expn": (lambda x: special.expn(2, x), POSITIVE),
    "hyp1f1": (lambda x: special.hyp1f1(1.5, 2.5, x), PART),
    "hyp2f1": (lambda x: special.hyp2f1(1.5, 0.5, 2.5, x * 0.8), PART),
    "sph_harm_y": (lambda x: special.sph_harm_y(jnp.array([1, 2]), jnp.array([0, 1]), x[:2], x[1:3], n_max=2), PART[0]),
    "multigammaln": (lambda x: special.multigammaln(x + 2, 3), POSITIVE),
    "owens_t": (special.owens_t, X, Y),
    "log_ndtr_of_tails": (special.log_ndtr, X * 5),
    "softmax": (special.softmax, X),
    "log_softmax": (special.log_softmax, X),
    "polygamma": (lambda x: special.polygamma(1, x), POSITIVE),
    "zeta": (lambda x: special.zeta(x + 1.5, 1.0), POSITIVE),
    "wofz": (lambda x: special.wofz(x + 0.5j), X),
    "igamma_gradient": (jax.grad(lambda a, x: special.gammainc(a, x).sum()), POSITIVE, POSITIVE[::-1]),
    "betainc_gradient": (jax.grad(lambda x: special.betainc(1.5, 2.5, x).sum()), PART),
}
_STATISTICS: Mapping[str, tuple[str, Row]] = {
    "beta": ("logpdf pdf cdf logcdf sf logsf", (PART, 1.5, 2.5)),
    "cauchy": ("logpdf pdf cdf logcdf sf logsf isf ppf", (PART,)),
    "chi2": ("logpdf pdf cdf logcdf sf logsf", (POSITIVE, 3.0)),
    "expon": ("logpdf pdf cdf logcdf sf logsf ppf", (PART,)),
    "gamma": ("logpdf pdf cdf logcdf sf logsf", (POSITIVE, 1.7)),
    "gennorm": ("logpdf pdf cdf", (X, 1.3)),
    "gumbel_l": ("logpdf pdf cdf logcdf sf logsf ppf", (PART,)),
    "gumbel_r": ("logpdf pdf cdf logcdf sf logsf ppf", (PART,)),
    "laplace": ("logpdf pdf cdf", (X,)),
    "logistic": ("logpdf pdf cdf sf ppf isf", (PART,)),
    "norm": ("pdf cdf logcdf sf logsf ppf isf", (PART,)),
    "pareto": ("logpdf pdf cdf logcdf sf logsf ppf", (PART, 1.5)),
    "t": ("logpdf pdf", (X, 3.0)),
    "truncnorm": ("logpdf pdf cdf logcdf sf logsf", (PART, -1.0, 2.0)),
    "uniform": ("logpdf pdf cdf ppf", (PART,)),
    "vonmises": ("logpdf pdf", (X, 1.5)),
    "wrapcauchy": ("logpdf pdf", (POSITIVE, 0.5)),
    "bernoulli": ("logpmf pmf cdf", (J % 2, 0.3)),
    "binom": ("logpmf pmf", (J, 9, 0.3)),
    "betabinom": ("logpmf pmf", (J, 9, 1.5, 2.5)),
    "geom": ("logpmf pmf", (J, 0.3)),
    "nbinom": ("logpmf pmf", (J, 9, 0.3)),
    "poisson": ("logpmf pmf cdf", (J, 2.5)),
}


def _statistic(name: str, function: str, parameters: Sequence[Any]) -> Callable[..., Any]:
    given = getattr(getattr(stats, name), function)
    return lambda x: given(x, *parameters)


STATISTICS: dict[str, Row] = {
    f"{name}_{function}": (_statistic(name, function, parameters), x)
    for name, (functions, (x, *parameters)) in _STATISTICS.items() for function in functions.split()}
STATISTICS |= {
    "dirichlet": (lambda x: stats.dirichlet.logpdf(x / x.sum(), jnp.arange(1.0, 6.0)), POSITIVE[0]),
    "multinomial": (lambda x: stats.multinomial.logpmf(x, 15, jnp.array([0.2, 0.3, 0.5])), np.array([4, 5, 6], "int32")),
    "multivariate_normal": (lambda x, c: stats.multivariate_normal.logpdf(x, x[0], c @ c.T + jnp.eye(4)), X.T, SQUARE),
    "gaussian_kde": (lambda x, y: stats.gaussian_kde(x)(y), V, W),
    "mode": (lambda i: tuple(stats.mode(i)), K),
    "rankdata": (stats.rankdata, V),
    "sem": (stats.sem, X),
}
SCIPY: dict[str, Row] = {
    "convolve": (signal.convolve, X, SMALL),
    "convolve2d": (lambda x, y: signal.convolve2d(x, y, "same"), X, SMALL),
    "correlate": (lambda x, y: signal.correlate(x, y, "valid"), X, SMALL),
    "correlate2d": (signal.correlate2d, X, SMALL),
    "csd": (lambda x, y: signal.csd(x, y, nperseg=4)[1], V, W),
    "detrend": (signal.detrend, X),
    "fftconvolve": (signal.fftconvolve, X, SMALL),
    "istft": (lambda x: signal.istft(signal.stft(x, nperseg=4)[2], nperseg=4)[1], T.reshape(-1)),
    "welch": (lambda x: signal.welch(x, nperseg=4)[1], V),
    "map_coordinates": (lambda x, y: ndimage.map_coordinates(x, [y, y], 1, mode="nearest"), X, POSITIVE),
    "interpolator": (lambda x, y: interpolate.RegularGridInterpolator((jnp.arange(4.0), jnp.arange(5.0)), x)(y),
                     X, np.abs(numbers(3, 2))),
    "trapezoid": (integrate.trapezoid, X),
    "vq": (vq.vq, X, Y),
    "rotation": (lambda q: transform.Rotation.from_quat(q).as_matrix(), V[:4]),
    "block_diag": (linalg.block_diag, X, Y),
    "cho_factor": (lambda x: linalg.cho_factor(x @ x.T + jnp.eye(4))[0], SQUARE),
    "circulant": (linalg.circulant, V),
    "companion": (linalg.companion, V),
    "convolution_matrix": (lambda x: linalg.convolution_matrix(x, 5), V),
    "dft": (lambda x: x @ linalg.dft(5).real, X),
    "expm_frechet": (lambda a, b: linalg.expm_frechet(a, b), SMALL, SMALL.T.copy()),
    "fiedler": (linalg.fiedler, V),
    "fiedler_companion": (linalg.fiedler_companion, V),
    "hadamard": (lambda x: x @ linalg.hadamard(4), SQUARE),
    "hankel": (linalg.hankel, V),
    "helmert": (lambda x: linalg.helmert(4) @ x, X),
    "hilbert": (lambda x: linalg.hilbert(4) @ x, X),
    "invhilbert": (lambda x: linalg.invhilbert(4) @ x, X),
    "invpascal": (lambda x: linalg.invpascal(4) @ x, X),
    "leslie": (lambda x: linalg.leslie(x, x[1:]), V),
    "lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), SQUARE, SQUARE[0]),
    "pascal": (lambda x: linalg.pascal(4) @ x, X),
    "solve": (linalg.solve, SQUARE, X),
    "toeplitz": (linalg.toeplitz, V),
    "eigh_of_vectors": (lambda x: (lambda v, w: w * v @ w.T)(*linalg.eigh(x + x.T)), SQUARE),
    "inv": (linalg.inv, SQUARE),
    "svd": (lambda x: (lambda u, s, v: (u * s) @ v)(*linalg.svd(x, full_matrices=False)), X),
    "qr": (lambda x: (lambda q, r: q @ r)(*linalg.qr(x)), X),
}
NETWORKS: dict[str, Row] = {
    **rows(jax.nn, "hard_sigmoid hard_silu hard_tanh identity mish relu sparse_plus sparse_sigmoid squareplus swish "
           "logmeanexp", X),
    "log1mexp": (jax.nn.log1mexp, POSITIVE),
    "relu6_gradient": (jax.grad(lambda x: jax.nn.relu6(x * 4).sum()), X),
    "one_hot_axis": (lambda i: jax.nn.one_hot(i, 5, axis=0), INDEX),
    "attention_with_lengths": (lambda q, n: jax.nn.dot_product_attention(q, q, q, key_value_seq_lengths=n),
                               numbers(2, 5, 3, 8), np.array([3, 5], "int32")),
    "attention_with_groups": (lambda q, k: jax.nn.dot_product_attention(q, k, k, local_window_size=2),
                              numbers(2, 5, 4, 8), numbers(2, 5, 2, 8)),
    "initializers": (lambda s: jax.nn.initializers.he_normal()(random.key(s), (4, 5)), np.int32(0)),
    "orthogonal": (lambda s: jnp.abs(jax.nn.initializers.orthogonal()(random.key(s), (4, 4))), np.int32(0)),
    **{f"resize_{method}": (lambda x, m=method: jax.image.resize(x, (2, 7, 3), m), T)
       for method in ("nearest", "linear", "cubic", "lanczos3", "lanczos5")},
    "scale_and_translate": (lambda x: jax.image.scale_and_translate(
        x, (5, 7), (0, 1), jnp.array([1.5, 2.0]), jnp.array([0.5, -1.0]), "linear"), X),
}


def _drawn(function: Callable[[Any], Any]) -> Row:
    return (lambda seed: function(random.key(seed)), np.int32(5))


RANDOM: dict[str, Row] = {
    **{name: _drawn(partial(getattr(random, name), shape=(3, 4)))
       for name in "cauchy exponential gumbel laplace logistic lognormal maxwell rademacher".split()},
    "ball": _drawn(lambda key: random.ball(key, 3, shape=(4,))),
    "beta": _drawn(lambda key: random.beta(key, 1.5, 2.5, (4,))),
    "binomial": _drawn(lambda key: random.binomial(key, 9.0, 0.3, (4,))),
    "bits": _drawn(lambda key: random.bits(key, (3, 4), "uint8")),
    "chisquare": _drawn(lambda key: random.chisquare(key, 3.0, shape=(4,))),
    "choice": _drawn(lambda key: random.choice(key, 9, (5,), replace=False)),
    "choice_weighted": _drawn(lambda key: random.choice(key, 4, (5,), p=jnp.array([0.1, 0.2, 0.3, 0.4]))),
    "dirichlet": _drawn(lambda key: random.dirichlet(key, jnp.ones(3), (2,))),
    "double_sided_maxwell": _drawn(lambda key: random.double_sided_maxwell(key, 1.0, 2.0, (4,))),
    "fold_in": _drawn(lambda key: random.key_data(random.fold_in(key, 7))),
    "generalized_normal": _drawn(lambda key: random.generalized_normal(key, 1.5, (4,))),
    "geometric": _drawn(lambda key: random.geometric(key, 0.3, (4,))),
    "loggamma": _drawn(lambda key: random.loggamma(key, 1.5, (4,))),
    "multinomial": _drawn(lambda key: random.multinomial(key, 9.0, jnp.array([0.2, 0.3, 0.5]))),
    "multivariate_normal": _drawn(lambda key: random.multivariate_normal(key, jnp.zeros(3), jnp.eye(3) * 2)),
    "orthogonal": _drawn(lambda key: jnp.abs(random.orthogonal(key, 3))),
    "pareto": _drawn(lambda key: random.pareto(key, 1.5, (4,))),
    "poisson": _drawn(lambda key: random.poisson(key, 3.0, (4,))),
    "rayleigh": _drawn(lambda key: random.rayleigh(key, 1.5, (4,))),
    "t": _drawn(lambda key: random.t(key, 3.0, (4,))),
    "triangular": _drawn(lambda key: random.triangular(key, 0.0, 0.4, 1.0, (4,))),
    "wald": _drawn(lambda key: random.wald(key, 1.5, (4,))),
    "weibull_min": _drawn(lambda key: random.weibull_min(key, 1.5, 2.0, (4,))),
    "uniform_float16": _drawn(lambda key: random.uniform(key, (4,), "float16")),
    "normal_complex": _drawn(lambda key: random.normal(key, (4,), "complex64")),
    "rbg": (lambda seed: random.uniform(random.key(seed, impl="rbg"), (4,)), np.int32(5)),
    "unsafe_rbg": (lambda seed: random.bits(random.fold_in(random.key(seed, impl="unsafe_rbg"), 3), (4,)), np.int32(5)),
}
LAX: dict[str, Row] = {
    "approx_min_k": (lambda x: lax.approx_min_k(x, 2), X),
    "batch_matmul": (lax.batch_matmul, T, T.swapaxes(1, 2).copy()),
    "bessel_i0e": (lax.bessel_i0e, X),
    "broadcast": (lambda x: lax.broadcast(x, (2, 3)), V),
    "collapse": (lambda x: lax.collapse(x, 1), T),
    "conv_local": (lambda x, w: lax.conv_general_dilated_local(x, w, (1,), "VALID", (2,)), numbers(1, 2, 5), numbers(3, 4, 4)),
    "custom_linear_solve": (
        lambda a, b: lax.custom_linear_solve(lambda v: a @ v + 9 * v, b, lambda f, v: jnp.linalg.solve(a + 9 * jnp.eye(4), v)),
        SQUARE, SQUARE[0]),
    "custom_root": (
        lambda x: lax.custom_root(lambda v: v**3 - x, x, lambda f, v: lax.fori_loop(0, 20, lambda _, u: u - f(u) / (3 * u**2), v),
                                  lambda g, y: y / g(1.0)), np.float32(2)),
    "dynamic_index_in_dim": (lambda x, i: lax.dynamic_index_in_dim(x, i[0], 1), X, INDEX),
    "dynamic_update_index_in_dim": (lambda x, i: lax.dynamic_update_index_in_dim(x, x[:, 0], i[0], 1), X, INDEX),
    "igamma_grad_a": (lax.igamma_grad_a, POSITIVE, POSITIVE[::-1]),
    "mulhi": (lax.mulhi, K * 99999999, J * 88888888),
    "ragged_dot_general": (
        lambda a, b, n: lax.ragged_dot_general(a, b, n, lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])),
        numbers(6, 4), numbers(3, 4, 5), np.array([1, 3, 2], "int32")),
    "random_gamma_grad": (lax.random_gamma_grad, POSITIVE, POSITIVE[::-1]),
    "scatter_apply": (lambda x, i: x.at[i].apply(jnp.cos), X, INDEX),
    "scatter_sub": (lambda x, i: x.at[i].subtract(x[:3]), X, INDEX),
    "scatter_div": (lambda x, i: x.at[i].divide(2.0), X, INDEX),
    "scatter_power": (lambda x, i: x.at[i].power(2.0), X, INDEX),
    "sort_key_val": (lax.sort_key_val, X, Y),
    "householder_product": (lax.linalg.householder_product, X.T.copy(), V[:4] * 0.1),
    "lu_pivots_to_permutation": (lambda i: lax.linalg.lu_pivots_to_permutation(i, 5), INDEX[:2] + 1),
    "cholesky_update": (lambda r, w: lax.linalg.cholesky_update(jnp.triu(r) + 3 * jnp.eye(4), w), SQUARE, SQUARE[0]),
    "symmetric_product": (lambda a, c: lax.linalg.symmetric_product(a, c + c.T, symmetrize_output=True), X, SQUARE),
    "qdwh": (lambda x: lax.linalg.qdwh(x)[0], SQUARE),
    "polar": (lambda x: linalg.polar(x, method="svd"), SQUARE),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 4, 3), X),
    "reduce_and_xor": (lambda k: (lax.reduce_and(k, (0,)), lax.reduce_xor(k, (0,)), lax.reduce_or(k, (1,))), K),
    "split": (lambda x: lax.split(x, (1, 3), 0), X),
    "segment_max": (lambda x, i: jax.ops.segment_max(x[:3], i, 4), X, INDEX),
    "segment_prod": (lambda x, i: jax.ops.segment_prod(x[:3], i, 4), X, INDEX),
    "reduce_of_any_body": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b + a * b, (0, 1)), SMALL),
}
FAMILIES: dict[str, dict[str, Row]] = {
    "numpy": NUMPY, "fourier": FOURIER, "special": SPECIAL, "statistics": STATISTICS, "scipy": SCIPY, "networks": NETWORKS,
    "random": RANDOM, "lax": LAX}
CASES = [(f"{family}-{name}", *row) for family, functions in FAMILIES.items() for name, row in functions.items()]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("function", "arguments"), [(f, a) for _, f, *a in CASES], ids=[name for name, *_ in CASES])
def test_equals_jax(function: Callable[..., Any], arguments: list[Any]) -> None:
    check(function, *arguments, targets=["reference"])


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("function", "arguments"), [(f, a) for _, f, *a in CASES], ids=[name for name, *_ in CASES])
def test_compiled_code_equals_jax(function: Callable[..., Any], arguments: list[Any]) -> None:
    check(function, *arguments, targets=["llvm"])
