"""Changes of one line of C, found by patterns in code that is neither a comment, nor a string, nor for the preprocessor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.mutations.python_faults import Change

_PATTERNS = (
    ("comparison", r" (<=|>=|<|>|==|!=) ", {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}),
    ("and, or", r" (&&|\|\|) ", {"&&": "||", "||": "&&"}),
    ("arithmetic", r"(?<=[\w)\]]) (\+|-|%|/|<<|>>|&|\|) (?=[\w(])",
     {"+": "-", "-": "+", "%": "/", "/": "%", "<<": ">>", ">>": "<<", "&": "|", "|": "&"}),
    ("constant", r"(?<![\w.\"])([0-9]+)(?![\w.])", None),
    ("condition", r"\b(?:if|while) \((!)(?=\w)", {"!": ""}),
    ("true, false", r"\b(true|false)\b", {"true": "false", "false": "true"}),
)
_STATEMENT = re.compile(
    r"^\s+(?!return\b|free|.*(?:_free|release|destroy|DECREF|unlock|close)\()[a-z_][\w>.\-\[\]]*(?:\(.*\)| [-+|&]?= .*);\s*$")
"""A call or an assignment on a line of its own; one that frees memory is only missed by tools that look for leaks."""
_NOT_CODE = re.compile(r"^\s*#|^\s*(?:static )?const char|assert\(")
_REFUSAL = re.compile(r"\breturn \w*(?:fail|refuse|no_memory)\w*\(.*|\bPyErr_\w+\(.*")
"""What makes a message; the condition before it on the same line is code."""


def changes(text: str) -> list[Change]:
    """All changes of a C file."""
    lines = _code(text)
    begins = [True, *(line.rstrip().endswith((";", "{", "}", ":")) or not line.strip() for line in lines)]
    return [change for k, line in enumerate(lines) if not _NOT_CODE.search(line) for change in _in_line(k, line, begins[k])]


def _code(text: str) -> list[str]:
    """The lines, in which comments and what is in quotes are replaced by as many blanks."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text).splitlines()


def _in_line(number: int, line: str, begins: bool) -> Iterator[Change]:
    """Changes of a line, and where a statement begins on it, that it is left out."""
    computes = _REFUSAL.sub("", line)
    for kind, pattern, others in _PATTERNS:
        for found in re.finditer(pattern, computes):
            start, end = found.span(1)
            if others is not None:
                yield Change(kind, number, start, end, others[found[1]])
            else:
                yield Change(kind, number, start, end, str(int(found[1]) + 1))
    if begins and computes == line and _STATEMENT.match(line) and not re.match(r"^\s+\w+ \w+ =", line):
        yield Change("statement left out", number, len(line) - len(line.lstrip()), len(line.rstrip()), ";")
