"""Programs in C that put the runtime under stress, built with the sanitizers of the compiler.

    python -m tests.runtime.sanitizers [--minutes 10] [PROGRAM ...]

runs them again and again for a given time each, under ThreadSanitizer and under AddressSanitizer; the tests run each once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.runtime.building import compile_c, runtime_objects

SANITIZERS = ("thread", "address,undefined")
PROGRAMS: dict[str, tuple[str, list[list[str]]]] = {
    "pool": ("stress.c", [["loops", "40"], ["memory", "100"]]),
    "functions": ("functions.c", [["20"]]),
    "control": ("control.c", [["50"]]),
    "sessions": ("session_stress.c", [["2"]]),
}
"""By name: the source, and the arguments of its runs."""


def build(name: str, sanitizer: str, folder: Path) -> Path:
    """The program, compiled with the C runtime."""
    program = folder / f"{name}-{sanitizer.partition(',')[0]}"
    source = Path(__file__).parent / PROGRAMS[name][0]
    compile_sanitized(sanitizer, source, program)
    return program


def compile_sanitized(sanitizer: str, source: Path, program: Path) -> None:
    """Compiles ``source`` with the C runtime; what the sanitizer finds ends the program."""
    flags = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-g")
    compile_c(*flags, source, *runtime_objects(*flags), "-lm", "-o", program)


def main(arguments: Sequence[str] | None = None) -> int:
    from tests.runtime.test_native import execute

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"some of {', '.join(PROGRAMS)}; else all")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each program and sanitizer")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs or PROGRAMS:
            for sanitizer in SANITIZERS:
                program, rounds = build(name, sanitizer, Path(folder)), 0
                end = time.monotonic() + 60 * options.minutes
                while rounds == 0 or time.monotonic() < end:
                    for given in PROGRAMS[name][1]:
                        execute(program, *given)
                    rounds += 1
                sys.stdout.write(f"{name} under -fsanitize={sanitizer}: {rounds} rounds, nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
