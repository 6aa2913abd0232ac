"""``forge cache``: what the compile cache holds."""

from __future__ import annotations

from typing import Annotated

import typer

from forge.cli import source
from forge.driver import cache as store
from forge.errors import OptionError

EXAMPLES = ("forge cache", "forge cache clear")


def cache(
    action: Annotated[str, typer.Argument(help="show or clear.")] = "show",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Shows or clears the compile cache."""
    if action not in ("show", "clear"):
        raise OptionError(f"cache: got {action!r}; expected show or clear")
    known = store.entries()
    freed = store.clear() if action == "clear" else 0
    total = sum(size for _, size in known)
    if as_json:
        source.print_json({"folder": str(store.folder()), "entries": len(known), "bytes": total, "freed": freed})
        return
    verb = "cleared of" if action == "clear" else "holds"
    source.say(f"{store.folder()} {verb} {source.count_text(len(known), 'compiled model')}, {source.bytes_text(total)}")
