"""The areas of the sources that faults are planted in, and the tests that are nearest to a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FORGE = "src/forge"
_KERNEL = re.compile(r"""^@kernel\("(\w+)\"""", re.MULTILINE)
_RUNTIME = "runtime/src/forge_runtime"


@dataclass(frozen=True)
class Area:
    """Source folders and files, by what ``git ls-files`` calls them, and the folders of their tests, nearest first."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    suffix: str = ".py"

    def has(self, file: str) -> bool:
        return file.endswith(self.suffix) and any(file == place or file.startswith(f"{place}/") for place in self.sources)


AREAS = (
    Area("passes", (f"{_FORGE}/passes",), ("tests/passes",)),
    Area("kernels", (f"{_FORGE}/kernels",), ("tests/kernels", "tests/ops/test_compiled.py", "tests/ops/test_cases.py")),
    Area("schedules", (f"{_FORGE}/schedule", f"{_FORGE}/loops"),
         ("tests/schedule", "tests/loops", "tests/kernels", "tests/ops/test_compiled.py")),
    Area("codegen", (f"{_FORGE}/codegen",), ("tests/codegen", "tests/ops/test_compiled.py", "tests/faults")),
    Area("lowering", (f"{_FORGE}/lowering",), ("tests/lowering", "tests/driver", "tests/ops/test_control.py")),
    Area("onnx", (f"{_FORGE}/frontends/onnx",), ("tests/frontends/onnx", "tests/exporters/onnx", "tests/onnx_backend")),
    Area("torch", (f"{_FORGE}/frontends/torch", f"{_FORGE}/frontends/state", f"{_FORGE}/frontends/stored_archive.py"), (
        "tests/frontends/torch", "tests/cli/test_torch_files.py", "tests/torch")),
    Area("ops", (f"{_FORGE}/ops",), ("tests/ops",)),
    Area("quantization", (f"{_FORGE}/quantization",), ("tests/quantization", "tests/cli/test_quantize.py")),
    Area("runtime", (_RUNTIME,), ("tests/runtime", "tests/driver", "tests/faults")),
    Area("runtime in C", (f"{_RUNTIME}/csrc",), ("tests/runtime", "tests/driver", "tests/lowering"), ".c"),
)


def area_of(file: str) -> Area | None:
    """The area that ``file`` belongs to; None for one in which no faults are planted."""
    return next((area for area in AREAS if area.has(file)), None)


def nearest(tree: Path, area: Area, file: str) -> Iterator[list[str]]:
    """Arguments of pytest runs, each wider than the one before: tests of this file, its operators, its folder, its area."""
    own = _own_tests(tree, area, file)
    if own:
        yield own
    operators = _operators(tree, file)
    if operators:
        yield [*(path for path in area.tests if (tree / path).exists()), "-k", " or ".join(operators)]
    folder = _mirrored(tree, file)
    if folder is not None and folder not in area.tests:
        yield [folder]
    for path in area.tests:
        if (tree / path).exists():
            yield [path]


def _own_tests(tree: Path, area: Area, file: str) -> list[str]:
    """Modules named after the file, then those that import it or say its name."""
    stem = Path(file).stem.lstrip("_").removeprefix("forge_")
    module = re.sub(r"^.*?src/", "", file).removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    says = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b")
    named, importing = [], []
    for folder in area.tests:
        for path in sorted((tree / folder).rglob("test_*.py")):
            found = str(path.relative_to(tree))
            if stem in path.stem:
                named.append(found)
            elif says.search(_text(path)):
                importing.append(found)
    return list(dict.fromkeys([*named, *importing]))


def _operators(tree: Path, file: str) -> list[str]:
    """Operators that a module defines or has kernels of, as words for ``pytest -k``: without the part before a dot."""
    text = _text(tree / file)
    if file.startswith(f"{_FORGE}/ops/"):
        names = set(re.findall(r"""(?:\bname = |Row\(|\brow\()"([a-z_0-9.]+)\"""", text))
    elif file.startswith(f"{_FORGE}/frontends/onnx/"):
        names = set(re.findall(r"""\bconverts\("(\w+)\"""", text))
    else:
        families = {family for user in _users(tree, file) for family in _KERNEL.findall(_text(user))}
        names = families | {name for name, family in _families(tree) if family in families}
    return sorted({name.rpartition(".")[2] for name in names})


@cache
def _users(tree: Path, file: str) -> set[Path]:
    """A module of a kernel, and those kernels' modules that import it."""
    folder = (tree / file).parent
    module = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    imports = re.compile(rf"from {re.escape(module)} import|from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b")
    among = folder.glob("*.py") if file.startswith(f"{_FORGE}/kernels/") else ()
    return {tree / file, *(path for path in among if imports.search(_text(path)))}


@cache
def _families(tree: Path) -> list[tuple[str, str]]:
    """Operators, and the kernel families that compute them."""
    declared = re.compile(r"""\bname = "([a-z_0-9.]+)"(?:(?!\nclass ).)*?\bkernel = "(\w+)\"""", re.DOTALL)
    texts = (_text(path) for path in sorted((tree / _FORGE / "ops").rglob("*.py")))
    return [pair for text in texts for pair in declared.findall(text)]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _mirrored(tree: Path, file: str) -> str | None:
    """The innermost folder below ``tests`` whose path is that of the file's folder."""
    parts = Path(file).parts[2:-1]
    for count in range(len(parts), 0, -1):
        folder = Path("tests", *(part for part in parts[:count] if part != "converters"))
        if (tree / folder).is_dir():
            return str(folder)
    return None
