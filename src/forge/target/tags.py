"""Names for well-known machines."""

from __future__ import annotations

from typing import Any

TAGS: dict[str, dict[str, Any]] = {
    "intel/haswell": {"kind": "llvm", "mcpu": "haswell"},
    "intel/skylake": {"kind": "llvm", "mcpu": "skylake"},
    "intel/skylake-avx512": {"kind": "llvm", "mcpu": "skylake-avx512"},
    "intel/cascadelake": {"kind": "llvm", "mcpu": "cascadelake"},
    "intel/icelake-server": {"kind": "llvm", "mcpu": "icelake-server"},
    "intel/sapphirerapids": {"kind": "llvm", "mcpu": "sapphirerapids"},
    "amd/zen2": {"kind": "llvm", "mcpu": "znver2"},
    "amd/zen3": {"kind": "llvm", "mcpu": "znver3"},
    "amd/zen4": {"kind": "llvm", "mcpu": "znver4"},
    "amd/zen5": {"kind": "llvm", "mcpu": "znver5"},
    "aws/cpu/c5": {"kind": "llvm", "mcpu": "skylake-avx512"},
    "aws/cpu/c6i": {"kind": "llvm", "mcpu": "icelake-server"},
    "aws/cpu/c7g": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-v1"},
    "raspberry-pi/4": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"},
    "raspberry-pi/5": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"},
    "android/cpu": {"kind": "llvm", "mtriple": "aarch64-linux-android"},
}
