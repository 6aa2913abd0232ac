"""Random programs of jax next to what the interpreter and compiled code make of them.

    python -m tests.random_lax_checks 500 2000 [--most 12] [--level 0 --level 3]

prints what is wrong with each program of these seeds, and what became of all.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import jax
import numpy as np

from forge.errors import ImportModelError
from forge.frontends.stablehlo.jax import from_jax
from tests.error_model import Judge
from tests.random_checks import compiled_results, failures_of, with_own_constants
from tests.random_lax import random_program

TALLY = Counter[str]()


def check(seed: int, levels: tuple[int, ...] = (3,), most: int = 12) -> list[str]:
    """What is wrong with a program; outcomes and steps are counted.

    Raises:
        ForgeError: it cannot be loaded, or compiled.
    """
    program = random_program(seed, most)
    if not program.outputs:
        return []
    try:
        with jax.enable_x64(program.has_wide_types):
            module = from_jax(program, *(program.types[k] for k in program.inputs))
    except ImportModelError as error:
        if "jax cannot export it" not in str(error):
            raise
        TALLY["not exported"] += 1
        return []
    inputs = [np.asarray(program.arrays[k], order="C") for k in program.inputs]
    theirs = [np.asarray(program.arrays[k]) for k in program.outputs]
    where, problems, informative = f"seed {seed}, {' '.join(program.names)}", list[str](), True
    judge = Judge(module.main, inputs)
    with np.errstate(all="ignore"):
        for name, results in [("jax", with_own_constants(module, theirs)), *compiled_results(module, inputs, levels)]:
            try:
                verdict = judge.judge(results)
            except (ValueError, IndexError):  # with other roundings, data-dependent sizes do not fit any more
                informative = False
                break
            informative &= verdict.informative
            problems += [f"{where}: {name}: {problem}" for problem in verdict.problems]
    TALLY.update(["programs", *program.names])
    TALLY.update({"symbolic": program.scope is not None, "informative": informative})
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_lax_checks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, help="the seed after the last one")
    parser.add_argument("--most", type=int, default=12, help="steps of a program")
    parser.add_argument("--level", type=int, action="append", help="of optimization; 3 if none is given")
    options = parser.parse_args(arguments)
    failed = 0
    for seed in range(options.first, options.last):
        problems = failures_of(lambda seed: check(seed, tuple(options.level or [3]), options.most), [seed])
        failed += bool(problems)
        for problem in problems:
            sys.stdout.write(f"{' '.join(problem.split())[:1500]}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(TALLY)}\n{failed} seeds failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
