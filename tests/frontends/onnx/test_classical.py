"""Linear models, support vector machines and the preparation of features, interpreted and compiled, against onnxruntime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from forge.driver import compile_module
from forge.errors import ForgeError
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import evaluate, onnxruntime_outputs
from tests.frontends.onnx.test_trees import check, results
from tests.frontends.onnx.tree_models import FEATURES, TYPES, info, single

Attributes = dict[str, Any]


def draw(rows: int = 23, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(rows).normal(size=(rows, FEATURES)) * (1 if dtype.startswith("f") else 9)).astype(dtype)


def numbers(count: int, seed: int = 0) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(size=count).tolist()
    return values


def labelled(op: str, attributes: Attributes, scores: int, dtype: str = "float32") -> onnx.ModelProto:
    kind = "string" if "classlabels_strings" in attributes else "int64"
    return single(op, attributes, dtype, [info("label", kind, "N"), info("scores", "float32", "N", scores)], 1)


def valued(op: str, attributes: Attributes, dtype: str = "float32", result: str = "float32") -> onnx.ModelProto:
    return single(op, attributes, dtype, [info("y", result, None, None)], 1)


@pytest.mark.parametrize(("targets", "transform"), [(1, "NONE"), (3, "NONE"), (3, "SOFTMAX"), (2, "LOGISTIC")])
@pytest.mark.parametrize("bias", [False, True])
def test_linear_regressor(targets: int, transform: str, bias: bool) -> None:
    attributes = {"coefficients": numbers(targets * FEATURES), "targets": targets, "post_transform": transform}
    attributes |= {"intercepts": numbers(targets, 1)} if bias else {}
    proto, data = valued("LinearRegressor", attributes), draw()
    check(results(proto, data), onnxruntime_outputs(proto, data))


LINEAR_CLASSIFIERS: list[tuple[int, Attributes]] = [
    (1, {"classlabels_ints": [4, 9]}),
    (1, {"classlabels_strings": ["no", "yes"], "post_transform": "LOGISTIC"}),
    (2, {"classlabels_ints": [4, 9], "post_transform": "SOFTMAX"}),
    (3, {"classlabels_strings": ["a", "b", "c"], "post_transform": "LOGISTIC", "multi_class": 1}),
    (3, {"classlabels_ints": [7, 5, 6], "post_transform": "SOFTMAX_ZERO"}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize(("rows", "attributes"), LINEAR_CLASSIFIERS)
def test_linear_classifier(rows: int, attributes: Attributes, dtype: str) -> None:
    labels = attributes.get("classlabels_ints") or attributes["classlabels_strings"]
    given = attributes | {"coefficients": numbers(rows * FEATURES), "intercepts": numbers(rows, 1)}
    proto, data = labelled("LinearClassifier", given, len(labels), dtype), draw(17, dtype)
    check(results(proto, data), onnxruntime_outputs(proto, data))


KERNELS = [("LINEAR", [0.0, 0.0, 0.0]), ("POLY", [0.5, 1.0, 3.0]), ("RBF", [0.3, 0.0, 0.0]), ("SIGMOID", [0.2, -0.1, 0.0])]


@pytest.mark.parametrize(("kernel", "params"), KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kernel: str, params: list[float], one_class: int) -> None:
    attributes = {
        "kernel_type": kernel, "kernel_params": params, "n_supports": 6, "support_vectors": numbers(6 * FEATURES, 1),
        "coefficients": numbers(6, 2), "rho": [0.1], "one_class": one_class,
    }
    proto, data = valued("SVMRegressor", attributes), draw()
    check(results(proto, data), onnxruntime_outputs(proto, data))


LINEAR: Attributes = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}


def test_svm_regressor_without_support_vectors() -> None:
    proto, data = valued("SVMRegressor", {"coefficients": numbers(FEATURES), "rho": [0.25], **LINEAR}), draw()
    check(results(proto, data), onnxruntime_outputs(proto, data))


@pytest.mark.parametrize(("kernel", "params"), KERNELS)
@pytest.mark.parametrize("probable", [False, True])
@pytest.mark.parametrize("counts", [[3, 2], [2, 1, 3], [1, 2, 1, 3, 2]])
def test_svm_classifier(counts: list[int], probable: bool, kernel: str, params: list[float]) -> None:
    classes, vectors = len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    attributes: Attributes = {
        "kernel_type": kernel, "kernel_params": params, "vectors_per_class": counts, "rho": numbers(pairs, 3),
        "support_vectors": numbers(vectors * FEATURES, 1), "coefficients": numbers((classes - 1) * vectors, 2),
        "classlabels_ints": list(range(3, 3 + classes)),
    }
    if probable:
        attributes |= {"prob_a": (-np.abs(numbers(pairs, 4))).tolist(), "prob_b": numbers(pairs, 5)}
    if kernel == "SIGMOID":
        del attributes["classlabels_ints"]
        attributes["classlabels_strings"] = [chr(97 + k) for k in range(classes)]
    scores = classes if probable or classes == 2 else pairs
    proto, data = labelled("SVMClassifier", attributes, scores), draw()
    check(results(proto, data), onnxruntime_outputs(proto, data))


def test_svm_classifier_with_linear_functions() -> None:
    attributes = {"coefficients": numbers(3 * FEATURES), "rho": [0.05], "classlabels_ints": [3, 7, 9], **LINEAR}
    attributes["post_transform"] = "LOGISTIC"
    proto, data = labelled("SVMClassifier", attributes, 3), draw()
    check(results(proto, data), onnxruntime_outputs(proto, data))


def test_svm_of_scikit_learn() -> None:
    svm = pytest.importorskip("sklearn.svm")
    data = draw(60)
    wanted = np.digitize(data[:, 0] + data[:, 1] ** 2, [0.3, 1.5])
    model = svm.SVC(gamma=0.4).fit(data, wanted)
    attributes = {
        "kernel_type": "RBF", "kernel_params": [0.4, 0.0, 0.0], "vectors_per_class": model.n_support_.tolist(),
        "support_vectors": model.support_vectors_.ravel().tolist(), "coefficients": model.dual_coef_.ravel().tolist(),
        "rho": model.intercept_.tolist(), "classlabels_ints": model.classes_.tolist(),
    }
    label, scores = results(labelled("SVMClassifier", attributes, 3), data)
    assert label.tolist() == model.predict(data).tolist()
    model.decision_function_shape = "ovo"
    np.testing.assert_allclose(scores, model.decision_function(data), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("count", [1, FEATURES])
def test_scaler(dtype: str, count: int) -> None:
    proto, data = valued("Scaler", {"offset": numbers(count), "scale": numbers(count, 1)}, dtype), draw(9, dtype)
    check(results(proto, data), onnxruntime_outputs(proto, data))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str, dtype: str) -> None:
    proto, data = valued("Normalizer", {"norm": norm}, dtype), draw(9, dtype)
    data[3] = 0
    check(results(proto, data), onnxruntime_outputs(proto, data))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_binarizer(dtype: str) -> None:
    proto, data = valued("Binarizer", {"threshold": 0.3}, dtype, dtype), draw(9, dtype)
    check(results(proto, data), ReferenceEvaluator(proto).run(None, {"x": data}))


@pytest.mark.parametrize("replaced", [1.0, np.nan])
@pytest.mark.parametrize("count", [1, FEATURES])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_imputer_of_floats(dtype: str, count: int, replaced: float) -> None:
    attributes = {"imputed_value_floats": numbers(count), "replaced_value_float": replaced}
    proto, data = valued("Imputer", attributes, dtype, dtype), draw(9, dtype)
    data[1:5, 1:3] = [1, np.nan]
    expected = [data.copy()]
    filled = np.broadcast_to(np.array(numbers(count), np.float32).astype(dtype), data.shape)
    missing = np.isnan(data) if np.isnan(replaced) else data == replaced
    expected[0][missing] = filled[missing]
    check(results(proto, data), expected)
    if dtype == "float32":
        check(onnxruntime_outputs(proto, data), expected)


def test_imputer_of_integers() -> None:
    proto = valued("Imputer", {"imputed_value_int64s": [5, 6, 7, 8], "replaced_value_int64": -1}, "int64", "int64")
    data = np.random.default_rng(0).integers(-2, 2, (9, FEATURES))
    check(results(proto, data), onnxruntime_outputs(proto, data))


def test_feature_vectorizer() -> None:
    shapes = {"a": ("float32", ("N", 2)), "b": ("float32", ("N", 3)), "c": ("float32", ("N",))}
    node = helper.make_node("FeatureVectorizer", list(shapes), ["y"], domain="ai.onnx.ml", inputdimensions=[3, 2, 1])
    inputs = [info(name, dtype, *shape) for name, (dtype, shape) in shapes.items()]
    graph = helper.make_graph([node], "g", inputs, [info("y", "float32", "N", 6)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=10)
    a, b, c = (np.arange(np.prod(s)).reshape(s).astype(np.float32) + 1 for s in ((4, 2), (4, 3), (4,)))
    module = import_model(proto)
    found = compile_module(module, use_cache=False).runtime().run([a, b, c])
    check(found, [np.concatenate([a, np.zeros((4, 1)), b[:, :2], c[:, None]], axis=1).astype(np.float32)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "string"])
@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 3, 4)])
def test_array_feature_extractor(shape: tuple[int, ...], dtype: str) -> None:
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain="ai.onnx.ml")
    values = np.arange(np.prod(shape)).reshape(shape)
    data = values.astype(str).astype(object) if dtype == "string" else values.astype(dtype)
    indices = np.array([[3, 0, 3]])
    graph = helper.make_graph([node], "g", [info("x", dtype, *shape)], [info("y", dtype, *([None] * max(len(shape), 2)))])
    graph.initializer.append(onnx.numpy_helper.from_array(indices, "i"))
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=10)
    check(results(proto, data), onnxruntime_outputs(proto, data))
    graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(indices + 1, "i"))
    with pytest.raises(ForgeError, match="an index is out of range: got 1 to 4; expected 0 to 3"):
        import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=10))


def zipped() -> onnx.ModelProto:
    proto = labelled("LinearClassifier", {"coefficients": numbers(3 * FEATURES), "intercepts": [0.0] * 3,
                                          "classlabels_ints": [1, 2, 3]}, 3)
    proto.graph.node.append(helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[1, 2, 3]))
    maps = helper.make_map_type_proto(TYPES["int64"], helper.make_tensor_type_proto(TYPES["float32"], None))
    proto.graph.output[1].CopyFrom(helper.make_value_info("maps", helper.make_sequence_type_proto(maps)))
    return proto


def test_maps_at_the_end_are_left_out() -> None:
    with pytest.warns(UserWarning, match=r"\(ZipMap\): dropped.*convert_config=\{'drop_zipmap': True\}"):
        dropped = import_model(zipped())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = import_model(zipped(), convert_config={"drop_zipmap": True})
    assert [v.name for v in module.main.outputs] == ["label", "maps"]
    data = draw()
    label, maps = onnxruntime_outputs(zipped(), data)
    got = evaluate(dropped, data)
    np.testing.assert_array_equal(got[0], label)
    np.testing.assert_allclose(got[1], [[row[k] for k in (1, 2, 3)] for row in maps], rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "attributes"), [("DictVectorizer", {"string_vocabulary": ["a"]}), ("CastMap", {"cast_to": "TO_FLOAT"})]
)
def test_operators_on_maps_are_refused(op: str, attributes: Attributes) -> None:
    with pytest.raises(ForgeError, match=f"{op}: got an operator on maps; expected tensors"):
        import_model(valued(op, attributes))


ONE = {"coefficients": [1.0], "n_supports": 1, "support_vectors": [1.0] * 4, "rho": [0.0]}
TWO = {"classlabels_ints": [1, 2]}
INVALID: list[tuple[str, Attributes, str]] = [
    ("LinearRegressor", {"coefficients": [1.0] * 7, "targets": 2}, "coefficients: got 7 numbers; expected a multiple of 2"),
    ("LinearRegressor", {"coefficients": [1.0] * 4, "targets": 0}, "targets: got 0"),
    ("LinearRegressor", {"coefficients": [1.0] * 4, "intercepts": [1.0] * 3}, "intercepts: got 3; expected one for each of 1"),
    ("LinearClassifier", {"coefficients": [1.0] * 4, "classlabels_ints": [1]}, "got one class; expected two or more"),
    ("LinearClassifier", {"coefficients": [1.0] * 4}, "class labels: expected either integers or strings"),
    ("LinearClassifier", {"coefficients": [1.0] * 8, "classlabels_ints": [1, 2, 3]}, "got 2 rows of coefficients and 3 classes"),
    ("SVMRegressor", {"coefficients": [1.0] * 4}, "rho: got 0 numbers; expected one"),
    ("SVMRegressor", ONE | {"n_supports": 2}, "coefficients: got 1 numbers; expected 1 x 2"),
    ("SVMRegressor", ONE | {"kernel_type": "COSINE"}, "kernel_type: got 'COSINE'; expected LINEAR, POLY, RBF, SIGMOID"),
    ("SVMRegressor", ONE | {"kernel_params": [1.0]}, "kernel_params: got 1; expected gamma, coef0 and degree"),
    ("SVMClassifier", TWO | {"coefficients": [1.0] * 8}, "rho: got no numbers"),
    ("SVMClassifier", TWO | {"vectors_per_class": [1]}, r"vectors_per_class: got \[1\]; expected a number for each of 2"),
    ("SVMClassifier", TWO | {"vectors_per_class": [1, 1]}, "rho: got 0 numbers; expected one for each of 1 pairs"),
    ("Scaler", {"scale": [1.0] * 3}, "scale: got 3 values; expected one, or one for each of 4 columns"),
    ("Normalizer", {"norm": "L3"}, "norm: got 'L3'; expected MAX, L1 or L2"),
    ("Imputer", {}, "imputed_value_floats: got 0 values"),
    ("FeatureVectorizer", {"inputdimensions": [1, 2]}, r"inputdimensions: got \[1, 2\]; expected a number for each of 1"),
]


@pytest.mark.parametrize(("op", "attributes", "message"), INVALID)
def test_refuses_invalid_attributes(op: str, attributes: Attributes, message: str) -> None:
    with pytest.raises(ForgeError, match=message):
        import_model(valued(op, attributes))
