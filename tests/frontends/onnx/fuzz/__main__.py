"""Fuzzes the ONNX importer: every mutated file must give a model or a clear error.

python -m tests.frontends.onnx.fuzz --count 20000 --seed 1
python -m tests.frontends.onnx.fuzz --seed 1 --only 4711 --save mutant.onnx      # one mutant again, with its file
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.frontends.onnx.fuzz.campaign import run_campaign
from tests.frontends.onnx.fuzz.mutants import Mutants
from tests.frontends.onnx.fuzz.worker import COMPILED_SHARE
from tests.onnx_backend.pool import Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.onnx.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="number of mutants")
    parser.add_argument("--start", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, help="this mutant alone")
    parser.add_argument("--save", type=Path, help="with --only: write the file there")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="more files to start from")
    parser.add_argument("--compiled", type=float, default=COMPILED_SHARE, help="share of models that are compiled and run")
    parser.add_argument("--vague", type=int, default=0, help="list so many of the most frequent vague errors")
    options = parser.parse_args()
    if options.only is not None and options.save is not None:
        mutant = Mutants(options.models).make(options.seed, options.only)
        options.save.write_bytes(b"" if mutant is None else mutant.data)
    numbers = range(options.start, options.start + options.count) if options.only is None else [options.only]
    settings = json.dumps({"models": [str(p) for p in options.models], "compiled": options.compiled})
    begin = time.monotonic()
    findings, notes = run_campaign(options.seed, numbers, settings, options.workers, _tell)
    _summarize(notes, options.vague)
    _say(f"{sum(notes.values())} mutants in {time.monotonic() - begin:.0f} s: {len(findings)} findings")
    return 1 if findings else 0


def _tell(outcome: Outcome) -> None:
    if not outcome.passed:
        seed, number = outcome.case.split(":")
        _say(f"--seed {seed} --only {number}: {outcome.message}")


def _summarize(notes: Counter[str], vague: int) -> None:
    groups: Counter[str] = Counter()
    for note, count in notes.items():
        groups[note.split(" (vague")[0] + (", vague" if "(vague" in note else "")] += count
    for group, count in groups.most_common():
        _say(f"{count:7} {group}")
    detailed = Counter({note: count for note, count in notes.items() if "(vague" in note})
    for note, count in detailed.most_common(vague):
        _say(f"{count:7} {note}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
