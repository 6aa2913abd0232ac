"""Builds the hand-written models of ``models.c`` as sealed artifacts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_runtime import artifact
from tests.runtime import building
from tests.runtime.building import SOURCE, Build, compile_c, metadata


@pytest.fixture(scope="session")
def runtime_objects() -> list[Path]:
    return building.runtime_objects()


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory, runtime_objects: list[Path]) -> Callable[..., Path]:
    """``linked(name, features="", inside=True)``: an unsealed model library, built once."""
    folder = tmp_path_factory.mktemp("models")

    def link(name: str, features: str = "", inside: bool = True) -> Path:
        path = folder / f"{name}-{features}-{inside}.so"
        if not path.exists():
            defines = [f"-DMODEL_{name.upper()}", f'-DFEATURES="{features}"', f"-DINSIDE={int(inside)}"]
            compile_c(*defines, "-shared", SOURCE, *runtime_objects, "-lm", "-o", path)
        return path

    return link


@pytest.fixture
def build(tmp_path: Path, linked: Callable[..., Path]) -> Build:
    """``build(name, metadata..., features=, inside=)``: the directory of a sealed artifact."""

    def make(name: str, features: str = "", inside: bool = True, **fields: Any) -> Path:
        folder = tmp_path / f"{name}-build"
        folder.mkdir(exist_ok=True)
        library = folder / artifact.LIBRARY_NAME
        shutil.copy(linked(name, features, inside), library)
        artifact.seal(library, metadata(**fields))
        return folder

    return make
