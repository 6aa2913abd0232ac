"""The program that code generation is given; defined beside the loop IR."""

from forge.tir.program import Program, TensorSpec

__all__ = ["Program", "TensorSpec"]
