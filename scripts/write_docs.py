"""Writes the pages of ``docs/`` that come from tables in the sources. ``--check``: fails where one is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from forge.driver.pipeline import levels_table
from forge.knobs import KNOBS

DOCS = Path(__file__).parent.parent / "docs"

OPT_LEVELS = """# Optimisation levels

`ir.compile(opt_level=...)` and `forge compile -O` take 0 to 4; the default is 3. Results agree at all levels, within the
rounding of sums in another order. Higher levels take longer to compile. The table comes from `forge.driver.pipeline`; stages run
from top to bottom.

"""

SETTINGS = """# Settings

Environment variables that Forge reads. Everything else is an argument. The table comes from `forge.knobs`.

| variable | default | meaning |
| --- | --- | --- |
"""


def pages() -> dict[str, str]:
    """The text of each generated page, by file name."""
    settings = "".join(f"| `{k.name}` | {f'`{k.default}`' if k.default else ''} | {k.meaning} |\n" for k in KNOBS)
    return {"opt_levels.md": OPT_LEVELS + levels_table(), "settings.md": SETTINGS + settings}


def stale() -> list[str]:
    """Names of pages that are missing or differ from their tables."""
    return [n for n, text in pages().items() if not (DOCS / n).is_file() or (DOCS / n).read_text(encoding="utf-8") != text]


def main() -> int:
    if "--check" in sys.argv[1:]:
        old = stale()
        if old:
            sys.stderr.write(f"out of date: {', '.join(old)}; run: python scripts/write_docs.py\n")
        return int(bool(old))
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
