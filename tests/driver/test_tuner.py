"""Tuning: every choice that is offered gives right results, and what is found is used."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.driver import check_options, compile_module, tuner, tuning
from forge.driver.tuner import tune_module
from forge.errors import OptionError
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.interp import run_module
from forge.ir.types import TensorType
from forge.target import Target, host
from forge.target.choices import Choices


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tuning.sqlite"
    monkeypatch.setenv("FORGE_TUNING", str(path))
    return path


def network() -> Module:
    """A 3x3 convolution, one of stride 2 and a dense layer of five rows."""
    rng = np.random.default_rng(0)
    b = Builder()
    x, rows = b.input(TensorType((1, 32, 15, 15), "float32"), "x"), b.input(TensorType((5, 40), "float32"), "rows")
    for channels, stride in ((64, 1), (32, 2)):
        inner = 32 if stride == 1 else 64
        weight = b.constant(rng.standard_normal((channels, inner, 3, 3)).astype(np.float32) / 16)
        x = b.call("nn.relu", b.call("nn.conv2d", x, weight, channels=channels, kernel_size=(3, 3), padding=(1, 1),
                                     strides=(stride, stride)))
    dense = b.call("nn.dense", rows, b.constant(rng.standard_normal((70, 40)).astype(np.float32) / 6), units=70)
    x.name, dense.name = "images", "units"
    return Module(b.output(x, dense))


FEED = {
    "x": np.random.default_rng(1).standard_normal((1, 32, 15, 15)).astype(np.float32),
    "rows": np.random.default_rng(2).standard_normal((5, 40)).astype(np.float32),
}


def offers(target: Target, chosen: Mapping[str, str]) -> tuple[dict[str, list[str]], list[np.ndarray]]:
    """What is offered under these choices, and the results."""
    explorer = tuner._Explorer(chosen)
    compiled = compile_module(network(), check_options(dataclasses.replace(target, choices=explorer)), use_cache=False)
    return explorer.offered, compiled.runtime(num_threads=2)(*FEED.values())


@pytest.mark.parametrize("target", ["llvm -num-cores=2", "llvm -mcpu=x86-64-v3 -num-cores=2", "llvm -mcpu=x86-64 -num-cores=1"])
def test_every_choice_gives_the_same_results(target: str) -> None:
    parsed = Target.parse(target)
    expected = run_module(network(), FEED)
    known, tried = offers(parsed, {})[0], 0
    while any(tried < len(texts) for texts in known.values()):
        chosen = {key: texts[min(tried, len(texts) - 1)] for key, texts in known.items()}
        found, results = offers(parsed, chosen)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
        known = {**found, **known}
        tried += 1
    kinds = {key.split()[0] for key in known}
    assert kinds == {"winograd", "conv2d", "dense"} and tried >= 3


def test_choices_change_the_code_and_unknown_ones_do_not() -> None:
    target = Target.parse("llvm -mcpu=x86-64-v3 -num-cores=1")
    key, texts = next((k, t) for k, t in offers(target, {})[0].items() if k.startswith("dense panel"))

    def kernels(choice: str) -> list[bytes]:
        return compile_module(network(), check_options(dataclasses.replace(target, choices=Choices({key: choice})))).kernels

    default = compile_module(network(), check_options(target)).kernels
    assert kernels(texts[1]) != default
    assert kernels("999") == kernels("") == default


def test_tuning_is_kept_and_used(database: Path) -> None:
    target = Target.parse("llvm -num-cores=1")
    module = forge.IRModule(network())
    found = module.tune(seconds=2, target=str(target))
    assert found.tried > 0 and found.before > 0 and found.after > 0
    assert [r.key for r in tuning.load(target)] == sorted(r.key for r in found.records)
    key, texts = next((k, t) for k, t in offers(target, {})[0].items() if k.startswith("dense panel"))
    tuning.store([tuning.Record.of(target, key, texts[1], 1.0, 2.0)])
    tuned = compile_module(network(), check_options(target, tuned=True))
    assert tuned.options["tuned"]
    chosen = check_options(dataclasses.replace(target, choices=tuning.choices(target)))
    assert tuned.kernels == compile_module(network(), chosen).kernels
    assert tuned.kernels != compile_module(network(), check_options(target)).kernels
    for result, wanted in zip(tuned.runtime()(*FEED.values()), run_module(network(), FEED), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def test_one_choice_is_judged_with_those_that_depend_on_it() -> None:
    """Algorithms are compared before their plans, and a plan only where its algorithm is the best."""
    search = tuner._Search(lambda chosen: pytest.fail("not built"), 0.0, lambda: None)
    search.keys = {
        "algorithm": tuner._Key(["0", "4"], {"0": 2.0, "4": 1.0}),
        "plan of 0": tuner._Key(["1", "2"], {"1": 2.0}, {("algorithm", "0")}),
        "plan of 4": tuner._Key(["1", "2"], {"1": 1.0}, {("algorithm", "4")}),
    }
    assert search._next() == {"plan of 4": "2"}
    assert search._best() == {"algorithm": "4"}
    search.keys["algorithm"].seconds["4"] = 1.99
    assert search._next() == {"plan of 0": "2"} and search._best() == {}


def test_bad_options() -> None:
    with pytest.raises(OptionError, match="seconds: got 0; expected a positive number"):
        tune_module(network(), FEED, seconds=0)
    with pytest.raises(OptionError, match="the target has 4096 cores"):
        tune_module(network(), FEED, check_options("llvm -num-cores=4096"), seconds=1)
    other = next(cpu for cpu in ("haswell", "znver1") if cpu != host.name())
    with pytest.raises(OptionError, match=f"target: is for {other}, and this machine is {host.name()}; .*tune there"):
        tune_module(network(), FEED, check_options(f"llvm -mcpu=x86-64 -mtune={other}"), seconds=1)
    with pytest.raises(OptionError, match="knows nothing about this CPU"):
        compile_module(network(), check_options(tuned=True))
    with pytest.raises(OptionError, match="tuned: got 1; expected True or False"):
        compile_module(network(), check_options(tuned=1))
