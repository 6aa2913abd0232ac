"""What was measured: kept in a file, and shown as tables of drops and of sizes."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.quantization.methods import METHODS, Kind
from benchmarks.quantization.tasks import TASKS

FLOAT = "float"
CELL = 13
"""Characters in a cell of the tables."""


@dataclass(frozen=True)
class Result:
    """One method on one trained network.

    Attributes:
        model: The name of the folder that has the trained network, so that results of others are not taken for its own.
        points: Of the task's metric, on the test samples; NaN where it failed.
        size: Of the file, in bytes.
        seconds: That quantizing took.
        failure: Why there are no points.
    """

    task: str
    seed: int
    model: str
    method: str
    points: float = math.nan
    size: int = 0
    seconds: float = 0.0
    failure: str = ""

    def stored(self) -> dict[str, Any]:
        """For JSON, which has no NaN."""
        return dataclasses.asdict(self) | {"points": None if math.isnan(self.points) else self.points}


class Results:
    """All results by model and method, saved in a file after each where there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[tuple[str, str], Result] = {}
        if path is not None and path.exists():
            for row in json.loads(path.read_text())["results"]:
                result = Result(**row | {"points": math.nan if row["points"] is None else row["points"]})
                self.rows[result.model, result.method] = result

    def add(self, result: Result) -> None:
        self.rows[result.model, result.method] = result
        if self.path is None:
            return
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"results": [row.stored() for row in self.rows.values()]}, indent=1) + "\n")
        os.replace(unfinished, self.path)

    def drops(self, models: Iterable[str], method: str) -> list[float]:
        """Points lost to float by model, without those that failed."""
        there = [model for model in models if (model, method) in self.rows]
        found = [self.rows[model, FLOAT].points - self.rows[model, method].points for model in there]
        return [drop for drop in found if not math.isnan(drop)]

    def size(self, models: Iterable[str], method: str) -> float:
        found = [row.size for model in models if (row := self.rows.get((model, method))) and row.size]
        return float(np.mean(found)) if found else math.nan


@dataclass(frozen=True)
class Drop:
    """The mean over seeds and its standard error, NaN for one seed."""

    mean: float
    error: float

    @classmethod
    def of(cls, drops: Sequence[float]) -> Drop:
        error = float(np.std(drops, ddof=1)) / math.sqrt(len(drops)) if len(drops) > 1 else math.nan
        return cls(float(np.mean(drops)), error)

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if math.isnan(self.error) else f" ± {self.error:.2f}")


def smallest(results: Results, models: Sequence[str], names: Sequence[str]) -> set[str]:
    """The method with the smallest mean drop, and those whose difference to it is within two standard errors."""
    drops = {name: found for name in names if len(found := results.drops(models, name)) == len(models)}
    if not drops:
        return set()
    best = min(drops, key=lambda name: float(np.mean(drops[name])))
    return {name for name, own in drops.items() if _within_noise([a - b for a, b in zip(own, drops[best])])}


def _within_noise(differences: Sequence[float]) -> bool:
    found = Drop.of(differences)
    return found.mean == 0 or found.mean <= 2 * found.error


def tables(results: Results, models: Mapping[str, list[str]], names: Sequence[str]) -> list[Table]:
    """For each kind of methods the drops, and the sizes of files, with a row for each task."""
    kinds: dict[Kind, list[str]] = {}
    for name in names:
        kinds.setdefault(METHODS[name].kind, []).append(name)
    made = []
    for kind, members in kinds.items():
        those = {task: folders for task, folders in models.items() if METHODS[members[0]].applies(TASKS[task])}
        if those:
            made += [_drops(results, those, kind, members), _sizes(results, those, kind, members)]
    return made


def _table(title: str, columns: Sequence[str], names: Sequence[str]) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for name in names:
        table.add_column(name.replace("-", " "), max_width=CELL, justify="right")
    return table


def _drops(results: Results, models: Mapping[str, list[str]], kind: Kind, names: Sequence[str]) -> Table:
    title = f"{kind}: points lost, mean ± standard error; * the smallest, or within the noise of it"
    table = _table(title, ("task", "metric", FLOAT), names)
    for task, folders in models.items():
        metric, best = TASKS[task].metric, smallest(results, folders, names)
        whole = float(np.mean([results.rows[folder, FLOAT].points for folder in folders]))
        drops = {name: results.drops(folders, name) for name in names}
        cells = [f"{Drop.of(own)}{'*' if name in best else ' '}" if own else "-" for name, own in drops.items()]
        table.add_row(task, metric.name, metric.shown(whole), *cells)
    return table


def _sizes(results: Results, models: Mapping[str, list[str]], kind: Kind, names: Sequence[str]) -> Table:
    table = _table(f"{kind}: size of the file, KB", ("task", FLOAT), names)
    for task, folders in models.items():
        sizes = [results.size(folders, name) / 1e3 for name in (FLOAT, *names)]
        table.add_row(task, *("-" if math.isnan(size) else f"{size:.0f}" for size in sizes))
    return table


def failures(results: Results, models: Mapping[str, list[str]], names: Sequence[str]) -> list[str]:
    """Why methods have no points, each reason once."""
    found: dict[tuple[str, str], list[str]] = {}
    for task, folders in models.items():
        for row in (results.rows.get((folder, name)) for folder in folders for name in names):
            if row is not None and row.failure:
                found.setdefault((row.method, row.failure), []).append(f"{task}-{row.seed}")
    return [f"{method}: {failure} ({', '.join(cases)})" for (method, failure), cases in found.items()]
