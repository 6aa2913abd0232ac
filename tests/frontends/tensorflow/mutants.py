"""Damages programs of TensorFlow at random: each gives a model or a clear error, in little time and memory.

python -m tests.frontends.tensorflow.mutants --count 5000
python -m tests.frontends.tensorflow.mutants --only 4711 --save folder      # one again, with its files

Programs are those of `record_programs`, and the `cases` of single operators, of which some are text. Bytes are changed in files:
graphs, indices and data of checkpoints; fields of nodes and functions are changed in messages, so that damage gets past the
reader. Address space is limited to 4 GiB.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from google.protobuf import text_format

import forge
from forge.frontends.tensorflow import converters
from forge.frontends.tensorflow.messages import message_of
from tests.frontends.damage import MEMORY, outcomes
from tests.frontends.tensorflow.cases import CASES
from tests.frontends.tensorflow.record_programs import Recorded, kept

_GRAPHS = ("graph.pb", "saved_model.pb")
_INTEGERS = (-1, 0, 1, 2, 1 << 20, 1 << 31, (1 << 63) - 1, -(1 << 63))


@cache
def programs() -> list[tuple[str, Recorded]]:
    return sorted(kept().items())


@cache
def operators() -> list[tuple[str, Recorded]]:
    return [(case.name, Recorded({"graph.pb": case.made()[0].data()}, case.outputs)) for case in CASES]


def _as_text(data: bytes) -> bytes:
    message = message_of("GraphDef")
    message.ParseFromString(data)
    return text_format.MessageToString(message).encode()


def _bytes(data: bytes, draw: random.Random, other: bytes) -> bytes:
    """Some bits, a cut, or a part of another file."""
    changed = bytearray(data)
    match draw.randrange(4):
        case 0 | 1:
            for _ in range(draw.choice((1, 1, 2, 4, 16))):
                changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        case 2:
            begin = draw.randrange(len(data))
            return data[:begin] if draw.random() < 0.5 else data[:begin] + data[begin + draw.randrange(1, 64):]
        case _:
            begin, start, size = draw.randrange(len(data)), draw.randrange(len(other)), draw.randrange(1, 128)
            changed[begin : begin + size] = other[start : start + size]
    return bytes(changed)


def _value(message: Any, draw: random.Random, other: Any) -> None:
    """Another value of an attribute."""
    match message.WhichOneof("value"):
        case "i":
            message.i = draw.choice(_INTEGERS)
        case "b":
            message.b = not message.b
        case "f":
            message.f = draw.choice((float("nan"), float("inf"), -1.0, 0.0))
        case "type":
            message.type = draw.choice((0, 1, 3, 7, 8, 10, 20, 21, 101, 999))
        case "s":
            message.s = draw.choice((b"", b"NHWC", b"NCHW", b"SAME", b"EXPLICIT", b"\xff", message.s * 2))
        case "shape":
            message.shape.dim.add(size=draw.choice(_INTEGERS))
        case "tensor":
            tensor = message.tensor
            if draw.random() < 0.4 or not tensor.tensor_shape.dim:
                tensor.tensor_shape.dim.add(size=draw.choice(_INTEGERS))
            elif draw.random() < 0.5:
                tensor.tensor_shape.dim[0].size = draw.choice(_INTEGERS)
            else:
                tensor.dtype = draw.choice((0, 1, 3, 7, 9, 10, 14, 20, 29))
        case "func":
            message.func.name = draw.choice(("", "nothing", message.func.name, other))
        case "list":
            del message.list.i[:]
            del message.list.type[:]


def _node(nodes: Any, draw: random.Random, names: Sequence[str], functions: Sequence[str]) -> None:
    """Changes one of ``nodes``."""
    node, other = draw.choice(nodes), draw.choice(nodes)
    match draw.randrange(8):
        case 0 | 1 | 2 if node.attr:
            _value(node.attr[draw.choice(sorted(node.attr))], draw, draw.choice(functions) if functions else "")
        case 3 if node.attr:
            del node.attr[draw.choice(sorted(node.attr))]
        case 4 if node.input:
            wrong = draw.choice((draw.choice(names), f"{other.name}:1", f"^{other.name}", ""))
            node.input[draw.randrange(len(node.input))] = wrong
        case 5:
            node.op = draw.choice((other.op, "Nothing", "Identity", "Merge", "Exit", "While", "VarHandleOp", "Const"))
        case 6:
            inputs = draw.choice((list(node.input)[:-1], [*node.input, *other.input], list(node.input)[::-1]))
            del node.input[:]
            node.input.extend(inputs)
        case _:
            node.name = draw.choice((other.name, node.name + "_", ""))


def _fields(data: bytes, kind: str, draw: random.Random) -> bytes:
    """Other fields of nodes, functions or signatures."""
    message = message_of("GraphDef" if kind == "graph.pb" else "SavedModel")
    message.ParseFromString(data)
    graph = message if kind == "graph.pb" else message.meta_graphs[0].graph_def
    functions = list(graph.library.function)
    for _ in range(draw.choice((1, 1, 2, 3))):
        inner = draw.choice(functions) if functions and draw.random() < 0.7 else None
        nodes = graph.node if inner is None or not inner.node_def else inner.node_def
        names = [n.name for n in nodes] + ([] if inner is None else [a.name for a in inner.signature.input_arg])
        if inner is not None and draw.random() < 0.15:
            key = draw.choice(sorted(inner.ret)) if inner.ret else "x"
            name = draw.choice(names)
            inner.ret[key] = draw.choice((f"{name}:output:0", f"{name}:nothing:7", name, ""))
        elif kind != "graph.pb" and draw.random() < 0.1:
            signatures = message.meta_graphs[0].signature_def
            side = draw.choice((signatures["serving_default"].inputs, signatures["serving_default"].outputs))
            if side:
                side[draw.choice(sorted(side))].name = draw.choice((draw.choice(names), "x:9", ""))
        else:
            _node(nodes, draw, names, [f.signature.name for f in functions])
    return bytes(message.SerializeToString(deterministic=True))


def mutant(seed: int, number: int) -> tuple[str, Recorded]:
    """What the damaged program is made of, and the program."""
    draw = random.Random(f"{seed}:{number}")
    (name, program), (_, other) = (draw.choice(draw.choice((programs(), operators()))) for _ in range(2))
    files = dict(program.files)
    main = next(file for file in _GRAPHS if file in files)
    if number % 3 == 0:
        file = draw.choice([file for file, data in files.items() if data])
        files[file] = _bytes(files[file], draw, next(iter(other.files.values())))
        if list(program.files) == ["graph.pb"] and draw.random() < 0.5:
            text = _as_text(program.files["graph.pb"])
            files = {"graph.pbtxt": _bytes(text, draw, text), "graph.pb": b""}
        return f"bytes {file} {name}", Recorded(files, program.outputs)
    files[main] = _fields(files[main], main, draw)
    return f"fields {name}", Recorded(files, program.outputs)


def run(numbers: Sequence[int], seed: int) -> tuple[Counter[str], list[str]]:
    """How many mutants had which outcome, and what was found."""

    def mutants() -> Iterator[tuple[str, Callable[[], Any]]]:
        for number in numbers:
            name, program = mutant(seed, number)
            with tempfile.TemporaryDirectory() as folder:
                path = program.write(Path(folder))
                path = path.with_suffix(".pbtxt") if "graph.pbtxt" in program.files else path
                yield f"--seed {seed} --only {number} ({name})", partial(forge.from_tensorflow, path)

    return outcomes(mutants())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.tensorflow.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="number of mutants")
    parser.add_argument("--start", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this mutant alone")
    parser.add_argument("--save", type=Path, help="with --only: write its files into this folder")
    options = parser.parse_args()
    converters.load_all()
    run([0], 0)  # loads what is loaded lazily, before memory is limited
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    numbers = range(options.start, options.start + options.count) if options.only is None else [options.only]
    if options.save is not None:
        mutant(options.seed, numbers[0])[1].write(options.save)
    counts, findings = run(numbers, options.seed)
    for line in [*findings, *(f"{count:7} {note}" for note, count in counts.most_common(40))]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(numbers)} mutants of {len(programs()) + len(operators())} programs: {len(findings)} findings\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
