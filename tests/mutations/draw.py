"""Draws faults from a tree: the same ones for the same seed and tree, evenly over areas and kinds of change."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Collection
from itertools import chain, zip_longest
from pathlib import Path

from tests.mutations import c_faults, python_faults
from tests.mutations.areas import AREAS, Area
from tests.mutations.catalogue import Fault, line_of, scopes


def draw(tree: Path, files: Collection[str], seed: int, count: int, areas: Collection[str] = ()) -> list[Fault]:
    """``count`` faults of the tree, the areas in turn, or as many as there are; at most one in a function."""
    columns = [_of_area(tree, area, files, seed) for area in AREAS if not areas or area.name in areas]
    turns = chain.from_iterable(zip_longest(*columns))
    return [fault for fault in turns if fault is not None][:count]


def _of_area(tree: Path, area: Area, files: Collection[str], seed: int) -> list[Fault]:
    """One fault of each function of an area; the kind of change is drawn first, as constants outnumber the others."""
    chance = random.Random(f"{seed} {area.name}")
    by_function: dict[tuple[str, str], list[tuple[str, Fault]]] = defaultdict(list)
    for file in sorted(filter(area.has, files)):
        for kind, fault in faults_of(tree, area, file):
            by_function[fault.file, fault.function].append((kind, fault))
    functions = list(by_function)
    chance.shuffle(functions)
    drawn = []
    for function in functions:
        found = by_function[function]
        kind = chance.choice(sorted({kind for kind, _ in found}))
        drawn.append(chance.choice([fault for k, fault in found if k == kind]))
    return drawn


def faults_of(tree: Path, area: Area, file: str) -> list[tuple[str, Fault]]:
    """All faults of a file, with their kinds, whose line is the only one of its text in its function."""
    text = (tree / file).read_text(encoding="utf-8")
    lines, names = text.splitlines(), scopes(text, area.suffix)
    found = []
    for change in (c_faults if area.suffix == ".c" else python_faults).changes(text):
        line = lines[change.line]
        after = (line[: change.start] + change.text + line[change.end :]).strip()
        fault = Fault(area.name, file, names[change.line], line.strip(), after)
        only = line_of(text, area.suffix, fault.function, fault.before) is not None
        if only and fault.before != after and (area.suffix == ".c" or _parses(lines, change.line, line, after)):
            found.append((change.kind, fault))
    return found


def _parses(lines: list[str], number: int, line: str, after: str) -> bool:
    """Whether the module is still Python, and another program than before; looks at the line alone where that suffices."""
    try:
        return ast.dump(ast.parse(after)) != ast.dump(ast.parse(line.strip()))
    except SyntaxError:
        indented = line[: len(line) - len(line.lstrip())] + after
    try:
        ast.parse("\n".join([*lines[:number], indented, *lines[number + 1 :]]))
    except SyntaxError:
        return False
    return True
