"""Damages Keras models at random: each gives a model or a clear error, in little time and memory.

python -m tests.frontends.keras.mutants --count 5000
python -m tests.frontends.keras.mutants --only 4711 --save mutant.keras      # one again, with its file

Models are those of `record`. Bytes of the archive and of the HDF5 file in it are changed, and values of the configuration: these
get past the reader. Address space is limited to 4 GiB.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import resource
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import forge
from forge.frontends.keras import converters
from tests.frontends.damage import MEMORY, outcomes
from tests.frontends.keras.record import kept

_VALUES = (None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 62, -(1 << 40), 0.5, float("1e30"), "", "same", "valid",
    "relu", "nothing",
           [], [0], [1, 1], [2, -1], [1 << 40, 1 << 40], {}, {"class_name": "Dense", "config": {}}, "channels_first", "__proto__")
_NUMBERS = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1, (1 << 63) - 1)
CONFIG, WEIGHTS = "config.json", "model.weights.h5"


@cache
def files() -> list[tuple[str, bytes]]:
    """Names and bytes of the models that are damaged."""
    return [(case.name, case.data) for case in kept() if len(case.data) < 400_000]


def _flipped(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _truncated(data: bytes, draw: random.Random) -> bytes:
    begin = draw.randrange(8, len(data))
    return data[:begin] if draw.random() < 0.7 else data[:begin] + data[begin + draw.randrange(1, 64) :]


def _words(data: bytes, draw: random.Random) -> bytes:
    """Places, sizes and counts become huge, a little different, or another of the file; where there is something."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        width = draw.choice((1, 2, 4, 8))
        place = next((p for p in (draw.randrange(len(data) - 8) for _ in range(20)) if any(data[p : p + 8])), 0)
        found = int.from_bytes(changed[place : place + width], "little")
        source = draw.randrange(len(data) - 8)
        copied = int.from_bytes(data[source : source + width], "little")
        value = draw.choice((draw.choice(_NUMBERS), found + draw.choice((-8, -1, 1, 8)), copied, len(data)))
        changed[place : place + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(changed)


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (_flipped, _truncated, _words, _words, _words)


def _entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _archive(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, contents in entries.items():
            archive.writestr(name, contents)
    return stream.getvalue()


def _places(found: Any) -> list[tuple[Any, Any]]:
    """All containers of a document with their keys."""
    pending, places = [found], []
    while pending:
        one = pending.pop()
        keys: Sequence[Any] = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            places.append((one, key))
            pending.append(one[key])
    return places


def _changed_config(data: bytes, draw: random.Random) -> bytes:
    document = json.loads(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = _places(document)
        holder, key = draw.choice(places)
        other, other_key = draw.choice(places)
        value = draw.choice((draw.choice(_VALUES), draw.choice(_VALUES), json.loads(json.dumps(other[other_key]))))
        if draw.random() < 0.15 and isinstance(holder, dict):
            del holder[key]
        elif isinstance(holder[key], int) and not isinstance(holder[key], bool) and draw.random() < 0.5:
            holder[key] += draw.choice((-1, 1, 1 << 20))
        else:
            holder[key] = value
    return json.dumps(document).encode()


def mutant(seed: int, number: int) -> tuple[str, bytes]:
    """What it is, and its bytes."""
    draw = random.Random(f"{seed}:{number}")
    name, data = draw.choice(files())
    kind = draw.random()
    if kind < 0.2 or data[:2] != b"PK":
        damage = draw.choice(BYTES)
        return f"{name} {damage.__name__}", damage(data, draw)
    entries = _entries(data)
    part, damage = (WEIGHTS, draw.choice(BYTES)) if kind < 0.6 else (CONFIG, _changed_config)
    return f"{name} {part} {damage.__name__}", _archive({**entries, part: damage(entries[part], draw)})


def run(numbers: Sequence[int], seed: int) -> tuple[Counter[str], list[str]]:
    """How often each outcome was, and what is wrong."""

    def mutants() -> Iterator[tuple[str, Callable[[], Any]]]:
        for number in numbers:
            label, data = mutant(seed, number)
            yield f"--seed {seed} --only {number} ({label})", partial(forge.from_keras, data, layout="NHWC")

    return outcomes(mutants())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.keras.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="number of mutants")
    parser.add_argument("--start", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this mutant alone")
    parser.add_argument("--save", type=Path, help="with --only: write the file there")
    options = parser.parse_args()
    converters.load_all()
    forge.from_keras(files()[0][1])  # loads what is loaded lazily, before memory is limited
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    numbers = range(options.start, options.start + options.count) if options.only is None else [options.only]
    if options.save is not None:
        options.save.write_bytes(mutant(options.seed, numbers[0])[1])
    counts, findings = run(numbers, options.seed)
    for line in [*findings, *(f"{count:7} {note}" for note, count in counts.most_common(40))]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(numbers)} mutants of {len(files())} models: {len(findings)} findings\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
