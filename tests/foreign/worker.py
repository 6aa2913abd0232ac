"""A worker process of `tests.onnx_backend.pool`: each line it reads is a suite and the name of a case as
JSON, and its answer is a line of JSON. Its argument is the target.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

from forge.target import Target
from tests.foreign.machine import Machine
from tests.foreign.suites import SUITES, Outcome


def outcome(line: str, target: Target, machine: Machine) -> Outcome:
    suite, _, name = line.partition(" ")
    try:
        return SUITES[suite].run(json.loads(name), target, machine)
    except Exception as error:  # noqa: BLE001  (whatever it is, the case was refused)
        return "refused", f"{type(error).__name__}: {error}"


def main(text: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    target = Target.parse(text)
    machine = Machine(target)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        kind, message = outcome(line.rstrip("\n"), target, machine)
        print(json.dumps({"kind": kind, "message": message[:2000]}), file=answers, flush=True)
    machine.close()


if __name__ == "__main__":
    main(sys.argv[1])
