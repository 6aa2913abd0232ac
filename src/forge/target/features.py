"""CPU features of x86-64 by LLVM's names: levels, named CPUs, what a feature implies, and what this machine has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from forge.errors import TargetError

_V1 = ("sse", "sse2")
_V2 = (*_V1, "cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

LEVELS: dict[str, tuple[str, ...]] = {"x86-64": _V1, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The levels of the x86-64 psABI, weakest first."""

_ICELAKE = (*_V4, "avx512vnni", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "gfni")
_ZEN4 = (*_ICELAKE, "avx512bf16")

CPUS: dict[str, tuple[str, ...]] = {
    **LEVELS,
    "nehalem": _V2, "westmere": _V2, "sandybridge": (*_V2, "avx", "xsave"),
    "ivybridge": (*_V2, "avx", "xsave", "f16c"),
    "haswell": _V3, "broadwell": _V3, "skylake": _V3, "alderlake": (*_V3, "avxvnni", "gfni"),
    "core-avx2": _V3, "znver1": _V3, "znver2": _V3, "znver3": _V3,
    "skylake-avx512": _V4, "cascadelake": (*_V4, "avx512vnni"), "cooperlake": (*_V4, "avx512vnni", "avx512bf16"),
    "icelake-client": _ICELAKE, "icelake-server": _ICELAKE, "tigerlake": _ICELAKE,
    "sapphirerapids": (*_ZEN4, "avxvnni", "avx512fp16"), "emeraldrapids": (*_ZEN4, "avxvnni", "avx512fp16"),
    "znver4": _ZEN4, "znver5": (*_ZEN4, "avxvnni"),
}
"""Features of the CPUs that ``-mcpu`` accepts; names are LLVM's."""

_REQUIRES: dict[str, tuple[str, ...]] = {
    "sse3": ("sse2",), "ssse3": ("sse3",), "sse4.1": ("ssse3",), "sse4.2": ("sse4.1",), "avx": ("sse4.2",),
    "avx2": ("avx",), "fma": ("avx",), "f16c": ("avx",), "avxvnni": ("avx2",), "avx512f": ("avx2", "fma", "f16c"),
    "gfni": ("sse2",),
    **{f"avx512{name}": ("avx512f",) for name in ("bw", "cd", "dq", "vl", "ifma", "vnni", "vpopcntdq")},
    **{f"avx512{name}": ("avx512bw",) for name in ("bf16", "vbmi", "vbmi2", "bitalg")},
    "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
}

_CPUINFO_NAMES = {
    "pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "lahf_lm": "sahf", "bmi1": "bmi", "abm": "lzcnt",
    "avx_vnni": "avxvnni", "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2", "avx512_bitalg": "avx512bitalg", "avx512_vpopcntdq": "avx512vpopcntdq",
}

KNOWN: frozenset[str] = frozenset(f for features in CPUS.values() for f in features)
"""Every x86-64 feature that Forge can use or require."""

_IGNORED = frozenset({"mmx", "fxsr", "cmov", "x87", "sse4a", "adx", "aes", "sha", "pclmul", "rdrnd", "rdseed", "fsgsbase",
                      "vaes", "vpclmulqdq", "clflushopt", "clwb", "prfchw", "invpcid", "64bit", "crc32"})


def canonical(features: Iterable[str]) -> tuple[str, ...]:
    """Sorted, with everything the features require."""
    found: set[str] = set()
    pending = [*features, *_V1]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(_REQUIRES.get(name, ()))
    return tuple(sorted(found))


def apply_attributes(features: Iterable[str], attributes: Iterable[str]) -> tuple[str, ...]:
    """``features`` after LLVM attributes such as ``+avx512vnni`` (with what it requires) or ``-avx`` (and what needs it).

    Raises:
        TargetError: an attribute without sign, or that names no x86-64 feature.
    """
    current = set(canonical(features))
    for attribute in attributes:
        sign, name = attribute[:1], attribute[1:]
        if sign not in "+-" or not name:
            raise TargetError(f"target: mattr {attribute!r}; expected '+feature' or '-feature'")
        if name in _IGNORED:
            continue
        if name not in KNOWN:
            raise TargetError(f"target: mattr {attribute!r}; no such x86-64 feature; expected one of {', '.join(sorted(KNOWN))}")
        current = set(canonical(current | {name})) if sign == "+" else _without(current, name)
    return canonical(current)


def _without(features: set[str], name: str) -> set[str]:
    return {f for f in features if name not in canonical([f]) or f in _V1}


def level_of(features: Iterable[str]) -> str:
    """The highest x86-64 level whose features are all there."""
    have = set(features)
    return [name for name, needed in LEVELS.items() if have.issuperset(needed)][-1]


@cache
def host_features() -> tuple[str, ...]:
    """Features of the CPU this process runs on, from the kernel's list; the baseline where there is none."""
    return canonical(parse_cpuinfo(_read("/proc/cpuinfo")))


def parse_cpuinfo(text: str) -> tuple[str, ...]:
    """Feature names from the first ``flags`` line of Linux's cpuinfo."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            names = (_CPUINFO_NAMES.get(flag, flag) for flag in value.split())
            return tuple(name for name in names if name in KNOWN)
    return ()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


@cache
def host_cache_sizes() -> dict[int, int]:
    """Bytes of the data caches of CPU 0 by level; what the kernel does not report is missing."""
    sizes: dict[int, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = (_read(str(index / name)).strip() for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
    return sizes
