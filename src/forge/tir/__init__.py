"""The loop IR: expressions, statements and functions over flat buffers.

``forge.tir`` has what own kernels are written with: the decorator `program`, `Builder` and `read_program`, which make a
`Program`; ``forge.tir.text`` documents its language.
"""

from forge.tir.text import Buffer, Builder, Program, program, read_program

__all__ = ["Buffer", "Builder", "Program", "program", "read_program"]
