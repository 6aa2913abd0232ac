"""The table of operators: its rows, how they are judged, measured and written down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import operator_results, operators
from benchmarks.isolation import WorkerFailed
from benchmarks.operator_results import Form, Measured, Result
from benchmarks.operator_table import ROWS, Row

TITLES = ["element-wise: add of scalars, 4 numbers", "argmax: 1000 classes"]
FIRST_OF_FAMILIES = [next(row for row in ROWS if row.family == family) for family in dict.fromkeys(row.family for row in ROWS)]
STATIC = Form({"forge": (2e-3, 3e-3), "onnxruntime": (4e-3, 4e-3), "openvino": (3e-3, 9e-3)}, {})
DYNAMIC = Form({"forge": (8e-3, 8e-3), "onnxruntime": (4e-3, 4e-3)}, {"openvino": "no | luck"})
MEASURED = Result(TITLES[0], 1, 48, {"static": STATIC, "dynamic": DYNAMIC})


def test_every_row_has_a_title_of_its_own() -> None:
    titles = [row.title for row in ROWS]
    assert len(titles) >= 150 and len(titles) == len(set(titles))


def test_rows_use_all_that_they_name() -> None:
    parser = pytest.importorskip("onnx.parser")
    for row in ROWS:
        nodes = [parser.parse_node(text) for text in row.nodes.split(";")]
        read = {name for node in nodes for name in node.input if name}
        made = {name for node in nodes[:-1] for name in node.output}
        assert read - made == {*row.inputs, *row.constants}, row.title


def test_arrays_are_what_a_row_says() -> None:
    def made(given: Any) -> np.ndarray[Any, Any]:
        return operators.array(given, np.random.default_rng(0))

    assert [operators.shape_of("8,h=56,3", dynamic=dynamic) for dynamic in (True, False)] == [[8, "h", 3], [8, 56, 3]]
    assert made("2,t=3").shape == (2, 3) and made("2,t=3").dtype == np.float32 and made("float32>0 999").min() > 0
    assert (made("int64<10 999").min(), made("int64<10 999").max(), made("int8<64 9999").min()) == (0, 9, -64)
    assert sorted(made("distinct<5 5,1")[:, 0]) == [0, 1, 2, 3, 4] and made("bool 4").dtype == bool
    boxes = made("boxes 7,4")
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    kinds = [made(given).dtype.name for given in (1, 1.5, [2.0], np.uint8(3), "uint8 3")]
    assert kinds == ["int64", "float32", "float32", "uint8", "uint8"]


def test_the_ratio_is_to_the_faster_peer_that_is_right() -> None:
    assert (MEASURED.ratio("static"), MEASURED.ratio("dynamic"), MEASURED.dynamic_over_static) == (1.5, 0.5, 0.25)
    wrong = Form(STATIC.seconds, {"openvino": "wrong"})
    assert wrong.ratio == 2
    assert Form(wrong.seconds, {"forge": "wrong"}).ratio is None and Form({"forge": (1, 1)}, {}).ratio is None


def test_failures_of_forge_are_worse_than_slow_rows() -> None:
    failed = Result("pad: edge 1", 1, 0, {"static": Form({}, {"forge": "died of SIGSEGV"})})
    fast = Result("sort: all of 1000", 1, 8, {"static": STATIC})
    assert operator_results.behind([MEASURED, fast, failed]) == [failed, MEASURED]


@pytest.mark.parametrize(("peers", "contradicted"), [
    ({"onnxruntime": 1.0, "openvino": 1.0}, []), ({"onnxruntime": 1.0, "openvino": 1.5}, ["openvino"]),
    ({"onnxruntime": 1.5, "openvino": 1.5}, ["forge"]), ({"onnxruntime": 1.5}, ["forge"]),
    ({"openvino": float("nan")}, ["forge"])])
def test_forge_is_wrong_where_no_peer_agrees(peers: Mapping[str, float], contradicted: Sequence[str]) -> None:
    outputs = {name: [np.full(3, value, np.float32)] for name, value in {"forge": 1.0, **peers}.items()}
    assert list(operators.disagreeing(outputs)) == contradicted


def test_few_bytes_may_differ_by_one() -> None:
    def agrees(count: int, step: int) -> bool:
        others = codes + np.where(np.arange(1000) < count, np.uint8(step), np.uint8(0))
        return operators.difference([codes], [others]) <= operators.TOLERANCE

    codes = np.full(1000, 99, np.uint8)
    assert [agrees(*case) for case in ((0, 0), (10, 1), (11, 1), (1, 2))] == [True, True, False, False]


def test_rows_are_measured_and_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    file = tmp_path / "rows.json"
    assert operators.main(["--filter", TITLES[0], "--rounds", "1", "--json", str(file)]) == 0
    assert operators.main(["--filter", TITLES[1], "--rounds", "1", "--json", str(file)]) == 0
    stored = json.loads(file.read_text())
    assert [r["title"] for r in stored["results"]] == TITLES
    assert all(r["forms"][form]["seconds"].keys() >= {"forge", "onnxruntime"} for r in stored["results"] for form in r["forms"])
    assert {form for r in stored["results"] for form in r["forms"]} == {"static", "dynamic"}
    printed = capsys.readouterr().out
    assert TITLES[0] in printed and "geometric mean" in printed


def test_a_process_that_dies_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Fragile:
        def __init__(self, verb: str, numbers: str, *arguments: object, log: Path) -> None:
            self.numbers = numbers.split(",")

        def __enter__(self) -> Fragile:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def request(self, seconds: float) -> dict[str, Any]:
            asked.append(number := self.numbers.pop(0))
            if number == "1":
                raise WorkerFailed("died of SIGSEGV")
            return {"title": ROWS[int(number)].title, "threads": 1, "bytes": 1, "forms": {}}

    monkeypatch.setattr(operators, "Worker", Fragile)
    found = list(operators.run(ROWS[:3], 1, "llvm", 1, 0.0))
    assert asked == ["0", "1", "2"] and [r.title for r in found] == [row.title for row in ROWS[:3]]
    assert [r.failed for r in found] == [False, True, False]
    assert found[1].forms["static"].failures == {"forge": "died of SIGSEGV"}


def test_an_engine_that_fails_says_so() -> None:
    pytest.importorskip("onnxruntime")
    row = Row("none", "without such an operator", "y = Nothing(x)", {"x": "n=2"})
    result = operators.measure_row(row, 1, "llvm", 1, 0.0)
    assert result.failed and {"forge", "onnxruntime"} <= result.forms["static"].failures.keys()
    assert "Nothing" in operators.line(result)


def test_results_of_another_machine_are_not_mixed(tmp_path: Path) -> None:
    file, here = tmp_path / "rows.json", {"cpu": "a", "cpus": 2, "versions": {"onnxruntime": "1"}}
    operator_results.save(file, Measured(here).add([MEASURED]))
    assert operator_results.load(file, here) == Measured(here, (MEASURED,))
    assert operator_results.load(file, {**here, "versions": {"onnxruntime": "2"}}).results == ()
    with pytest.raises(ValueError, match=r"measured on .*'cpu': 'a'.*; this is .*'cpu': 'b'.*; give another --json"):
        operator_results.load(file, {**here, "cpu": "b"})


def test_results_replace_those_of_the_same_row() -> None:
    other = Result(TITLES[1], 1, 0, {})
    gone = Result("pad: of a row that is no longer there", 1, 0, {})
    again = Result(TITLES[0], 1, 1, {})
    assert Measured({}, (other, MEASURED, gone)).add([again]).results == (again, other)


def test_the_page_shows_what_is_slow_first() -> None:
    here = {"cpu": "znver9", "model": "some CPU", "cpus": 2, "versions": {"onnxruntime": "1.0"}}
    text = operator_results.page(Measured(here).add([MEASURED, Result(TITLES[1], 2, 8, {"static": STATIC})]))
    parts = ["znver9 (some CPU), 2 CPUs, with onnxruntime 1.0", "## 1 thread\n", "Below 1.0, worst first (1 of 1 rows)",
             rf"| {TITLES[0]} | 2 | 4 | 3 | 1.50 | 8 | 4 | no \| luck | 0.50 | 0.25 | 0.00 |",
             "| all | 1 | 1.50 | 0.50 | 1 | 0.25 |", "## 2 threads\n", "## Not measured yet"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places) and TITLES[1] not in text[places[-1]:]


@pytest.mark.slow
@pytest.mark.parametrize("row", FIRST_OF_FAMILIES, ids=lambda row: row.family)
def test_every_family_agrees_with_its_peers(row: Row) -> None:
    pytest.importorskip("onnxruntime")
    assert not operators.measure_row(row, 2, "llvm", 1, 0.0).failed
