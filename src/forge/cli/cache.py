"""``forge cache``: what the compile cache holds."""

from __future__ import annotations

from typing import Annotated

import typer

from forge.cli import source
from forge.codegen import object_store
from forge.driver import cache as store
from forge.errors import OptionError

EXAMPLES = ("forge cache", "forge cache clear")


def cache(
    action: Annotated[str, typer.Argument(help="show or clear.")] = "show",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Shows or clears the compile cache.

    It holds compiled models, the object code that LLVM made for kernels, and the objects of the C runtime.
    """
    if action not in ("show", "clear"):
        raise OptionError(f"cache: got {action!r}; expected show or clear")
    known, total, kernels, runtime = held()
    freed = store.clear() + object_store.KERNELS.clear() + object_store.RUNTIME.clear() if action == "clear" else 0
    if as_json:
        source.print_json({"folder": str(store.folder().parent), "entries": known, "bytes": total, "kernel_bytes": kernels,
                           "runtime_bytes": runtime, "freed": freed})
        return
    verb = "cleared of" if action == "clear" else "holds"
    source.say(f"{store.folder().parent} {verb} {source.count_text(known, 'compiled model')}, {source.bytes_text(total)}, "
               f"and kernels, {source.bytes_text(kernels)}; "
               f"the C runtime takes {source.bytes_text(0 if action == 'clear' else runtime)}")


def held() -> tuple[int, int, int, int]:
    """How many models the cache holds, and bytes of models, kernels and the C runtime."""
    known = store.entries()
    return len(known), sum(size for _, size in known), object_store.KERNELS.size(), object_store.RUNTIME.size()
