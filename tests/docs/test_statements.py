"""What pages say about the sources holds: messages exist, and the reference of the Python interface has every public name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import forge
from forge import nn
from forge.module import IRModule

ROOT = Path(__file__).parent.parent.parent
SOURCES = [ROOT / "src", ROOT / "runtime" / "src"]
INTERFACE = ROOT / "docs" / "reference" / "api"
MODULES = {"error", "errors", "frontend", "frontends", "nd", "nn", "onnxruntime", "relax", "relay", "torch", "transform"}
ON_OTHER_PAGES = {"RelayModule", "create_executor", "cpu", "__version__"}
"""Names for programs written for TVM (``docs/guides/relay.md``), and what needs no page."""


@cache
def texts() -> str:
    """The texts in the sources, those of Python and of C, without what is put into them when they are shown."""
    found = []
    for folder in SOURCES:
        for path in folder.rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text()))
            found += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for path in folder.rglob("*.c"):
            joined = re.sub(r'"\s*\n\s*"', "", path.read_text())
            found += re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)
    return "\n".join(found)


def messages() -> list[str]:
    """What the first column of the tables of messages shows as code."""
    found, is_message = [], False
    for line in (ROOT / "docs" / "guides" / "troubleshooting.md").read_text().splitlines():
        first = line.split(" | ")[0]
        if not line.startswith("|"):
            is_message = False
        elif first == "| message":
            is_message = True
        elif is_message:
            found += re.findall(r"`([^`]+)`", first)
    return found


@pytest.mark.parametrize("message", messages())
def test_messages_are_those_of_the_sources(message: str) -> None:
    assert message in texts()


def test_messages_are_found() -> None:
    assert len(messages()) > 20
    assert "a message that nothing shows" not in texts()


def documented() -> set[str]:
    """Names that the pages of the interface have directives for."""
    found: set[str] = set()
    for path in INTERFACE.glob("*.rst"):
        for name in re.findall(r"^\.\. auto(?:class|function|method|property):: (\S+)", path.read_text(), re.MULTILINE):
            found.add(name.removeprefix("forge.").removeprefix("forge_runtime."))
    return found


def test_the_reference_of_nn_has_every_public_name() -> None:
    page = (INTERFACE / "nn.rst").read_text()
    listed = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", page, re.MULTILINE))
    modules = {"layers", "op", "spec"}
    members = set(re.findall(r"\w+", page.split(".. automodule:: forge.nn.spec")[1].splitlines()[1]))
    assert set(nn.__all__) - modules - listed - members == set()


def test_the_reference_has_every_public_name() -> None:
    elsewhere = {name for name in forge.__all__ if hasattr(forge.errors, name) or hasattr(forge.onnxruntime, name)}
    assert set(forge.__all__) - documented() - elsewhere - MODULES - ON_OTHER_PAGES == set()
    members = {f"IRModule.{name}" for name in dir(IRModule) if not name.startswith("_")}
    assert members - documented() == set()


def test_the_side_bar_has_every_page() -> None:
    """Sphinx says so too, in a suite that takes a quarter of an hour longer."""
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text())
    named = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    pages = [page for folder in ("start", "guides", "reference", "internals") for page in (ROOT / "docs" / folder).glob("*.md")]
    assert [page.name for page in pages if page.stem not in named] == []
