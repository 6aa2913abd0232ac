"""Linear models and support vector machines."""

from __future__ import annotations

import numpy as np

from forge.compose.scores import beside, best_label, label_if, transformed
from forge.compose.vector_machines import Kernel, pair_scores, probabilities, votes
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.classical import DOMAIN
from forge.frontends.onnx.converters.classical.trees import Floats, Integers, features, labels_of
from forge.frontends.onnx.registry import converts


def _matrix(g: Context, what: str, values: Floats, rows: int, columns: int | None = None) -> np.ndarray:
    """A list of floats as so many rows."""
    array = np.array(values, np.float32)
    if not array.size or array.size % rows or columns is not None and array.size != rows * columns:
        expected = f"a multiple of {rows}" if columns is None else f"{rows} x {columns}"
        raise g.invalid(f"{what}: got {array.size} numbers; expected {expected}, at least one")
    return array.reshape(rows, -1)


def _affine(g: Context, x: Value, weights: np.ndarray, bias: Floats | None) -> Value:
    """x weights^T + bias; ``weights``: (results, features)."""
    dtype = np.dtype(x.dtype)
    product = g.call("nn.matmul", x, g.constant(np.ascontiguousarray(weights.astype(dtype).T)))
    if not bias:
        return product
    if len(bias) != len(weights):
        raise g.invalid(f"intercepts: got {len(bias)}; expected one for each of {len(weights)} rows of coefficients")
    return g.call("add", product, g.constant(np.array(bias, np.float32).astype(dtype)))


@converts("LinearRegressor", since=1, domain=DOMAIN)
def linear_regressor(
    g: Context, x: Value, *, coefficients: Floats = (), intercepts: Floats | None = None, post_transform: str = "NONE",
    targets: int = 1,
) -> Value:
    if targets < 1:
        raise g.invalid(f"targets: got {targets}; expected at least 1")
    result = _affine(g, features(g, x), _matrix(g, "coefficients", coefficients, targets), intercepts)
    return g.cast(transformed(g, result, post_transform), "float32")


@converts("LinearClassifier", since=1, domain=DOMAIN)
def linear_classifier(
    g: Context, x: Value,
    *, classlabels_ints: Integers | None = None, classlabels_strings: tuple[str, ...] | None = None, coefficients: Floats,
    intercepts: Floats | None = None, multi_class: int = 0, post_transform: str = "NONE",
) -> list[Value]:
    """One row of coefficients and two classes: the score of the second one. ``multi_class`` changes nothing, in any engine."""
    labels, data = labels_of(g, classlabels_ints, classlabels_strings), features(g, x)
    rows, columns = len(intercepts or labels), data.shape[1]
    if not intercepts and isinstance(columns, int) and columns:
        rows = len(coefficients) // columns
    scores = _affine(g, data, _matrix(g, "coefficients", coefficients, max(rows, 1)), intercepts)
    if rows == 1 and len(labels) == 2:
        is_second = g.call("squeeze", g.call("greater", scores, g.scalar(0, scores)), axis=(1,))
        of_first = g.call("subtract", g.scalar(1, scores), scores) if post_transform == "NONE" else g.call("negative", scores)
        both = transformed(g, beside(g, of_first, scores), post_transform)
        return [label_if(g, is_second, labels), g.cast(both, "float32")]
    if rows != len(labels):
        raise g.invalid(f"got {rows} rows of coefficients and {len(labels)} classes; expected as many of both")
    return [best_label(g, scores, labels), g.cast(transformed(g, scores, post_transform), "float32")]


@converts("SVMRegressor", since=1, domain=DOMAIN)
def svm_regressor(
    g: Context, x: Value,
    *, coefficients: Floats = (), kernel_params: Floats = (), kernel_type: str = "LINEAR", n_supports: int = 0,
    one_class: int = 0, post_transform: str = "NONE", rho: Floats = (), support_vectors: Floats = (),
) -> Value:
    """Without support vectors, coefficients are those of a linear function; ``one_class``: 1 for what belongs to it, else -1."""
    data = features(g, x)
    if len(rho) != 1:
        raise g.invalid(f"rho: got {len(rho)} numbers; expected one")
    if n_supports > 0:
        vectors = _matrix(g, "support_vectors", support_vectors, n_supports)
        weights = _matrix(g, "coefficients", coefficients, 1, n_supports)
        data = Kernel.of(kernel_type, kernel_params)(g, data, vectors)
    else:
        weights = _matrix(g, "coefficients", coefficients, 1)
    result = _affine(g, data, weights, rho)
    if one_class:
        inside = g.call("greater", result, g.scalar(0, result))
        result = g.call("where", inside, g.scalar(1, result), g.scalar(-1, result))
    return g.cast(transformed(g, result, post_transform), "float32")


@converts("SVMClassifier", since=1, domain=DOMAIN)
def svm_classifier(
    g: Context, x: Value,
    *, classlabels_ints: Integers | None = None, classlabels_strings: tuple[str, ...] | None = None, coefficients: Floats = (),
    kernel_params: Floats = (), kernel_type: str = "LINEAR", post_transform: str = "NONE", prob_a: Floats = (),
    prob_b: Floats = (), rho: Floats = (), support_vectors: Floats = (), vectors_per_class: Integers = (),
) -> list[Value]:
    """One machine for each pair of classes, which vote; without support vectors, one linear function for each class."""
    labels, data = labels_of(g, classlabels_ints, classlabels_strings), features(g, x)
    classes = len(labels)
    if not vectors_per_class:
        return _linear_machine(g, data, labels, _matrix(g, "coefficients", coefficients, classes), rho, post_transform)
    count, pairs = sum(vectors_per_class), classes * (classes - 1) // 2
    if len(vectors_per_class) != classes or min(vectors_per_class) < 0 or not count:
        raise g.invalid(f"vectors_per_class: got {list(vectors_per_class)}; expected a number for each of {classes} classes")
    for name, values in (("rho", rho), *((n, v) for n, v in (("prob_a", prob_a), ("prob_b", prob_b)) if prob_a or prob_b)):
        if len(values) != pairs:
            raise g.invalid(f"{name}: got {len(values)} numbers; expected one for each of {pairs} pairs of classes")
    similarity = Kernel.of(kernel_type, kernel_params)(g, data, _matrix(g, "support_vectors", support_vectors, count))
    weights = _matrix(g, "coefficients", coefficients, classes - 1, count)
    scores = pair_scores(g, similarity, weights, vectors_per_class, np.array(rho, np.float32))
    label = best_label(g, votes(g, scores, classes), labels)
    if prob_a:
        scores = probabilities(g, scores, np.array(prob_a, np.float32), np.array(prob_b, np.float32), classes)
    elif classes == 2:
        scores = beside(g, g.call("negative", scores), scores)
    return [label, g.cast(transformed(g, scores, post_transform), "float32")]


def _linear_machine(g: Context, data: Value, labels: np.ndarray, weights: np.ndarray, rho: Floats, transform: str) -> list[Value]:
    if not rho:
        raise g.invalid("rho: got no numbers; expected at least one")
    scores = g.call("add", _affine(g, data, weights, None), g.scalar(rho[0], data))
    return [best_label(g, scores, labels), g.cast(transformed(g, scores, transform), "float32")]
