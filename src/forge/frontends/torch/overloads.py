"""Operators that write to their arguments, and those that compute the same without writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

_RESULTS: Mapping[str, str] = MappingProxyType({
    "_linalg_det.result": "default", "_linalg_slogdet.sign": "default", "_linalg_solve_ex.result": "default",
    "all.all_out": "default", "all.out": "dim", "any.all_out": "default", "any.out": "dim", "arange.start_out": "start_step",
    "avg_pool2d_backward.grad_input": "default", "bernoulli.float_out": "p", "div.out_mode": "Tensor_mode",
    "divide.out_mode": "Tensor_mode", "kthvalue.values": "default", "linalg_cholesky_ex.L": "default",
    "linalg_inv_ex.inverse": "default", "log_sigmoid_forward.output": "default", "max.dim_max": "dim", "max.out": "other",
    "max.unary_out": "default", "max_pool2d_with_indices_backward.grad_input": "default", "mean.dtype_out": "default",
    "mean.out": "dim", "median.dim_values": "dim", "min.dim_min": "dim", "min.out": "other", "min.unary_out": "default",
    "mode.values": "default", "nanmedian.dim_values": "dim", "nll_loss2d_forward.output": "default",
    "nll_loss_forward.output": "default", "norm.dtype_out": "ScalarOpt_dim_dtype", "norm.out": "ScalarOpt_dim",
    "prod.int_out": "dim_int", "sort.values": "default", "sort.values_stable": "stable", "std.out": "dim",
    "sum.IntList_out": "dim_IntList", "topk.values": "default", "triangular_solve.X": "default", "var.out": "dim",
    "xlogy.OutScalar_Other": "Scalar_Other", "xlogy.OutScalar_Self": "Scalar_Self", "xlogy.OutTensor": "Tensor",
})  # fmt: skip
"""Overloads that take tensors for their results -> those that do not, where names do not say it."""


_IN_PLACE: Mapping[str, str] = MappingProxyType({
    "float_power_.Tensor": "float_power.Tensor_Tensor", "floor_divide_.Tensor": "floor_divide.default",
    "ldexp_.default": "ldexp.Tensor", "pow_.Tensor": "pow.Tensor_Tensor", "transpose_.default": "transpose.int"})
"""Overloads of operators that write to their operands, where others have another name."""


def functional(op: str) -> str:
    """An operator without the mark of in-place ones: ``add_.Tensor`` is ``add.Tensor``."""
    if op in _IN_PLACE:
        return _IN_PLACE[op]
    name, _, overload = op.partition(".")
    if name.startswith("__i") and name.endswith("__") and name != "__invert__":
        return f"__{name[3:]}.{overload}"
    return f"{name[:-1]}.{overload}" if overload and name.endswith("_") and not name.endswith("__") else op


def without_out(op: str) -> Sequence[str]:
    """What may compute the results that ``op`` writes to its last arguments: ``atan2.out`` is ``atan2.default``.

    Empty for other operators.
    """
    name, _, overload = op.partition(".")
    known = _RESULTS.get(op)
    if known is not None:
        return [f"{name}.{known}"]
    if overload != "out" and not overload.endswith("_out"):
        return []
    kept = overload[: -len("_out")]
    return [f"{name}.{kept}"] if kept else [f"{name}.{other}" for other in ("default", "Tensor", "memory_format")]
