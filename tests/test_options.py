"""What follows from the declaration of an option: arguments, spellings, checks, metadata, documentation."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

import forge
from forge.cli import app
from forge.driver import cache, check_options
from forge.driver.pass_context import PassContext
from forge.errors import OptionError, option, spelled
from forge.options import CompileOptions, Option, OutputOptions, all_options, options_of, settings_table, spellings
from scripts import write_docs

OTHERS: dict[str, Any] = {"target": "llvm -mcpu=x86-64", "host": "llvm -mcpu=x86-64", "opt_level": 1, "channel_layout": "last",
                          "float32_products": "exact", "typical": (("height", 640),)}
"""A value that is not the default, of options that are not flags."""


def other(known: Option) -> Any:
    return OTHERS.get(known.name, not known.default)


def named(known: Option) -> str:
    return known.name


def test_the_facade_has_each_option_with_its_default() -> None:
    parameters = inspect.signature(forge.IRModule.compile).parameters
    options = {o.python: o.default for o in all_options()}
    assert {n: p.default for n, p in parameters.items() if n not in ("ir", "functions")} == options
    documented = inspect.getdoc(forge.IRModule.compile) or ""
    assert all(f"    {o.python}: {o.declaration.help}"[:60] in documented for o in all_options())
    tuned = {n: p.default for n, p in inspect.signature(forge.IRModule.tune).parameters.items()}
    assert all(tuned[o.python] == o.default for o in all_options() if o.python in tuned)


@pytest.mark.parametrize("verb", ["compile", "bench", "profile", "tune"])
def test_verbs_have_each_option(verb: str) -> None:
    taken = {p.name: p for p in typer.main.get_command(app).get_command(None, verb).params}
    for known in all_options() if verb == "compile" else options_of(CompileOptions):
        if known.name == "encrypt_password" or (verb, known.name) == ("tune", "tuned"):
            continue
        assert known.flag.partition("/")[0] in taken[known.name].opts
        assert (taken[known.name].default or known.default, taken[known.name].help) == (known.default, known.declaration.help)


@pytest.mark.parametrize("known", [o for o in options_of(CompileOptions) if o.declaration.config], ids=named)
def test_pass_contexts_take_options_as_arguments_do(known: Option, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge.driver.tuning.choices", lambda target: target.choices)
    with PassContext(config={known.python: other(known)}):
        assert getattr(check_options(), known.name) == other(known)
        assert getattr(check_options(**{known.name: known.default}), known.name) == known.default


@pytest.mark.parametrize("known", options_of(CompileOptions), ids=named)
def test_options_are_recorded_and_make_another_key(known: Option, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORGE_CACHE", "1")
    module = forge.IRModule("def @main(%x: Tensor[(4), float32]) { exp(%x) }").mod
    default, changed = CompileOptions(), CompileOptions(**{known.name: other(known)})
    json.dumps(changed.recorded)
    assert set(changed.recorded) == {f.name for f in dataclasses.fields(CompileOptions)} - {"target"}
    if known.name != "tuned":  # measured choices count, and are recorded, not the wish for them
        assert cache.key(module, changed, "main", "") != cache.key(module, default, "main", "")
        assert known.name == "target" or changed.recorded[known.name] != default.recorded[known.name]


@pytest.mark.parametrize("known", [o for o in all_options() if isinstance(o.default, bool) or o.declaration.values], ids=named)
def test_wrong_values_are_refused_in_the_spelling_of_the_interface(known: Option) -> None:
    record = CompileOptions if known in options_of(CompileOptions) else OutputOptions
    with pytest.raises(OptionError, match=f"^compile: {known.python}: got 'wrong'; expected "):
        record(**{known.name: "wrong"})
    with spelled(spellings()), pytest.raises(OptionError, match=f"^compile: {known.flag.partition('/')[0]}: got 'wrong'"):
        record(**{known.name: "wrong"})


@pytest.mark.parametrize("given", [{"w": 7, "height": 640}, ["w=7", "height=640"], [("height", 640), ("w", 7)]])
def test_typical_sizes_are_given_in_any_form(given: Any) -> None:
    assert CompileOptions(typical=given).typical == (("height", 640), ("w", 7))


@pytest.mark.parametrize("given", ["h=5", ["h"], ["h=0"], ["h=-1"], ["=5"], {"h": 2.5}, {"h": True}, {3: 4}, [5], 5, ["h=1e9"]])
def test_typical_sizes_that_are_none_are_refused(given: Any) -> None:
    with pytest.raises(OptionError, match=r"^compile: typical: got .*; expected "):
        CompileOptions(typical=given)


def test_instructions_are_spelled_too() -> None:
    with spelled(spellings()):
        assert [option("force_overwrite=True"), option("winograd"), option("graph")] == ["--force", "--winograd", "graph"]


def test_each_option_is_documented() -> None:
    rows = settings_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [o.python for o in all_options()]
    assert settings_table() in write_docs.pages()["settings.md"]


@pytest.mark.parametrize("function", [forge.IRModule.compile, forge.compile], ids=["method", "function"])
def test_docstrings_have_the_options_as_arguments(function: Any) -> None:
    taken = [o.python for o in all_options() if o.python in inspect.signature(function).parameters]
    arguments = re.findall(r"^    (\w+):", inspect.getdoc(function) or "", re.MULTILINE)
    assert set(taken) <= set(arguments)
