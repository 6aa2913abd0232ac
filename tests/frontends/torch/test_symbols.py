"""Sizes that float64 computes, and what torch assumes of sizes: next to Python's own arithmetic; what may differ is refused."""

from __future__ import annotations

import math

import pytest

from forge import dims
from forge.errors import ImportModelError
from forge.frontends.torch import symbols
from forge.frontends.torch.guards import conditions

S = "ToFloat(Symbol('s0', positive=True, integer=True))"
SIZES = [*range(3000), *(2**k + d for k in range(12, 31) for d in (-1, 0, 1))]


@pytest.mark.parametrize("factor", [0.5, 1.5, 0.125, 2.75, 0.1, 0.3, 0.6, 1.3, 1.1, 1 / 3, 2 / 3])
def test_products_with_floats(factor: float) -> None:
    size = symbols.parse(f"TruncToInt(Mul(Float('{factor!r}', precision=53), {S}))")
    assert [dims.evaluate(size, {"s0": s}) for s in SIZES] == [int(factor * s) for s in SIZES]


@pytest.mark.parametrize("divisor", [2, 3, 7, 49, 1000])
def test_quotients(divisor: int) -> None:
    size = symbols.parse(f"FloorToInt(IntTrueDiv(Symbol('s0', integer=True), Integer({divisor})))")
    assert [dims.evaluate(size, {"s0": s}) for s in SIZES] == [math.floor(s / divisor) for s in SIZES]


@pytest.mark.parametrize("text", [
    f"TruncToInt(Mul(Float('0.7', precision=53), {S}))",  # 0.7 * 180 is below 126
    f"TruncToInt(Add({S}, Integer(-3)))",  # may be negative: rounded up
    f"TruncToInt(Mul(Float('0.3', precision=53), Float('0.3', precision=53), {S}))",
    f"FloorToInt(IntTrueDiv({S}, Integer(0)))",
    f"TruncToInt(Mul(Float('nan', precision=53), {S}))",
    f"TruncToInt(Mul(Float('inf', precision=53), {S}))",
    f"CeilToInt(Mul(Float('0.5', precision=53), {S}))",
])
def test_sizes_that_may_differ_are_refused(text: str) -> None:
    with pytest.raises(ImportModelError, match="expected integers and symbols"):
        symbols.parse(text)


@pytest.mark.parametrize(("text", "holds"), [
    ("L['x'].size()[0] % 2 == 0", lambda a, b: a % 2 == 0),
    ("L['x'].size()[0] >= 3 and L['y'][0].size()[0] < 7", lambda a, b: a >= 3 and b < 7),
    ("(L['x'].size()[0] * L['y'][0].size()[0]) != (3 * L['y'][0].size()[0])", lambda a, b: a * b != 3 * b),
    ("math.trunc(L['x'].size()[0] / 3) == 2", lambda a, b: a // 3 == 2),
    ("min(L['x'].size()[0], 2 * L['y'][0].size()[0]) <= 5", lambda a, b: min(a, 2 * b) <= 5),
    ("L['x'].size()[0]**2 > -(L['y'][0].size()[0]) + 9", lambda a, b: a * a > 9 - b),
    ("L['x'].size()[0] // 4 == L['y'][0].size()[0]", lambda a, b: a // 4 == b),
    ("L['x'].size()[0] / 4 == 2", lambda a, b: a == 8),
    ("L['x'].size()[0] == 1 or L['x'].size()[0] == L['y'][0].size()[0]", lambda a, b: a in (1, b)),
    ("L['x'].size()[0] ** 0 == L['y'][0].size()[0]", lambda a, b: b == 1),
])
def test_conditions(text: str, holds: object) -> None:
    assert callable(holds)
    sizes = {"x": dims.symbol("a"), "y_0": dims.symbol("b")}
    found = conditions(text, lambda name, axis: sizes.get(name) if axis == 0 else None)
    for a in range(10):
        for b in range(10):
            values = [(dims.evaluate(c.size, {"a": a, "b": b}), c.least, c.most) for c in found]
            fits = all((low is None or v >= low) and (high is None or v <= high) for v, low, high in values)
            assert fits == holds(a, b), (a, b)


@pytest.mark.parametrize("text", [
    "L['x'].size()[0] == 1 or L['x'].size()[0] > 2", "L['z'].size()[0] == 1", "L['x'].size()[1] == 1", "L['x'].stride()[0] == 1",
    "__import__('os')", "L['x'].size()[0] ** L['x'].size()[0] == 1", "1 < L['x'].size()[0] < 3", "(" * 500, "9" * 30_000,
    "L['x'].size()[0] ** 99999999 == 1", "L['x'].size()[0] * 0.7 == 1", "L['x'].size()[0] / 0 == 1", "x == 1", "True",
    "L['x'].size()[0] / 3 == 2",
])
def test_other_conditions_are_refused(text: str) -> None:
    with pytest.raises(ImportModelError, match="torch assumed"):
        conditions(text, lambda name, axis: dims.symbol("a") if (name, axis) == ("x", 0) else None)
