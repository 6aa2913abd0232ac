"""The search for what is to blame: broken rules, passes and kernels must be found, and nothing else."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.cli import main
from forge.driver import check_options, compiler, pipeline
from forge.errors import OptionError
from forge.ir.edits import budget
from forge.ir.edits.rewrite import Rule, RuleBuilder, rewrite, rule
from forge.ir.graph import Graph
from forge.ir.nodes import Node
from forge.ir.op import get_op
from forge.numerics import after_stage, bisect, bisection, compiled_as_is, difference, read_inputs
from forge.numerics.tolerances import Judge, Tolerance
from forge.options import CompileOptions
from forge.passes.base import GraphPass, rewriting
from tests.driver.support import DIGITS, pictures


@rule("nn.max_pool2d")
def grow_pools(g: RuleBuilder, node: Node) -> Any:
    """Wrong: results are larger."""
    if node.attributes["ceil_mode"]:
        return None
    pooled = g.call("nn.max_pool2d", *node.operands, **{**node.attributes, "ceil_mode": True})
    return g.call("multiply", pooled, g.constant(np.float32(1.01)))


@rule("nn.relu")
def relu_by_maximum(g: RuleBuilder, node: Node) -> Any:
    return g.call("maximum", *node.operands, g.constant(np.float32(0)))


def halve_weights(graph: Graph, options: CompileOptions) -> int:
    """Wrong, and no rule: the weight of the last layer is half as large."""
    node = graph.find("nn.dense")
    weight = node.operands[1].constant
    other = forge.ir.builder.Builder(graph, before=node).constant(weight * np.float32(0.5))
    node.set_operand(1, other)
    return 1


@pytest.fixture
def broken_stage(monkeypatch: pytest.MonkeyPatch) -> Callable[[GraphPass], None]:
    """Adds a stage 'broken' to the compiler."""

    def add(run: GraphPass) -> None:
        place = [stage.name for stage in pipeline.STAGES].index("fold_scale")
        stage = pipeline._pass("broken", 1, run, "a defect")
        for module, name in ((pipeline, "STAGES"), (bisection, "STAGES"), (pipeline, "GRAPH_STAGES"), (compiler, "GRAPH_STAGES")):
            stages = getattr(module, name)
            monkeypatch.setattr(module, name, (*stages[:place], stage, *stages[place:]))

    return add


@pytest.fixture
def broken_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine code of sums is a hundredth off."""
    monkeypatch.setattr(type(get_op("sum")), "element", lambda self, x, count: x * 1.01)


def test_agreement(digits: forge.IRModule) -> None:
    found = bisect(digits, [pictures(2), pictures(3)])
    assert found.agrees
    assert found.samples == 2
    assert found.blame == "compiled code agrees with the interpreter"
    assert found.output == "logits"
    assert 0 <= found.difference.relative < 1e-5


@pytest.mark.parametrize("level", range(5))
def test_quantized_models_agree_at_all_levels(level: int) -> None:
    text = """
    def @main(%x: Tensor[(n, 4, 6, 6), float32]) {
      %0 = qnn.dequantize(qnn.quantize(%x, 0.02f, 3i8), 0.02f, 3i8);
      %1 = qnn.dequantize(full(3i8, shape=[8, 4, 3, 3]), 0.01f);
      %2 = nn.relu(nn.conv2d(%0, %1, padding=[1, 1]));
      qnn.dequantize(qnn.quantize(%2, 0.05f, -128i8), 0.05f, -128i8)
    }
    """
    data = np.random.default_rng(0).standard_normal((2, 4, 6, 6)).astype("f")
    assert bisect(forge.IRModule(text), data, options=check_options(opt_level=level)).agrees


def test_a_broken_rule_is_named(digits: forge.IRModule, broken_stage: Any, tmp_path: Path, capsys: Any) -> None:
    broken_stage(rewriting(relu_by_maximum, grow_pools))
    found = bisect(digits, pictures(4))
    assert (found.kind, found.stage, found.rule) == ("stage", "broken", "grow_pools")
    assert "max_pool2d" in found.node
    assert found.operators == ("nn.max_pool2d",)
    assert "stage 'broken' changes what the graph means, rule 'grow_pools' at node" in found.blame
    assert found.difference.relative > 100 * found.allowed / 4 > 0
    assert shown_by_script(found, tmp_path, capsys) == pytest.approx(0.01, rel=0.01)


def shown_by_script(found: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> float:
    """The relative difference that the reproducer's script prints."""
    files = found.reproducer.write(folder / "small", found.blame)
    assert [path.name for path in files] == ["small.forge", "small.npz", "small.py"]
    runpy.run_path(str(files[2]))
    shown = capsys.readouterr().out
    assert "def @main" in shown
    return float(shown.partition("largest difference ")[2].partition(", ")[2].partition(" ")[0])


def test_a_broken_pass_without_rules_is_named(digits: forge.IRModule, broken_stage: Any, tmp_path: Path, capsys: Any) -> None:
    broken_stage(halve_weights)
    found = bisect(digits, pictures(4))
    assert (found.kind, found.stage, found.rule, found.node) == ("stage", "broken", "", "")
    assert found.operators == ("nn.dense",)
    assert shown_by_script(found, tmp_path, capsys) == pytest.approx(0.5, rel=0.01)


def test_a_graph_that_cannot_be_interpreted_is_wrong(digits: forge.IRModule, broken_stage: Any, monkeypatch: Any) -> None:
    """Its interpretation fails, though the machine code runs."""
    reference = type(get_op("maximum")).reference

    def fail(self: Any, attrs: Any, *operands: Any) -> Any:
        if self.name == "maximum":
            raise ValueError("broken")
        return reference(self, attrs, *operands)

    monkeypatch.setattr(type(get_op("maximum")), "reference", fail)
    broken_stage(rewriting(relu_by_maximum))
    found = bisect(digits, pictures(2), tolerance=1e-12)
    assert (found.kind, found.stage, found.rule) == ("stage", "broken", "relu_by_maximum")


SUMS = "def @main(%x: Tensor[(n, 8), float32]) { exp(sum(nn.softmax(nn.relu(%x)), axis=[1])) }"


def test_a_broken_kernel_is_named(broken_kernel: None, tmp_path: Path, capsys: Any) -> None:
    found = bisect(forge.IRModule(SUMS), np.ones((3, 8), "f"))
    assert (found.kind, found.stage) == ("kernel", "loops")
    assert "sum" in found.kernel
    assert "sum" in found.operators
    assert f"kernel '{found.kernel}' is wrong: " in found.blame
    assert shown_by_script(found, tmp_path, capsys) > 1e-3


def test_kernels_that_are_right_alone(broken_kernel: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(bisection, "_results", lambda known, options: iter(()))
    found = bisect(forge.IRModule(SUMS), np.ones((3, 8), "f"))
    assert (found.kind, found.stage) == ("entry", "memory_plan")
    assert "sum" in found.operators
    assert shown_by_script(found, tmp_path, capsys) > 1e-3


def test_what_is_tolerated_can_be_given(broken_kernel: None) -> None:
    module, data = forge.IRModule(SUMS), np.ones((3, 8), "f")
    assert bisect(module, data, tolerance=0.1).agrees
    assert bisect(module, data, tolerance="20dB").agrees
    assert not bisect(module, data, tolerance="90 dB").agrees
    assert not bisect(module, data, tolerance="1e-4").agrees


@pytest.mark.parametrize("given", ["much", "-1", -0.1, "nan", "inf", True, "dB"])
def test_wrong_tolerances(given: Any) -> None:
    with pytest.raises(OptionError, match=r"tolerance: got .*; expected the largest difference .* as in 60dB"):
        Tolerance.parse(given)


def test_wrong_modules_are_refused() -> None:
    with pytest.raises(OptionError, match=r"bisect: got str; expected an IRModule; load models with forge\.from_onnx"):
        bisect("model.onnx")  # type: ignore[arg-type]


def test_a_node_that_is_one_rounding_off_is_no_difference_and_ten_thousand_are() -> None:
    graph = forge.IRModule("def @main(%x: Tensor[(64), float32]) { multiply(exp(%x), 3f) }").main
    x = np.linspace(-1, 1, 64, dtype="f")
    expected = [3 * np.exp(x)]
    judge = Judge(graph, [x], expected, Tolerance())
    assert judge.wrong([expected[0] * np.float32(1 + 1.2e-7)]) == []
    assert [number for number, _ in judge.wrong([expected[0] * np.float32(1.001)])] == [0]


def test_integers_must_be_equal() -> None:
    graph = forge.IRModule("def @main(%x: Tensor[(4), int32]) { add(%x, 1) }").main
    x = np.arange(4, dtype="i")
    judge = Judge(graph, [x], [x + 1], Tolerance())
    assert judge.wrong([x + 1]) == []
    assert len(judge.wrong([x + np.array([1, 1, 1, 2], "i")])) == 1


def test_a_budget_ends_replacements() -> None:
    def run(limit: int | None) -> tuple[int, list[tuple[str, str]]]:
        graph = forge.IRModule("def @main(%x: Tensor[(4), float32]) { nn.relu(exp(nn.relu(%x))) }").main
        rules: list[Rule] = [relu_by_maximum]
        with budget.limited(limit) as spent:
            return rewrite(graph, rules), spent.replaced

    assert [run(limit)[0] for limit in (None, 0, 1, 2, 3)] == [2, 0, 1, 2, 2]
    assert run(1)[1] == run(None)[1][:1]
    assert all(name == "relu_by_maximum" and "nn.relu" in label for name, label in run(None)[1])
    assert budget.current() is None


def test_one_stage_and_code_of_a_graph_as_it_is(digits: forge.IRModule) -> None:
    changed = after_stage(digits, "decompose", opt_level=1)
    x = pictures(2)
    expected = digits.get_inference_function("reference")(x)
    assert difference(expected, changed.get_inference_function("reference")(x)).relative < 1e-6
    assert difference(expected, compiled_as_is(changed)(x)).relative < 1e-5
    with pytest.raises(OptionError, match="after_stage: no stage is called 'magic'"):
        after_stage(digits, "magic")


def test_inputs_of_a_reproducer_keep_their_types(tmp_path: Path) -> None:
    text = "def @main(%x: Tensor[(2), bfloat16], %file: Tensor[(1), string], %n: Tensor[(1), int8]) { (%x, %file, %n) }"
    ir = forge.IRModule(text)
    given = [np.array([1.5, -2], forge.dtypes.numpy_dtype("bfloat16")), np.array(["a"], object), np.array([3], np.int8)]
    reproducer = forge.numerics.Reproducer(ir.main, given, "", check_options())
    files = reproducer.write(tmp_path / "r")
    found = read_inputs(files[1], ir)
    for expected, (name, array) in zip(given, found.items(), strict=True):
        assert (array.dtype, array.tolist()) == (expected.dtype, expected.tolist()), name
    with pytest.raises(OptionError, match="input 'z' is missing"):
        read_inputs(files[1], forge.IRModule("def @main(%z: Tensor[(2), float32]) { exp(%z) }"))


def test_options_are_in_the_script() -> None:
    graph = forge.IRModule("def @main(%x: Tensor[(2), float32]) { exp(%x) }").main
    options = check_options("llvm -mcpu=x86-64-v3", opt_level=1, exact=True)
    script = forge.numerics.Reproducer(graph, [], "fold_scale", options).script("title")
    assert 'after_stage(module, "fold_scale", target=' in script
    assert "-mcpu=x86-64-v3" in script
    assert "opt_level=1, exact=True" in script
    assert "target" not in forge.numerics.Reproducer(graph, [], "", check_options()).script("title")


def test_the_command_line_writes_the_reproducer(broken_kernel: None, tmp_path: Path, capsys: Any) -> None:
    forge.IRModule(SUMS).save(tmp_path / "m.forge")
    np.save(tmp_path / "x.npy", np.ones((3, 8), "f"))
    arguments = ["bisect", str(tmp_path / "m.forge"), "--data", str(tmp_path / "x.npy")]
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert "is wrong: " in shown.out
    assert f"run 'python {tmp_path / 'm_bisect.py'}'" in shown.out
    assert not shown.err
    assert {path.name for path in tmp_path.iterdir()} >= {"m_bisect.forge", "m_bisect.npz", "m_bisect.py"}
    assert main([*arguments, "-o", str(tmp_path / "other"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["agrees"], told["kind"]) == (False, "kernel")
    assert told["reproducer"][0] == str(tmp_path / "other.forge")
    assert main([*arguments, "--tolerance", "1"]) == 0


def test_the_model_of_the_demo_by_the_command_line(tmp_path: Path, capsys: Any) -> None:
    assert main(["bisect", str(DIGITS / "digits.onnx"), "-o", str(tmp_path / "r")]) == 0
    assert "agrees" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
