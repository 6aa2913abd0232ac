"""Models on strings: labels, counts of n-grams, control flow and sequences, interpreted and compiled, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import forge
from forge.driver import compile_module
from forge.errors import ForgeError
from forge.frontends.onnx import import_model
from forge.ir.interp import run_module
from tests.frontends.onnx.support import onnxruntime_outputs

STRING, INT64, FLOAT, BOOL = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
Info = onnx.ValueInfoProto


def info(name: str, dtype: int, *shape: Any) -> Info:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: list[onnx.NodeProto], inputs: list[Info], outputs: list[Info], ml: int = 4) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "strings", inputs, outputs)
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def results(proto: onnx.ModelProto, *inputs: np.ndarray) -> list[Any]:
    """What compiled code gives, after it was compared with the interpreter."""
    module = import_model(proto)
    names = [v.name for v in module.main.inputs]
    wanted = run_module(module, dict(zip(names, inputs, strict=True)))
    found = compile_module(module, use_cache=False).runtime().run(inputs)
    for ours, theirs in zip(found, wanted, strict=True):
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
        for a, b in pairs:
            assert a.dtype == np.asarray(b).dtype and np.array_equal(a, b)
    return found


def text(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


LABELS: list[tuple[dict[str, Any], int, int, np.ndarray]] = [
    ({"keys_strings": ["a", "", "é"], "values_int64s": [5, 6, 7]}, STRING, INT64, text("é", "x", "", "a")),
    ({"keys_strings": ["a", "b"], "values_strings": ["x", "y"], "default_string": "?"}, STRING, STRING, text("b", "c")),
    ({"keys_strings": ["a", "b"], "values_floats": [0.5, 1.5]}, STRING, FLOAT, text("b", "c")),
    ({"keys_int64s": [9, -3, 4], "values_strings": ["n", "m", "f"]}, INT64, STRING, np.array([4, 5, -3, 10, -9])),
    ({"keys_int64s": [9, -3], "values_int64s": [1, 2], "default_int64": 0}, INT64, INT64, np.array([-3, 9, 3])),
    ({"keys_floats": [2.0, 0.5, -1.0], "values_int64s": [1, 2, 3]}, FLOAT, INT64, np.array([-1, np.nan, 2, 7], np.float32)),
]


@pytest.mark.parametrize(("attributes", "source", "target", "data"), LABELS)
def test_label_encoder(attributes: dict[str, Any], source: int, target: int, data: np.ndarray) -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    proto = model([node], [info("x", source, "n")], [info("y", target, "n")], ml=2)
    (expected,) = onnxruntime_outputs(proto, data)
    assert results(proto, data)[0].tolist() == expected.tolist()


def test_label_encoder_has_a_label_for_nan() -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_floats=[1.0, np.nan], values_int64s=[1, 2])
    proto = model([node], [info("x", FLOAT, 3)], [info("y", INT64, 3)])
    assert results(proto, np.array([np.nan, 1, 5], np.float32))[0].tolist() == [2, 1, -1]


@pytest.mark.parametrize("inverse", [False, True])
def test_label_encoder_of_the_first_version(inverse: bool) -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", classes_strings=["a", "b"], default_int64=-7)
    kinds = (INT64, STRING) if inverse else (STRING, INT64)
    proto = model([node], [info("x", kinds[0], 3)], [info("y", kinds[1], 3)], ml=1)
    found = results(proto, np.array([1, 0, 2]) if inverse else text("b", "a", "c"))[0].tolist()
    assert found == (["b", "a", "_Unused"] if inverse else [1, 0, -7])


@pytest.mark.parametrize("attributes", [
    {"keys_strings": ["a"], "values_int64s": [1, 2]}, {"keys_strings": ["a"]}, {"keys_int64s": [1], "values_int64s": [1]},
])
def test_label_encoder_refuses_tables_that_do_not_fit(attributes: dict[str, Any]) -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    with pytest.raises(ForgeError, match=r"LabelEncoder.*(keys|values)"):
        import_model(model([node], [info("x", STRING, 1)], [info("y", INT64, 1)]))


@pytest.mark.parametrize("inverse", [False, True])
def test_category_mapper(inverse: bool) -> None:
    node = helper.make_node("CategoryMapper", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=["a", "b"], cats_int64s=[7, -1])
    kinds = (INT64, STRING) if inverse else (STRING, INT64)
    data = np.array([[-1, 7, 0]]) if inverse else text(["b", "a", "c"])
    proto = model([node], [info("x", kinds[0], 1, 3)], [info("y", kinds[1], 1, 3)], ml=1)
    (expected,) = onnxruntime_outputs(proto, data)
    assert results(proto, data)[0].tolist() == expected.tolist()


@pytest.mark.parametrize(("attributes", "kind", "data"), [
    ({"cats_strings": ["a", "b", ""]}, STRING, text("b", "", "c")),
    ({"cats_int64s": [3, -1]}, INT64, np.array([[-1, 3], [0, 3]])),
])
def test_one_hot_encoder(attributes: dict[str, Any], kind: int, data: np.ndarray) -> None:
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", zeros=1, **attributes)
    proto = model([node], [info("x", kind, *data.shape)], [info("y", FLOAT, *data.shape, "c")], ml=1)
    (expected,) = onnxruntime_outputs(proto, data)
    assert results(proto, data)[0].tolist() == expected.tolist()


@pytest.mark.parametrize(("attributes", "kind", "data", "strange"), [
    ({"cats_strings": ["a", "b", ""]}, STRING, text("b", "", "a"), text("b", "c", "a")),
    ({"cats_int64s": [3, -1]}, INT64, np.array([[-1, 3], [3, 3]]), np.array([[-1, 0], [3, 3]])),
])
def test_one_hot_encoder_that_refuses_what_it_does_not_know(
    attributes: dict[str, Any], kind: int, data: np.ndarray, strange: np.ndarray
) -> None:
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], name="encoder", domain="ai.onnx.ml", zeros=0, **attributes)
    shape = ["n", *data.shape[1:]]
    proto = model([node], [info("x", kind, *shape)], [info("y", FLOAT, *shape, "c")], ml=1)
    (expected,) = onnxruntime_outputs(proto, data)
    ir = forge.from_onnx(proto)
    for run in (ir.get_inference_function(), ir.get_inference_function("reference")):
        assert run(data).tolist() == expected.tolist()
        assert run(data[:0]).shape == (0, *expected.shape[1:])
        with pytest.raises((ForgeError, ValueError), match=r"node encoder .*elements differ|reshape"):
            run(strange)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("strings", [False, True])
def test_tfidf(mode: str, strings: bool) -> None:
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
    given: dict[str, Any] = {"pool_strings": [str(v) for v in pool]} if strings else {"pool_int64s": pool}
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=2, max_skip_count=2, ngram_counts=[0, 4],
        ngram_indexes=[0, 1, 2, 3, 4, 5, 6], weights=[0.5, 2.0, 1.0, 3.0, 0.25, 1.0, 4.0], **given,
    )
    tokens = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    data = tokens.astype(str).astype(object) if strings else tokens
    proto = model([node], [info("x", STRING if strings else INT64, "n", 6)], [info("y", FLOAT, "n", 7)])
    (expected,) = onnxruntime_outputs(proto, data)
    assert results(proto, data)[0].tolist() == expected.tolist()


def test_split_and_match() -> None:
    nodes = [
        helper.make_node("StringSplit", ["x"], ["parts", "count"], delimiter="@"),
        helper.make_node("RegexFullMatch", ["x"], ["found"], pattern=r"[\w.]+@(\w+\.)+[a-z]{2,4}"),
    ]
    outputs = [info("parts", STRING, "n", "k"), info("count", INT64, "n"), info("found", BOOL, "n")]
    proto = model(nodes, [info("x", STRING, "n")], outputs)
    data = text("me@a.b.org", "@", "a@b@c")
    for ours, theirs in zip(results(proto, data), onnxruntime_outputs(proto, data), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_normalizer_refuses_locales_with_cases_of_their_own() -> None:
    def normalizer(locale: str) -> onnx.ModelProto:
        node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER", locale=locale)
        return model([node], [info("x", STRING, 2)], [info("y", STRING, "n")])

    with pytest.raises(ForgeError, match="locale: got 'tr_TR'; expected one whose letters"):
        import_model(normalizer("tr_TR"))
    assert results(normalizer("en_US"), text("i", "é"))[0].tolist() == ["I", "É"]


def test_strings_in_control_flow() -> None:
    doubled = helper.make_node("StringConcat", ["s", "s"], ["t"])
    others = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("StringConcat", ["t", "x"], ["o"])]
    step = helper.make_graph([doubled, *others], "body", [info("i", INT64), info("c", BOOL), info("s", STRING, 2)],
                             [info("d", BOOL), info("t", STRING, 2), info("o", STRING, 2)])
    branches = [helper.make_graph([helper.make_node("StringConcat", [name, "x"], ["z"])], name, [], [info("z", STRING, 2)])
                for name in ("y", "x")]
    nodes = [
        helper.make_node("Constant", [], ["n"], value_int=3),
        helper.make_node("Loop", ["n", "", "x"], ["y", "all"], body=step),
        helper.make_node("If", ["which"], ["chosen"], then_branch=branches[0], else_branch=branches[1]),
    ]
    proto = model(nodes, [info("x", STRING, 2), info("which", BOOL)], [info("all", STRING, 3, 2), info("chosen", STRING, 2)])
    found = results(proto, text("a", ""), np.array(True))
    assert found[0].tolist() == [["aaa", ""], ["aaaaa", ""], ["aaaaaaaaa", ""]]
    assert found[1].tolist() == ["aaaaaaaaa", ""]


def test_sequences_of_strings() -> None:
    nodes = [
        helper.make_node("StringConcat", ["x", "x"], ["w"]),
        helper.make_node("SequenceConstruct", ["x", "w"], ["q"]),
        helper.make_node("ConcatFromSequence", ["q"], ["y"], axis=0),
    ]
    outputs = [helper.make_tensor_sequence_value_info("q", STRING, [2]), info("y", STRING, 4)]
    found = results(model(nodes, [info("x", STRING, 2)], outputs), text("a", "é"))
    assert [v.tolist() for v in found[0]] == [["a", "é"], ["aa", "éé"]]
    assert found[1].tolist() == ["a", "é", "aa", "éé"]
