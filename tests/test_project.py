"""Rules for the source tree that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import check_machine

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "runtime" / "src").rglob("*.py")])
MAX_LINES = 600
MAX_FUNCTION_LINES = 60
IR_CORE_LINES = 2750
"""Of ``forge/ir`` without its folders: what one reads to know the graph IR."""
PACKAGE_LINES = {
    "backends": 520, "cli": 2250, "codegen": 5800, "compose": 6400, "driver": 2700, "exporters": 3650, "frontends": 47000,
    "ir": 6300, "kernels": 12350, "loops": 1300, "lowering": 2750, "module": 1600, "nn": 7300, "numerics": 1500,
    "onnxruntime": 1800, "ops": 21400, "passes": 6100, "quantization": 5200, "relax": 260, "relay": 450, "schedule": 3350,
    "target": 1060, "tir": 5500, "torch": 2700, "view": 1500, "": 3600,
}
"""Of the packages of ``forge``, and of the modules beside them: growth is a decision, made here (``docs/reference/scope.md``)."""
FAMILY_LINES = {"nn": 3600, "shape": 2950, "core": 2090, "reduce": 1450, "vision": 1400, "linalg": 1350}
"""Of families of operators that are larger than `MAX_FAMILY_LINES`."""
MAX_FAMILY_LINES = 1200
FRAMEWORKS = {"torch", "tensorflow", "keras", "jax", "onnx", "onnxruntime", "openvino"}


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_files_are_short() -> None:
    lengths = {path.relative_to(ROOT): path.read_text().count("\n") for path in SOURCES}
    assert not {str(path): lines for path, lines in lengths.items() if lines > MAX_LINES}


def test_ir_core_is_short() -> None:
    modules = (ROOT / "src" / "forge" / "ir").glob("*.py")
    assert sum(path.read_text().count("\n") for path in modules) <= IR_CORE_LINES


def test_packages_keep_their_budgets() -> None:
    root = ROOT / "src" / "forge"
    lines: dict[str, int] = dict.fromkeys(PACKAGE_LINES, 0)
    families: dict[str, int] = {}
    for path in root.rglob("*.py"):
        package, *inner = path.relative_to(root).parts if path.parent != root else ("",)
        length = path.read_text().count("\n")
        lines[package] = lines.get(package, 0) + length
        if package == "ops" and len(inner) > 1:
            families[inner[0]] = families.get(inner[0], 0) + length
    assert not {package: count for package, count in lines.items() if count > PACKAGE_LINES.get(package, 0)}
    assert not {name: count for name, count in families.items() if count > FAMILY_LINES.get(name, MAX_FAMILY_LINES)}
    loose = {package: budget for package, budget in PACKAGE_LINES.items() if budget > lines[package] * 1.15 + 100}
    assert not loose, "these budgets are far above their packages"


def test_modules_of_quantization_have_tests_of_their_name() -> None:
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "quantization").glob("test_*.py")}
    assert {path.stem for path in (ROOT / "src" / "forge" / "quantization").rglob("[!_]*.py")} <= tested


def test_functions_are_short() -> None:
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = lines
    assert not long


def test_no_path_of_a_machine_is_committed() -> None:
    folder = re.compile(rb"(?<![\w.])/(?:work|root|home|farm|opt/pypi)/[\w.-]+")
    found = {}
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" not in content and path != Path(__file__) and (match := folder.search(content)):
            found[str(path.relative_to(ROOT))] = match.group().decode()
    assert not found


def test_texts_end_lines_cleanly() -> None:
    unclean = re.compile(rb"[ \t]+\n|\r|\n\n\Z|[^\n]\Z|^<{7} |^>{7} ", re.MULTILINE)
    contents = {path: path.read_bytes() for path in tracked_files()}
    found = {str(path.relative_to(ROOT)): match.start() for path, content in contents.items()
             if b"\0" not in content and (match := unclean.search(content))}
    assert not found, "spaces at the end of a line, carriage returns, an end that is not one line break, or marks of a conflict"


def test_import_brings_no_framework() -> None:
    code = f"import sys, forge; print(*({FRAMEWORKS} & set(sys.modules)))"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not imported


def test_machine_check_runs_under_an_old_python() -> None:
    source = Path(check_machine.__file__).read_text()
    ast.parse(source, feature_version=(3, 5))
    assert not re.search(r"\bf[\"']", source)


def test_machine_check_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = ".".join(map(str, sys.version_info[:2]))
    problem = check_machine.header_problem(str(tmp_path))
    assert problem is not None
    assert f"{tmp_path}/Python.h does not exist" in problem
    assert f"python{version}-dev" in problem
    problem = check_machine.compiler_problem("no-such-compiler -m64")
    assert problem is not None
    assert "no program 'no-such-compiler'" in problem
    monkeypatch.setattr(check_machine, "MINIMUM", (99, 0))
    problem = check_machine.python_problem()
    assert problem is not None
    assert "make PYTHON=" in problem


def test_machine_check_passes_here() -> None:
    assert check_machine.main() == 0


NOT_ENGLISH = {
    r"\b(multiplied|divided) with\b": "by",
    r"^\s*(#|\"\"\"|f?\")\s*So (many|much)\b": "the number of, at most this many",
    r"\bnobody (else|reads|uses)\b": "nothing",
    r"(?<![Tt]here )\b(is|are) no (?!(\w+er|less|more|reason|need|way|place|room|use|such)\b)": "is not a",
    r"\bat the begin\b": "at the beginning",
}
"""What reads as a translation, and what to write instead."""


DOCUMENTED = ("kernels", "loops", "lowering", "passes", "quantization", "schedule")
"""Packages of ``forge`` whose public functions and classes have docstrings in plain English."""
FRAGMENT = re.compile(r"(What|Of|One|Those|That|As|How|Which|Where|None|To|From|With|By|So) ")
"""The beginning of a docstring that is a fragment of a sentence."""
VERB = re.compile(r"(?!Accesses|Bytes|Extents|Loops|Nodes|Numbers|Operands|Sizes|Statements|Symbols|Values)[A-Z][a-z]+s\b")
"""The beginning of a docstring that says what a function does: "Returns the ...", "Packs ..."."""


@pytest.mark.parametrize("pattern", NOT_ENGLISH, ids=NOT_ENGLISH.values())
def test_prose_is_english(pattern: str) -> None:
    sources = [path for folder in ("src/forge", "runtime/src") for path in (ROOT / folder).rglob("*.py")]
    lines = [(path, number, line) for path in sources for number, line in enumerate(path.read_text().splitlines(), 1)]
    found = [f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for path, number, line in lines if re.search(pattern, line)]
    assert found == []


def _public(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Yields the public functions and classes of a module, and the public methods of these, by qualified name."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    for node in (n for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")):
        yield node.name, node
        inner = node.body if isinstance(node, ast.ClassDef) else []
        yield from ((f"{node.name}.{n.name}", n) for n in inner if isinstance(n, kinds) and not n.name.startswith("_"))


def _misread(name: str, node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Returns whether a docstring is a fragment, or lacks where a module's function or class needs it.

    Functions say what they do; rules, the equation that they apply; kernels, which operators they compute; and properties and
    classes, what they are.
    """
    docstring = ast.get_docstring(node)
    if docstring is None:
        return "." not in name
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    if isinstance(node, ast.ClassDef) or any(word in decorators for word in ("property", "rule", "kernel")):
        return FRAGMENT.match(docstring) is not None
    return VERB.match(docstring) is None


@pytest.mark.parametrize("package", DOCUMENTED)
def test_docstrings_say_what_functions_do(package: str) -> None:
    found = []
    for path in sorted((ROOT / "src" / "forge" / package).rglob("*.py")):
        public = _public(ast.parse(path.read_text()))
        found += [f"{path.relative_to(ROOT)}:{node.lineno} {name}" for name, node in public if _misread(name, node)]
    assert found == []
