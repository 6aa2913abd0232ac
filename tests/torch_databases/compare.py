"""One case: what Forge makes of it next to torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import forge
from forge.driver import check_options, compile_module
from forge.frontends.torch import import_model
from forge.frontends.torch.exported import array_of
from tests.torch_databases.cases import Case, export

TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-7, "complex64": 2e-5, "complex128": 1e-7}
"""Relative to the result and to its largest element: of what torch itself promises for these types (`torch.testing`)."""


def outcome(case: Case, *, compiled: bool = True) -> str:
    """ "ok", "not exported", or what is wrong, in one line."""
    exported = export(case)
    if exported is None:
        return "not exported"
    try:
        expected = pytree.tree_leaves(case.module(*[t.clone() for t in case.inputs]))
    except RuntimeError:  # some samples need more memory than that of their inputs
        return "not exported"
    try:
        module = import_model(exported)
        got = run(module, case.inputs, compiled=compiled)
    except forge.ForgeError as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    wanted = [e for e in expected if e is not None]
    got = got[: len(wanted)]
    axis = axis_of_places(exported)
    free = is_free(exported) or case.gauge is not None

    def is_other_place(found: np.ndarray, place: Any) -> bool:
        return axis is not None and same_elements(case.inputs[0], axis, found, place)

    wrong = differences(got, wanted, free, is_other_place)
    if wrong and (wide := in_float32(case, wanted)) is not None and not differences(got, wide, free, is_other_place):
        return "ok"
    if not wrong and case.gauge is not None:
        found = [torch.from_numpy(np.array(g)) for g in got]
        wrong = differences([array_of(t, "output") for t in case.gauge(*found)], list(case.gauge(*wanted)))
    return wrong or "ok"


NARROW = (torch.float16, torch.bfloat16)


def in_float32(case: Case, wanted: list[Any]) -> list[Any] | None:
    """What torch computes in float32 of the same numbers, rounded to the types of ``wanted``; None where it computes nothing.

    Some of torch's kernels round to 16 bits after every operation: positions in an image, means of few elements.
    """
    if not any(t.dtype in NARROW for t in case.inputs):
        return None
    try:
        found = pytree.tree_leaves(case.module(*[t.float() if t.dtype in NARROW else t.clone() for t in case.inputs]))
    except RuntimeError:  # of operands of two types, where a model names one itself
        return None
    found = [f for f in found if f is not None]
    return [f.to(w.dtype) if isinstance(w, torch.Tensor) else f for f, w in zip(found, wanted, strict=True)]


def differences(
    got: list[np.ndarray], wanted: list[Any], is_free: bool = False, excused: Callable[[np.ndarray, Any], bool] | None = None,
    tolerance: float | None = None,
) -> str:
    """`difference` of the first output that has one, but for those that ``excused`` takes for equal."""
    for number, (found, expected) in enumerate(zip(got, wanted, strict=True)):
        wrong = difference(found, expected, is_free, tolerance)
        if wrong and not (excused is not None and excused(found, expected)):
            return f"output {number}: {wrong}"
    return ""


def run(module: Any, inputs: tuple[torch.Tensor, ...], *, compiled: bool) -> list[np.ndarray]:
    """The outputs."""
    arrays = [array_of(t, "input") for t in inputs]
    if not compiled:
        from forge.ir.functions.reference import Reference

        return as_list(Reference(module)(*arrays))
    runtime = compile_module(module, check_options(opt_level=3), use_cache=False).runtime()
    call = runtime.session() if module.main.states else runtime
    return as_list(call(*arrays))


def as_list(found: Any) -> list[np.ndarray]:
    return list(found) if isinstance(found, list | tuple) else [found]


def is_free(exported: torch.export.ExportedProgram) -> bool:
    """Whether values are drawn, or those of memory that nothing wrote: only types and shapes are to be compared."""
    targets = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    random = [t for t in targets if torch.Tag.nondeterministic_seeded in getattr(t, "tags", ())]
    return bool(random) or any("empty" in str(t) for t in targets)


PLACES = frozenset(("sort", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian"))
"""Operators that say where elements are; of equal ones, any."""


def axis_of_places(exported: torch.export.ExportedProgram) -> int | None:
    """The axis along which the only operator of a program says where elements are; None where it is another one."""
    calls = [n for n in exported.graph.nodes if n.op == "call_function" and hasattr(n.target, "_schema")]
    if len(calls) != 1 or calls[0].target._opname not in PLACES:
        return None
    names = [a.name for a in calls[0].target._schema.arguments]
    given = {**dict(zip(names, calls[0].args)), **calls[0].kwargs}
    return int(given.get("dim", -1))


def same_elements(x: torch.Tensor, axis: int, got: Any, expected: Any) -> bool:
    """Whether two tensors of places name equal elements of ``x``."""
    found = torch.from_numpy(np.asarray(got))
    if found.dtype is not torch.int64 or found.shape != expected.shape or expected.dtype is not torch.int64 or not x.dim():
        return False
    places = [p if p.dim() == x.dim() else p.unsqueeze(axis) for p in (found, expected)]
    if found.numel() and not 0 <= int(found.min()) <= int(found.max()) < x.shape[axis]:
        return False
    a, b = (torch.gather(x, axis, p) for p in places)
    return bool(torch.all((a == b) | ((a != a) & (b != b))))


def difference(got: Any, expected: Any, is_free: bool = False, of_floats: float | None = None) -> str:
    """Empty where the values agree, or their types and shapes if values are free; ``of_floats`` in the place of `TOLERANCES`."""
    wanted = array_of(expected, "output") if isinstance(expected, torch.Tensor) else np.asarray(expected)
    found = np.asarray(got)
    if isinstance(expected, torch.Tensor) and (found.dtype != wanted.dtype or found.shape != wanted.shape):
        return f"got {found.dtype}{list(found.shape)}; expected {wanted.dtype}{list(wanted.shape)}"
    if is_free:
        return ""
    tolerance = TOLERANCES.get(wanted.dtype.name, 0.0)
    tolerance = of_floats if tolerance and of_floats is not None else tolerance
    if not tolerance:
        return "" if np.array_equal(found, wanted) else f"{np.sum(found != wanted)} of {wanted.size} elements differ"
    wide = np.complex128 if np.iscomplexobj(wanted) else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max()) if finite.any() else 0.0
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * (np.abs(b) + min(scale, 1.0) + (scale if math.isfinite(scale) else 0.0))
    equal = np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))
    return "" if equal.all() else f"{np.sum(~equal)} of {wanted.size} elements differ, e.g. {a[~equal][0]} for {b[~equal][0]}"
