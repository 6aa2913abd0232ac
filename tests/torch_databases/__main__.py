"""Runs torch's databases of operators and modules, and keeps what became of them.

python -m tests.torch_databases [-k PATTERN,PATTERN] [--dtype float32]   # some operators, with messages
python -m tests.torch_databases --modules                                # modules in the place of operators
python -m tests.torch_databases --update --workers 2                     # all of them; writes the list
python -m tests.torch_databases --update --dtype int64 --sample 4        # a quarter of the names; writes the list
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.sampling import sample
from tests.torch_databases import lists

CHUNK = 12
"""Names that one process takes: torch's compiler remembers what it exported."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torch_databases", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", dest="pattern", default="*", help="only names that match; several, separated by commas")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--modules", action="store_true", help="modules in the place of operators")
    parser.add_argument("--interpreter", action="store_true", help="do not compile")
    parser.add_argument("--failing", action="store_true", help="only names that the list does not hold as ok")
    parser.add_argument("--update", action="store_true", help="write the list")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="one of N names, the same ones every time for a type")
    parser.add_argument("--workers", type=int, default=2, help="processes of an update")
    options = parser.parse_args()
    database = lists.Database("modules" if options.modules else "operators", options.dtype)
    known = database.read()
    names = [n for n in database.names() if any(fnmatch.fnmatchcase(n, p) for p in options.pattern.split(","))]
    names = sample(names, options.dtype, options.sample) if options.sample > 1 else names
    names = [n for n in names if not options.failing or known.get(n) != lists.OK]
    if options.update:
        found = _in_processes(database, names, options.workers)
        database.write(found if options.sample > 1 else known | found)
    else:
        found = {}
        for name in names:
            found[name], text = database.outcome(name, compiled=not options.interpreter)
            _say(f"{name}: {found[name]} {text}")
    _say(", ".join(f"{n} {state}" for state, n in Counter(found.values()).items()))
    return 0


def _in_processes(database: lists.Database, names: list[str], workers: int) -> dict[str, str]:
    """States by name; a process that dies takes its names with it, which are tried alone."""
    chunks = [names[k : k + CHUNK] for k in range(0, len(names), CHUNK)]
    with ThreadPoolExecutor(workers) as pool:
        found = {name: state for part in pool.map(lambda c: _in_process(database, c), chunks) for name, state in part.items()}
        lost = [[name] for name in names if name not in found]
        for part in pool.map(lambda c: _in_process(database, c), lost):
            found.update(part)
    return {name: found.get(name, lists.DIED) for name in names}


def _in_process(database: lists.Database, names: list[str]) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.torch_databases", "--dtype", database.dtype, "-k", ",".join(names)]
    command += ["--modules"] if database.kind == "modules" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        name, _, rest = line.partition(": ")
        state = next((s for s in lists.STATES if rest.startswith(s)), None)
        if name in names and state is not None:
            found[name] = state
            _say(line[:300])
    return found


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
