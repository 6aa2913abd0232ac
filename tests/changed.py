"""Runs the tests nearest to what has changed: seconds, before `make test`.

python -m tests.changed                                   # files that differ from the last commit
python -m tests.changed src/forge/passes/fold_scale.py    # these
python -m tests.changed FILE ... -- -x -k symbolic        # with options of pytest

`make test-changed` and `make test-changed CHANGED="FILE ..."` do the same. Of a file of the sources these are the tests of its
name in the folder of the tests that mirrors its folder, else all that lie in that folder itself; of a converter of ONNX, also the
cases of the ONNX backend suite that have one of its operators.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
ONNX_CONVERTERS = PurePosixPath("src/forge/frontends/onnx/converters")
SOURCES = ("src/forge", "runtime/src/forge_runtime")
RENAMED = {"converters": "", "csrc": "", "cpu": "", "compose": "ops/compose", "onnxruntime": "onnxruntime_api"}
"""Folders of the sources whose tests are elsewhere."""


def changed_files() -> list[str]:
    """Files that differ from the last commit, new ones included; those of that commit where there are none."""
    now = _git("diff", "--name-only", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    return now or _git("diff", "--name-only", "HEAD~1", "HEAD")


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def tests_of(name: str) -> set[str]:
    """Paths of the tests nearest to the file ``name``, relative to the root; none where no folder of tests mirrors its folder."""
    path = PurePosixPath(name)
    if path.parts[:1] == ("tests",):
        return _tests_at(path if path.name.startswith("test_") else path.parent)
    for root in SOURCES:
        if path.is_relative_to(root):
            home = "tests/runtime" if root.startswith("runtime") else "tests"
            return _mirrored(path.relative_to(root), PurePosixPath(home))
    folder = PurePosixPath("tests", *path.parts[:1])
    return _tests_at(folder) if len(path.parts) > 1 else set()


def _tests_at(path: PurePosixPath) -> set[str]:
    """``path`` itself, or the nearest folder above it that has tests, but for all of them."""
    while not ((ROOT / path).is_file() or any((ROOT / path).rglob("test_*.py"))):
        path = path.parent
    return {str(path)} if path != PurePosixPath("tests") else set()


def _mirrored(path: PurePosixPath, home: PurePosixPath) -> set[str]:
    folder = home.joinpath(*(RENAMED.get(part, part) for part in path.parent.parts))
    places = [place for place in (folder, *folder.parents) if (ROOT / place).is_dir() and place.is_relative_to(home)]
    stem = path.stem.removeprefix("forge_")
    globs = [(place, f"test_{stem}*.py") for place in places[:2]]
    globs += [(home, f"test_{path.parts[0]}*.py")] if places[0] == home else []
    for place, glob in globs:
        named = {str(found.relative_to(ROOT)) for found in (ROOT / place).glob(glob)}
        if named:
            return named
    own = {str(found.relative_to(ROOT)) for found in (ROOT / places[0]).glob("test_*.py")}
    return own if own and places[0] != home else _tests_at(places[0])


def operators_of(names: Iterable[str]) -> set[tuple[str, str]]:
    """(domain, operator) of all that the ONNX converters in the files ``names`` convert."""
    from forge.frontends.onnx import REGISTRY

    found = [PurePosixPath(name) for name in names if PurePosixPath(name).is_relative_to(ONNX_CONVERTERS)]
    modules = {".".join(path.relative_to("src").with_suffix("").parts) for path in found}
    return {(row.domain, row.op) for row in REGISTRY.rows() if row.function.__module__ in modules} if modules else set()


def suite_cases(operators: set[tuple[str, str]]) -> list[str]:
    """Listed cases of the ONNX backend suite that have one of these operators."""
    from tests.onnx_backend import cases

    listed = cases.pass_list("compiled")
    return sorted(name for name, case in cases.collect().items() if name in listed and case.model is not None
                  and any((node.domain, node.op_type) in operators for node in case.model.graph.node))


def run_suite(names: Sequence[str]) -> int:
    """Runs cases of the ONNX backend suite; 1 where one fails."""
    from tests.onnx_backend.pool import run_cases

    failed = [o for o in run_cases(names, "compiled", len(os.sched_getaffinity(0))).values() if not o.passed]
    for outcome in failed:
        _say(f"FAILED {outcome.case}: {outcome.kind}: {outcome.message}; again: python -m tests.onnx_backend -k {outcome.case}")
    _say(f"ONNX backend suite: {len(names) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def main(arguments: Sequence[str]) -> int:
    """The status of pytest, or 1 where a case of the suite fails."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    given, options = arguments[:at], arguments[at + 1:]
    names = list(given) or changed_files()
    missing = [name for name in given if not (ROOT / name).exists()]
    if missing:
        _say(f"changed: no file {missing[0]} in the checkout; expected paths relative to its root")
        return 2
    paths, operators = sorted({path for name in names for path in tests_of(name)}), operators_of(names)
    if not paths:
        _say("changed: no folder of tests mirrors " + (", ".join(names) or "nothing") + "; run make test")
        return 0
    _say("changed: " + " ".join(paths))
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--quick", *options, *paths]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    return status or (run_suite(suite_cases(operators)) if operators else 0)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
