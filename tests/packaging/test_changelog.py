"""CHANGELOG.md is one that scripts/release.py can make notes of."""

from __future__ import annotations

from itertools import pairwise

import pytest

import forge
from scripts import changelog
from tests.packaging.index import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
SECTIONS = changelog.sections(TEXT)
RELEASED = [section for section in SECTIONS if section.version]
TWO_VERSIONS = "# Changelog\n\n## 0.2.0 - 2027-01-31\n\n### Added\n\n- b\n- c\n\n## 0.1.0 - 2026-12-31\n\n### Fixed\n\n- a\n"


def test_the_newest_version_is_the_packages() -> None:
    assert changelog.newest(TEXT).version == forge.__version__


def test_versions_follow_each_other() -> None:
    """Unreleased changes may come first; then each version is newer than the next one."""
    assert SECTIONS[-len(RELEASED):] == RELEASED and len(SECTIONS) - len(RELEASED) <= 1
    numbers = [tuple(map(int, section.version.split("."))) for section in RELEASED]
    assert all(newer > older for newer, older in pairwise(numbers))
    assert all(newer.date >= older.date for newer, older in pairwise(RELEASED))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.version or "unreleased")
def test_entries_are_lines_below_their_kinds(section: changelog.Section) -> None:
    before, *kinds = section.text.split("### ")
    headings = [kind.split("\n", 1)[0] for kind in kinds]
    assert headings == [kind for kind in changelog.KINDS if kind in headings]
    assert "\n- " not in f"\n{before}"
    for kind in kinds:
        _, *entries = [line for line in kind.splitlines() if line]
        assert entries and all(line.startswith("- ") and line.endswith(".") and len(line) <= 130 for line in entries)


def test_sections_are_read() -> None:
    newer, older = changelog.sections(TWO_VERSIONS)
    assert (newer.version, newer.date, newer.entries) == ("0.2.0", "2027-01-31", ["b", "c"])
    assert (older.version, older.text) == ("0.1.0", "### Fixed\n\n- a\n")


def test_an_unreleased_section_is_not_the_newest_version() -> None:
    unreleased, *others = changelog.sections(TWO_VERSIONS.replace("## 0.2.0", "## Unreleased\n\n- d\n\n## 0.2.0"))
    assert (unreleased.version, unreleased.entries) == ("", ["d"]) and others == changelog.sections(TWO_VERSIONS)
    assert changelog.newest("## Unreleased\n\n- d\n\n## 0.2.0 - 2027-01-31\n").version == "0.2.0"


@pytest.mark.parametrize("heading", ["## 0.2.0", "## 0.2 - 2027-01-31", "## v0.2.0 - 2027-01-31", "## unreleased"])
def test_headings_of_another_form_are_refused(heading: str) -> None:
    with pytest.raises(ValueError, match=r"CHANGELOG\.md: heading .*; expected '## Unreleased' or"):
        changelog.sections(f"{heading}\n")
