"""Damages TFLite models at random: each gives a model or a clear error, in little time and memory.

python -m tests.frontends.tflite.mutants --count 5000
python -m tests.frontends.tflite.mutants --only 4711 --save mutant.tflite      # one again, with its file

Models are those of `cases` and `test_writer`. Bytes, offsets and lengths are changed in the file; fields of tables are changed in
what the reader makes of it, so that damage gets past the reader. Address space is limited to 4 GiB.
"""

from __future__ import annotations

import argparse
import random
import resource
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import forge
from forge.frontends.tflite import converters
from forge.frontends.tflite.model import Operator, Quantization, Subgraph, Tensor, TfliteModel, read_model
from tests.frontends.damage import MEMORY, outcomes
from tests.frontends.tflite.cases import CASES
from tests.frontends.tflite.record import kept, shapes_and_ranges
from tests.frontends.tflite.test_writer import everything

_HUGE = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 1 << 20, 1 << 28)


@cache
def files() -> list[tuple[str, bytes]]:
    """Names and bytes of the models that are damaged."""
    recorded = kept()
    of_cases = [(case.name, case.made(*shapes_and_ranges(case, recorded))[0]) for case in CASES]
    return [*of_cases, *[(f"everything-{behind}", everything(behind)) for behind in (False, True)] * 10]


def _flipped(data: bytes, draw: random.Random, other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _truncated(data: bytes, draw: random.Random, other: bytes) -> bytes:
    begin = draw.randrange(8, len(data))
    return data[:begin] if draw.random() < 0.7 else data[:begin] + data[begin + draw.randrange(1, 64):]


def _spliced(data: bytes, draw: random.Random, other: bytes) -> bytes:
    begin, size = draw.randrange(8, len(data)), 4 * draw.randrange(1, 32)
    start = draw.randrange(len(other))
    return data[:begin] + other[start : start + size] + data[begin + size :]


def _words(data: bytes, draw: random.Random, other: bytes) -> bytes:
    """Offsets, lengths and numbers of 32 bits become huge, a little different, or another word of the file."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        place, source = (4 * draw.randrange(2, len(data) // 4) for _ in range(2))
        (found,) = struct.unpack_from("<I", changed, place)
        (copied,) = struct.unpack_from("<I", changed, source)
        value = draw.choice((draw.choice(_HUGE), found + draw.choice((-8, -4, -2, -1, 1, 2, 4, 8)), copied, source - place))
        struct.pack_into("<I", changed, place, value & 0xFFFFFFFF)
    return bytes(changed)


KINDS: tuple[Callable[[bytes, random.Random, bytes], bytes], ...] = (_flipped, _truncated, _spliced, _words, _words)


def _other(value: Any, draw: random.Random) -> Any:
    """A value of an option near to ``value``, of the same kind, as the reader may give it."""
    match value:
        case bool():
            return not value
        case int():
            return draw.choice((-1, 0, value + 1, -(1 << 31), (1 << 31) - 1))
        case float():
            return draw.choice((float("nan"), float("inf"), -1.0, 0.0))
        case tuple():
            return draw.choice(((), value * 2, tuple(_other(one, draw) for one in value)))
    return value


def _tensor(tensor: Tensor, other: Tensor, draw: random.Random) -> Tensor:
    sizes = draw.choice(((), (1 << 30, 1 << 30), (None,), (0,), tensor.shape[:-1], (*tensor.shape, 1), other.shape))
    nothing = Quantization(np.array([0, np.nan], np.float32), np.array([1 << 40, -1]), 0)
    scale, zero = draw.choice((0, np.nan, np.inf, -1, 1e-40)), draw.choice((0, 1 << 40))
    wrong = Quantization(np.array([scale], np.float32), np.array([zero]))
    changes: list[dict[str, Any]] = [
        {"shape": sizes}, {"dtype": other.dtype}, {"contents": other.contents}, {"contents": None}, {"is_variable": True},
        {"dtype": draw.choice(("string", "resource", "variant", "complex64", "int4", "bool"))},
        {"quantization": draw.choice((None, other.quantization, nothing, wrong))}, {"name": other.name}]
    return replace(tensor, **draw.choice(changes))


def _operator(operator: Operator, other: Operator, tensors: int, draw: random.Random) -> Operator:
    inputs, outputs = list(operator.inputs), list(operator.outputs)
    match draw.randrange(6):
        case 0 if operator.attributes:
            name = draw.choice(list(operator.attributes))
            return replace(operator, attributes={**operator.attributes, name: _other(operator.attributes[name], draw)})
        case 1 if inputs:
            inputs[draw.randrange(len(inputs))] = draw.randrange(-1, tensors)
        case 2:
            inputs = draw.choice((inputs[:-1], [*inputs, *inputs], inputs[::-1]))
        case 3 if outputs:
            outputs = draw.choice((outputs[:-1], outputs * 2, [draw.randrange(-1, tensors)]))
        case 4:
            return replace(operator, name=other.name, domain=other.domain)
        case _:
            return replace(operator, attributes=draw.choice(({}, other.attributes)), version=draw.choice((0, 1, 99)))
    return replace(operator, inputs=tuple(inputs), outputs=tuple(outputs))


def changed(model: TfliteModel, other: TfliteModel, draw: random.Random) -> TfliteModel:
    """A model with another field in one of its tables."""
    graph, strange = draw.choice(model.subgraphs), draw.choice(other.subgraphs)
    tensors, operators, sides = list(graph.tensors), list(graph.operators), {"inputs": graph.inputs, "outputs": graph.outputs}
    match draw.randrange(5):
        case 0 | 1:
            place = draw.randrange(len(tensors))
            tensors[place] = _tensor(tensors[place], draw.choice(draw.choice((tensors, list(strange.tensors)))), draw)
        case 2 | 3 if operators and strange.operators:
            place = draw.randrange(len(operators))
            operators[place] = _operator(operators[place], draw.choice(strange.operators), len(tensors), draw)
        case _:
            side = draw.choice(("inputs", "outputs"))
            sides[side] = draw.choice((sides[side][:-1], sides[side] * 2, (draw.randrange(len(tensors)),)))
    made = Subgraph(graph.name, tuple(tensors), sides["inputs"], sides["outputs"], tuple(operators))
    return replace(model, subgraphs=tuple(made if one is graph else one for one in model.subgraphs))


def mutant(seed: int, number: int) -> tuple[str, bytes | TfliteModel]:
    """What the damaged model is made of, and the model."""
    draw = random.Random(f"{seed}:{number}")
    (name, data), (_, other) = draw.choice(files()), draw.choice(files())
    if number % 2 == 0:
        kind = KINDS[number // 2 % len(KINDS)]
        return f"{kind.__name__[1:]} {name}", kind(data, draw, other)
    model = read_model(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        model = changed(model, read_model(other), draw)
    return f"fields {name}", model


def run(numbers: Sequence[int], seed: int) -> tuple[Counter[str], list[str]]:
    """How many mutants had which outcome, and what was found."""

    def mutants() -> Iterator[tuple[str, Callable[[], Any]]]:
        for number in numbers:
            name, model = mutant(seed, number)
            yield f"--seed {seed} --only {number} ({name})", partial(forge.from_tflite, model)

    return outcomes(mutants())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.tflite.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="number of mutants")
    parser.add_argument("--start", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this mutant alone")
    parser.add_argument("--save", type=Path, help="with --only: write the file there, where the file is damaged")
    options = parser.parse_args()
    converters.load_all()
    forge.from_tflite(everything_known())  # loads what is loaded lazily, before memory is limited
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    numbers = range(options.start, options.start + options.count) if options.only is None else [options.only]
    if options.save is not None and isinstance(data := mutant(options.seed, numbers[0])[1], bytes):
        options.save.write_bytes(data)
    counts, findings = run(numbers, options.seed)
    for line in [*findings, *(f"{count:7} {note}" for note, count in counts.most_common(40))]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(numbers)} mutants of {len(files())} models: {len(findings)} findings\n")
    return 1 if findings else 0


def everything_known() -> bytes:
    """A model that can be loaded."""
    return files()[0][1]


if __name__ == "__main__":
    sys.exit(main())
