"""``PassContext``: every option has an effect on what is compiled inside, unknown ones are refused."""

from __future__ import annotations

import inspect
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.driver import STAGES, check_options, compile_module, optimized_graph
from forge.driver.pass_context import PassContext
from forge.errors import OptionError
from forge.options import CompileOptions
from tests.frontends.onnx.support import example, model

NETWORK = """g (float[n, 8, 9, 9] x, float[n, 4, 6] z) => (float[n, 5] y, float[n, 4, 6] s, float[n, 3] h) {
    c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w, b)
    t = BatchNormalization(c, scale, b, b, scale)
    r = Relu(t)
    d = Conv<kernel_shape=[3, 3], group=4>(r, w2)
    p = GlobalAveragePool(d)
    f = Flatten(p)
    y = Gemm<transB=1>(f, v)
    k = Conv<kernel_shape=[3]>(z, w3)
    m = MatMul(z, q)
    half = Mul(m, two)
    s = Softmax<axis=-1>(half)
    g0 = ReduceMean<keepdims=0>(k, axes)
    h = Sigmoid(g0)
}"""


@pytest.fixture(scope="module")
def ir() -> forge.IRModule:
    weights = {"w": example(0, 8, 8, 3, 3), "b": example(1, 8), "scale": np.abs(example(2, 8)) + 0.5,
               "w2": example(3, 8, 2, 3, 3), "v": example(4, 5, 8), "w3": example(5, 3, 4, 3), "q": example(6, 6, 6),
               "two": np.float32(2), "axes": np.array([2])}
    return forge.from_onnx(model(NETWORK, **weights))


X, Z = example(7, 2, 8, 9, 9), example(8, 2, 4, 6)


def check(ir: forge.IRModule) -> None:
    """What is compiled now agrees with the interpreter."""
    for got, expected in zip(ir.get_inference_function()(X, Z), ir.get_inference_function("reference")(X, Z), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


OPTIONAL = [stage.name for stage in STAGES if stage.level]


@pytest.mark.parametrize("name", OPTIONAL)
def test_each_optional_stage_may_be_left_out(ir: forge.IRModule, name: str) -> None:
    with PassContext(disabled_pass=[name]):
        check(ir)


def test_all_optional_stages_may_be_left_out(ir: forge.IRModule) -> None:
    with PassContext(disabled_pass=OPTIONAL):
        check(ir)


@pytest.mark.parametrize("stage", [s for s in STAGES if s.level], ids=lambda s: s.name)
def test_each_stage_may_run_below_its_level(ir: forge.IRModule, stage: Any) -> None:
    ran: list[str] = []
    with PassContext(opt_level=0, required_pass=[stage.name]):
        compile_module(ir.mod, observer=lambda done, graph: ran.append(done.name))
        check(ir)
    options = check_options(opt_level=0)
    assert ran == [s.name for s in STAGES if s.name != "link" and (s is stage or s.is_on(options) or s.name == "fusion")]


def test_a_disabled_stage_does_not_run(ir: forge.IRModule) -> None:
    with PassContext(disabled_pass=["choose_layouts", "split_groups"]):
        graph = optimized_graph(ir.mod, check_options())
        assert not graph.select("layout_transform")
    assert optimized_graph(ir.mod, check_options()).select("layout_transform")


def test_fusion_can_be_left_out(ir: forge.IRModule) -> None:
    def groups() -> int:
        return int(compile_module(ir.mod).summary["groups"])

    fused = groups()
    with PassContext(disabled_pass=["fusion"]):
        assert groups() > fused


@pytest.mark.parametrize(
    ("config", "attribute", "value"),
    [
        ({"set_float16": True}, "float16", True),
        ({"set_bfloat16": True}, "bfloat16", True),
        ({"winograd": False}, "winograd", False),
        ({"set_channel_layout": "last"}, "channel_layout", "last"),
    ],
)  # fmt: skip
def test_config_reaches_the_compiler(config: dict[str, Any], attribute: str, value: Any) -> None:
    with PassContext(config=config):
        assert getattr(check_options(), attribute) == value
    assert getattr(check_options(), attribute) != value


def test_tuned_asks_the_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORGE_TUNING", str(tmp_path / "none.sqlite"))
    with PassContext(config={"tuned": True}), pytest.raises(OptionError, match="knows nothing about this CPU"):
        check_options()


def test_arguments_win() -> None:
    with PassContext(opt_level=1, config={"set_channel_layout": "last"}):
        assert check_options().opt_level == 1
        assert [check_options(opt_level=level).opt_level for level in range(5)] == [0, 1, 2, 3, 4]
        assert [check_options(channel_layout=layout).channel_layout for layout in ("first", None)] == ["first", None]


def test_arguments_that_are_given_win_be_they_the_defaults(ir: forge.IRModule, tmp_path: Path) -> None:
    def options(*arguments: Any, **named: Any) -> tuple[int, bool, str | None]:
        ir.compile(*arguments, output_path=tmp_path / "out", export_metadata=True, force_overwrite=True, **named)
        known = json.loads((tmp_path / "out" / "metadata.json").read_text())["options"]
        return known["opt_level"], known["float16"], known["channel_layout"]

    with PassContext(opt_level=1, config={"set_float16": True, "set_channel_layout": "last"}):
        assert options() == (1, True, "last")
        assert options(opt_level=3, set_float16=False, set_channel_layout=None) == (3, False, None)
        with pytest.raises(OptionError, match="set_float16: got None"):
            options("llvm", set_float16=None)
    assert options() == (3, False, None)


@pytest.mark.parametrize("function", [forge.IRModule.compile, forge.IRModule.tune, PassContext, CompileOptions])
def test_the_default_level_is_seen_as_a_number(function: Any) -> None:
    default = inspect.signature(function).parameters["opt_level"].default
    assert default == 3 and repr(default) == "3"


def test_what_is_left_out_is_in_the_metadata(ir: forge.IRModule, tmp_path: Path) -> None:
    with forge.PassContext(opt_level=2, disabled_pass=["fuse_norms"], required_pass=["use_winograd"]):
        ir.compile(output_path=tmp_path / "out", export_metadata=True)
    options = json.loads((tmp_path / "out" / "metadata.json").read_text())["options"]
    assert [options[name] for name in ("opt_level", "disabled_pass", "required_pass")] == [2, ["fuse_norms"], ["use_winograd"]]


def test_blocks_nest_and_end_with_exceptions() -> None:
    outer, inner = PassContext(1), PassContext(2)
    with outer:
        with pytest.raises(KeyError), inner, outer:
            assert PassContext.current() is outer
            raise KeyError
        assert PassContext.current() is outer
    assert PassContext.current() is None


def test_other_threads_are_not_concerned() -> None:
    seen: list[Any] = []
    with PassContext(1):
        thread = threading.Thread(target=lambda: seen.append(PassContext.current()))
        thread.start()
        thread.join()
    assert seen == [None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opt_level": 5}, "PassContext: opt_level: got 5; expected an integer from 0 to 4"),
        ({"opt_level": "3"}, "opt_level: got '3'"),
        ({"disabled_pass": ["FuseOps"]}, "disabled_pass: no stage is called 'FuseOps'; expected some of: canonicalize"),
        ({"disabled_pass": ["decompose"]}, "disabled_pass: stage 'decompose' is needed at every level"),
        ({"disabled_pass": "merge"}, "disabled_pass: got 'merge'; expected a list of names"),
        ({"required_pass": ["fuse"]}, "required_pass: no stage is called 'fuse'"),
        ({"required_pass": ["merge"], "disabled_pass": ["merge"]}, "'merge' is in required_pass and in disabled_pass"),
        ({"config": [1]}, r"config: got \[1\]; expected values by name, as in {'set_float16': True}"),
        ({"instruments": [print]}, "instruments: got some; expected none; 'forge compile --dump all' writes"),
        ({"config": {"tir.disable_vectorize": True}}, "config: unknown entry 'tir.disable_vectorize'; expected set_float16"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        PassContext(**arguments)


def test_config_is_checked_as_arguments_are() -> None:
    with PassContext(config={"winograd": "no"}), pytest.raises(OptionError, match="winograd: got 'no'"):
        check_options()


def test_it_prints() -> None:
    assert repr(PassContext(1, disabled_pass=["merge"])) == (
        "PassContext(opt_level=1, required_pass=[], disabled_pass=['merge'], config={})")
