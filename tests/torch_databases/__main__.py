"""Runs torch's databases of operators and modules: python -m tests.torch_databases [-k PATTERN] [--dtype float32] [--modules]"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections import Counter

import torch

from tests.torch_databases import cases, compare


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torch_databases", description=__doc__)
    parser.add_argument("-k", dest="pattern", default="*", help="only names that match; several, separated by commas")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--modules", action="store_true", help="modules in the place of operators")
    parser.add_argument("--interpreter", action="store_true", help="do not compile")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    every = cases.module_names() if options.modules else cases.operator_names()
    counts: Counter[str] = Counter()
    for name in every:
        if not any(fnmatch.fnmatchcase(name, p) for p in options.pattern.split(",")):
            continue
        found = cases.module_cases(name, dtype) if options.modules else cases.operator_cases(name, dtype)
        outcomes = [compare.outcome(case, compiled=not options.interpreter) for case in found]
        exported = [o for o in outcomes if o != "not exported"]
        wrong = [o for o in exported if o != "ok"]
        state = "no samples" if not outcomes else "not exported" if not exported else "wrong" if wrong else "ok"
        counts[state] += 1
        _say(f"{name}: {state} ({len(exported) - len(wrong)} of {len(exported)})" + (f": {wrong[0]}" if wrong else ""))
    _say(", ".join(f"{n} {state}" for state, n in counts.items()))
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
