"""Indices out of range, integers divided by 0 and matrices without factors: calls fail where eager torch raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from forge.errors import ExecutionError  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

DATA, ONES = torch.arange(20.0).reshape(5, 4), torch.ones(2, 4)
POOLED = torch.ones(1, 2, 2, 2)
EYE, SINGULAR = torch.eye(3) * 2, torch.ones(3, 3)


def at(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers)


def rows(*numbers: int) -> torch.Tensor:
    return torch.tensor([[n] * 4 for n in numbers])


CALLS: dict[str, tuple[Callable[..., Any], list[torch.Tensor], list[torch.Tensor]]] = {  # arguments that fit, others
    "embedding": (lambda i: functional.embedding(i, DATA), [at(4, 0)], [at(5, 0)]),
    "embedding_bag": (lambda i: functional.embedding_bag(i[None], DATA), [at(4, 0)], [at(-1, 0)]),
    "offsets of bags": (lambda i, o: functional.embedding_bag(i, DATA, o), [at(4, 0), at(0, 2)], [at(4, 0), at(0, 3)]),
    "one_hot": (lambda i: functional.one_hot(i, 5), [at(4, 0)], [at(5, 0)]),
    "one_hot of a negative class": (lambda i: functional.one_hot(i, 5), [at(4, 0)], [at(-1, 0)]),
    "masked_scatter": (lambda x, m: x.masked_scatter(m, ONES), [DATA, DATA > 11], [DATA, DATA > 10]),
    "max_unpool": (lambda x, i: functional.max_unpool2d(x, i, 2), [POOLED, rows(15, 0).reshape(POOLED.shape)],
                   [POOLED, rows(16, 0).reshape(POOLED.shape)]),
    "index": (lambda x, i: x[i], [DATA, at(4, -5)], [DATA, at(4, -6)]),
    "index of two": (lambda x, i: x[i, i], [DATA, at(3, -4)], [DATA, at(3, 4)]),
    "index_put": (lambda x, i: x.index_put((i,), ONES), [DATA, at(4, -5)], [DATA, at(5, 0)]),
    "index_select": (lambda x, i: x.index_select(1, i), [DATA, at(3, 0)], [DATA, at(4, 0)]),
    "index_add": (lambda x, i: x.index_add(0, i, ONES), [DATA, at(4, 0)], [DATA, at(5, 0)]),
    "gather": (lambda x, i: x.gather(0, i), [DATA, rows(4, 0)], [DATA, rows(4, -1)]),
    "scatter": (lambda x, i: x.scatter(0, i, ONES), [DATA, rows(4, 0)], [DATA, rows(5, 0)]),
    "take": (lambda x, i: x.take(i), [DATA, at(19, -20)], [DATA, at(20, 0)]),
    "targets": (lambda x, t: functional.cross_entropy(x, t), [ONES, at(3, -100)], [ONES, at(4, 0)]),
    "floor_divide": (lambda a, b: a // b, [at(7, -7), at(2, 2)], [at(7, -7), at(2, 0)]),
    "remainder": (lambda a, b: a % b, [at(7, -7), at(2, 2)], [at(7, -7), at(0, 2)]),
    "inverse": (torch.linalg.inv, [EYE], [SINGULAR]),
    "solve": (lambda a: torch.linalg.solve(a, EYE), [EYE], [SINGULAR]),
    "cholesky": (torch.linalg.cholesky, [EYE], [-EYE]),
    "cholesky of zeros": (torch.linalg.cholesky, [EYE], [EYE * 0]),
    "lu_factor": (lambda a: torch.linalg.lu_factor(a)[0], [EYE], [SINGULAR]),
}


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


@pytest.mark.parametrize("name", CALLS)
def test_calls_fail_where_eager_torch_does(name: str) -> None:
    function, fitting, others = CALLS[name]
    model = Applied(function)
    module = import_model(torch.export.export(model, tuple(fitting)))
    with pytest.raises((IndexError, RuntimeError)):
        model(*others)
    for compiled in (False, True):
        (got,) = run(module, tuple(fitting), compiled=compiled)
        assert difference(got, model(*fitting)) == ""
        with pytest.raises(ExecutionError, match=r"out of range|divided by 0|does not exist|has fewer elements"):
            run(module, tuple(others), compiled=compiled)


def test_what_is_not_finite_is_no_singular_matrix() -> None:
    module = import_model(torch.export.export(Applied(torch.linalg.inv), (EYE,)))
    for compiled in (False, True):
        (got,) = run(module, (EYE * torch.nan,), compiled=compiled)
        assert np.isnan(got).all()
