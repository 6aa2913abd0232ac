"""``forge doctor``: what this machine offers."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import forge_runtime
from forge import knobs, optional
from forge._version import __version__
from forge.cli import source, tables
from forge.cli.cache import held
from forge.errors import ForgeError
from forge.target import Target

if TYPE_CHECKING:
    from forge.backends.core_rates import Rate

EXAMPLES = ("forge doctor", "forge doctor --rates", "forge doctor --json")

_REQUIRED = ("numpy", "ml_dtypes", "llvmlite", "onnx", "safetensors", "rich", "typer", "cryptography")


def doctor(
    rates: Annotated[bool, typer.Option("--rates", help="Measure what cost models assume of a core; takes seconds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Reports what this machine offers and what is missing.

    The C compiler, the CPU, huge pages and installed packages, and what to do about those that are missing.
    """
    facts: dict[str, Any] = _facts()
    measured = _measured() if rates else []
    if as_json:
        source.print_json({**facts, "rates": [asdict(rate) for rate in measured]} if rates else facts)
        return
    tables.show("doctor", ("what", "found"), facts.items())
    if rates:
        rows = [(rate.name, rate.unit, f"{rate.assumed:.1f}", "none" if rate.measured is None else f"{rate.measured:.1f}",
                 "far off" if rate.is_off else "") for rate in measured]
        tables.show("one core, in a cycle", ("rate", "of", "assumed", "measured", ""), rows, right=("assumed", "measured"))


def _measured() -> list[Rate]:
    from forge.backends import core_rates

    return core_rates.measure(Target.parse("llvm"))


def _facts() -> dict[str, str]:
    target = Target.parse("llvm")
    cpus = source.count_text(len(os.sched_getaffinity(0)), "usable CPU")
    caches = (target.l1_cache, target.l2_cache, target.l3_cache)
    return {
        "forge-compiler": __version__,
        "forge-compiler-runtime": forge_runtime.__version__,  # from sources it has no distribution of its own
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.machine()}",
        "supported": "models run on CPUs of x86-64 and AArch64 (64-bit ARM) with Linux; no GPU; inference only",
        "C compiler": _compiler(target),
        "CPU": f"{target.machine}, {target.cpu}; vectors of {target.vector_bits} bits; {cpus}",
        "CPU features": " ".join(target.features),
        "rates": f"those of {target.tune or target.cpu}; {_rates_text(target)}",
        "caches": ", ".join(f"L{n} {source.bytes_text(s)}" for n, s in enumerate(caches, 1)),
        "huge pages": _huge_pages(),
        "cache": _cache(),
        **{name: optional.installed(name) or "missing; reinstall Forge" for name in _REQUIRED},
        **{name: _optional(name, purpose) for name, purpose in optional.PURPOSES.items()},
    }


def _compiler(target: Target) -> str:
    from forge.codegen.link import find_compiler

    try:
        return " ".join(find_compiler(target))
    except ForgeError as error:
        return str(error)


def _rates_text(target: Target) -> str:
    costs = target.costs
    return (f"in a cycle {costs.multiply_adds:g} multiply-adds, {costs.loads:g} loads, {costs.streamed_bytes:g} bytes from the "
            f"last cache, {costs.memory_bytes:g} from memory")


def _huge_pages() -> str:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    try:
        chosen = path.read_text(encoding="ascii").split("[")[1].split("]")[0]
    except (OSError, IndexError):
        return "not available; large models read their weights more slowly"
    advice = "" if chosen in ("always", "madvise") else "; 'madvise' lets large models read their weights faster"
    return f"{chosen}{advice}"


def _cache() -> str:
    try:
        _, *sizes = held()
        return f"{knobs.cache_folder()}, {source.bytes_text(sum(sizes))}; 'forge cache clear' empties it"
    except ForgeError as error:
        return str(error)


def _optional(package: str, purpose: str) -> str:
    version, oldest = optional.installed(package), optional.TESTED.get(package)
    if version is None:
        return f"not installed; for {purpose}" + (f"; {oldest} or newer" if oldest else "")
    is_old = oldest is not None and optional.is_untested(package, version)
    return f"{version}; older than {oldest}, the oldest that is tested" if is_old else version
