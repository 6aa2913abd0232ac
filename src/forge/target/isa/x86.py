"""x86-64: its levels, CPUs, and what a feature implies, by LLVM's names."""

from __future__ import annotations

import ctypes
from dataclasses import replace

from forge.target.costs import SERVER_CORE
from forge.target.isa.base import Architecture, Cpu, Dot, Isa, first_fields

EMULATED_TILES = "amx-emulated"
"""Calls functions in place of AMX's instructions, which tests provide: code for tiles runs on any machine then."""

_V1 = ("sse", "sse2")
_V2 = (*_V1, "cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ICELAKE = (*_V4, "avx512vnni", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "gfni")
_ZEN4 = (*_ICELAKE, "avx512bf16")
_SAPPHIRE_RAPIDS = (*_ZEN4, "avxvnni", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16")

# Measured on a core with AMX: dot products of bfloat16 multiply half of what multiply-adds of float32 do; the last cache is far.
_SAPPHIRE_RAPIDS_RATES = replace(SERVER_CORE, bfloat16_dots=0.5, streamed_bytes=8.0, reread_bytes=7.0, shared_bytes=6.0)
_WITH_TILES = ("sapphirerapids", "emeraldrapids", "graniterapids")
# Vectors of 256 bits are two operations on Zen 1; measured are sums of what was widened.
_RATES = {**dict.fromkeys(_WITH_TILES, _SAPPHIRE_RAPIDS_RATES), "znver1": replace(SERVER_CORE, conversions=0.35),
          **dict.fromkeys(("znver4", "znver5"), replace(SERVER_CORE, narrows_all=True))}

_LEVELS = {"x86-64": _V1, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The levels of the x86-64 psABI, weakest first."""

_FEATURES: dict[str, tuple[str, ...]] = {
    **_LEVELS,
    "nehalem": _V2, "westmere": _V2, "sandybridge": (*_V2, "avx", "xsave"),
    "ivybridge": (*_V2, "avx", "xsave", "f16c"),
    "haswell": _V3, "broadwell": _V3, "skylake": _V3, "alderlake": (*_V3, "avxvnni", "gfni"),
    "core-avx2": _V3, "znver1": _V3, "znver2": _V3, "znver3": _V3,
    "skylake-avx512": _V4, "cascadelake": (*_V4, "avx512vnni"), "cooperlake": (*_V4, "avx512vnni", "avx512bf16"),
    "icelake-client": _ICELAKE, "icelake-server": _ICELAKE, "tigerlake": _ICELAKE,
    **dict.fromkeys(_WITH_TILES, _SAPPHIRE_RAPIDS), "graniterapids": (*_SAPPHIRE_RAPIDS, "amx-fp16"),
    "znver4": _ZEN4, "znver5": (*_ZEN4, "avxvnni"),
}

_REQUIRES: dict[str, tuple[str, ...]] = {
    "sse3": ("sse2",), "ssse3": ("sse3",), "sse4.1": ("ssse3",), "sse4.2": ("sse4.1",), "avx": ("sse4.2",),
    "avx2": ("avx",), "fma": ("avx",), "f16c": ("avx",), "avxvnni": ("avx2",), "avx512f": ("avx2", "fma", "f16c"),
    "gfni": ("sse2",),
    **{f"avx512{name}": ("avx512f",) for name in ("bw", "cd", "dq", "vl", "ifma", "vnni", "vpopcntdq")},
    **{f"avx512{name}": ("avx512bw",) for name in ("bf16", "vbmi", "vbmi2", "bitalg")},
    "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
    **{f"amx-{name}": ("amx-tile",) for name in ("int8", "bf16", "fp16")},
}

_CPUINFO_NAMES = {
    "amx_tile": "amx-tile", "amx_int8": "amx-int8", "amx_bf16": "amx-bf16", "amx_fp16": "amx-fp16",
    "pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "lahf_lm": "sahf", "bmi1": "bmi", "abm": "lzcnt",
    "avx_vnni": "avxvnni", "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2", "avx512_bitalg": "avx512bitalg", "avx512_vpopcntdq": "avx512vpopcntdq",
}

_TILES = frozenset({"amx-tile", "amx-int8", "amx-bf16", "amx-fp16"})
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18

_IGNORED = frozenset({"mmx", "fxsr", "cmov", "x87", "sse4a", "adx", "aes", "sha", "pclmul", "rdrnd", "rdseed", "fsgsbase",
                      "vaes", "vpclmulqdq", "clflushopt", "clwb", "prfchw", "invpcid", "64bit", "crc32"})

# By vendor, family and model (from, to): what the name of a CPU says on Linux.
_MODELS: tuple[tuple[str, int, int, int, str], ...] = (
    ("AuthenticAMD", 23, 0x00, 0x2F, "znver1"), ("AuthenticAMD", 23, 0x30, 0xFF, "znver2"),
    ("AuthenticAMD", 25, 0x10, 0x1F, "znver4"), ("AuthenticAMD", 25, 0x60, 0xAF, "znver4"),
    ("AuthenticAMD", 25, 0x00, 0x5F, "znver3"), ("AuthenticAMD", 26, 0x00, 0xFF, "znver5"),
    ("GenuineIntel", 6, 60, 60, "haswell"), ("GenuineIntel", 6, 63, 63, "haswell"), ("GenuineIntel", 6, 69, 70, "haswell"),
    ("GenuineIntel", 6, 61, 61, "broadwell"), ("GenuineIntel", 6, 71, 71, "broadwell"), ("GenuineIntel", 6, 79, 79, "broadwell"),
    ("GenuineIntel", 6, 86, 86, "broadwell"), ("GenuineIntel", 6, 78, 78, "skylake"), ("GenuineIntel", 6, 94, 94, "skylake"),
    ("GenuineIntel", 6, 142, 142, "skylake"), ("GenuineIntel", 6, 158, 158, "skylake"),
    ("GenuineIntel", 6, 106, 106, "icelake-server"), ("GenuineIntel", 6, 108, 108, "icelake-server"),
    ("GenuineIntel", 6, 126, 126, "icelake-client"), ("GenuineIntel", 6, 140, 141, "tigerlake"),
    ("GenuineIntel", 6, 151, 151, "alderlake"), ("GenuineIntel", 6, 154, 154, "alderlake"),
    ("GenuineIntel", 6, 143, 143, "sapphirerapids"), ("GenuineIntel", 6, 207, 207, "emeraldrapids"),
    ("GenuineIntel", 6, 173, 174, "graniterapids"),
)


def _describe(features: tuple[str, ...]) -> Isa:
    have = frozenset(features)
    pairs = (Dot("uint8", "int8", "int32", 4),) if have & {"avx512vnni", "avxvnni"} else ()
    halves = (Dot("bfloat16", "bfloat16", "float32", 2),) if have >= {"avx512bf16", "avx512vl"} else ()
    permutes = {4: "avx", 8: "avx2", 16: "avx512f"}
    notable = ("avx512vnni", "avxvnni", "avx512bf16", "amx-int8", "avx512f", "avx2")
    return Isa(
        vector_bits=512 if "avx512f" in have else 256 if "avx2" in have else 128,
        vector_registers=32 if "avx512f" in have else 16,
        fused_multiply_add="fma" in have, rounding="sse4.1" in have, halves="f16c" in have,
        masked_bytes=1 if "avx512bw" in have else 4 if "avx2" in have else 0,
        permuted_lanes=frozenset(lanes for lanes, feature in permutes.items() if feature in have),
        permutes_pairs="avx512bw" in have, shuffles_bytes="avx2" in have,
        dots=(*pairs, *halves), tiles=_tiles(have), notable=tuple(name for name in notable if name in have))


def _tiles(have: frozenset[str]) -> frozenset[str]:
    """Left operands of products in tile registers."""
    needed = {"bfloat16": "amx-bf16", "float16": "amx-fp16", "uint8": "amx-int8", "int8": "amx-int8"}
    return frozenset(dtype for dtype, feature in needed.items() if have & {feature, EMULATED_TILES})


def _host_features(cpuinfo: str) -> tuple[str, ...]:
    names = (_CPUINFO_NAMES.get(flag, flag) for flag in first_fields(cpuinfo).get("flags", "").split())
    return tuple(name for name in names if name in X86_64.known)


def _refused() -> frozenset[str]:
    """Tile registers, unless Linux lets this process have them when asked."""
    return frozenset() if ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0 else _TILES


def _host_cpu(cpuinfo: str) -> str:
    fields = first_fields(cpuinfo)
    vendor, family, model = (fields.get(key, "") for key in ("vendor_id", "cpu family", "model"))
    if not (family.isdigit() and model.isdigit()):
        return ""
    if (vendor, int(family), int(model)) == ("GenuineIntel", 6, 85):  # one number for three CPUs
        have = _host_features(cpuinfo)
        return "cooperlake" if "avx512bf16" in have else "cascadelake" if "avx512vnni" in have else "skylake-avx512"
    known = ((v, f, range(first, last + 1), name) for v, f, first, last, name in _MODELS)
    return next((name for v, f, models, name in known if (v, f) == (vendor, int(family)) and int(model) in models), "")


X86_64 = Architecture(
    names=("x86_64", "amd64"), triple="x86_64-linux-gnu",
    data_layout="e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
    abi="sysv", pointer_bits=64, page=1 << 12, elf_machine=62, baseline=_V1,
    cpus={name: Cpu(features, _RATES.get(name, SERVER_CORE)) for name, features in _FEATURES.items()}, levels=tuple(_LEVELS),
    requires=_REQUIRES, ignored=_IGNORED, describe=_describe, host_features=_host_features, host_cpu=_host_cpu,
    emulated=frozenset({EMULATED_TILES}), refused=_refused)
