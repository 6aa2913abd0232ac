"""What the IR knows of an operator: its declaration and its meaning, and the registry of all of them.

``forge.ops`` derives from ``OpDef`` and adds the lowering. Everything generic (printing, parsing, hashing, CSE, folding,
interpretation, documentation, the test sweep) is derived from this declaration.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

import forge
from forge.errors import InvalidGraphError
from forge.ir import attributes
from forge.ir.batch import UNDECLARED, Batch, MixesBatch
from forge.ir.types import Type

if TYPE_CHECKING:
    from forge.ir.nodes import Graph, Value


class Trait(Flag):
    """Facts about an operator that passes obey. An operator without RANDOM, STATEFUL and MAY_FAIL is pure."""

    NONE = 0
    RANDOM = auto()  # results differ between evaluations: never folded, never merged; removable
    STATEFUL = auto()  # reads or writes state: keeps its order, never removed
    MAY_FAIL = auto()  # may raise an error for some operand values: never moved out of a region
    COMMUTATIVE = auto()  # operands 0 and 1 may be swapped
    HOST = auto()  # works on sequences or optionals, which are no arrays: its results are no constants


_IMPURE = Trait.RANDOM | Trait.STATEFUL | Trait.MAY_FAIL


class Accuracy(Flag):
    """From which every test takes its tolerance."""

    EXACT = auto()  # bitwise equal (moves, integers, comparisons)
    ROUNDING = auto()  # every element is a few roundings away (element-wise floating point)
    ACCUMULATING = auto()  # a sum of many products; the order of summation differs


@dataclass(frozen=True)
class Operand:
    """One formal operand. ``variadic`` stands for any number (at the end of the list); ``optional`` may be absent (None).

    ``holds``: "integers" (a vector of a length that is known when compiling, or a scalar) or "integer" (one element) for
    what an attribute could say as well; "" for everything else, which ``infer`` checks.
    """

    name: str
    optional: bool = False
    variadic: bool = False
    doc: str = ""
    holds: str = ""


@dataclass(frozen=True)
class NoAttrs:
    """Attributes of an operator that has none."""


A = TypeVar("A")
ReferenceValue = Any  # np.ndarray; a list for sequences; None for an empty optional
RegionRunner = Callable[["Graph", Sequence[ReferenceValue]], list[ReferenceValue]]


class OpDef(Generic[A]):
    """Declaration and meaning of one operator. One stateless instance exists per operator.

    Subclasses set the class variables; ``Attrs`` is a frozen dataclass whose fields, in order and with their defaults, are the
    attributes; ``forge.ir.attributes`` tells which annotations are allowed and checks values against them.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[Operand, ...]] = ()
    Attrs: ClassVar[type[Any]] = NoAttrs
    regions: ClassVar[tuple[str, ...]] = ()  # names of its regions
    traits: ClassVar[Trait] = Trait.NONE
    accuracy: ClassVar[Accuracy] = Accuracy.EXACT

    def accuracy_on(self, dtype: str) -> Accuracy:
        """How exact results are for operands of this element type."""
        return self.accuracy

    def infer(self, operands: Sequence[Value | None], attrs: A, regions: Sequence[Graph] = ()) -> Sequence[Type]:
        """Types of the results.

        Raises:
            TypeInferenceError: the operands or attributes do not fit; the message says which, got and expected.
        """
        raise NotImplementedError

    def reference(self, operands: Sequence[ReferenceValue], attrs: A) -> Sequence[ReferenceValue]:
        """The NumPy meaning: slow and obvious. Dimensions in ``attrs`` are already integers. Never on the compiled path."""
        raise NotImplementedError

    def reference_regions(
        self, operands: Sequence[ReferenceValue], attrs: A, regions: Sequence[Graph], run: RegionRunner
    ) -> Sequence[ReferenceValue]:
        """The meaning of an operator with regions; ``run`` evaluates one."""
        return self.reference(operands, attrs)

    def evaluate_dims(self, operands: Sequence[np.ndarray | None], attrs: A, types: Sequence[Type | None]) -> np.ndarray | None:
        """The result as an array (dtype object) of dimensions, for operators that occur in shape arithmetic.

        ``operands`` holds arrays of dimensions, None where the contents are unknown; ``types`` the operands' types.
        None: not computable.
        """
        return None

    def carry_batch(
        self, operands: Sequence[Value | None], attrs: A, results: Sequence[Type], batches: Sequence[Batch | None]
    ) -> Sequence[Batch | None]:
        """Where the elements of a batch are in the results, of the types ``results``, for where they are in the operands.

        None stands for what does not depend on an element. Each element of the batch must be computed from that element alone.

        Raises:
            MixesBatch: it is not; or, as here, the operator does not declare it.
        """
        raise MixesBatch(UNDECLARED, certain=False)

    @cached_property
    def is_pure(self) -> bool:
        return not self.traits & _IMPURE

    def attribute_fields(self) -> tuple[dataclasses.Field[Any], ...]:
        return dataclasses.fields(self.Attrs)

    def make_attrs(self, values: dict[str, Any]) -> A:
        """The attributes record; lists become tuples, integers become floats where floats are expected.

        Raises:
            TypeInferenceError: an unknown name, a missing one without default, or a value that does not fit its annotation.
        """
        record: A = attributes.build(self.name, self.Attrs, values)
        return record

    def __repr__(self) -> str:
        return f"<op {self.name}>"


REGISTRY: dict[str, OpDef[Any]] = {}
_MODULES: dict[str, str] = {}  # the module that registers an operator when it is first used


def register(op: OpDef[Any]) -> OpDef[Any]:
    """Adds an operator; the name must be new."""
    if op.name in REGISTRY:
        raise ValueError(f"operator {op.name!r} is registered already")
    REGISTRY[op.name] = op
    return op


def register_lazily(operators: Mapping[str, Iterable[str]]) -> None:
    """Declares operators by the module that registers them; it is imported when one of them is first used."""
    _MODULES.update((name, module) for module, names in operators.items() for name in names)


def is_operator(name: str) -> bool:
    """Whether an operator is called ``name``."""
    return name in REGISTRY or name in _names()


def get_op(name: str) -> OpDef[Any]:
    """The operator called ``name``.

    Raises:
        InvalidGraphError: there is none; the message lists similar names.
    """
    if not is_operator(name):
        raise InvalidGraphError(unknown_operator(name))
    if name not in REGISTRY:
        importlib.import_module(_MODULES[name])
    return REGISTRY[name]


def unknown_operator(name: str) -> str:
    """Error text for an unknown operator name."""
    near = difflib.get_close_matches(name, _names(), 3)
    return f"unknown operator {name!r}" + (f"; did you mean {' or '.join(near)}" if near else "")


def all_ops() -> Iterator[OpDef[Any]]:
    """Every operator, in order of registration; loads all of them."""
    for name in _names():
        get_op(name)
    yield from list(REGISTRY.values())


@cache
def _load_libraries() -> None:
    """Imports ``forge.OPERATOR_LIBRARIES``: at the first question about an operator, so that importing the IR stays quick."""
    for library in forge.OPERATOR_LIBRARIES:
        importlib.import_module(library)


def _names() -> list[str]:
    _load_libraries()
    return [*REGISTRY, *(name for name in _MODULES if name not in REGISTRY)]
