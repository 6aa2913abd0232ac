"""Runs compiled models on another machine, in the emulator where that differs from this one, and compares their results.

python -m tests.foreign                                       # all cases on AArch64
python -m tests.foreign --target 'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72' --suite onnx
python -m tests.foreign --sample 10                           # one case of ten, always the same ones
python -m tests.foreign --suite operators -k 'nn.conv2d*'     # some cases
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable

from forge.target import Target
from tests.foreign.machine import SECONDS, missing
from tests.foreign.suites import SUITES, Suite
from tests.onnx_backend.pool import Outcome, run_cases
from tests.runs import kept
from tests.sampling import sample

TARGET = "llvm -mtriple=aarch64-linux-gnu"


def run_suite(name: str, names: list[str], target: str, workers: int,
              progress: Callable[[Outcome], None] = lambda _: None) -> dict[str, Outcome]:
    """Outcomes of some cases of a suite, by name."""
    lines = {f"{name} {json.dumps(case)}": case for case in names}
    found = run_cases(lines, target, workers, 2 * SECONDS, progress, "tests.foreign.worker")
    return {lines[line]: outcome for line, outcome in found.items()}


def failures(suite: Suite, outcomes: dict[str, Outcome]) -> dict[str, str]:
    """What is wrong with cases that have to pass."""
    listed = suite.listed()
    bad = {name: outcome for name, outcome in outcomes.items() if name in listed and not outcome.passed}
    return {name: f"{outcome.kind}: {outcome.message}" for name, outcome in bad.items()}


def chosen(suite: Suite, part: int) -> list[str]:
    """One case of ``part``, the same ones in every run."""
    return sample(suite.names(), "foreign", part)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.foreign", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--suite", choices=SUITES, action="append", help="only this one")
    parser.add_argument("--sample", type=int, default=1, help="run one case of so many")
    parser.add_argument("-k", dest="pattern", default="*", help="only cases whose name matches")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    lacking = missing(Target.parse(options.target))
    if lacking:
        parser.error(lacking)
    return max(report(name, options) for name in options.suite or SUITES)


def report(name: str, options: argparse.Namespace) -> int:
    """Runs a suite; prints what failed, and numbers."""
    suite, began = SUITES[name], time.perf_counter()
    names = [case for case in chosen(suite, options.sample) if fnmatch.fnmatchcase(case, options.pattern)]
    done, listed = itertools.count(1), suite.listed()

    def progress(outcome: Outcome) -> None:
        sys.stderr.write(f"\r{name}: {next(done)} of {len(names)} ")
        if not outcome.passed and json.loads(outcome.case.partition(" ")[2]) in listed:
            sys.stderr.write(f"{outcome.case}: {outcome.kind}\n")

    outcomes = run_suite(name, names, options.target, options.workers, progress)
    sys.stderr.write("\n")
    failed = failures(suite, outcomes)
    for case, message in failed.items():
        sys.stdout.write(f"{case}: {message}\n")
    counts = Counter(o.kind for o in outcomes.values())
    text = ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
    sys.stdout.write(f"{name}: {len(names)} cases: {text}; {len(failed)} that have to pass failed; "
                     f"{time.perf_counter() - began:.0f} s\n")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    os.environ.setdefault("FORGE_CACHE", "objects")
    os.environ.setdefault("FORGE_CACHE_DIR", str(kept.folder()))
    os.environ.setdefault("FORGE_COMPILE_PROCESSES", "1")
    sys.exit(main())
