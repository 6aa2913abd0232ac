"""Runs the ONNX backend suite from the command line.

python -m tests.onnx_backend                       # what differs from the pass-lists
python -m tests.onnx_backend --update              # write the pass-lists anew
python -m tests.onnx_backend -k 'test_conv*'       # some cases, with messages
python -m tests.onnx_backend --peer onnxruntime    # another runtime, with messages
python -m tests.onnx_backend --nodes FOLDER        # cases of single nodes that a release of onnx up to 1.21 has in files
python -m tests.onnx_backend --count               # ours and all installed peers, for docs/reference/onnx_operators.md
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections import Counter

import forge
from tests.onnx_backend import cases, counts
from tests.onnx_backend.peers import PACKAGES, version_of
from tests.onnx_backend.pool import Outcome, run_cases
from tests.onnx_backend.stored import SUFFIX


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_backend", description=__doc__)
    parser.add_argument("--runtime", choices=cases.RUNTIMES, action="append", help="only this one")
    parser.add_argument("--peer", choices=PACKAGES, action="append", default=[], help="this runtime of others")
    parser.add_argument("--count", action="store_true", help="keep all outcomes for docs/reference/onnx_operators.md")
    parser.add_argument("-k", dest="pattern", default="*", help="only cases whose name matches")
    parser.add_argument("--update", action="store_true", help="write the pass-lists")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="per case")
    parser.add_argument("--failing", action="store_true", help="only cases that are not in the pass-list")
    parser.add_argument("--nodes", help="only cases of this folder, onnx/backend/test/data/node, whose models onnx makes no more")
    options = parser.parse_args()
    if options.nodes:
        if options.update or options.count:
            parser.error("--nodes: the lists hold what the installed package has; leave out --update and --count")
        os.environ[cases.NODES] = options.nodes
    if options.count:
        return count(options)
    for peer in options.peer:
        outcomes = run_cases(names_of(options), peer, options.workers, options.seconds)
        report(peer, [o for o in outcomes.values() if not o.passed], set())
        _say(counts.line(peer, counts.Count.of(outcomes.values(), version_of(peer) or "")))
    ours = options.runtime or ([] if options.peer else cases.RUNTIMES)
    return max((run(runtime, options) for runtime in ours), default=0)


def names_of(options: argparse.Namespace) -> list[str]:
    chosen = [n for n in cases.case_names() if fnmatch.fnmatchcase(n, options.pattern)]
    return [n for n in chosen if n.endswith(SUFFIX)] if options.nodes else chosen


def count(options: argparse.Namespace) -> int:
    """Runs all cases with the chosen runtimes, by default ours and the installed peers; prints and keeps the numbers."""
    chosen = [*(options.runtime or []), *options.peer] or [*counts.OURS, *PACKAGES]
    _say(counts.HEADER)
    for runtime in chosen:
        version = counts.version(runtime)
        if version is None:
            _say(f"{runtime}: not installed")
            continue
        outcomes = run_cases(cases.case_names(), runtime, options.workers, options.seconds)
        _say(counts.line(runtime, counts.keep(runtime, version, outcomes)))
    return 0


def run(runtime: str, options: argparse.Namespace) -> int:
    """Runs the cases, prints what failed without a listed reason, and updates the list if asked."""
    listed = cases.pass_list(runtime)
    names = names_of(options)
    if options.nodes:
        listed |= {f"{name}{SUFFIX}" for name in listed}
    if options.failing:
        names = [n for n in names if n not in listed]
    found = run_cases(names, runtime, options.workers, options.seconds)
    outcomes = {n: o for n, o in found.items() if not (o.passed and cases.may_pass(runtime, n))}
    passed = {n for n, o in outcomes.items() if o.passed}
    failed = [o for o in outcomes.values() if not o.passed]
    report(runtime, failed, listed)
    if options.update:
        cases.write_pass_list(runtime, (listed - set(names)) | passed)
        if runtime in counts.OURS:
            counts.keep(runtime, forge.__version__, outcomes)
    wrong = sorted((listed ^ passed) & set(names))
    _say(f"{runtime}: {len(passed)} of {len(names)} pass; {len(wrong)} differ from the pass-list")
    return 1 if wrong and not options.update else 0


def report(runtime: str, failed: list[Outcome], listed: set[str]) -> None:
    """Prints failures that are listed as passing, or that no exclusion explains."""
    reasons: Counter[str] = Counter()
    for outcome in sorted(failed, key=lambda o: o.case):
        reason = cases.reason_for(runtime, outcome.case)
        if reason is not None and outcome.case not in listed:
            reasons[reason] += 1
        else:
            _say(f"{outcome.case}: {outcome.kind}: {outcome.message}")
    for reason, count in reasons.most_common():
        _say(f"{count:5} excluded: {reason}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
