"""The mutants by number: the same numbers give the same bytes, on any machine with the same onnx package."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from tests.frontends.onnx.fuzz import mutate_data  # noqa: F401  (registers mutations)
from tests.frontends.onnx.fuzz.damage import damage
from tests.frontends.onnx.fuzz.mutate import mutate
from tests.frontends.onnx.fuzz.seeds import Seeds

BYTES_SHARE = 0.3
BOTH_SHARE = 0.1
MAX_BYTES = 8 << 20


@dataclass
class Mutant:
    """A file, how it came about, and the generator that made it, for what follows."""

    data: bytes
    rng: random.Random
    steps: list[str] = field(default_factory=list)


class Mutants:
    """Makes mutants of valid models."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._seeds = Seeds(files)

    def make(self, seed: int, number: int) -> Mutant | None:
        """Mutant ``number``; None where changes made it huge, or left something that protobuf cannot write."""
        rng = random.Random(f"{seed}:{number}")
        model, other = self._seeds.draw(rng), self._seeds.draw(rng)
        kind = rng.random()
        steps: list[str] = []
        if kind > BYTES_SHARE - BOTH_SHARE:
            try:
                steps = mutate(model, rng, other)
                data = model.SerializeToString()
            except (DecodeError, EncodeError, ValueError, UnicodeEncodeError):
                return None
        else:
            data = model.SerializeToString()
        if kind < BYTES_SHARE:
            data = damage(data, other.SerializeToString(), rng)
            steps.append("bytes")
        if len(data) > MAX_BYTES:
            return None
        return Mutant(data, rng, [model.graph.name, *steps])
