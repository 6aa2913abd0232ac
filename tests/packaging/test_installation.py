"""Forge works where nothing but it is installed: from a checkout, from git, in place, and from wheels without a C compiler."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

import forge
from tests.docs.test_docs import script_of
from tests.packaging.index import OURS, ROOT, Index, pip, requirements, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import forge
from forge.errors import ToolchainError

ir = forge.from_onnx(sys.argv[1])
images = np.random.default_rng(0).random((4, 1, 8, 8), np.float32) * 16
expected = ir.get_inference_function("reference")(images)
for run in (ir.get_inference_function(), forge.Runtime(sys.argv[2])):
    assert np.allclose(run(images), expected, atol=1e-4)
try:
    ir.compile(output_path="made/here")
except ToolchainError as error:
    print(error)
assert not Path("made").exists() and not list(Path().iterdir())
"""


@pytest.fixture(scope="module")
def wheels(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of all that Forge requires, from the index that this machine is set to."""
    folder = tmp_path_factory.mktemp("wheels")
    needed = [str(r) for r in requirements(checkout, tmp_path_factory.mktemp("metadata")) if not r.marker]
    pip("download", "--quiet", "--only-binary", ":all:", "--dest", folder, "setuptools>=77", *needed, configured=True)
    return folder


@pytest.fixture
def index(wheels: Path, tmp_path: Path) -> Iterator[Index]:
    with serving(tmp_path / "index") as index:
        for wheel in wheels.iterdir():
            index.offer(wheel)
        yield index


class Environment:
    """A fresh virtual environment with nothing in it, not even pip."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", symlinks=True)
        self.scripts = folder / "venv" / "bin"
        self.home = folder / "home"
        self.home.mkdir()

    def install(self, *arguments: str | Path) -> None:
        pip("--python", self.scripts / "python", "install", "--quiet", *arguments)

    def run(self, program: str, *arguments: str | Path, path: str | None = None) -> str:
        """Runs a script of the environment in an empty folder and returns what it prints; ``path`` is ``PATH``."""
        unset = {"PYTHONPATH", "CC", "FORGE_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"}
        settings = {name: value for name, value in os.environ.items() if name not in unset} | {"HOME": str(self.home.parent)}
        settings |= {} if path is None else {"PATH": path}
        done = subprocess.run([self.scripts / program, *arguments], cwd=self.home, env=settings, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def folders(self) -> list[Path]:
        """Where the two packages are imported from."""
        code = "import forge, forge_runtime; print(forge.__file__, forge_runtime.Runtime and forge_runtime.__file__, sep='\\n')"
        return [Path(line).parents[1] for line in self.run("python", "-c", code).splitlines()]

    def run_readme(self) -> None:
        (self.home / "examples").symlink_to(ROOT / "examples")
        self.run("python", "-c", script_of(ROOT / "README.md"))


def test_sources_install_in_one_step(checkout: Path, index: Index, tmp_path: Path) -> None:
    """A checkout into an empty environment, then git over a stranger's runtime, then the checkout in place."""
    environment = Environment(tmp_path)
    library = environment.scripts.parent / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    environment.install("--index-url", index.url, checkout)
    assert not (checkout / "build").exists()  # modules that are removed later would come back from there
    assert environment.folders() == [library, library]
    environment.run_readme()
    assert environment.run("forge", "--version").split() == ["forge", forge.__version__]
    versions = json.loads(environment.run("forge", "doctor", "--json"))
    assert {versions["forge-compiler"], versions["forge-compiler-runtime"]} == {forge.__version__}

    environment.install("--no-index", "--no-deps", "--find-links", index.folder, "forge-compiler-runtime==99")
    environment.install("--index-url", index.url, f"git+{checkout.as_uri()}")
    assert environment.folders() == [library, library]

    environment.install("--index-url", index.url, "-e", checkout)
    assert environment.folders() == [checkout / "src", checkout / "runtime" / "src"]
    assert "numpy" in index.asked and not index.asked & OURS


def test_wheels_work_without_a_compiler(checkout: Path, wheels: Path, digits_build: Path, tmp_path: Path) -> None:
    pytest.importorskip("auditwheel")
    subprocess.run([sys.executable, checkout / "scripts" / "build_wheels.py", tmp_path / "dist"], check=True)
    compiler, runtime = sorted((tmp_path / "dist").iterdir())
    assert compiler.name == f"forge_compiler-{forge.__version__}-py3-none-any.whl"
    assert re.fullmatch(rf"forge_compiler_runtime-{re.escape(forge.__version__)}-cp311-abi3-manylinux_.*\.whl", runtime.name)

    environment = Environment(tmp_path)
    environment.install("--no-index", "--find-links", tmp_path / "dist", "--find-links", wheels, "forge-compiler")
    said = environment.run("python", "-c", SCRIPT, ROOT / "examples/digits/digits.onnx", digits_build, path="/nonexistent")
    assert "no C compiler" in said and "install" in said
