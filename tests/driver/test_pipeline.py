"""The list of stages, and what is generated from it."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.driver import GRAPH_STAGES, STAGES, Compilation, Stage, check_options, compile_module, optimized_graph
from forge.driver.pipeline import levels_table
from forge.errors import InvalidGraphError, OptionError
from forge.ir.graph import Module
from forge.ir.verifier import verify
from forge.options import OPT_LEVELS
from scripts import write_docs


def test_generated_pages_are_fresh() -> None:
    assert write_docs.stale() == [], "run: python -m scripts.write_docs"


def test_the_table_has_every_stage_and_level() -> None:
    lines = levels_table().splitlines()
    assert lines[0] == "| stage | what it does | 0 | 1 | 2 | 3 | 4 |"
    assert [line.split("`")[1] for line in lines[2:-1]] == [s.name for s in STAGES]
    for stage, line in zip(STAGES, lines[2:]):
        assert line.count(" x ") == len(OPT_LEVELS) - stage.level


@pytest.mark.usefixtures("narrow_layers")
@pytest.mark.parametrize("opt_level", OPT_LEVELS)
def test_the_graph_is_valid_after_every_stage(digits: forge.IRModule, opt_level: int) -> None:
    seen: list[str] = []

    def see(stage: Stage, compilation: Compilation) -> None:
        seen.append(stage.name)
        verify(Module(compilation.graph))
        assert compilation.graph.output_names == ["logits"]

    options = check_options(opt_level=opt_level, float16=True, channel_layout="last")
    optimized_graph(digits.mod, options, observer=see)
    assert seen == [s.name for s in GRAPH_STAGES if s.is_on(options)]


def test_stopping_after_a_stage(digits: forge.IRModule) -> None:
    ops = {n.op for n in optimized_graph(digits.mod, check_options(), "fold_constants").nodes}
    assert "nn.conv2d" in ops
    assert "nn.conv2d" not in {n.op for n in optimized_graph(digits.mod, check_options(), "choose_layouts").nodes}
    with pytest.raises(OptionError, match="no stage is called 'magic'; expected one of: inline_calls"):
        optimized_graph(digits.mod, check_options(), "magic")


def test_progress_is_told(digits: forge.IRModule) -> None:
    told: list[tuple[str, int, int]] = []
    compile_module(digits.mod, check_options(opt_level=1), progress=lambda *step: told.append(step))
    phases = {phase for phase, _, _ in told}
    assert phases == {"lower", "compile"}
    for wanted in phases:
        last = [step for step in told if step[0] == wanted][-1]
        assert last[1] == last[2] > 2, wanted


def test_params_that_name_no_input(digits: forge.IRModule) -> None:
    module = digits.mod.copy()
    module.params = {"wieght": np.ones(1)}
    with pytest.raises(InvalidGraphError, match="'wieght' names no input of @main; expected one of: image"):
        compile_module(module)
