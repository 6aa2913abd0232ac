"""The checks before a commit are ones that run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.packaging.index import ROOT

COMMANDS = ".venv/bin/"


def test_hooks_are_commands_of_the_environment() -> None:
    clientlib = pytest.importorskip("pre_commit.clientlib")
    config = clientlib.load_config(ROOT / ".pre-commit-config.yaml")
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert {repository["repo"] for repository in config["repos"]} == {"local"}
    assert {"ruff", "mypy", "import-linter", "project"} == {hook["id"] for hook in hooks}
    for hook in hooks:
        command, *arguments = shlex.split(hook["entry"])
        assert command.startswith(COMMANDS) and Path(sys.executable).with_name(command.removeprefix(COMMANDS)).is_file()
        assert all((ROOT / argument).exists() for argument in arguments if "/" in argument)
