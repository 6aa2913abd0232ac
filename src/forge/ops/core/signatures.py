"""Short names for the types in the signatures of operators' methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.op import ReferenceValue
from forge.ir.types import TensorType, Type
from forge.te import Expr, Tensor

__all__ = ["Builder", "Dim", "Expr", "ReferenceValue", "Tensor", "TensorType", "Value"]  # besides those below

Array = np.ndarray[Any, Any]
DimArray = Array | None  # dtype object, of dimensions; None when unknown
Regions = Sequence[Graph]
Types = Sequence[Type]  # of the results
OperandTypes = Sequence[Type | None]
Arrays = Sequence[ReferenceValue]  # results of ``reference``
Lowered = Sequence[Tensor]  # results of ``lower``
TensorTypes = Sequence[TensorType]  # types of the results of ``lower``
Values = Sequence[Value]  # results of ``decompose``
Symbols = Mapping[str, Expr]  # results of ``define_symbols``
Conditions = list[tuple[Expr, str]]  # results of ``requires``
