"""A worker process: reads names of cases from standard input, one a line, and answers each with a line of JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from typing import Any

MEMORY_LIMIT = 24 << 30


def run_case(case: Any, runtime: str) -> None:
    """Raises when the case fails."""
    from tests.onnx_backend.compare import check_outputs
    from tests.onnx_backend.runtimes import PREPARE

    model = case.model.SerializeToString()
    for inputs, outputs in case.data_sets:
        values = as_values(inputs)
        run = PREPARE[runtime](model, values)
        check_outputs(as_values(outputs), run(values), case.rtol, case.atol)


def as_values(data: Any) -> list[Any]:
    """Arrays in place of tensor messages."""
    from onnx import TensorProto, numpy_helper

    return [numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in data]


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
        try:
            run_case(known[name], runtime)
            message = ""
        except Exception as error:  # noqa: BLE001  (whatever it is, the case has failed)
            message = f"{type(error).__name__}: {error}"
        print(json.dumps({"case": name, "message": message[:2000]}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
