"""Every row of ``tests/ops/cases`` as a model of one node: what runtimes make of it is the NumPy meaning.

onnxruntime must agree; where it has no kernel for an element type, or ``DIFFERENT`` tells why its results differ, the onnx
package's evaluator; where that cannot run the model either, Forge's interpreter on the model, imported again. The accuracy of
functions in other runtimes is theirs: errors are measured against the largest element.
"""

from __future__ import annotations

import fnmatch

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from forge.errors import ExecutionError, OpAttributeInvalid, OpNotImplemented
from forge.exporters.onnx.coverage import WITHOUT_ONNX, ways
from forge.ir.graph import Module
from forge.ir.op import Trait, all_ops, get_op
from forge.ops.elementwise.rows import Elementwise
from tests.exporters.onnx.support import NotRun, Run, as_strings, exported, forge_outputs, onnxruntime_outputs, reference_outputs
from tests.ops import harness
from tests.ops.case import Case
from tests.ops.compare import mismatch
from tests.ops.test_cases import CASES

RUNTIMES: dict[str, Run] = {"onnxruntime": onnxruntime_outputs, "reference": reference_outputs, "forge": forge_outputs}

SINGLE = "computes float64 with constants, or functions, of single precision"
NAN = "ONNX does not say where NaN comes in an order"
TEXT = "ONNX does not say how numbers are written as text"
SPLIT = "splits at other white space, and the empty text into nothing"
SURROGATES = "takes no bytes that are not UTF-8"
OUT_OF_RANGE = (
    "take(*,int64[[][[]0,-1,9[]],[[]3,-5,-99[]][]])[[]axis=0[]]", "vision.roi_align(*fixedint64[[]9[]])*",
    "tensor_expression.injective(*empty",
)
"""Rows of indices that ONNX refuses: the operator takes the nearest, so that memory is safe."""
DIFFERENT = (  # (pattern of ids, runtimes, why)
    ("random.*", "onnxruntime reference", "other random numbers"),
    ("cast(float32?nan,inf,*=int32]", "onnxruntime reference", "ONNX leaves casts of floats that overflow undefined"),
    ("cast(float32?nan,inf,*=uint8]", "onnxruntime reference", "ONNX leaves casts of floats that overflow undefined"),
    ("image.grid_taps(float32*nan*", "onnxruntime reference", "ONNX leaves casts of floats that overflow undefined"),
    ("cast(*float*dtype=string]", "onnxruntime reference", TEXT),
    ("cast(bool*dtype=string]", "onnxruntime", TEXT),
    ("cast(string*dtype=bool]", "reference", TEXT),
    ("erf*(float64*", "reference", SINGLE),
    ("igamma*(float64*", "reference", SINGLE),
    ("nn.gelu(float64*", "onnxruntime reference", SINGLE),
    ("nn.hardswish(float64*", "reference", SINGLE),
    ("nn.shrink(float64*", "onnxruntime", SINGLE),
    ("mean(bfloat16*", "reference", "sums bfloat16 in bfloat16"),
    ("*(float*[[]0,3])*", "onnxruntime", "the mean of nothing is 0, not NaN"),
    ("arg*nan*", "onnxruntime", NAN),
    ("argsort(float16?70?#61432567)*", "onnxruntime", NAN),
    ("sort(*nan*", "onnxruntime", NAN),
    ("unique(*nan*", "onnxruntime", "takes NaNs for equal"),
    ("unique(*no*elements", "onnxruntime", "divides by zero, which ends the process"),
    ("reduce_window(float32?3,4?#1de7c56f)*", "onnxruntime", "maxima leave NaN out"),
    ("extremes(*nan*", "onnxruntime", "minima leave NaN out"),
    ("take(string*", "onnxruntime", "cuts text at the character NUL"),
    ("string.split*", "onnxruntime", SPLIT),
    ("string.concat*", "reference", SURROGATES),
    ("string.normalize*", "reference", "changes cases and compares stopwords in other ways"),
    ("string.regex_full_match(string?9?*", "reference", "matches by rules of Python"),
)

PLAIN = [c for c in CASES if not get_op(c.op).traits & Trait.HOST]
FIRST = list({c.op: c for c in reversed(PLAIN)}.values())
RUNS = [(c, s) for c in PLAIN for s in (False, True) if c.symbolic or not s]


def write_and_compare(case: Case, symbolic: bool = False) -> bool:
    """Whether the row can be written; what is written must agree."""
    with np.errstate(all="ignore"):
        expected = harness.run_reference(case, symbolic)
    try:
        model = exported(Module(harness.build_graph(case, symbolic)))
    except OpNotImplemented:
        return False
    inputs = harness.input_arrays(case)
    if any(fnmatch.fnmatchcase(case.id, pattern) for pattern in OUT_OF_RANGE):
        with pytest.raises((ExecutionError, OpAttributeInvalid), match="index is out of range"):  # or already when it is imported
            forge_outputs(model, inputs)
        return True
    for name, run in RUNTIMES.items():
        if not any(fnmatch.fnmatchcase(case.id, pattern) and name in names for pattern, names, _ in DIFFERENT):
            try:
                got = run(model, inputs)
            except NotRun:
                continue
            compare(case, name, got, expected)
            return True
    raise AssertionError(f"{case.id}: no runtime ran the model")


def compare(case: Case, runtime: str, got: list[object], expected: list[object]) -> None:
    alone = runtime == "forge" and isinstance(get_op(case.op), Elementwise) and case.op not in harness.CANCELLING
    for actual, wanted in zip(got, expected, strict=True):
        if case.op.startswith("random."):
            assert np.shape(actual) == np.shape(wanted) and np.asarray(actual).dtype == np.asarray(wanted).dtype
            continue
        wrong = mismatch(as_strings(np.asarray(actual)), wanted, harness.accuracy_of(case), alone=alone)
        assert wrong is None, f"{case.id}: {runtime}: {wrong}"


@pytest.mark.parametrize("case", FIRST, ids=[c.op for c in FIRST])
def test_first_row(case: Case) -> None:
    write_and_compare(case)


@pytest.mark.slow
@pytest.mark.parametrize("operator", list(dict.fromkeys(c.op for c in PLAIN)))
def test_all_rows(operator: str) -> None:
    """Also that what ``WITHOUT_ONNX`` lists is right."""
    written = [write_and_compare(c, symbolic) for c, symbolic in RUNS if c.op == operator]
    assert any(written) == (operator not in WITHOUT_ONNX)


def test_every_operator_has_a_way_or_a_reason() -> None:
    found = dict(ways())
    assert {name for name, way in found.items() if not way} == set(WITHOUT_ONNX)
    assert found.keys() == {op.name for op in all_ops()}
