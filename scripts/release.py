"""Makes a release in dist/VERSION: ``python -m scripts.release [--dry-run] [--tag]``; `make release` calls it.

Of the last commit, which must be all that the checkout holds and whose CHANGELOG.md must begin with the package's version:

1. builds the two wheels and the source distribution, and looks at what is in them;
2. installs the wheels into an empty environment, checks its requirements, and compiles, compares and runs a model there;
3. writes a software bill of materials of that environment (CycloneDX), release notes out of CHANGELOG.md, and SHA256SUMS.

Nothing is uploaded. ``--tag`` tags the commit, without pushing the tag. ``--dry-run`` does the same in a temporary folder, shows
what a release would hold, and leaves nothing; entries that are not released yet do not stop it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from scripts import changelog

ROOT = Path(__file__).parents[1]
CONTENTS = {"forge_compiler": {"forge"}, "forge_compiler_runtime": {"forge_runtime"}}
"""The packages in the wheel of each distribution."""
MAX_BYTES = 4 << 20
"""Of a wheel: a file that was packed by mistake shows here before it shows in downloads."""
RUN = "import forge, numpy; print(forge.Runtime('build')(numpy.zeros((4, 1, 8, 8), numpy.float32)).shape)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="do everything in a temporary folder, and leave nothing")
    parser.add_argument("--tag", action="store_true", help="tag the commit as vVERSION where all has succeeded")
    arguments = parser.parse_args()
    if arguments.dry_run and arguments.tag:
        parser.error("--dry-run leaves nothing, and so no tag")
    version = package_version(ROOT)
    check_tree(ROOT)
    check_changelog((ROOT / "CHANGELOG.md").read_text(), version, dry_run=arguments.dry_run)
    output = ROOT / "dist" / version
    if not arguments.dry_run and output.exists():
        fail(f"{output} exists; remove it to make the release again")
    if arguments.tag and git("tag", "--list", f"v{version}"):
        fail(f"the tag v{version} exists; a version is released once: raise it in CHANGELOG.md and src/forge/_version.py")
    with tempfile.TemporaryDirectory(prefix="forge-release-") as folder:
        files = make(Path(folder), version)
        show(files)
        if arguments.dry_run:
            return
        output.parent.mkdir(exist_ok=True)
        shutil.move(files, output)
    print(f"release: {output}")
    if arguments.tag:
        git("tag", "--annotate", f"v{version}", "--message", f"Forge {version}")
        print(f"release: tagged v{version}; push it with: git push origin v{version}")


def make(folder: Path, version: str) -> Path:
    """Makes the release in ``folder`` and returns the folder of its files."""
    sources, files = folder / "sources", folder / "files"
    run("git", "archive", "--output", folder / "sources.tar", "HEAD", cwd=ROOT)
    shutil.unpack_archive(folder / "sources.tar", sources)
    settings = {"SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct")}
    step("building wheels and source distribution")
    run(sys.executable, "scripts/build_wheels.py", files, cwd=sources, settings=settings)
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", files, cwd=sources, settings=settings)
    wheels = sorted(files.glob("*.whl"))
    check_wheels(wheels, version)
    (sdist,) = files.glob("*.tar.gz")
    check_sdist(sdist)
    step("installing them into an empty environment")
    python = install(wheels, folder / "environment")
    step("compiling and running a model there")
    try_model(python, sources / "examples" / "digits" / "digits.onnx", folder)
    step("writing bill of materials, notes and checksums")
    bill = run(sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", sources / "pyproject.toml",
               "--mc-type", "library", "--output-reproducible", python, settings=settings)
    (files / f"forge-{version}.cdx.json").write_text(released_bill(bill, version))
    notes = changelog.newest((sources / "CHANGELOG.md").read_text())
    (files / "RELEASE_NOTES.md").write_text(f"# Forge {version}\n\n{notes.text}")
    (files / "SHA256SUMS").write_text(checksums(files.iterdir()))
    return files


def package_version(root: Path) -> str:
    return str(runpy.run_path(str(root / "src" / "forge" / "_version.py"))["__version__"])


def check_tree(root: Path) -> None:
    """A release is made of a commit: what is not in it would be left out."""
    changed = git("status", "--porcelain", cwd=root)
    if changed:
        fail(f"the checkout has changes that are not committed; commit or stash them:\n{changed}")


def check_changelog(text: str, version: str, *, dry_run: bool) -> None:
    """The newest version of the changelog is the package's, and a release leaves no entry unreleased."""
    found = changelog.newest(text).version
    if found != version:
        fail(f"the newest version in CHANGELOG.md is {found}, src/forge/_version.py has {version}; make them the same")
    unreleased = [entry for section in changelog.sections(text) if not section.version for entry in section.entries]
    if not unreleased:
        return
    problem = f"CHANGELOG.md has {len(unreleased)} unreleased entries; name the section after the next version, and raise it"
    if not dry_run:
        fail(f"{problem} in src/forge/_version.py and runtime/src/forge_runtime/__init__.py")
    step(f"a release would be refused: {problem}")


def check_wheels(wheels: Iterable[Path], version: str) -> None:
    """There is a wheel of each distribution, with its packages and its licence, and nothing else."""
    found = {}
    for wheel in wheels:
        name = wheel.name.split("-")[0]
        info = f"{name}-{version}.dist-info"
        names = [entry for entry in zipfile.ZipFile(wheel).namelist() if not entry.endswith("/")]
        found[name] = {entry.split("/")[0] for entry in names} - {info}
        if f"{info}/licenses/LICENSE" not in names:
            fail(f"{wheel.name}: no {info}/licenses/LICENSE; see license-files in pyproject.toml")
        if wheel.stat().st_size > MAX_BYTES:
            fail(f"{wheel.name}: {wheel.stat().st_size:,} bytes, expected at most {MAX_BYTES:,}; look at what it holds")
    if found != CONTENTS:
        fail(f"the wheels of {version} hold {found}; expected {CONTENTS}; see packages in setup.py")


def check_sdist(path: Path) -> None:
    """The source distribution has what builds and describes Forge; tests and benchmarks need the whole checkout."""
    with tarfile.open(path) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if name.count("/") > 1}
    if folders != {"runtime", "src"}:
        fail(f"{path.name}: holds the folders {sorted(folders)}; expected runtime and src; see MANIFEST.in")


def install(wheels: Iterable[Path], folder: Path) -> Path:
    """Makes an environment of the wheels and what they require, and returns its Python."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--quiet", "--only-binary", ":all:", *wheels)  # by their paths: an index is not asked for our names
    run(*pip, "check")
    return python


def try_model(python: Path, model: Path, folder: Path) -> None:
    """Compiles a model as users do, compares compiled code with the interpreter, and runs the library."""
    home = folder / "home"
    home.mkdir()
    settings = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    forge = python.with_name("forge")
    run(forge, "compile", model, "-o", "build", cwd=home, settings=settings)
    run(forge, "compare", model, model, "--run-a", "interpreter", "--dim", "batch=4", cwd=home, settings=settings)
    shape = run(python, "-c", RUN, cwd=home, settings=settings)
    if shape != "(4, 10)":
        fail(f"the model gave results of shape {shape}, expected (4, 10)")


def released_bill(text: str, version: str) -> str:
    """The bill of materials with the version, which pyproject.toml does not have, and without the paths of this machine."""
    bill = json.loads(text)
    bill["metadata"]["component"]["version"] = version
    for component in bill["components"]:
        references = component.pop("externalReferences", [])
        component["externalReferences"] = [item for item in references if not item["url"].startswith("file:")]
    return json.dumps(bill, indent=2) + "\n"


def checksums(files: Iterable[Path]) -> str:
    """What ``sha256sum --check`` reads."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files))


def show(files: Path) -> None:
    print((files / "RELEASE_NOTES.md").read_text())
    for path in sorted(files.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    print()
    print((files / "SHA256SUMS").read_text())


def git(*arguments: str, cwd: Path = ROOT) -> str:
    return run("git", *arguments, cwd=cwd)


def run(*command: str | Path, cwd: Path | None = None, settings: Mapping[str, str] | None = None) -> str:
    """Runs a command without this process's packages and Forge's settings, and returns what it prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("FORGE_")}
    done = subprocess.run(command, cwd=cwd, env=kept | dict(settings or {}), capture_output=True, text=True, check=False)
    if done.returncode:
        missing = "No module named" in done.stderr
        advice = "; what a release needs: pip install '.[release]'" if missing else ""
        fail(f"{' '.join(map(str, command))} failed{advice}\n{done.stdout}{done.stderr}")
    return done.stdout.rstrip()


def step(text: str) -> None:
    print(f"release: {text}", flush=True)


def fail(problem: str) -> NoReturn:
    sys.exit(f"release: {problem}")


if __name__ == "__main__":
    main()
