"""Every version of every operator in the onnx package's schemas against the table of converters: nothing is missing or ignored.

Counts of inputs, names and defaults of attributes are in ``test_registry.py``.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import onnx
import pytest

from forge.frontends.converter import Converter
from forge.frontends.onnx import REGISTRY, converters
from forge.frontends.onnx.coverage import coverage
from forge.frontends.support import MISSING

converters.load_all()
SCHEMAS = [s for s in onnx.defs.get_all_schemas_with_history() if not s.deprecated]
NOT_CONVERTED = {("", "ImageDecoder"), ("ai.onnx.preview.training", "Gradient")}
REQUIRED = inspect.Parameter.empty
KINDS = {"INT": int, "FLOAT": float, "STRING": str, "INTS": tuple, "FLOATS": tuple, "STRINGS": tuple}

UNUSED = {
    ("ATen", "overload_name"): "inputs tell the overloads of what is supported apart",
    ("Dropout", "ratio"): "dropout in inference changes nothing",
    ("Gemm", "broadcast"): "the bias is broadcast where its shape asks for it",
    ("GRU", "output_sequence"): "a result that is named is given",
    ("LSTM", "output_sequence"): "a result that is named is given",
    ("RNN", "output_sequence"): "a result that is named is given",
    ("TopK", "sorted"): "any order is allowed without it, the sorted one too",
    ("LinearClassifier", "multi_class"): "no engine looks at it",
    ("TreeEnsemble", "nodes_hitrates"): "a hint for speed",
    **dict.fromkeys(((f"TreeEnsemble{kind}", f"nodes_hitrates{form}") for kind in ("Classifier", "Regressor")
                     for form in ("", "_as_tensor")), "a hint for speed"),
    **dict.fromkeys((("CastMap", "x"), ("CastMap", "cast_to"), ("CastMap", "map_form"), ("CastMap", "max_map"),
                     ("DictVectorizer", "x"), ("DictVectorizer", "int64_vocabulary"), ("DictVectorizer", "string_vocabulary"),
                     ("ZipMap", "classlabels_int64s"), ("ZipMap", "classlabels_strings")), "operators on maps are refused"),
}
"""Attributes and inputs that a converter may take without a look at them, and why."""

STRICTER = {
    ("LpPool", "kernel_shape"): "without one, which only version 1 allows, no result is defined",
    ("RegexFullMatch", "pattern"): "without one no result is defined",
    ("CategoryMapper", "cats_int64s"): "the table is made of both",
    ("CategoryMapper", "cats_strings"): "the table is made of both",
    ("LabelEncoder", "classes_strings"): "the table of version 1",
}
"""Attributes that the schema does not require and converters do."""

REFUSED_BY_CONVERTERS = {("Constant", "value"): "later versions have other forms; none is refused"}
"""Attributes that a schema requires and converters take as absent, to refuse that themselves."""


def rows() -> Iterator[tuple[Any, Converter]]:
    """Schemas with their converters."""
    for schema in SCHEMAS:
        row = REGISTRY.lookup(schema.domain, schema.name, schema.since_version)
        if row is not None:
            yield schema, row


def test_every_version_of_every_operator_can_be_loaded() -> None:
    standard = {schema.domain for schema in SCHEMAS}
    assert {(r.domain, r.op) for r in coverage() if r.how == MISSING and r.domain in standard} == NOT_CONVERTED


def test_kinds_of_attributes_are_those_of_every_version() -> None:
    wrong = []
    for schema, row in rows():
        for name, attribute in schema.attributes.items():
            excepted = {*STRICTER, *REFUSED_BY_CONVERTERS}
            if name in row.attributes and not fits(attribute, row.attributes[name]) and (schema.name, name) not in excepted:
                wrong.append((schema.name, schema.since_version, name, row.attributes[name]))
    assert not wrong


def fits(attribute: Any, default: Any) -> bool:
    """Whether a converter requires what the schema requires, and its default is of the schema's kind (None stands for any)."""
    if attribute.required or default is REQUIRED:
        return bool(attribute.required) and default is REQUIRED
    kind = KINDS.get(attribute.type.name)
    return kind is None or default is None or type(default) is kind


def test_converters_look_at_every_input_and_attribute() -> None:
    standard = [row for row in REGISTRY.rows() if row.domain in {schema.domain for schema in SCHEMAS}]
    unused = {(row.op, name) for row in standard for name in ignored_parameters(row.function)}
    assert unused == set(UNUSED)


def ignored_parameters(function: Any) -> set[str]:
    """Parameters that the body of a function does not mention, the context aside."""
    if hasattr(function, "__signature__"):
        return set()  # all are passed on
    parsed = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    if not isinstance(parsed, ast.FunctionDef):
        return set()
    names = {node.id for statement in parsed.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    hints = get_type_hints(inspect.unwrap(function))
    unused = {p for p in list(inspect.signature(function).parameters)[1:] if p not in names}
    return unused.union(*(ignored_fields(hints.get(p)) for p in names))


@cache
def ignored_fields(record: Any) -> frozenset[str]:
    """Fields of a record of attributes that no converter reads."""
    return frozenset(f.name for f in fields(record) if f.name not in attributes_read()) if is_dataclass(record) else frozenset()


@cache
def attributes_read() -> frozenset[str]:
    sources = Path(converters.__file__).parent.rglob("*.py")
    nodes = (node for path in sources for node in ast.walk(ast.parse(path.read_text())))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute))


def test_a_parameter_without_use_is_found() -> None:
    def convert(g: Any, x: Any, *, axis: int = 0, p: int = 2) -> Any:
        return g.call("abs", x, axis=axis)

    assert ignored_parameters(convert) == {"p"}


@pytest.mark.parametrize(("default", "expected"), [(1, True), (None, True), (1.0, False), (REQUIRED, False)])
def test_a_default_of_another_kind_is_found(default: Any, expected: bool) -> None:
    assert fits(onnx.defs.get_schema("Flatten", 9).attributes["axis"], default) is expected
