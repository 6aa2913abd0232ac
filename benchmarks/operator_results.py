"""What ``benchmarks.operators`` has measured, as data: ratios, geometric means, JSON, the page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.operator_table import ROWS
from benchmarks.results import geometric_mean
from forge import files
from forge.driver.machines import Machine

STORE = Path(__file__).parent / "operators.json"
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "performance_operators.md"
PEERS = ("onnxruntime", "openvino")
ENGINES = ("forge", *PEERS)
FORMS = ("static", "dynamic")
_OF_FORMS = tuple(f"{form} {cell}" for form in FORMS for cell in (*ENGINES, "ratio"))
COLUMNS = ("row", *_OF_FORMS, "dynamic over static", "GB/s")

HEADING = """# Performance of operators

    python -m benchmarks.operators --threads 1,2 --page   # measures all rows and writes this page
    python -m benchmarks.operators --filter "pool: max"   # some rows, on the terminal

Each row is a small ONNX model in two forms: *static*, where all sizes are known, and *dynamic*, where height and width, length or
batch are known at run time only. All engines run both with the same inputs, one after another in every round, called from Python.
Times are the shortest, in milliseconds. A *ratio* is the time of the faster peer over that of Forge: above 1, Forge is faster.
*Dynamic over static* is Forge's speed with unknown sizes over that with known ones. *GB/s* are the bytes of inputs and outputs
over Forge's static time. Where an engine failed, or gave other results than the others, its cell says so, and its time does not
count.

A slow operator gets a row in `benchmarks/operator_table.py`; `--filter NAME --page` measures it alone and keeps the others.
"""

CELL = 60
"""Letters of a reason in a cell; `Form.failures` has all of it."""


@dataclass(frozen=True)
class Form:
    """One row in one form: by engine, minimum and median of seconds, and why others have none."""

    seconds: Mapping[str, tuple[float, float]]
    failures: Mapping[str, str]

    def fastest(self, engine: str) -> float | None:
        """None where it failed."""
        return None if engine in self.failures or engine not in self.seconds else self.seconds[engine][0]

    @property
    def ratio(self) -> float | None:
        """Time of the faster peer over Forge's."""
        ours, peers = self.fastest("forge"), [t for peer in PEERS if (t := self.fastest(peer)) is not None]
        return min(peers) / ours if ours is not None and peers else None


@dataclass(frozen=True)
class Result:
    """One row on a number of threads; ``bytes`` are those of inputs and outputs."""

    title: str
    threads: int
    bytes: int
    forms: Mapping[str, Form]

    def ratio(self, form: str) -> float | None:
        return self.forms[form].ratio if form in self.forms else None

    @property
    def dynamic_over_static(self) -> float | None:
        static, dynamic = (self.forms[f].fastest("forge") if f in self.forms else None for f in FORMS)
        return None if static is None or dynamic is None else static / dynamic

    @property
    def failed(self) -> bool:
        """Whether Forge failed, or gave wrong results."""
        return any("forge" in form.failures for form in self.forms.values())

    @property
    def worst(self) -> float:
        """The lower of the two ratios; 0 where Forge failed, infinite where no peer runs the row."""
        return 0.0 if self.failed else min((r for f in FORMS if (r := self.ratio(f)) is not None), default=float("inf"))


def behind(results: Iterable[Result]) -> list[Result]:
    """Those with a ratio below 1, worst first."""
    return sorted((r for r in results if r.worst < 1), key=lambda r: r.worst)


def cells(result: Result) -> list[str]:
    """As `COLUMNS`."""
    static = result.forms["static"].fastest("forge")
    rate = "" if static is None else f"{result.bytes / static / 1e9:.2f}"
    engines = [cell for form in FORMS for cell in _form_cells(result.forms.get(form))]
    return [result.title, *engines, _number(result.dynamic_over_static), rate]


def _form_cells(form: Form | None) -> list[str]:
    if form is None:
        return [""] * (len(ENGINES) + 1)
    return [*(_time(form, engine) for engine in ENGINES), _number(form.ratio)]


def _time(form: Form, engine: str) -> str:
    if engine in form.failures:
        return form.failures[engine][:CELL]
    return f"{form.seconds[engine][0] * 1e3:.3g}" if engine in form.seconds else ""


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


MEANS = ("geometric mean", "rows", *FORMS, "below 1", "dynamic over static")


def means(results: Sequence[Result]) -> Iterator[list[str]]:
    """Of all rows and of each family, as `MEANS`."""
    families = dict.fromkeys(family(r) for r in results)
    yield _means("all", results)
    yield from (_means(name, [r for r in results if family(r) == name]) for name in families)


def family(result: Result) -> str:
    return result.title.partition(":")[0]


def _means(name: str, results: Sequence[Result]) -> list[str]:
    ratios = [geometric_mean(ratio for r in results if (ratio := r.ratio(form)) is not None) for form in FORMS]
    slowdown = geometric_mean(ratio for r in results if (ratio := r.dynamic_over_static) is not None)
    numbers = ["" if ratio != ratio else f"{ratio:.2f}" for ratio in (*ratios, slowdown)]
    return [name, str(len(results)), *numbers[:2], str(len(behind(results))), numbers[2]]


@dataclass(frozen=True)
class Measured:
    """Results, and where they come from: the CPU, and the versions of the engines."""

    environment: Mapping[str, Any]
    results: tuple[Result, ...] = ()

    def add(self, new: Iterable[Result]) -> Measured:
        """With ``new`` in the place of older ones of the same rows, in the order of the table."""
        found = {(r.threads, r.title): r for r in (*self.results, *new)}
        order = {row.title: number for number, row in enumerate(ROWS)}
        kept = [r for r in found.values() if r.title in order]
        return Measured(self.environment, tuple(sorted(kept, key=lambda r: (r.threads, order[r.title]))))


def environment(versions: Mapping[str, str]) -> dict[str, Any]:
    return {**Machine.here().facts, "versions": dict(versions)}


def load(path: Path, here: Mapping[str, Any]) -> Measured:
    """What ``path`` holds if it was measured ``here`` with the same versions; nothing, to be replaced, where these were others.

    Raises:
        ValueError: it was measured on another machine: times of two machines do not stand in one table.
    """
    stored = read(path)
    there, now = (_machine(e) for e in (stored.environment, here))
    if stored.environment and there != now:
        raise ValueError(f"{path}: measured on {there}; this is {now}; give another --json, without --page")
    return stored if stored.environment == here else Measured(here)


def _machine(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in environment.items() if name != "versions"}


def read(path: Path = STORE) -> Measured:
    """What ``path`` holds; nothing where there is no such file."""
    if not path.is_file():
        return Measured({})
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Measured(stored["environment"], tuple(result(r) for r in stored["results"]))


def result(stored: Mapping[str, Any]) -> Result:
    forms = {name: Form({engine: tuple(times) for engine, times in form["seconds"].items()}, form["failures"])
             for name, form in stored["forms"].items()}
    return Result(stored["title"], stored["threads"], stored["bytes"], forms)


def save(path: Path, measured: Measured) -> None:
    """Writes it, a line for each result."""
    lines = ",\n".join(json.dumps(asdict(r)) for r in measured.results)
    text = f'{{"environment": {json.dumps(dict(measured.environment))},\n"results": [\n{lines}\n]}}\n'
    with files.replacing(path) as file:
        file.write(text.encode())


def page(measured: Measured | None = None) -> str:
    """The text of ``docs/reference/performance_operators.md``: what is slow, the means, and all rows."""
    measured = measured or read()
    parts = [HEADING, f"{len(ROWS)} rows{_where(measured.environment)}\n"]
    for threads in sorted({r.threads for r in measured.results}):
        parts += _section(threads, [r for r in measured.results if r.threads == threads])
    missing = [row.title for row in ROWS if row.title not in {r.title for r in measured.results}]
    if missing:
        parts.append("## Not measured yet\n\n" + "".join(f"- {_plain(title)}\n" for title in missing))
    return "\n".join(parts)


def _where(environment: Mapping[str, Any]) -> str:
    if not environment:
        return "."
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    return f", measured on {environment['cpu']} ({environment['model']}), {environment['cpus']} CPUs, with {versions}."


def _section(threads: int, results: Sequence[Result]) -> Iterator[str]:
    yield f"## {threads} thread{'s' * (threads > 1)}\n"
    slow, reasons = behind(results), {row.title: row.reason for row in ROWS}
    if slow:
        yield f"Below 1.0, worst first ({len(slow)} of {len(results)} rows):\n"
        yield _table((*COLUMNS, "why"), ([*cells(r), reasons[r.title]] for r in slow))
    yield _table(MEANS, means(results))
    yield _table(COLUMNS, map(cells, results))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(_plain, line))} |\n" for line in lines)


def _plain(text: str) -> str:
    """Not read as the border of a cell."""
    return text.replace("|", r"\|")
