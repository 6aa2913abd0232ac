"""What the sweeps of a folder of tests depend on, and whether that has changed since all that was drawn of them passed.

Of sweeps whose sources are the same as then, fewer cases are drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from tests.runs import kept

ROOT = Path(__file__).parents[2]
PASSED = "passed_sources.json"

_FRONTENDS = ("frontends/onnx", "frontends/torch")
_SURFACES = ("cli", "view", "numerics", "torch", "relay", "relax")
UNUSED: Mapping[str, tuple[str, ...]] = {
    "tests/codegen": (*_SURFACES, *_FRONTENDS, "frontends", "exporters", "quantization", "passes", "ops", "compose"),
    "tests/schedule": (*_SURFACES, *_FRONTENDS, "frontends", "exporters", "quantization", "passes", "ops", "compose"),
    "tests/kernels": (*_SURFACES, *_FRONTENDS, "frontends", "exporters", "quantization", "compose"),
    "tests/ops": (*_SURFACES, *_FRONTENDS, "exporters", "quantization"),
    "tests/passes": (*_SURFACES, *_FRONTENDS, "exporters", "quantization"),
    "tests/lowering": (*_SURFACES, *_FRONTENDS, "exporters", "quantization"),
    "tests/runtime": (*_SURFACES, *_FRONTENDS, "exporters", "quantization"),
    "tests/onnx_backend": (*_SURFACES, "frontends/torch", "quantization"),
    "tests/frontends/onnx": (*_SURFACES, "frontends/torch", "quantization"),
    "tests/frontends/torch": ("cli", "view", "numerics", "exporters", "quantization"),
    "tests/torch_databases": (*_SURFACES, "exporters", "quantization"),
    "tests/model_zoo": ("cli", "view", "numerics", "exporters/onnx", "quantization"),
    "tests/torch": ("cli", "view", "numerics", "quantization"),
    "tests/view": ("torch", "numerics", "quantization"),
}
"""Folders of ``src/forge`` that the tests of a folder do not reach. What is not named here depends on everything."""


def folder_of(case: str) -> str:
    """The folder of ``UNUSED`` that has a case, else ``tests``."""
    found = [folder for folder in UNUSED if case.startswith(f"{folder}/")]
    return max(found, key=len, default="tests")


@cache
def digest_of(folder: str) -> str:
    """Of all sources that the tests of ``folder`` depend on, and of the tests themselves."""
    skipped = tuple(f"src/forge/{name}/" for name in UNUSED.get(folder, ()))
    own = "tests/" if folder == "tests" else f"{folder}/"
    state = hashlib.sha256()
    for name, digest in _files().items():
        if name.startswith(own) or not name.startswith(("tests/", *skipped)) or name.count("/") == 1:
            state.update(f"{name} {digest}\n".encode())
    return state.hexdigest()


@cache
def _files() -> dict[str, str]:
    kinds = (".py", ".c", ".h", ".txt", ".json")
    found = (path for folder in ("src", "runtime", "tests", "benchmarks") for path in (ROOT / folder).rglob("*"))
    paths = [ROOT / "pyproject.toml", *(path for path in found if path.suffix in kinds)]
    return {path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def unchanged() -> set[str]:
    """Folders whose sources are those with which all that was drawn of their sweeps passed."""
    known = kept.read(PASSED, {})
    return {folder for folder in (*UNUSED, "tests") if known.get(folder) == digest_of(folder)}


def note(run: Collection[str], failed: Collection[str]) -> None:
    """Notes the sources of the folders of sweeps that were ``run``, but for those in which one ``failed``."""
    bad = {folder_of(case) for case in failed}
    passed = {folder: digest_of(folder) for folder in {folder_of(case) for case in run} - bad}
    kept.write(PASSED, {**kept.read(PASSED, {}), **passed})
