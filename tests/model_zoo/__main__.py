"""Runs architectures with small random weights, and keeps what became of them.

python -m tests.model_zoo [-k PATTERN,PATTERN] [--library timm]           # some, in this process
python -m tests.model_zoo --update --workers 1                            # all of them; writes the lists
python -m tests.model_zoo --update --way compile --failing                # those that are not ok; writes the lists
python -m tests.model_zoo --update --sample 4                             # a quarter of the names; writes the lists
python -m tests.model_zoo --update --way speed --sample 9                 # times beside inductor's; writes the lists
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import logging
import os
import select
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.model_zoo.lists import EXPORTS, LIBRARIES, OK, SPEED, WAYS, Zoo, exports
from tests.sampling import sample

CHUNK = 24
"""Names that one process takes: torch's compiler remembers what it exported."""
SECONDS = 120
"""That an architecture has."""
Keep = Callable[[str, str, str], None]
MARK = "@"
"""Before the lines of a worker."""


def main() -> int:
    options = _options()
    zoo = Zoo(options.library)
    if options.worker:
        return _work(zoo, options.pattern.split(","), options.way)
    states, outcomes = zoo.read(), zoo.read(options.way)
    known = set(exports(states))
    names = [n for n in zoo.names() if any(fnmatch.fnmatchcase(n, p) for p in options.pattern.split(","))]
    if options.way == SPEED:
        equal = zoo.read("compile")
        names = [n for n in names if equal.get(n) == OK]
    if options.missing:
        names = [n for n in names if n not in states or (n in known and n not in outcomes)]
    if options.failing:
        names = [n for n in names if n in known and outcomes.get(n) != OK]
    names = sample(names, options.seed, options.sample) if options.sample > 1 else names
    names.sort(key=lambda name: hashlib.sha256(name.encode()).digest())  # what is broken off is a sample

    tried = set()

    def keep(name: str, state: str, outcome: str) -> None:
        tried.add(name)
        if not (options.failed and outcome == OK):
            _say(f"{name}: {state[:120]} | {outcome[:160]}")
        states[name] = state
        outcomes.pop(name, None)
        if outcome:
            outcomes[name] = outcome
        if options.update:
            zoo.write(states)
            zoo.write(outcomes, options.way)

    chunks = [names[k : k + CHUNK] for k in range(0, len(names), CHUNK)]
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(lambda chunk: _in_processes(zoo, chunk, options.way, keep), chunks))
    for counted in () if options.failed else (states, outcomes):
        found = Counter(counted[n].partition(":")[0] for n in tried if n in counted)
        _say(", ".join(f"{n} {state}" for state, n in found.most_common()))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.model_zoo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", dest="pattern", default="*", help="only names that match; several, separated by commas")
    parser.add_argument("--library", choices=LIBRARIES, default="transformers")
    parser.add_argument("--way", choices=(*WAYS, SPEED), default="export")
    parser.add_argument("--failing", action="store_true", help="only names that torch exports and that are not listed as ok")
    parser.add_argument("--missing", action="store_true", help="only names of which the lists do not hold an outcome")
    parser.add_argument("--failed", action="store_true", help="say only what is not ok")
    parser.add_argument("--update", action="store_true", help="write the lists")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="one of N names")
    parser.add_argument("--seed", default="", help="which of them")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _work(zoo: Zoo, names: list[str], way: str) -> int:
    """Says each name before and after it is tried."""
    from tests.model_zoo.outcomes import limit_memory, outcome

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    limit_memory()
    for name in names:
        _say(f"{MARK}{name}")
        for answer in outcome(partial(zoo.ready, name), way):
            _say(f"{MARK}{name}{MARK}{_plain(answer)}")
    return 0


def _plain(text: str) -> str:
    return text.replace(MARK, "at").replace("\n", " ")


def _in_processes(zoo: Zoo, names: list[str], way: str, keep: Keep) -> None:
    """Runs the names in one process, and in another from where that one ends."""
    while names:
        before = len(names)
        for name, state, outcome in _in_process(zoo, names, way):
            keep(name, state, outcome)
            names = [n for n in names if n != name]
        names = names[1:] if len(names) == before else names


def _in_process(zoo: Zoo, names: list[str], way: str) -> Iterator[tuple[str, str, str]]:
    """Names with torch's answer and Forge's; the last one is that with which the process ended."""
    command = [sys.executable, "-m", "tests.model_zoo", "--worker", "--library", zoo.library, "--way", way, "-k", ",".join(names)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=False)
    name, answers, end = "", [], ""
    for line in _lines(process):
        if not line.startswith(MARK):
            end = line
            break
        new, *answer = line[1:].split(MARK)
        if new != name and name:
            yield name, answers[0], "".join(answers[1:])
        name, answers = new, (answers if new == name else []) + answer
    if not name:
        return
    if len(answers) < 2 and (not answers or answers[0].startswith(EXPORTS)) and end:
        answers = [*(answers or [f"no model: {end}"]), end]
    yield name, answers[0], answers[1] if len(answers) > 1 and answers[0].startswith(EXPORTS) else ""


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """What a worker says; then how it ended, where it was ended."""
    assert process.stdout is not None
    text, until = b"", time.monotonic() + SECONDS
    while True:
        ready, _, _ = select.select([process.stdout], [], [], max(until - time.monotonic(), 0))
        part = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
        if not part:
            process.kill()
            code = process.wait()
            if not ready or code:
                yield "timeout" if not ready else f"died: {code}"
            return
        until = time.monotonic() + SECONDS
        *lines, text = (text + part).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines if line.startswith(MARK.encode()))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
