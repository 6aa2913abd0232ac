"""A worker process: reads names of cases from standard input, one a line, and answers each with a line of JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

MEMORY_LIMIT = 24 << 30

Preparer = Callable[[bytes, Sequence[Any]], Callable[[Sequence[Any]], list[Any]]]


def outcome(case: Any, runtime: str) -> tuple[str, str]:
    """What became of the case, and why: ``passed``; ``refused`` where an error was raised; ``wrong`` where the outputs differ."""
    return tried(case, preparer(runtime))


def tried(case: Any, prepare: Preparer) -> tuple[str, str]:
    """``outcome`` with what ``prepare`` makes ready to run."""
    from tests.onnx_backend.compare import check_outputs

    model = case.model.SerializeToString()
    for inputs, outputs in case.data_sets:
        values = as_values(inputs)
        try:
            got = prepare(model, values)(values)
        except Exception as error:  # noqa: BLE001  (whatever it is, the case was refused)
            return "refused", f"{type(error).__name__}: {error}"
        try:
            check_outputs(as_values(outputs), got, case.rtol, case.atol)
        except (AssertionError, AttributeError, TypeError, ValueError) as error:
            return "wrong", f"{type(error).__name__}: {error}"
    return "passed", ""


def preparer(runtime: str) -> Preparer:
    """The function that makes a model ready to run."""
    from tests.onnx_backend.peers import PREPARE_PEER

    if runtime in PREPARE_PEER:
        return PREPARE_PEER[runtime]
    from tests.onnx_backend.runtimes import PREPARE

    return PREPARE[runtime]


def as_values(data: Any) -> list[Any]:
    """Arrays in place of tensor messages and NumPy's scalars."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    def value(x: Any) -> Any:
        return numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x) if isinstance(x, np.generic) else x

    return [value(x) for x in data]


def main(runtime: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    from tests.onnx_backend.cases import collect

    known = collect()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        name = line.strip()
        kind, message = outcome(known[name], runtime)
        print(json.dumps({"case": name, "kind": kind, "message": message[:2000]}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
