"""Faults, where they are in the sources, and the file that lists them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).parent / "faults.json"
LEAST = 60
"""Faults that the catalogue has at least."""
_C_FUNCTION = re.compile(r"^[A-Za-z_][\w\s*]*?\b(\w+)\(")
_ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\) ")


@dataclass(frozen=True)
class Fault:
    """One changed line: ``before`` and ``after`` without indentation, ``function`` the qualified name around it, "" for none.

    ``test`` is what caught it when it entered the catalogue, and ``slow`` whether only a test outside the quick run did.
    """

    area: str
    file: str
    function: str
    before: str
    after: str
    test: str = ""
    slow: bool = False

    @property
    def key(self) -> str:
        return "\n".join((self.file, self.function, self.before, self.after))


def read(path: Path = FILE) -> list[Fault]:
    return [Fault(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def write(faults: Iterable[Fault], path: Path = FILE) -> None:
    """Writes the faults, sorted by area and place."""
    entries = [asdict(fault) for fault in sorted(faults, key=lambda f: (f.area, f.key))]
    path.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def add(fault: Fault, test: str, slow: bool, path: Path = FILE) -> None:
    known = {f.key: f for f in read(path)}
    known[fault.key] = replace(fault, test=test, slow=slow)
    write(known.values(), path)


@lru_cache(maxsize=64)
def scopes(text: str, suffix: str) -> list[str]:
    """For each line the qualified name of the innermost function or class around it; "" outside of all."""
    return _c_scopes(text) if suffix == ".c" else _python_scopes(text)


def _python_scopes(text: str) -> list[str]:
    names = [""] * len(text.splitlines())

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{outer}.{child.name}" if outer else child.name
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                for line in range(first - 1, child.end_lineno or first):
                    names[line] = inner
            visit(child, inner)

    visit(ast.parse(text), "")
    return names


def _c_scopes(text: str) -> list[str]:
    """A function starts at the margin, and ends with a brace there."""
    names, current = [], ""
    for line in text.splitlines():
        found = _C_FUNCTION.match(_ATTRIBUTE.sub("", line))
        if found and not line.rstrip().endswith(";"):
            current = found[1]
        names.append(current)
        if line.startswith("}"):
            current = ""
    return names


def line_of(text: str, suffix: str, function: str, before: str) -> int | None:
    """The index of the only line ``before`` in ``function``; None where there is none, or more than one."""
    lines, names = text.splitlines(), scopes(text, suffix)
    found = [k for k, line in enumerate(lines) if names[k] == function and line.strip() == before]
    return found[0] if len(found) == 1 else None


def planted(fault: Fault, text: str) -> str | None:
    """The text of the file with the fault in it; None where its line is stale."""
    where = line_of(text, Path(fault.file).suffix, fault.function, fault.before)
    if where is None:
        return None
    lines = text.splitlines(keepends=True)
    lines[where] = lines[where].replace(fault.before, fault.after, 1)
    return "".join(lines)


def is_stale(fault: Fault, tree: Path) -> bool:
    """Whether the line that the fault changes is no longer found in ``tree``, or not the only one of its kind there."""
    path = tree / fault.file
    return not path.is_file() or planted(fault, path.read_text(encoding="utf-8")) is None
