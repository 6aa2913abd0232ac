"""Reads CHANGELOG.md: an ``Unreleased`` section may come first, then versions, the newest first."""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Of entries, in the order that sections have them: Keep a Changelog's."""
_HEADING = re.compile(r"^## (?:(?P<unreleased>Unreleased)|(?P<version>\d+\.\d+\.\d+) - (?P<date>\d{4}-\d\d-\d\d))$")


@dataclass(frozen=True)
class Section:
    """What changed in a version; ``version`` and ``date`` are empty of what is not released yet."""

    version: str
    date: str
    text: str

    @property
    def entries(self) -> list[str]:
        return re.findall(r"^- (.*)", self.text, re.MULTILINE)


def sections(text: str) -> list[Section]:
    """The sections of a changelog; raises ValueError for a heading that is neither ``Unreleased`` nor ``VERSION - DATE``."""
    _, *parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return [_section(*part.split("\n", 1)) for part in parts]


def _section(heading: str, text: str = "") -> Section:
    match = _HEADING.match(heading)
    if match is None:
        raise ValueError(f"CHANGELOG.md: heading {heading!r}; expected '## Unreleased' or '## 1.2.3 - 2027-01-31'")
    return Section(match["version"] or "", match["date"] or "", text.strip() + "\n")


def newest(text: str) -> Section:
    """The section of the newest version."""
    return next(section for section in sections(text) if section.version)
