"""Instruction sets as values: what the compiler may know of a CPU, and all that it knows.

An `Architecture` is a file of this folder: names, data layout, ABI, CPUs, and how this machine is known. Its ``describe`` makes
an `Isa` of the features of one target, which is what cost models, layouts and code generation ask. Names of features are read in
this folder and in ``codegen/isa`` only, where the native instructions of each architecture stand.
"""

from forge.target.isa.aarch64 import AARCH64
from forge.target.isa.base import Architecture, Cpu, Dot, Isa
from forge.target.isa.x86 import X86_64

ARCHITECTURES: tuple[Architecture, ...] = (X86_64, AARCH64)

__all__ = ["AARCH64", "ARCHITECTURES", "X86_64", "Architecture", "Cpu", "Dot", "Isa"]
