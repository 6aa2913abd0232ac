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
from enum import Enum, Flag, auto
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypedDict, TypeVar, Unpack, get_args, overload

import numpy as np

import forge
from forge import dtypes
from forge.dims import Dim
from forge.errors import InvalidGraphError, TypeInferenceError
from forge.ir import attributes
from forge.ir.batch import UNDECLARED, Batch, MixesBatch
from forge.ir.types import TensorType, Type

if TYPE_CHECKING:
    from forge.ir.graph import Graph
    from forge.ir.nodes import Node, Value

Range = tuple[Dim, Dim]  # the least and the greatest element of an integer tensor, as far as it is known

class Trait(Flag):
    """Facts about an operator that passes obey. An operator without RANDOM, STATEFUL and MAY_FAIL is pure."""

    NONE = 0
    RANDOM = auto()  # results differ between evaluations: never folded, never merged; removable
    STATEFUL = auto()  # reads or writes state: keeps its order, never removed
    MAY_FAIL = auto()  # may raise an error for some operand values: never moved out of a region
    COMMUTATIVE = auto()  # operands 0 and 1 may be swapped
    HOST = auto()  # works on sequences or optionals, which are not arrays: its results are not constants


_IMPURE = Trait.RANDOM | Trait.STATEFUL | Trait.MAY_FAIL


class Accuracy(Flag):
    """From which every test takes its tolerance."""

    EXACT = auto()  # bitwise equal (moves, integers, comparisons)
    ROUNDING = auto()  # every element is a few roundings away (element-wise floating point)
    ACCUMULATING = auto()  # a sum of many products; the order of summation differs


class Kind(Enum):
    """How an operator takes part in fusion, in the order of growing difficulty."""

    ELEMENTWISE = "elementwise"  # out[i] depends on in[i] only (with broadcasting): fuses before and after anchors
    INJECTIVE = "injective"  # each output element reads one element of each operand, anywhere: fuses as prologue
    REDUCTION = "reduction"  # lowers to a compute with a Reduce at its top
    ANCHOR = "anchor"  # a kernel family, or several stages
    OPAQUE = "opaque"  # never fused


class Precision(Enum):
    """What an operator does where float32 is replaced with a narrow type (float16 or bfloat16)."""

    NARROWS = "narrows"  # computes in the narrow type, and accumulates in float32
    FOLLOWS = "follows"  # computes in the narrow type where all its computed operands have it
    FOLLOWS_IN_RANGE = "follows in range"  # so, if the type has the range of float32: intermediate values may be large
    NARROW_WEIGHTS = "narrow weights"  # computes in float32, but operands 1 and 2, its weights, may be bfloat16
    WIDE = "wide"  # reads float32
    SENSITIVE = "sensitive"  # reads float32, and magnifies errors of it: contractions that lead there store float32


class Category(Enum):
    """What a picture of a graph shows an operator as."""

    CONTRACTION = "contraction"
    ACTIVATION = "activation"
    NORMALIZATION = "normalization"
    REDUCTION = "reduction"
    ARITHMETIC = "arithmetic"
    MOVEMENT = "movement"
    QUANTIZATION = "quantization"
    CONTROL = "control"
    OTHER = "other"


_CATEGORY_OF_KIND = {
    Kind.ELEMENTWISE: Category.ARITHMETIC, Kind.INJECTIVE: Category.MOVEMENT, Kind.REDUCTION: Category.REDUCTION,
}


A = TypeVar("A")
T = TypeVar("T")
V = TypeVar("V", covariant=True)


class Accepted(TypedDict, total=False):
    """What the values of an operand must be, besides tensors of known rank."""

    doc: str
    holds: str
    accepts: str
    rank: int | tuple[int, ...]
    min_rank: int
    single: bool
    any_type: bool


class Operand(Generic[V]):
    """One formal operand, declared in the body of an operator's class: ``data = Operand(accepts="float", rank=4)``.

    ``variadic`` stands for any number (at the end of the list); ``optional`` may be absent (None). Values are tensors of known
    rank, unless ``any_type``. ``accepts``: their element types, a class of ``dtypes.CLASSES`` or one type; ``rank``: one or
    several, ``min_rank``: the smallest; ``single``: they have one element. ``holds``: "integers" (a vector of a length that is
    known when compiling, or a scalar) or "integer" (one element) for what an attribute could say as well. Read from an operator
    bound to a node (``OpDef.of``), it is the value there: a Value, a Value or None, or a tuple of values.
    """

    @overload
    def __init__(self: Operand[Value], name: str = "", **accepted: Unpack[Accepted]) -> None: ...
    @overload
    def __init__(
        self: Operand[Value | None], name: str = "", *, optional: Literal[True], **accepted: Unpack[Accepted]
    ) -> None: ...
    @overload
    def __init__(
        self: Operand[tuple[Value, ...]], name: str = "", *, variadic: Literal[True], **accepted: Unpack[Accepted]
    ) -> None: ...

    def __init__(
        self, name: str = "", *, optional: bool = False, variadic: bool = False, **accepted: Unpack[Accepted]
    ) -> None:
        self.name, self.optional, self.variadic, self.doc = name, optional, variadic, accepted.get("doc", "")
        self.holds, self.accepts = accepted.get("holds", ""), accepted.get("accepts", "")
        self._dtypes = dtypes.members(self.accepts) if self.accepts else frozenset()
        rank = accepted.get("rank", ())
        self.ranks = (rank,) if isinstance(rank, int) else rank
        self.min_rank, self.single = accepted.get("min_rank", 0), accepted.get("single", False)
        self.any_type = accepted.get("any_type", False)

    def check(self, op: str, type_: Type) -> None:
        """Raises TypeInferenceError where a value of ``type_`` is not accepted."""
        if self.any_type:
            return
        operand = f"{op}: operand {self.name!r}"
        if self.holds and not self._holds(type_):
            wanted = "one integer" if self.holds == "integer" else "a vector of integers, of a length known when compiling"
            raise TypeInferenceError(f"{operand}; got {type_}; expected {wanted}")
        if not isinstance(type_, TensorType):
            raise TypeInferenceError(f"{operand}; got {type_}; expected a tensor of known rank")
        if self.accepts and type_.dtype not in self._dtypes:
            raise TypeInferenceError(f"{operand} has the wrong element type; got {type_.dtype}; expected {self.accepts}")
        rank = len(type_.shape)
        if rank < self.min_rank:
            raise TypeInferenceError(f"{op}: rank of {self.name}; got {rank}; expected at least {self.min_rank}")
        if self.ranks and rank not in self.ranks:
            wanted = " or ".join(map(str, self.ranks))
            raise TypeInferenceError(f"{operand} has the wrong rank; got {type_} (rank {rank}); expected rank {wanted}")
        if self.single and type_.size != 1:
            raise TypeInferenceError(f"{operand}; got {type_}; expected one element")

    def _holds(self, type_: Type) -> bool:
        if not isinstance(type_, TensorType) or not dtypes.is_integer(type_.dtype) or not type_.is_static:
            return False
        return type_.size == 1 if self.holds == "integer" else type_.rank <= 1

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, bound: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, bound: OpDef[Any], owner: type[Any]) -> V: ...

    def __get__(self, bound: OpDef[Any] | None, owner: type[Any]) -> Any:
        if bound is None:
            return self
        position, values = bound.operands.index(self), bound.node.operands
        if self.variadic:
            return tuple(values[position:])
        return values[position] if position < len(values) else None

    def __repr__(self) -> str:
        return f"Operand({self.name!r})"


@dataclass(frozen=True)
class NoAttrs:
    """Attributes of an operator that has none."""


ReferenceValue = Any  # np.ndarray; a list for sequences; None for an empty optional
RegionRunner = Callable[["Graph", Sequence[ReferenceValue]], list[ReferenceValue]]


class OpDef(Generic[A]):
    """Declaration and meaning of one operator. One stateless instance exists per operator.

    Subclasses set the class variables and declare their operands, in order, after those of their base. ``Attrs`` is the frozen
    dataclass in ``OpDef[...]``, whose fields, in order and with their defaults, are the attributes; ``forge.ir.attributes``
    documents the annotations and checks values against them. What has no class body sets ``operands`` and ``Attrs`` itself.

    Methods take what they are computed from first (``attrs``, ``results``, a builder ...), then the operands by position, in the
    order of their declaration: ``def infer(self, attrs: XAttrs, data: Value, bias: Value | None)``. An optional operand that is
    absent is None; a variadic one is ``*values``. Callers write ``op.infer(attrs, *op.arguments(operands))``.

    ``Conv2D.of(node)`` is the operator bound to a node: ``conv.data``, ``conv.attrs.strides``, ``conv.result``.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[Operand[Any], ...]] = ()
    Attrs: ClassVar[type[Any]] = NoAttrs
    regions: ClassVar[tuple[str, ...]] = ()  # names of its regions
    traits: ClassVar[Trait] = Trait.NONE
    accuracy: ClassVar[Accuracy] = Accuracy.EXACT
    kind: ClassVar[Kind] = Kind.OPAQUE
    is_identity: ClassVar[bool] = False  # the result is operand 0, which may be of any type
    is_view: ClassVar[bool] = False  # the result is operand 0 in another shape
    checks_elements: ClassVar[bool] = False  # the result is operand 0, whose elements are checked when the model runs
    target_shape: ClassVar[str] = ""  # the attribute that is the shape of the result, where there is one
    host_routine: ClassVar[str | None] = None  # what runs it in the runtime (``codegen.control.KINDS``); None: compiled code
    destination_passing: ClassVar[bool] = False  # the host writes its results into memory that the plan gives it
    is_selection: ClassVar[bool] = False  # the result is made of elements of operand 0, chosen by their places or as the largest
    is_average: ClassVar[bool] = False  # the result is made of means of elements of operand 0
    is_pool: ClassVar[bool] = False  # each channel of the result is made of that of operand 0; ``layout`` says where channels lie
    is_clamp: ClassVar[bool] = False  # the result is operand 0, limited to a range
    keeps_ratios: ClassVar[bool] = False  # a positive factor of operand 0 is one of the result
    is_permutation: ClassVar[bool] = False  # the result is operand 0 with its axes in another order, which ``axes`` gives
    is_transposition: ClassVar[bool] = False  # neighbours along the last axis of the result need not be neighbours in operand 0
    unpacks: ClassVar[bool] = False  # may give numbers of few bits more of them: of weights only when they are compiled
    says_place: ClassVar[bool] = False  # its kernel reports errors that say where in the model the node is
    is_strided: ClassVar[bool] = False  # kernels that take any strides, or copy what they read, can read through it
    read_once: ClassVar[tuple[str, ...]] = ()  # operands of which each element is read once; see ``reads_once``
    works_in_rows: ClassVar[bool] = False  # its kernel reads vectors of neighbours, and writes them, in the same order
    neutral_operand: ClassVar[float | None] = None  # of two operands, one that consists of this number leaves the other as it is
    picks: ClassVar[str] = ""  # the operand that says for many elements of the result which one of operand 0 each is
    node: Node  # of a bound operator

    def __init_subclass__(cls) -> None:
        declared = {name: o for base in reversed(cls.__mro__) for name, o in vars(base).items() if isinstance(o, Operand)}
        if declared and "operands" not in vars(cls):
            cls.operands = tuple(declared.values())
        records = [a for base in vars(cls).get("__orig_bases__", ()) for a in get_args(base) if dataclasses.is_dataclass(a)]
        if records and "Attrs" not in vars(cls):
            cls.Attrs = records[0]  # type: ignore[assignment]

    @classmethod
    def of(cls, node: Node | None) -> Self | None:
        """The operator bound to ``node``; None where that has an operator of another class."""
        return node.op_def.bind(node) if node is not None and isinstance(node.op_def, cls) else None

    def bind(self, node: Node) -> Self:
        """This operator with the operands, attributes and results of ``node``, as they are when they are read."""
        bound = self.__class__()
        bound.node = node
        return bound

    @property
    def attrs(self) -> A:
        attrs: A = self.node.attrs
        return attrs

    @property
    def result(self) -> Value:
        return self.node.result

    @property
    def results(self) -> list[Value]:
        return self.node.results

    def accuracy_on(self, dtype: str) -> Accuracy:
        """How exact results are for operands of this element type."""
        return self.accuracy

    def arguments(self, operands: Sequence[T | None]) -> Sequence[T | None]:
        """``operands`` as the methods below take them, by position: None for each that is left out at the end."""
        return operands if len(operands) >= self._arity else [*operands, *[None] * (self._arity - len(operands))]

    @cached_property
    def _arity(self) -> int:
        return sum(not o.variadic for o in self.operands)

    def infer(self, *args: Any, **kwargs: Any) -> Sequence[Type]:
        """``infer(attrs, *operands)``: types of the results; by default that of the first operand.

        Operands are values that fit their declarations. Regions are given to an operator that has some: ``infer(attrs, regions,
        *operands)``.

        Raises:
            TypeInferenceError: the operands or attributes do not fit; the message says which, got and expected.
        """
        return [args[1].type]

    def reference(self, *args: Any, **kwargs: Any) -> Sequence[ReferenceValue]:
        """``reference(attrs, *operands)``: the NumPy meaning, slow and obvious. Never on the compiled path.

        Dimensions in ``attrs`` are already integers.
        """
        raise NotImplementedError

    def reference_regions(self, *args: Any, **kwargs: Any) -> Sequence[ReferenceValue]:
        """``reference_regions(attrs, regions, run, *operands)``: of an operator with regions; ``run`` evaluates one."""
        raise NotImplementedError

    def evaluate_dims(self, *args: Any, **kwargs: Any) -> np.ndarray | None:
        """``evaluate_dims(attrs, types, *operands)``: the result as an array (dtype object) of dimensions.

        For operators that occur in shape arithmetic. Operands are arrays of dimensions, None where the contents are unknown;
        ``types`` are theirs. None: not computable.
        """
        return None

    def carry_batch(self, *args: Any, **kwargs: Any) -> Sequence[Batch | None]:
        """``carry_batch(attrs, results, batches, *operands)``: where the elements of a batch are in the results.

        ``results`` are the types of these, ``batches`` where the elements are in the operands, which are values. None stands
        for what does not depend on an element. Each element of the batch must be computed from that element alone.

        Raises:
            MixesBatch: it is not; or, as here, the operator does not declare it.
        """
        raise MixesBatch(UNDECLARED, certain=False)

    def element_range(self, *args: Any, **kwargs: Any) -> Sequence[Range | None]:
        """``element_range(attrs, results, ranges, *operands)``: what is known of the integers in the results.

        ``results`` are their types, ``ranges`` those of the operands, which are values: see ``forge.ops.core.ranges``.
        """
        keeps = self.is_view or self.is_permutation or self.is_selection or self.is_identity
        return [args[2][0] if keeps and not k else None for k in range(len(args[1]))]

    @cached_property
    def is_pure(self) -> bool:
        return not self.traits & _IMPURE

    @cached_property
    def commutes(self) -> bool:
        """Whether operands 0 and 1 may be swapped."""
        return bool(self.traits & Trait.COMMUTATIVE)

    @cached_property
    def is_map(self) -> bool:
        """Whether the operands broadcast against each other as in NumPy, and each element of the result depends on theirs."""
        return self.kind is Kind.ELEMENTWISE

    def rounds_data(self, attrs: A) -> bool:
        """Whether it rounds the real numbers that it multiplies to integers itself, and sums integers."""
        return False

    def reads_once(self, position: int) -> bool:
        """Whether each element of the operand is read once, so that computing it where it is read repeats no work."""
        formal = self.operands[min(position, len(self.operands) - 1)]
        return self.kind in (Kind.ELEMENTWISE, Kind.INJECTIVE) or formal.name in self.read_once

    def picks_by(self, position: int) -> bool:
        """Whether the operand says which elements of operand 0 are read."""
        return self.operands[min(position, len(self.operands) - 1)].name == self.picks

    @cached_property
    def precision(self) -> Precision:
        """What it does where float32 is replaced with a narrow type: what only moves or selects elements follows."""
        moves = self.accuracy is Accuracy.EXACT and self.kind in (Kind.ELEMENTWISE, Kind.INJECTIVE)
        return Precision.FOLLOWS if moves and not self.traits & Trait.RANDOM else Precision.WIDE

    @cached_property
    def category(self) -> Category:
        """What pictures show it as, by its kind; of the others, what computes no rounded numbers moves data."""
        if self.regions or self.traits & Trait.HOST:
            return Category.CONTROL
        if self.precision is Precision.NARROWS:
            return Category.CONTRACTION
        moves = self.accuracy is Accuracy.EXACT
        return _CATEGORY_OF_KIND.get(self.kind, Category.MOVEMENT if moves else Category.OTHER)

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
