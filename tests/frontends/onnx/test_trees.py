"""Ensembles of trees of all versions, interpreted and compiled, against onnxruntime, onnx.reference and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from benchmarks.forests import sklearn_forest, to_onnx
from forge.driver import compile_module
from forge.errors import ForgeError
from forge.frontends.onnx import import_model
from forge.ir.interp import run_module
from tests.frontends.onnx.support import assert_same, onnxruntime_outputs
from tests.frontends.onnx.tree_models import FEATURES, MODES, classifier, info, regressor, rows, single

Attributes = dict[str, Any]


def results(proto: onnx.ModelProto, data: np.ndarray) -> list[Any]:
    """What compiled code gives, after it was compared with the interpreter."""
    module = import_model(proto)
    wanted = run_module(module, {"x": data})
    found = compile_module(module, use_cache=False).runtime().run([data])
    check(found, wanted)
    return list(found)


def check(found: Any, wanted: Any) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        if theirs.dtype.kind in "OUS":
            assert ours.tolist() == theirs.tolist()
        else:
            assert_same([ours], [theirs])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_comparisons(mode: str, dtype: str) -> None:
    rng = np.random.default_rng(MODES.index(mode))
    for missing in (False, True):
        proto, data = regressor(rng, dtype=dtype, modes=[mode], missing=missing), rows(rng, 30, dtype)
        check(results(proto, data), onnxruntime_outputs(proto, data))


REGRESSORS: list[dict[str, Any]] = [
    {"aggregate": "AVERAGE", "base": True},
    {"aggregate": "MIN", "targets": 3, "sparse": True, "base": True},
    {"aggregate": "MAX", "targets": 2},
    {"targets": 3, "transform": "SOFTMAX", "sparse": True},
    {"targets": 2, "transform": "LOGISTIC", "trees": 13},
    {"targets": 4, "transform": "SOFTMAX_ZERO", "sparse": True, "trees": 3},
    {"depth": 12, "trees": 2},
    {"depth": 0, "trees": 3, "opset": 1},
]


@pytest.mark.parametrize("options", REGRESSORS)
def test_regressor(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    proto, data = regressor(rng, **options), rows(rng, 19, "float32")
    check(results(proto, data), onnxruntime_outputs(proto, data))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_regressor_of_integers(dtype: str) -> None:
    """onnxruntime has none of these; floats of the same values go the same ways."""
    proto, data = regressor(np.random.default_rng(4), dtype=dtype), rows(np.random.default_rng(5), 20, dtype)
    same = regressor(np.random.default_rng(4), dtype="float32")
    check(results(proto, data), onnxruntime_outputs(same, data.astype(np.float32)))


CLASSIFIERS: list[tuple[list[Any], dict[str, Any]]] = [
    ([5, -2, 7], {"base": True}),
    (["a", "", "é", "d"], {"transform": "SOFTMAX"}),
    ([1, 2, 3], {"transform": "LOGISTIC", "dtype": "float64"}),
    ([1, 2, 3], {"transform": "SOFTMAX_ZERO", "dtype": "int64", "opset": 1}),
    (["no", "yes"], {"ids": 1}),
    (["no", "yes"], {"ids": 1, "positive": True}),
    ([3, 9], {"ids": 1, "transform": "LOGISTIC", "base": True, "dtype": "int32"}),
]


@pytest.mark.parametrize(("labels", "options"), CLASSIFIERS)
def test_classifier(labels: list[Any], options: dict[str, Any]) -> None:
    rng = np.random.default_rng(len(labels))
    proto, data = classifier(rng, labels, **options), rows(rng, 25, options.get("dtype", "float32"))
    check(results(proto, data), onnxruntime_outputs(proto, data))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_two_classes_that_both_have_weights(transform: str) -> None:
    """onnxruntime gives 0 or 1 for labels here; the scores are the same, and the larger one wins."""
    rng = np.random.default_rng(8)
    proto, data = classifier(rng, [4, 6], transform=transform), rows(rng, 25, "float32")
    label, scores = results(proto, data)
    assert_same([scores], onnxruntime_outputs(proto, data)[1:])
    assert label.tolist() == np.array([4, 6])[scores.argmax(1)].tolist()


def test_probit() -> None:
    rng = np.random.default_rng(1)
    proto = classifier(rng, [0, 1, 2], positive=True, trees=1, transform="PROBIT")
    data = rows(rng, 20, "float32")
    check(results(proto, data), onnxruntime_outputs(proto, data))


def tensors(attributes: Attributes, *names: str) -> Attributes:
    """Lists of floats as float64 tensors."""
    made = {f"{n}_as_tensor": onnx.numpy_helper.from_array(np.array(attributes[n], np.float64), n) for n in names}
    return {k: v for k, v in attributes.items() if k not in names} | made


def attributes_of(proto: onnx.ModelProto) -> Attributes:
    return {a.name: helper.get_attribute_value(a) for a in proto.graph.node[0].attribute}


def test_tensors_of_doubles() -> None:
    """Thresholds that no float32 is: 0.1 and its neighbours."""
    proto = regressor(np.random.default_rng(6), dtype="float64", base=True)
    attributes = attributes_of(proto)
    attributes["nodes_values"] = np.random.default_rng(0).choice([0.1, 0.2, 0.3], len(attributes["nodes_values"]))
    attributes = tensors(attributes, "nodes_values", "target_weights", "base_values")
    proto = single("TreeEnsembleRegressor", attributes, "float64", [info("y", "float32", "N", 1)])
    data = np.random.default_rng(1).choice([0.1, np.nextafter(0.1, 0), 0.2, np.nextafter(0.2, 1), 0.3], (40, FEATURES))
    check(results(proto, data), onnxruntime_outputs(proto, data))


def tree_5(dtype: str, **changes: Any) -> onnx.ModelProto:
    """Two trees of version 5 with a shared leaf and a node that tests membership; the second root is a leaf."""
    def make(values: Any) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(np.array(values, dtype))

    attributes = {
        "n_targets": 2, "tree_roots": [0, 3], "nodes_featureids": [0, 1, 2, 0],
        "nodes_modes": onnx.numpy_helper.from_array(np.array([0, 6, 3, 0], np.uint8)), "nodes_splits": make([0.5, 0, -1, 0]),
        "nodes_truenodeids": [1, 0, 1, 3], "nodes_trueleafs": [0, 1, 1, 1], "nodes_falsenodeids": [2, 1, 2, 3],
        "nodes_falseleafs": [0, 1, 1, 1], "leaf_targetids": [0, 1, 0, 1], "leaf_weights": make([1, 10, 100, 1000]),
        "membership_values": make([-2, -1, 1, np.nan]), "nodes_missing_value_tracks_true": [1, 0, 0, 0],
    } | changes
    return single("TreeEnsemble", attributes, dtype, [info("y", dtype, "N", attributes["n_targets"])], 5)


@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_version_5(dtype: str, aggregate: int) -> None:
    """onnxruntime tests the membership of the whole part of a number, so the column in question has whole numbers here."""
    proto, data = tree_5(dtype, aggregate_function=aggregate), rows(np.random.default_rng(3), 30, dtype)
    data[:, 1] = np.round(data[:, 1])
    check(results(proto, data), onnxruntime_outputs(proto, data))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_membership_of_broken_numbers(dtype: str) -> None:
    proto, data = tree_5(dtype), rows(np.random.default_rng(3), 30, dtype)
    check(results(proto, data), ReferenceEvaluator(proto).run(None, {"x": data}))


def test_version_5_of_half_precision_with_a_softmax() -> None:
    """No other engine has half precision, and onnxruntime takes the number of the softmax for that of the logistic function."""

    def proto(dtype: str, transform: int) -> onnx.ModelProto:
        weights = onnx.numpy_helper.from_array(np.array([1, 2, 3, 4], dtype))
        return tree_5(dtype, post_transform=transform, leaf_weights=weights)

    data = np.round(rows(np.random.default_rng(3), 30, "float16"))
    (scores,) = onnxruntime_outputs(proto("float32", 0), data.astype(np.float32))
    powers = np.exp(scores)
    wanted = (powers / powers.sum(1, keepdims=True)).astype(np.float16)
    assert_same(results(proto("float16", 1), data), [wanted], 1e-3)


@pytest.mark.parametrize("classes", [0, 3])
def test_forests_of_scikit_learn(classes: int) -> None:
    pytest.importorskip("sklearn")
    data, forest = sklearn_forest(12, 6, classes, 5, rows=300)
    found = results(to_onnx(forest, 5), data)
    if classes:
        assert found[0].tolist() == forest.predict(data).tolist()
        np.testing.assert_allclose(found[1], forest.predict_proba(data), atol=1e-6)
    else:
        np.testing.assert_allclose(found[0][:, 0], forest.predict(data), atol=1e-5)


def test_a_vector_is_one_row_and_columns_are_checked_at_run_time() -> None:
    proto = regressor(np.random.default_rng(1), missing=True)
    data = rows(np.random.default_rng(2), 1, "float32")
    expected = onnxruntime_outputs(proto, data)
    del proto.graph.input[0].type.tensor_type.shape.dim[0]
    check(results(proto, data[0]), expected)
    proto = regressor(np.random.default_rng(1), missing=True)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "F"
    check(results(proto, np.pad(data, ((0, 0), (0, 3)))), expected)
    with pytest.raises(ForgeError, match="expected at least"):
        compile_module(import_model(proto), use_cache=False).runtime().run([data[:, :1]])


def changed(**changes: Any) -> onnx.ModelProto:
    attributes = attributes_of(regressor(np.random.default_rng(1), trees=1, depth=1)) | changes
    given = {k: v for k, v in attributes.items() if v is not None}
    return single("TreeEnsembleRegressor", given, "float32", [info("y", "float32", "N", 1)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes_truenodeids": [9, 0, 0]}, "nodes_truenodeids: got node 9 of tree 0; expected one that is listed"),
        ({"nodes_falsenodeids": [0, 0, 0]}, "a path that returns to node 0"),
        ({"nodes_featureids": [4, 0, 0]}, "nodes_featureids: got 4 to 4; expected numbers from 0 to 3"),
        ({"nodes_nodeids": [0, 1, 1]}, "two nodes of one tree have the same number"),
        ({"nodes_modes": ["BRANCH_LIKE", "LEAF", "LEAF"]}, "nodes_modes: got 'BRANCH_LIKE'; expected one of LEAF, BRANCH_LEQ"),
        ({"nodes_values": [0.5]}, "nodes_values: got 1; expected one for each of 3 nodes"),
        ({"nodes_treeids": None}, "got 0 nodes_treeids and 3 nodes_nodeids"),
        ({"target_ids": [0, 3]}, "targets: got 0 to 3; expected numbers from 0 to 0"),
        ({"target_nodeids": [1, 7]}, "target_nodeids: got node 7 of tree 0"),
        ({"target_weights": [1.0]}, "target_nodeids: got 2 nodes, 2 ids, 1 weights"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function: got 'MEDIAN'; expected AVERAGE, SUM, MIN, MAX"),
        ({"post_transform": "SOFT"}, "post_transform: got 'SOFT'; expected NONE"),
        ({"base_values": [1.0, 2.0]}, "base_values: got 2; expected one for each of 1 targets"),
        ({"n_targets": 0}, "got 0 targets; expected at least one"),
        ({"nodes_values_as_tensor": onnx.numpy_helper.from_array(np.zeros(3))}, "expected one of them"),
    ],
)
def test_refuses_invalid_regressors(changes: Attributes, message: str) -> None:
    with pytest.raises(ForgeError, match=message):
        import_model(changed(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"leaf_targetids": [0, 1, 0]}, "expected leaves below 3, nodes below 4|got 4 leaf_weights and 3 leaf_targetids"),
        ({"nodes_truenodeids": [8, 0, 1, 3]}, "nodes_truenodeids: got a number out of range; expected leaves below 4"),
        ({"tree_roots": [0, 8]}, "roots: got 0 to 8; expected numbers from 0 to 7"),
        ({"membership_values": None}, "membership_values: got 0 lists|got 1 lists; expected one for each"),
        ({"aggregate_function": 4}, "got aggregate_function 4 and post_transform 0; expected numbers below 4 and 5"),
        ({"nodes_trueleafs": [0]}, "got lists of different lengths"),
    ],
)
def test_refuses_invalid_trees_of_version_5(changes: Attributes, message: str) -> None:
    proto = tree_5("float32", **{k: v for k, v in changes.items() if v is not None})
    if None in changes.values():
        node = proto.graph.node[0]
        node.attribute.remove(next(a for a in node.attribute if a.name in changes))
        node.attribute.remove(next(a for a in node.attribute if a.name == "nodes_modes"))
        modes = onnx.numpy_helper.from_array(np.array([6, 6, 3, 0], np.uint8))
        node.attribute.append(helper.make_attribute("nodes_modes", modes))
    with pytest.raises(ForgeError, match=message):
        import_model(proto)


def test_refuses_a_single_class() -> None:
    with pytest.raises(ForgeError, match="got one class; expected two or more"):
        import_model(classifier(np.random.default_rng(0), [3]))
