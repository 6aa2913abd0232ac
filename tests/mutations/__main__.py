"""Judges the tests by faults that are planted into a copy of the sources, one at a time.

python -m tests.mutations                                 # the quick run against the catalogue
python -m tests.mutations --seed 7                        # with other samples of what it samples
python -m tests.mutations --all                           # and the slow tests against what the quick run lets through
python -m tests.mutations --output FILE --resume          # go on where an earlier judgement was broken off
python -m tests.mutations -k 'src/forge/passes/*'         # only faults of some files
python -m tests.mutations --draw --seed 3 --count 40      # show other faults
python -m tests.mutations --try --seed 3 --count 40       # put those that the nearest tests catch into the catalogue

It fails if the quick run catches less than 95 % of the faults, or with --all anything survives. A fault whose line has changed is
stale: take it out of the catalogue, or write the line as it is now.
"""

from __future__ import annotations

import argparse
import fnmatch
import queue
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.mutations import catalogue, report
from tests.mutations.areas import AREAS
from tests.mutations.catalogue import Fault
from tests.mutations.checkout import Checkout, files_of
from tests.mutations.draw import draw
from tests.mutations.trial import CAUGHT, SURVIVED, Outcome, Settings, try_fault

ROOT = Path(__file__).resolve().parent.parent.parent
QUICK_SHARE = 0.95
"""Part of the catalogue that the quick run has to catch."""


def main() -> int:
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 200)
    drawn = options.draw or options.attempt
    faults = draw(options.tree, files_of(options.tree), options.seed, options.count, options.area) if drawn else catalogue.read()
    faults = [f for f in faults if fnmatch.fnmatchcase(f.file, options.pattern) and (not options.area or f.area in options.area)]
    if options.draw:
        for fault in faults:
            console.print(f"{fault.area}: {fault.file}: {fault.function}\n- {fault.before}\n+ {fault.after}", markup=False,
                          highlight=False, soft_wrap=True)
        return 0
    results = report.read(options.output) if options.resume else {}
    decided = {key for key, outcome in results.items() if outcome.caught or (outcome.state == SURVIVED and not options.all)}
    settings = _settings(options)

    def keep(fault: Fault, outcome: Outcome) -> None:
        results[fault.key] = outcome
        report.write(options.output, results)
        if options.attempt and outcome.state == CAUGHT:
            catalogue.add(fault, outcome.test, outcome.slow)

    judge(options, [f for f in faults if f.key not in decided], settings, keep, console)
    report.show(console, faults, results)
    if settings.unreliable:
        console.print(f"left out, as they fail without a fault: {sorted(settings.unreliable)}", markup=False)
    enough = report.share(faults, results, slow=False) >= QUICK_SHARE
    complete = not options.all or report.share(faults, results, slow=True) == 1.0
    return 0 if options.attempt or (enough and complete) else 1


def judge(options: argparse.Namespace, faults: Sequence[Fault], settings: Settings, keep: Callable[[Fault, Outcome], None],
          console: Console) -> None:
    """Tries the faults, each worker in a copy of its own, and hands over what became of them."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="forge-mutations-", ignore_cleanup_errors=True) as folder, \
            Progress(*columns, console=console) as progress, ThreadPoolExecutor(options.workers) as pool:
        task = progress.add_task("copying the checkout", total=len(faults))
        copies: queue.Queue[Checkout] = queue.Queue()
        for k in range(min(options.workers, len(faults))):
            copies.put(Checkout(options.tree, Path(folder) / str(k), sys.executable))
        lock = threading.Lock()

        def run(fault: Fault) -> None:
            copy = copies.get()
            progress.update(task, description=f"{fault.area}: {Path(fault.file).name}")
            try:
                outcome = try_fault(copy, fault, settings)
            finally:
                copies.put(copy)
            with lock:
                keep(fault, outcome)
                line = f"{outcome.state:10} {outcome.seconds:6.1f} s  {fault.file}: {fault.after}  {outcome.test}"
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
            progress.advance(task)

        for done in as_completed([pool.submit(run, fault) for fault in faults]):
            done.result()


def _settings(options: argparse.Namespace) -> Settings:
    """To try new faults, all tests near to them are run at once, slow or not, and no others."""
    if options.attempt:
        return Settings(limit=options.limit, quick=options.quick_only, slow=not options.quick_only, whole=False)
    return Settings(processes=options.processes, seed=str(options.seed), limit=options.limit, slow=options.all)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the slow tests, too, against what the quick run lets through")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write what became of the faults, as JSON")
    parser.add_argument("--resume", action="store_true", help="leave out faults that FILE has; with --all those that were caught")
    parser.add_argument("-k", dest="pattern", default="*", help="only faults of files that match")
    parser.add_argument("--area", action="append", choices=[area.name for area in AREAS], default=[], help="only of this area")
    parser.add_argument("--workers", type=int, default=1, help="faults that are tried at the same time")
    parser.add_argument("--processes", default="auto", metavar="N", help="processes (pytest -n) of the run of all tests")
    parser.add_argument("--limit", type=float, default=7200.0, metavar="SECONDS", help="a run of pytest that takes longer hangs")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout, by default this one")
    parser.add_argument("--draw", action="store_true", help="show faults that are drawn from the sources")
    parser.add_argument("--try", dest="attempt", action="store_true", help="add drawn faults that are caught to the catalogue")
    parser.add_argument("--quick-only", action="store_true", help="with --try: no slow tests")
    parser.add_argument("--seed", type=int, default=0, help="choose the samples of the quick run, and new faults, by this")
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    if options.resume and options.output is None:
        parser.error("--resume: --output names the file to go on from")
    return options


if __name__ == "__main__":
    sys.exit(main())
