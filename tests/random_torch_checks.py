"""Random modules next to eager torch, by both ways in: an export and a trace.

    python -m tests.random_torch_checks 500 2000 [--way trace] [--most 6]

prints a line for every seed of the range that fails, and what became of the others.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from forge.driver import compile_module
from forge.errors import ImportModelError, OpAttributeUnimplemented, OpNotImplemented
from forge.frontends.torch import import_model
from forge.frontends.torch.exported import array_of
from forge.ir.graph import Module
from forge.ir.saved.hashing import fingerprint
from tests import random_torch

WAYS = ("export", "trace")
TOLERANCE = {"float32": 1e-3, "float64": 1e-3, "bfloat16": 5e-2}


def check(seed: int, ways: Sequence[str] = WAYS, most: int = 6) -> dict[str, str]:
    """What became of a case by each way.

    "equal"; "same" as a way before it, module for module; "refused"; "not exported" or "not traced" by torch, which includes
    traces whose sizes are fixed; "unstable": torch differs for a nearby input.
    """
    case = random_torch.make(seed, most)
    outcomes: dict[str, str] = {}
    seen: dict[str, str] = {}
    for way in ways:
        try:
            module = _module(case, way)
        except _NotByTorch:
            outcomes[way] = {"export": "not exported", "trace": "not traced"}[way]
            continue
        except (OpNotImplemented, OpAttributeUnimplemented):
            outcomes[way] = "refused"
            continue
        digest = fingerprint(module)
        outcomes[way] = "same" if digest in seen else _outcome(case, module, f"seed {seed} by {way}: {case.names}")
        seen[digest] = way
    return outcomes


class _NotByTorch(Exception):
    """Torch itself does not take the module."""


def _module(case: random_torch.RandomCase, way: str) -> Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way == "export":
            dynamic = ({0: torch.export.Dim("batch", min=2)},) if case.is_dynamic else None
            try:
                exported = torch.export.export(case.module, (case.example,), dynamic_shapes=dynamic)
            except Exception as error:
                raise _NotByTorch from error
            return import_model(exported)
        try:
            with torch.no_grad():
                trace = torch.jit.trace(case.module, case.example.clone(), check_trace=False)
        except Exception as error:
            raise _NotByTorch from error
        shape = ["batch" if case.is_dynamic else case.example.shape[0], *case.example.shape[1:]]
        try:
            return import_model(trace, [("x", shape)])
        except ImportModelError as error:
            fixed = ("torch.export failed", "axis 0: got batch; the model takes")
            if case.is_dynamic and any(told in str(error) for told in fixed):
                raise _NotByTorch from error
            raise


def _outcome(case: random_torch.RandomCase, module: Module, label: str) -> str:
    run = compile_module(module).runtime()
    size = case.example.shape[0]
    for batch in (size, 5) if case.is_dynamic else (size,):
        x = torch.randn(batch, *case.example.shape[1:])
        with torch.no_grad():
            expected, nearby = (array_of(case.module(y), "output") for y in (x.clone(), x * (1 + 1e-6)))
        if expected.shape != nearby.shape or not _near(nearby, expected):
            return "unstable"
        got: Any = run(x.numpy())
        got = got[0] if isinstance(got, list | tuple) else got  # others are inputs that the module writes to
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), f"{label}: {got.shape}, not {expected.shape}"
        assert _near(got, expected), f"{label}: differs by {np.abs(got.astype(float) - expected.astype(float)).max()}"
    return "equal"


def _near(got: np.ndarray, expected: np.ndarray) -> bool:
    """Within the tolerance of the element type, of the values and of the largest."""
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    tolerance = TOLERANCE[expected.dtype.name]
    return np.allclose(got.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_torch_checks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, help="the seed after the last one")
    parser.add_argument("--way", choices=WAYS, action="append", help="both if none is given")
    parser.add_argument("--most", type=int, default=6, help="steps of a module")
    options = parser.parse_args(arguments)
    found: dict[str, Counter[str]] = {way: Counter() for way in options.way or WAYS}
    failed = 0
    for seed in range(options.first, options.last):
        try:
            for way, outcome in check(seed, tuple(found), options.most).items():
                found[way][outcome] += 1
        except Exception as error:  # noqa: BLE001 - what fails is listed, and the others run
            failed += 1
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {' '.join(str(error).split())[:600]}\n")
            sys.stdout.flush()
    for way, outcomes in found.items():
        sys.stdout.write(f"{way}: {dict(outcomes)}\n")
    sys.stdout.write(f"{failed} seeds failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
