"""Whoever installs from sources never asks an index for our names, whatever it offers under them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import forge
import forge_runtime
from forge.cli import doctor
from tests.packaging.index import OURS, ROOT, Index, pip, requirements, serving

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
SOURCES = {
    "checkout": ["{checkout}"],
    "checkout with extras": ["{checkout}[" + ",".join(EXTRAS) + "]"],
    "in place": ["-e", "{checkout}"],
    "in place with extras": ["-e", "{checkout}[" + ",".join(EXTRAS) + "]"],
    "git": ["git+{uri}"],
    "source distribution": ["{sdist}"],
}


@pytest.fixture(scope="module")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    code = "import sys; from setuptools.build_meta import *; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, folder], cwd=checkout, capture_output=True, check=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def index(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Offers, besides strangers' packages, an empty one for whatever Forge requires."""
    with serving(tmp_path_factory.mktemp("served") / "index") as index:
        stubs = {}
        for requirement in requirements(checkout, tmp_path_factory.mktemp("metadata")):
            allowed = [bound.version for bound in requirement.specifier if bound.operator in {"==", ">=", "~="}]
            stubs[canonicalize_name(requirement.name)] = allowed[0] if allowed else "1"
        for name, version in stubs.items():
            if name not in OURS:
                index.offer_stub(name, version)
        yield index


def chosen(index: Index, *arguments: str, **environment: str) -> dict[str, str]:
    """What pip would install into an empty environment: names, and the address of each."""
    index.asked.clear()
    report = pip("install", "--dry-run", "--quiet", "--ignore-installed", "--no-build-isolation", "--report", "-",
                 "--index-url", index.url, *arguments, environment=environment)
    items = json.loads(report[report.index("{"):])["install"]
    return {canonicalize_name(item["metadata"]["name"]): item["download_info"]["url"] for item in items}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_no_index_is_asked_for_our_names(source: str, checkout: Path, sdist: Path, index: Index) -> None:
    arguments = [argument.format(checkout=checkout, uri=checkout.as_uri(), sdist=sdist) for argument in SOURCES[source]]
    found = chosen(index, *arguments)
    assert "numpy" in index.asked and not index.asked & OURS
    assert found.pop("forge-compiler").startswith("file://") and set(found) == index.asked


@pytest.mark.slow
def test_a_released_wheel_asks_for_the_runtime_of_its_version(checkout: Path, index: Index) -> None:
    with pytest.raises(RuntimeError, match=f"forge-compiler-runtime=={re.escape(forge.__version__)}"):
        chosen(index, str(checkout), FORGE_RELEASE="1")
    assert "forge-compiler-runtime" in index.asked


def test_no_text_sends_users_to_an_index_for_our_names() -> None:
    """An installation from sources has no distribution of the runtime; what an index offers under that name may be anybody's."""
    texts = [path for folder in (ROOT / "src", ROOT / "runtime" / "src", ROOT / "docs") for path in folder.rglob("*.*")
             if path.suffix in {".py", ".c", ".h", ".md"}]
    order = re.compile(r"(?<!un)install\s+(-\w+\s+|--\S+\s+)*['\"]?forge\b")
    assert len(texts) > 400 and not [path for path in (*texts, *ROOT.glob("*.md")) if order.search(path.read_text())]


def test_doctor_names_our_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor(as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["forge-compiler"], told["forge-compiler-runtime"]) == (forge.__version__, forge_runtime.__version__)


def test_compiler_and_runtime_have_one_version() -> None:
    assert forge_runtime.__version__ == forge.__version__
