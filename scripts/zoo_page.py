"""Writes ``docs/reference/pytorch_models.md``: architectures of model libraries, by what torch and Forge make of them."""

from __future__ import annotations

import statistics
from collections import Counter

from tests.model_zoo.lists import LIBRARIES, NO_GRAPH, OK, SPEED, TIMED, WAYS, Speed, Zoo, exports

HEADING = """# Models from PyTorch's libraries

Architectures with small random configurations, by `python -m tests.model_zoo`. Of transformers: one class for each type of
model, with the language model's head where there is one; of torchvision and timm: the smallest model of each family. Every
parameter has noise added, so that none is zero. What torch alone makes of an architecture decides whether it counts: those that
`torch.export.export` accepts are compiled, run, and compared with eager torch, each element within 1e-4 of the largest of its
tensor, indices exactly. The lists hold those that have run so far, in an order that a hash gives. Nothing inside the libraries
is changed, and nothing falls back to torch.

torchvision's compiled operators do not load next to a torch for CPUs. `tests/model_zoo/vision_operators.py` declares their
schemas, after which `import torchvision`, and timm and transformers with it, succeed. Install both libraries without their
dependencies, or another torch comes with them: `pip install --no-deps torchvision==0.29.2 timm==1.0.31`.
"""
HEADLINES = {"export": "`torch.export`", "compile": '`torch.compile(fullgraph=True, backend="forge")`'}


def zoo_page() -> str:
    """The text of the page, from the lists of the sweep."""
    return HEADING + "".join(_library(Zoo(library)) for library in LIBRARIES if Zoo(library).path().exists())


def _library(zoo: Zoo) -> str:
    states = zoo.read()
    count = Counter(state.partition(":")[0] for state in states.values())
    counts = ", ".join(f"{n:,} {s}" for s, n in count.most_common())
    text = f"\n## {zoo.library}\n\n{len(states):,} architectures: {counts}.\n"
    for way in WAYS:
        outcomes = zoo.read(way)
        if not outcomes:
            continue
        equal = sum(outcome == OK for outcome in outcomes.values())
        torch_refuses = sum(outcome.startswith(NO_GRAPH) for outcome in outcomes.values())
        tried = len(outcomes) - torch_refuses
        share = f"{equal:,} of {tried:,} equal eager torch ({100 * equal / tried:.1f} %)"
        besides = f"; of {torch_refuses} more Dynamo captures no single graph, whatever the backend" if torch_refuses else ""
        text += f"\nBy {HEADLINES[way]}: {share}{besides}.\n"
        text += _table(("architecture", "Forge's answer"), {n: o for n, o in outcomes.items() if o != OK})
    text += _speed(zoo)
    rest = {name: state for name, state in states.items() if name not in exports(states)}
    return text + "\nNot exported:\n" + _table(("architecture", "torch's answer"), rest)


def _speed(zoo: Zoo) -> str:
    """How fast the architectures are that have been timed, beside inductor."""
    outcomes = zoo.read(SPEED)
    times = {name: Speed.of(text) for name, text in outcomes.items() if text.startswith(TIMED)}
    if not times:
        return ""
    ratio, eager, first = map(statistics.geometric_mean, zip(*(
        (t.inductor / t.forge, t.eager / t.forge, t.inductor_first / t.forge_first) for t in times.values())))
    slower = sum(t.inductor < t.forge for t in times.values())
    heads = ("architecture", "Forge, ms", "inductor, ms", "eager, ms", "ratio", "first result, s", "inductor's, s")
    rows = "".join(
        f"| `{name}` | {t.forge:.3f} | {t.inductor:.3f} | {t.eager:.3f} | {t.inductor / t.forge:.2f} | {t.forge_first:.1f} "
        f"| {t.inductor_first:.1f} |\n" for name, t in times.items())
    return (f"\nTimed beside inductor (with freezing), calls in turns, one thread, least time, what Dynamo checks included: "
            f"{len(times):,} of these. Geometric means over Forge's time: inductor {ratio:.2f}, "
            f"eager {eager:.2f}; to the first result inductor {first:.2f}. Slower than inductor: {slower}.\n"
            f"\n| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}\n{rows}")


def _table(heads: tuple[str, str], rows: dict[str, str]) -> str:
    if not rows:
        return ""
    cells = "".join(f"| `{name}` | {_cell(text)} |\n" for name, text in rows.items())
    return f"\n| {heads[0]} | {heads[1]} |\n| --- | --- |\n{cells}"


def _cell(text: str) -> str:
    for sign in "|<>*_`[]":
        text = text.replace(sign, "\\" + sign)
    return text
