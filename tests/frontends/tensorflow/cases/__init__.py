"""Rows of operators, in modules as the converters are."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.frontends.tensorflow.case import Case, Row

ROWS: list[Row] = [
    one for module in sorted(m.name for m in iter_modules(__path__)) for one in import_module(f"{__name__}.{module}").ROWS]
CASES: list[Case] = [Case(one, form) for one in ROWS for form in one.forms]
