"""The machine that this process runs on, as Linux describes it."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from forge.target.isa import ARCHITECTURES, X86_64, Architecture
from forge.target.isa.base import first_fields

_MODEL = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
"""What tells one CPU from another in Linux's cpuinfo."""


@cache
def architecture() -> Architecture:
    """That of this process; x86-64 where Forge has no description of it."""
    machine = platform.machine().lower()
    return next((known for known in ARCHITECTURES if machine in known.names), X86_64)


@cache
def features() -> tuple[str, ...]:
    """Features of the CPU that this process may use, from the kernel's list; the baseline where there is none."""
    found = architecture().host_features(_read("/proc/cpuinfo"))
    refused = architecture().refused() if found else frozenset()
    return architecture().canonical(feature for feature in found if feature not in refused)


@cache
def cpu() -> str:
    """LLVM's name of the CPU; empty where it is not known."""
    return architecture().host_cpu(_read("/proc/cpuinfo"))


@cache
def name() -> str:
    """What measurements call the CPU: LLVM's name, or where that is not known the numbers that the kernel gives its model."""
    fields = first_fields(_read("/proc/cpuinfo"))
    return cpu() or "-".join(fields[key] for key in _MODEL if fields.get(key)) or architecture().name


@cache
def model() -> str:
    """What the kernel calls the CPU: on virtual machines often one name for several generations; empty where it says nothing."""
    return first_fields(_read("/proc/cpuinfo")).get("model name", "")


@cache
def cache_sizes() -> dict[int, int]:
    """Bytes of the data caches of CPU 0 by level; what the kernel does not report is missing."""
    sizes: dict[int, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = (_read(str(index / name)).strip() for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
    return sizes


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
