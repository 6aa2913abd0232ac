"""TFLite models: Forge beside the interpreter with XNNPACK: time to the first result, and calls in turns.

    python -m benchmarks.tflite_interpreter [NETWORK.FORM ...] [--threads 1] [--batch 1] [--seconds 10] [--dynamic] [--json FILE]

Networks are those of `benchmarks.tflite_networks`, in the forms float32, float16, dynamic (weights of int8) and int8;
``'*.int8'`` are all of a form. Both runtimes use as many threads. A call sets the input, runs, and ends when the results are
there. With ``--dynamic`` Forge's size of a batch is known at run time only. The ratio is the interpreter's time over Forge's, of
the least and of the median of the calls. The error is relative to the largest element, in models of int8 it is in steps.

Needs the extra ``tflite``: TensorFlow makes the models, which are kept, and the interpreter is ai-edge-litert's.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.pairs import Comparison
from benchmarks.tflite_networks import NAMES, model_file
from benchmarks.turns import take_turns

TOLERANCE = 1.5
"""Steps of int8 models; errors of others are far below."""


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds to the first result, times of calls in seconds, and the largest error."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    import forge

    path = model_file(name)
    begin = time.perf_counter()
    interpreter = Interpreter(str(path), num_threads=options.threads)
    (entry,) = interpreter.get_input_details()
    shape = (options.batch, *entry["shape"][1:].tolist())
    interpreter.resize_tensor_input(entry["index"], shape)
    interpreter.allocate_tensors()
    random = np.random.default_rng(1)
    x = (random.integers(-128, 128, shape) if entry["dtype"] == np.int8 else random.uniform(-1, 1, shape)).astype(entry["dtype"])
    places = [one["index"] for one in interpreter.get_output_details()]

    def interpret() -> list[Any]:
        interpreter.set_tensor(entry["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(place) for place in places]

    expected = interpret()
    first = {"interpreter": time.perf_counter() - begin}
    begin = time.perf_counter()
    key = next(iter(interpreter.get_signature_list().values()), {"inputs": [entry["name"]]})["inputs"][0]
    run = forge.compile(forge.from_tflite(path, None if options.dynamic else {key: shape}))
    found = run(x)
    first["forge"] = time.perf_counter() - begin
    results = found if isinstance(found, list | tuple) else [found]
    error = max(_error(np.asarray(got), wanted) for got, wanted in zip(results, expected, strict=True))
    runs = {"interpreter": interpret, "forge": lambda: run(x)}
    return {"first": first, "times": take_turns(runs, options.seconds), "error": error}


def _error(got: Any, wanted: Any) -> float:
    import numpy as np

    difference = float(np.abs(got.astype(float) - wanted.astype(float)).max())
    return difference if wanted.dtype.kind == "i" else difference / max(1e-30, float(np.abs(wanted).max()))


COMPARISON = Comparison(
    "benchmarks.tflite_interpreter", "interpreter", NAMES, measure, TOLERANCE,
    {"dynamic": "the size of a batch is known at run time only"}, {"TF_CPP_MIN_LOG_LEVEL": "3"})


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    chosen = [fnmatch.filter(NAMES, word) or [word] if "*" in word else [word] for word in given]
    return COMPARISON.run(__doc__, [word for words in chosen for word in words])


if __name__ == "__main__":
    sys.exit(main())
