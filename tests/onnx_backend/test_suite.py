"""The ONNX backend suite against its pass-lists.

All of them, with ``--sweeps`` a part. ``python -m tests.onnx_backend --update`` writes the lists.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.onnx_backend import cases, counts
from tests.onnx_backend.compare import check_outputs
from tests.onnx_backend.counts import FILE, Count, kept, left
from tests.onnx_backend.peers import PACKAGES, PREPARE_PEER, version_of
from tests.onnx_backend.pool import KINDS, Outcome, Worker, run_cases
from tests.onnx_backend.stored import stored_nodes
from tests.onnx_backend.worker import outcome

WORKERS = 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("runtime", cases.RUNTIMES)
def test_outcomes_are_those_listed(runtime: str, take: Callable[..., list[str]]) -> None:
    listed = cases.pass_list(runtime)
    outcomes = run_cases(take(cases.case_names()), runtime, WORKERS)
    failed = {n: o.message for n, o in outcomes.items() if not o.passed and n in listed}
    unlisted = [n for n, o in outcomes.items() if o.passed and n not in listed and not cases.may_pass(runtime, n)]
    assert not failed, "listed cases fail"
    assert not unlisted, "cases pass that are not listed; run python -m tests.onnx_backend --update"


@pytest.mark.parametrize("runtime", cases.RUNTIMES)
def test_every_case_is_listed_or_has_a_reason(runtime: str) -> None:
    listed = cases.pass_list(runtime)
    excluded = cases.exclusions()
    silent = [n for n in cases.case_names() if n not in listed and not any(e.covers(runtime, n) for e in excluded)]
    assert not silent


@pytest.mark.parametrize("runtime", cases.RUNTIMES)
def test_lists_name_existing_cases(runtime: str) -> None:
    assert cases.pass_list(runtime) <= set(cases.case_names())


def test_every_exclusion_is_needed() -> None:
    for exclusion in cases.exclusions():
        failing = [
            n for r in exclusion.runtimes for n in cases.case_names() if exclusion.covers(r, n) and n not in cases.pass_list(r)
        ]
        assert failing, exclusion
        assert exclusion.reason, exclusion


def test_kept_counts_are_those_of_the_lists() -> None:
    assert list(kept()) == [*counts.OURS, *(peer for peer in PACKAGES if peer in kept())]
    for count in kept().values():
        assert sum(getattr(count, kind) for kind in KINDS) == len(cases.case_names())
    for runtime in counts.OURS:
        failed = {row["case"] for row in left() if runtime in row["runtimes"].split(", ")}
        assert failed == set(cases.case_names()) - cases.pass_list(runtime), "run: python -m tests.onnx_backend --update"
        assert kept()[runtime].passed == len(cases.pass_list(runtime))
    for row in left():
        assert row["reason"] in {cases.reason_for(r, row["case"]) for r in counts.OURS}


def test_some_outcomes_of_ours_are_kept_with_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "counts.json"
    copy.write_text(FILE.read_text())
    monkeypatch.setattr(counts, "FILE", copy)
    before = kept()["compiled"]
    after = counts.keep("compiled", "2", {"test_add": Outcome("test_add", "wrong", "")})
    assert after == replace(before, version="2", passed=before.passed - 1, wrong=before.wrong + 1) == kept()["compiled"]
    assert {"case": "test_add", "kind": "wrong", "runtimes": "compiled", "reason": ""} in left()
    assert counts.keep("compiled", "2", {"test_add": Outcome("test_add", "passed", "")}) == replace(before, version="2")
    assert "test_add" not in {row["case"] for row in left()}
    assert counts.keep("reference", "3", {"a": Outcome("a", "hung", "")}) == Count("3", hung=1)


@pytest.mark.parametrize("peer", [p for p in PACKAGES if p != "tinygrad" or version_of(p)])
def test_peers_pass_fail_and_refuse(peer: str) -> None:
    if version_of(peer) is None:
        pytest.skip(f"{peer} is not installed")
    known = cases.collect()
    assert outcome(known["test_add"], peer) == ("passed", "")
    assert outcome(known["test_castlike_FLOAT16_to_FLOAT_expanded"], peer)[0] == "passed"
    shifted = replace(known["test_add"], data_sets=[(x, [y + 1 for y in ys]) for x, ys in known["test_add"].data_sets])
    assert outcome(shifted, peer)[0] == "wrong"
    assert outcome(known["test_gradient_of_add"], peer)[0] == "refused"


@pytest.mark.parametrize("name", ["bfloat16", "int4", "float8_e5m2"])
@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_element_types_that_numpy_lacks_reach_peers(peer: str, name: str) -> None:
    pytest.importorskip(peer)
    dtype = np.dtype(getattr(ml_dtypes, name))
    code = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    info = [onnx.helper.make_tensor_value_info(n, code, [3, 5]) for n in ("x", "y")]
    casts = (("x", "f", onnx.TensorProto.FLOAT), ("f", "y", code))
    nodes = [onnx.helper.make_node("Cast", [x], [y], to=to) for x, y, to in casts]
    graph = onnx.helper.make_graph(nodes, "g", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 25)], ir_version=11)
    value = np.linspace(-3, 4, 15).reshape(3, 5).astype(dtype)
    (got,) = PREPARE_PEER[peer](model.SerializeToString(), [value])([value])
    check_outputs([value], [got], 0, 0)


def write_case(folder: Path, name: str, outputs: list[np.ndarray], opset: int) -> None:
    made = cases.collect()[name]
    model = onnx.ModelProto.FromString(made.model.SerializeToString())
    model.opset_import[0].version = opset
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True)
    (data.parent / "model.onnx").write_bytes(model.SerializeToString())
    for stem, arrays in (("input", made.data_sets[0][0]), ("output", outputs)):
        for k, array in enumerate(arrays):
            (data / f"{stem}_{k}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())


def test_stored_cases_of_single_nodes_are_taken_where_no_case_in_memory_has_their_model(tmp_path: Path) -> None:
    made = cases.collect()
    right = {name: made[name].data_sets[0][1] for name in ("test_add", "test_sub", "test_relu")}
    write_case(tmp_path, "test_add", right["test_add"], 13)
    write_case(tmp_path, "test_sub", [right["test_sub"][0] + 1], 13)
    write_case(tmp_path, "test_relu", right["test_relu"], made["test_relu"].model.opset_import[0].version)
    found = {case.name: case for case in stored_nodes(tmp_path, made)}
    assert list(found) == ["test_add_stored", "test_sub_stored"]
    assert outcome(found["test_add_stored"], "interpreter") == ("passed", "")
    assert outcome(found["test_sub_stored"], "interpreter")[0] == "wrong"


_WORKER = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    case = line.strip()
    if case == "crash":
        os.abort()
    if case == "hang":
        time.sleep(600)
    kind, message = ("passed", "") if case == "good" else ("wrong", "bad")
    print(json.dumps({"case": case, "kind": kind, "message": message}), flush=True)
"""


@pytest.fixture
def fake_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "fake_suite_worker.py").write_text(_WORKER)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return "fake_suite_worker"


def test_crash_and_hang_are_charged_to_their_case(fake_worker: str) -> None:
    outcomes = run_cases(["good", "crash", "hang", "wrong"], "any", workers=1, seconds=1.0, module=fake_worker)
    assert outcomes["good"].passed
    assert [outcomes[n].kind for n in ("crash", "hang", "wrong")] == ["crashed", "hung", "wrong"]
    assert outcomes["wrong"].message == "bad"
    assert Count.of(outcomes.values(), "1") == Count("1", passed=1, wrong=1, crashed=1, hung=1)


def test_worker_runs_on_after_a_crash(fake_worker: str) -> None:
    worker = Worker("any", 5.0, fake_worker)
    assert not worker.run("crash").passed
    assert worker.run("good").passed
    worker.close()


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ([np.zeros(3)], [np.zeros(3, np.float32)]),
        ([np.zeros((3, 1))], [np.zeros(3)]),
        ([np.zeros(3)], [np.full(3, 1e-3)]),
        ([np.zeros(3)], []),
        ([np.zeros(3)], [0.0]),
        ([[np.zeros(3)]], [[np.zeros(3), np.zeros(3)]]),
        ([np.array(["a"], object)], [np.array(["b"], object)]),
        ([None], [np.zeros(3)]),
        ([np.array([1.0, np.nan])], [np.array([np.nan, 1.0])]),
    ],
)
def test_comparison_rejects_wrong_outputs(expected: list[object], got: list[object]) -> None:
    with pytest.raises(AssertionError):
        check_outputs(expected, got, rtol=1e-3, atol=1e-7)


def test_comparison_accepts_equal_outputs() -> None:
    outputs = [np.arange(3.0), [np.zeros(2, np.int8)], None, np.array(["a"], object)]
    check_outputs(outputs, [np.arange(3.0) * (1 + 1e-5), [np.zeros(2, np.int8)], None, np.array(["a"], object)], 1e-3, 1e-7)
