"""Damages files of StableHLO at random: each gives a model or a clear error, in little time and memory.

python -m tests.frontends.stablehlo.mutants --count 5000
python -m tests.frontends.stablehlo.mutants --only 4711 --save mutant.mlir      # one again, with its file

Address space is limited to 4 GiB. Every fifth mutant is damaged in a way that keeps numbers where they are, but makes them huge.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import forge
from tests.frontends.damage import MEMORY, outcome
from tests.frontends.onnx.fuzz.worker import Finding

DATA = Path(__file__).parent / "data"
LARGEST = 64 << 10
"""Bytes of a file that is damaged."""

_NUMBER = re.compile(rb"\d+")
_TOKEN = re.compile(rb"[%@#!]?[\w.]+|\"[^\"\n]*\"|[^\w\s]")
_HUGE = (
    b"0", b"-1", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"1" + b"0" * 400, b"1e999", b"?", b"0x7FFFFFFF")


def _flipped(data: bytes, draw: random.Random, other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _truncated(data: bytes, draw: random.Random, other: bytes) -> bytes:
    begin = draw.randrange(len(data))
    return data[:begin] if draw.random() < 0.7 else data[:begin] + data[begin + draw.randrange(1, 64):]


def _spliced(data: bytes, draw: random.Random, other: bytes) -> bytes:
    begin, end = sorted(draw.randrange(len(other) + 1) for _ in range(2))
    first, last = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:first] + other[begin:end] + data[draw.choice((first, last)):]


def _swapped(data: bytes, draw: random.Random, other: bytes) -> bytes:
    """Tokens of text change places, or come twice; in bytecode the same happens to what looks like them."""
    places = [found.span() for found in _TOKEN.finditer(data)]
    for _ in range(draw.choice((1, 1, 2, 3))):
        (begin, end), (first, last) = draw.choice(places), draw.choice(places)
        if end <= first:
            data = data[:begin] + data[first:last] + data[end:first] + data[begin:end] + data[last:]
        else:
            data = data[:begin] + data[first:last] + data[end:]
        places = [found.span() for found in _TOKEN.finditer(data)] or [(0, 0)]
    return data


def _huge(data: bytes, draw: random.Random, other: bytes) -> bytes:
    """Numbers are made huge: those of text by their digits, those of bytecode by all of their bits."""
    places = [found.span() for found in _NUMBER.finditer(data)]
    if places and b"\0" not in data:
        begin, end = draw.choice(places)
        return data[:begin] + draw.choice(_HUGE) + data[end:]
    begin = draw.randrange(len(data))
    size = draw.choice((1, 2, 4, 8))
    return data[:begin] + draw.choice((b"\xff", b"\x7f", b"\0", b"\xfe")) * size + data[begin + size:]


KINDS: tuple[Callable[[bytes, random.Random, bytes], bytes], ...] = (_flipped, _truncated, _spliced, _swapped, _huge)


def mutant(files: list[Path], seed: int, number: int) -> tuple[str, bytes]:
    """What the damaged file is made of, and its bytes."""
    draw = random.Random(f"{seed}:{number}")
    path, other = draw.choice(files), draw.choice(files)
    kind = KINDS[number % len(KINDS)]
    return f"{kind.__name__[1:]} {path.name}", kind(path.read_bytes(), draw, other.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.stablehlo.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="number of mutants")
    parser.add_argument("--start", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this mutant alone")
    parser.add_argument("--save", type=Path, help="with --only: write the file there")
    parser.add_argument("--models", type=Path, help="a folder of more files to start from")
    options = parser.parse_args()
    folders = [DATA, *([options.models] if options.models else [])]
    files = sorted(
        path for folder in folders for path in folder.iterdir()
        if path.suffix in (".bc", ".mlir", ".jaxexport") and 0 < path.stat().st_size <= LARGEST)
    forge.from_stablehlo(DATA / "nested.mlir")  # loads what is loaded lazily, before memory is limited
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    numbers = range(options.start, options.start + options.count) if options.only is None else [options.only]
    counts, findings = Counter[str](), 0
    for number in numbers:
        name, data = mutant(files, options.seed, number)
        if options.save is not None:
            options.save.write_bytes(data)
        try:
            counts[outcome(partial(forge.from_stablehlo, data))] += 1
        except Finding as finding:
            findings += 1
            sys.stdout.write(f"--seed {options.seed} --only {number} ({name}): {finding}\n")
            sys.stdout.flush()
    for note, count in counts.most_common(40):
        sys.stdout.write(f"{count:7} {note}\n")
    sys.stdout.write(f"{len(numbers)} mutants of {len(files)} files: {findings} findings\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
