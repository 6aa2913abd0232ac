"""The list of ONNX operators that ``forge support onnx`` prints."""

from __future__ import annotations

import onnx

from forge.frontends.onnx import register, unregister
from forge.frontends.onnx.coverage import coverage
from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Coverage


def rows() -> dict[tuple[str, str], list[Coverage]]:
    found: dict[tuple[str, str], list[Coverage]] = {}
    for row in coverage():
        found.setdefault((row.domain, row.op), []).append(row)
    return found


def test_every_version_of_every_operator_is_listed_once() -> None:
    listed = [(r.domain, r.op, v) for r in coverage() for v in r.versions]
    known = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history() if not s.deprecated}
    beyond = {row for row in listed if row not in known}
    assert len(listed) == len(set(listed))
    assert known <= set(listed)
    assert {domain for domain, _, _ in beyond} == {"", "com.microsoft", "com.microsoft.nchwc", "org.pytorch.aten"}
    experimental = ("ATen", "Affine", "FC", "ParametricSoftplus", "Scale", "ScaledTanh", "SpatialBN")
    assert {op for domain, op, _ in beyond if not domain} == {"LayerNormalization", "SimplifiedLayerNormalization", *experimental}
    assert {version for domain, _, version in beyond if not domain} == {1}


def test_onnxruntimes_own_operators_are_listed() -> None:
    found = rows()
    assert [(r.versions, r.how) for r in found["com.microsoft", "FusedMatMul"]] == [((1,), CONVERTER)]
    assert [r.how for r in found["com.microsoft", "BeamSearch"]] == [MISSING]


def test_how_operators_are_loaded() -> None:
    found = rows()
    assert [(r.versions, r.how) for r in found["", "Conv"]] == [((1, 11, 22), CONVERTER)]
    assert [r.how for r in found["ai.onnx.preview.training", "Gradient"]] == [MISSING]
    assert any(r.how == FUNCTION for row in found.values() for r in row)


def test_a_registered_converter_counts() -> None:
    def convert(g: object, *operands: object) -> None:
        raise AssertionError("only listed")

    register("Gradient", convert, domain="ai.onnx.preview.training")
    try:
        assert [r.how for r in rows()["ai.onnx.preview.training", "Gradient"]] == [CONVERTER]
    finally:
        unregister("Gradient", domain="ai.onnx.preview.training")
