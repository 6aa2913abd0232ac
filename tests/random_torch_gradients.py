"""Random PyTorch functions that make views, write in place and return what they were given, where autograd records at times.

    python -m tests.random_torch_gradients 0 500

compiles the function of each seed with Forge, prints a line for every seed whose values or gradients differ from those of eager
PyTorch, and what became of the others.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from forge.errors import ForgeError, GradientError
from tests import random_torch_memory
from tests.random_torch_memory import Step, Tensor

Function = Callable[..., tuple[Tensor, ...]]

INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "leaf": lambda leaf: leaf, "computed": lambda leaf: leaf * 1, "part": lambda leaf: (leaf * 1)[:3],
    "transposed": lambda leaf: (leaf[:, :3] * 1).T, "plain": lambda leaf: leaf.detach().clone(),
    "part of plain": lambda leaf: leaf.detach().clone()[1:4], "without gradients": lambda leaf: no_grad(lambda: (leaf * 1)[1:4]),
}  # fmt: skip
"""Makes an input of a leaf that requires gradients."""


def _detached(choose: random.Random, values: list[Tensor], k: int) -> Step:
    begin = choose.randint(0, 1)
    return choose.choice((lambda v: v[k].detach(), lambda v: v[k].detach()[begin:], lambda v: v[k][begin:].detach()))


STEPS = {**random_torch_memory.STEPS, "detach": _detached}
NAMES = (*STEPS, *["view"] * 4, *["maybe view"] * 2)


def no_grad(function: Callable[[], Any]) -> Any:
    with torch.no_grad():
        return function()


def _enable_grad(function: Callable[[], Any]) -> Any:
    with torch.enable_grad():
        return function()


def _as_it_is(function: Callable[[], Any]) -> Any:
    return function()


_BLOCKS = {"no_grad": no_grad, "enable_grad": _enable_grad}


@dataclass
class RandomHistory:
    """A function, how its inputs are made, and a write to a result after the call (None: there is none).

    Attributes:
        records: whether autograd records where the function is called; names of steps say which ones are in blocks of their own.
    """

    steps: list[tuple[str, Step]]
    kinds: list[str]
    returned: list[int]
    later: int | None
    records: bool = True

    def function(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        values = _values(self.steps, arguments)
        return tuple(values[k] for k in self.returned)

    def run(self, function: Function) -> tuple[list[Any], list[Any]]:
        """Calls ``function``; what can be seen of all tensors afterwards, and the gradients of the leaves."""
        leaves, arguments = self.inputs()
        with torch.set_grad_enabled(self.records):
            results = function(*arguments)
        if self.later is not None:
            results[self.later].mul_(2)
        tensors = [*results, *arguments, *(a._base for a in arguments if a._is_view())]
        same = [[i for i, t in enumerate(tensors) if t is one] for one in tensors]
        seen = [(t.detach().clone(), t.requires_grad, where) for t, where in zip(tensors, same)]
        losses = [(t * torch.arange(1.0, 1 + t.numel()).reshape(t.shape)).sum() for t in tensors if t.requires_grad]
        if losses:
            sum(losses).backward()
        return seen, [leaf.grad for leaf in leaves]

    def inputs(self) -> tuple[list[Tensor], list[Tensor]]:
        """Leaves that require gradients, and the arguments that are made of them."""
        torch.manual_seed(0)
        leaves = [torch.randn(4, 4, requires_grad=True) for _ in self.kinds]
        with torch.enable_grad():
            return leaves, [INPUTS[kind](leaf) for kind, leaf in zip(self.kinds, leaves)]


def _values(steps: list[tuple[str, Step]], arguments: Sequence[Tensor]) -> list[Tensor]:
    values = [*arguments, arguments[0] + 1]
    for name, step in steps:
        made = _BLOCKS.get(name.split()[0], _as_it_is)(partial(step, values))
        if made is not None:
            values.append(made)
    return values


def make(seed: int, most: int = 5) -> RandomHistory:
    """The function of a seed; it works in eager mode."""
    choose = random.Random(seed)
    case = RandomHistory([], [choose.choice(sorted(INPUTS)) for _ in range(choose.randint(1, 2))], [0], None)
    case.records = choose.random() < 0.8
    with torch.set_grad_enabled(case.records):
        _choose_steps(choose, case, most)
        values = _values(case.steps, case.inputs()[1])
    case.returned = [choose.randrange(len(values)) for _ in range(choose.randint(1, 3))]
    case.later = choose.choice([None, 0])
    if case.later is not None and _overlaps(values[case.returned[case.later]]):
        case.later = None
    if _tried(lambda: case.run(case.function)) is None:
        case.later = None
    return case


def _choose_steps(choose: random.Random, case: RandomHistory, most: int) -> None:
    has_blocks = choose.random() < (0.3 if case.records else 0.9)
    for _ in range(3 * most):
        if len(case.steps) == most:
            break
        values = _values(case.steps, case.inputs()[1])
        name = choose.choice(NAMES)
        step = STEPS[name](choose, values, choose.randrange(len(values)))
        if step is None:
            continue
        block = choose.choice((*[f"{name} " for name in _BLOCKS], "")) if has_blocks else ""
        tried = RandomHistory([*case.steps, (block + name, step)], case.kinds, [], None)
        values = _tried(partial(_values, tried.steps, tried.inputs()[1]))
        if values is not None and values[-1].dtype == torch.float32 and 0 < values[-1].numel() < 500:
            case.steps = tried.steps


def _overlaps(tensor: Tensor) -> bool:
    """Whether some of its elements lie in the same place."""
    places = torch.arange(tensor.untyped_storage().nbytes()).as_strided(tensor.shape, tensor.stride())
    return bool(places.unique().numel() < tensor.numel())


def _tried(run: Callable[[], Any]) -> Any:
    """None: eager PyTorch raises."""
    try:
        return run()
    except (RuntimeError, IndexError, ValueError):
        return None


def check(seed: int, backend: str = "forge") -> str:
    """What became of a seed: "equal" or "equal without gradients" to eager PyTorch, "no gradients", "refused", "eager raises"."""
    case = make(seed)
    wanted = _tried(lambda: case.run(case.function))
    torch._dynamo.reset()
    options = {"opt_level": 0} if backend == "forge" else None
    try:
        got = case.run(torch.compile(case.function, backend=backend, options=options))
    except GradientError:
        return "no gradients"
    except Exception as error:
        if isinstance(getattr(error, "inner_exception", error), ForgeError):
            return "refused"
        if wanted is None:
            return "eager raises"
        raise
    label = f"seed {seed}: {case.records} {case.kinds} {[name for name, _ in case.steps]} {case.returned} {case.later}"
    assert wanted is not None, f"{label}: eager PyTorch raises"
    for one, other in zip(got[0], wanted[0], strict=True):
        torch.testing.assert_close(one[0], other[0], msg=lambda text: f"{label}: {text}")
        assert one[1:] == other[1:], f"{label}: got requires_grad, same tensors {one[1:]}; expected {other[1:]}"
    for one, other in zip(got[1], wanted[1], strict=True):
        assert (one is None) == (other is None), f"{label}: got gradient {one}; expected {other}"
        if one is not None:
            torch.testing.assert_close(one, other, msg=lambda text: f"{label}: gradient: {text}")
    return "equal" if any(gradient is not None for gradient in wanted[1]) else "equal without gradients"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_torch_gradients", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, help="the seed after the last one")
    parser.add_argument("--backend", default="forge", help="another backend of torch.compile, for comparison")
    options = parser.parse_args(arguments)
    found: Counter[str] = Counter()
    for seed in range(options.first, options.last):
        try:
            found[check(seed, options.backend)] += 1
        except Exception as error:  # noqa: BLE001 - what fails is listed, and the others run
            found["failed"] += 1
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {' '.join(str(error).split())[:600]}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(found)}\n")
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
