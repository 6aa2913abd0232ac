"""Names for well-known machines."""

from __future__ import annotations

_X86_CPUS = {
    "intel/haswell": "haswell", "intel/skylake": "skylake", "intel/skylake-avx512": "skylake-avx512",
    "intel/cascadelake": "cascadelake", "intel/icelake-server": "icelake-server", "intel/sapphirerapids": "sapphirerapids",
    "amd/zen2": "znver2", "amd/zen3": "znver3", "amd/zen4": "znver4", "amd/zen5": "znver5",
    "aws/cpu/c5": "skylake-avx512", "aws/cpu/c6i": "icelake-server",
}
_ARM_CPUS = {"aws/cpu/c7g": "neoverse-v1", "raspberry-pi/4": "cortex-a72", "raspberry-pi/5": "cortex-a76"}

TAGS: dict[str, dict[str, str]] = {
    **{tag: {"kind": "llvm", "mcpu": cpu} for tag, cpu in _X86_CPUS.items()},
    **{tag: {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": cpu} for tag, cpu in _ARM_CPUS.items()},
    "android/cpu": {"kind": "llvm", "mtriple": "aarch64-linux-android"},
}
