"""AArch64: 64-bit Arm with NEON. Kernels use no SVE, but LLVM may where a CPU has it, and so loading checks it."""

from __future__ import annotations

from forge.target.isa.base import Architecture, Cpu, Dot, Isa, first_fields

_V8 = ("fp-armv8", "neon")
_V82 = (*_V8, "crc", "lse", "rdm", "fullfp16", "dotprod")
_V84 = (*_V82, "rcpc", "i8mm", "bf16")
_V9 = (*_V84, "sve", "sve2", "sve2-bitperm")
_APPLE_M1 = (*_V82, "rcpc")

_FEATURES: dict[str, tuple[str, ...]] = {
    "generic": _V8,
    "cortex-a35": (*_V8, "crc"), "cortex-a53": (*_V8, "crc"), "cortex-a57": (*_V8, "crc"), "cortex-a72": (*_V8, "crc"),
    "cortex-a73": (*_V8, "crc"), "cortex-a55": (*_V82, "rcpc"), "cortex-a75": (*_V82, "rcpc"), "cortex-a76": (*_V82, "rcpc"),
    "cortex-a77": (*_V82, "rcpc"), "cortex-a78": (*_V82, "rcpc"), "cortex-x1": (*_V82, "rcpc"),
    "cortex-a510": _V9, "cortex-a710": _V9, "cortex-x2": _V9,
    "neoverse-n1": (*_V82, "rcpc"), "neoverse-v1": (*_V84, "sve"), "neoverse-n2": _V9, "neoverse-v2": _V9,
    "ampere1": (*_V82, "rcpc", "i8mm", "bf16"), "apple-m1": _APPLE_M1, "apple-m2": (*_APPLE_M1, "i8mm", "bf16"),
    "thunderx2t99": (*_V8, "crc", "lse", "rdm"), "a64fx": (*_V8, "crc", "lse", "rdm", "fullfp16", "sve"),
}

_REQUIRES: dict[str, tuple[str, ...]] = {
    "neon": ("fp-armv8",), "fullfp16": ("neon",), "rdm": ("neon",), "dotprod": ("neon",), "i8mm": ("neon",), "bf16": ("neon",),
    "sve": ("fullfp16",), "sve2": ("sve",), "sve2-bitperm": ("sve2",),
}

_CPUINFO_NAMES = {"fp": "fp-armv8", "asimd": "neon", "crc32": "crc", "atomics": "lse", "asimdrdm": "rdm", "asimdhp": "fullfp16",
                  "asimddp": "dotprod", "lrcpc": "rcpc", "svebitperm": "sve2-bitperm"}

# By "CPU implementer" and "CPU part" of cpuinfo.
_PARTS = {
    ("0x41", "0xd03"): "cortex-a53", ("0x41", "0xd04"): "cortex-a35", ("0x41", "0xd05"): "cortex-a55",
    ("0x41", "0xd07"): "cortex-a57", ("0x41", "0xd08"): "cortex-a72", ("0x41", "0xd09"): "cortex-a73",
    ("0x41", "0xd0a"): "cortex-a75", ("0x41", "0xd0b"): "cortex-a76", ("0x41", "0xd0c"): "neoverse-n1",
    ("0x41", "0xd0d"): "cortex-a77", ("0x41", "0xd40"): "neoverse-v1", ("0x41", "0xd41"): "cortex-a78",
    ("0x41", "0xd44"): "cortex-x1", ("0x41", "0xd46"): "cortex-a510", ("0x41", "0xd47"): "cortex-a710",
    ("0x41", "0xd48"): "cortex-x2", ("0x41", "0xd49"): "neoverse-n2", ("0x41", "0xd4f"): "neoverse-v2",
    ("0xc0", "0xac3"): "ampere1", ("0x43", "0x0af"): "thunderx2t99", ("0x46", "0x001"): "a64fx",
}


def _describe(features: tuple[str, ...]) -> Isa:
    have = frozenset(features)
    return Isa(
        vector_bits=128, vector_registers=32, fused_multiply_add=True, rounding=True, halves=True, masked_bytes=0,
        permuted_lanes=frozenset(), permutes_pairs=False, shuffles_bytes=True,
        dots=(Dot("uint8", "int8", "int32", 4),) if "i8mm" in have else (),
        notable=tuple(name for name in ("i8mm", "dotprod", "bf16", "fullfp16") if name in have))


def _host_features(cpuinfo: str) -> tuple[str, ...]:
    names = (_CPUINFO_NAMES.get(flag, flag) for flag in first_fields(cpuinfo).get("Features", "").split())
    return tuple(name for name in names if name in AARCH64.known)


def _host_cpu(cpuinfo: str) -> str:
    fields = first_fields(cpuinfo)
    return _PARTS.get((fields.get("CPU implementer", ""), fields.get("CPU part", "")), "")


AARCH64 = Architecture(
    names=("aarch64", "arm64"), triple="aarch64-linux-gnu",
    data_layout="e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32",
    abi="aapcs", pointer_bits=64, page=1 << 16, elf_machine=183, baseline=_V8,
    cpus={name: Cpu(features) for name, features in _FEATURES.items()}, levels=("generic",),
    requires=_REQUIRES, ignored=frozenset({"aes", "sha2", "sha3", "sm4", "ssbs", "dit", "flagm"}), describe=_describe,
    host_features=_host_features, host_cpu=_host_cpu)
