"""Tensors of ``forge.nn``: values of a graph in the making, constants, and parameters of modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from forge import dtypes
from forge.dims import DimExpr
from forge.errors import InvalidGraphError, OptionError
from forge.ir.arrays import checked
from forge.ir.nodes import Value
from forge.ir.types import SequenceType, TensorType
from forge.nd import NDArray, viewed
from forge.nn.tracing import Context, tensor_type


def _functions() -> ModuleType:
    from forge.nn import op

    return op


class Tensor:
    """What an operation gives and takes: its shape and element type are known at once, its contents when the model runs.

    Methods of modules get tensors and make others of them. Constants are tensors, too; outside of an export, functions of
    constants are computed at once, so that ``nn.add(nn.Tensor.from_const([1, 2]), 3).numpy()`` is an array.

    Operators follow NumPy: ``+ - * / // % ** @``, comparisons but ``==`` (two tensors are equal if they are the same; `equal`
    compares elements), ``& | ^ ~`` of bools, unary ``-``, ``abs``, reads such as ``x[:, 0]``, ``x[..., None]`` and
    ``x[indices]``, and iteration along the first axis.

    ``type`` is the shape and element type, ``source`` the value of the graph that the tensor stands for (None for a constant, a
    parameter and a placeholder), and ``constant`` the array of a constant, else None.
    """

    type: TensorType
    source: Value | None = None
    constant: np.ndarray | None = None
    __array_ufunc__ = None
    """NumPy leaves operators whose first operand is an array to this class."""

    def __init__(self, *, _expr: Value | TensorType | np.ndarray) -> None:
        if isinstance(_expr, Value):
            self.source, self.type = _expr, _expr.tensor_type
        elif isinstance(_expr, TensorType):
            self.type = _expr
        else:
            self.constant = _expr
            self.type = TensorType(tuple(_expr.shape), dtypes.canonical(_expr.dtype))

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """A constant of the contents of an array, a tensor of another library, a number or nested lists.

        Raises:
            OptionError: it has no element type that Forge has.
        """
        if isinstance(data, Tensor):
            return data
        return Tensor(_expr=_array(data, "Tensor.from_const"))

    @staticmethod
    def from_scalar(data: float, dtype: str) -> Tensor:
        """A constant of rank 0.

        Raises:
            OptionError: it is not a number, or there is no such element type.
        """
        if not isinstance(data, bool | int | float | np.generic):
            raise OptionError(f"Tensor.from_scalar: got {type(data).__name__}; expected a number")
        what = "Tensor.from_scalar"
        return Tensor(_expr=_array(np.asarray(data, dtypes.numpy_dtype(_dtype(dtype, what))), what))

    @staticmethod
    def from_struct_info(struct_info: Any, name: str = "tensor") -> Tensor:
        """A placeholder of the shape and element type of ``struct_info``: anything with ``shape`` and ``dtype``."""
        return Tensor.placeholder(struct_info.shape, str(struct_info.dtype), name)

    @staticmethod
    def from_ty(ty: Any, name: str = "tensor") -> Tensor:
        """As `from_struct_info`."""
        return Tensor.from_struct_info(ty, name)

    @staticmethod
    def placeholder(shape: Sequence[int | str | DimExpr], dtype: str, name: str = "tensor") -> Tensor:
        """A tensor without contents, which says of what type results of external functions are; a text is the name of a size.

        Raises:
            OptionError: the shape or the element type is none.
        """
        return Tensor(_expr=tensor_type(shape, dtype, f"placeholder {name!r}"))

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes: numbers, and expressions of the names that a specification has."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def numpy(self) -> np.ndarray:
        """The contents of a constant.

        Raises:
            OptionError: they are known when the model runs.
        """
        if self.constant is None:
            raise OptionError(f"numpy: {self!r} has no contents before the model runs; expected a constant")
        return np.array(self.constant)

    def __repr__(self) -> str:
        if self.constant is not None and self.constant.size <= 100:
            return f"{type(self).__name__}({np.array2string(self.constant, separator=', ')}, dtype={self.dtype!r})"
        return f"{type(self).__name__}(shape=({', '.join(map(str, self.shape))}), dtype={self.dtype!r})"

    def __len__(self) -> int:
        if not self.shape or not isinstance(self.shape[0], int):
            raise TypeError(f"len: got {self!r}; expected a tensor whose first size is a number")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Of a constant of one element.

        Raises:
            OptionError: the contents are known when the model runs.
        """
        if self.constant is None:
            expected = "expected a constant; choose between tensors with where"
            raise OptionError(f"bool: {self!r} has no contents before the model runs; {expected}")
        return bool(self.constant)

    def __add__(self, other: Any) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _binary("divide", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _binary("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _binary("remainder", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _binary("power", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _binary("power", other, self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _binary("matmul", other, self)

    def __lt__(self, other: Any) -> Tensor:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _binary("greater_equal", self, other)

    def __and__(self, other: Any) -> Tensor:
        return _binary("logical_and", self, other)

    def __or__(self, other: Any) -> Tensor:
        return _binary("logical_or", self, other)

    def __xor__(self, other: Any) -> Tensor:
        return _binary("logical_xor", self, other)

    def __invert__(self) -> Tensor:
        return _functions().logical_not(self)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(_functions().unbind(self))

    def __neg__(self) -> Tensor:
        return _functions().negative(self)  # type: ignore[no-any-return]

    def __abs__(self) -> Tensor:
        return _functions().abs(self)  # type: ignore[no-any-return]

    def __getitem__(self, key: Any) -> Tensor:
        return _functions().getitem(self, key)  # type: ignore[no-any-return]

    def astype(self, dtype: str) -> Tensor:
        """The elements converted to ``dtype``."""
        return _functions().astype(self, dtype)  # type: ignore[no-any-return]

    def maximum(self, other: Any) -> Tensor:
        """The larger one of two elements each."""
        return _binary("maximum", self, other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller one of two elements each."""
        return _binary("minimum", self, other)

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape, ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
        return _functions().reshape(self, _listed(shape))  # type: ignore[no-any-return]

    def permute_dims(self, *axes: Any) -> Tensor:
        """The axes in another order, the reversed one by default."""
        return _functions().permute_dims(self, _listed(axes) or None)  # type: ignore[no-any-return]

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Each element ``repeats`` times, along ``axis`` or of the flat tensor."""
        return _functions().repeat(self, repeats, axis)  # type: ignore[no-any-return]


def _listed(numbers: tuple[Any, ...]) -> list[Any]:
    return list(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], list | tuple) else list(numbers)


def _binary(function: str, a: Any, b: Any) -> Tensor:
    from forge.nn.tracing import is_number

    if not all(isinstance(x, Tensor | np.ndarray | np.generic) or is_number(x) for x in (a, b)):
        return NotImplemented  # type: ignore[no-any-return]
    return getattr(_functions(), function)(a, b)  # type: ignore[no-any-return]


class Parameter(Tensor):
    """A weight of a module. It is bound if it has data, else unbound: then the caller of the model gives it.

    Args:
        shape: numbers, and names of sizes that a method's inputs share.
        dtype: by default that of `get_default_dtype`.

    Raises:
        OptionError: the shape or the element type is none.

    Attributes:
        attrs: anything that the user wants to remember.
    """

    def __init__(self, shape: Sequence[int | str | DimExpr], dtype: str | None = None) -> None:
        super().__init__(_expr=tensor_type(shape, dtype, "Parameter"))
        self.attrs: dict[str, Any] = {}
        self._data: np.ndarray | None = None

    @property
    def data(self) -> NDArray | None:
        """The contents, read-only; None if it is unbound."""
        return None if self._data is None else viewed(self._data)

    @data.setter
    def data(self, data: Any) -> None:
        """Takes an array or a tensor of another library over, without a copy where it can be used as it is.

        Raises:
            OptionError: the shape or the element type is another than declared.
        """
        if data is None:
            self._data = None
            return
        array = _array(data, "Parameter.data", copies=False)
        got = TensorType(tuple(array.shape), dtypes.canonical(array.dtype))
        fits = len(got.shape) == self.ndim and all(not isinstance(d, int) or d == n for d, n in zip(self.shape, got.shape))
        if not fits or got.dtype != self.dtype:
            raise OptionError(f"Parameter.data: got {got}; expected {self.type}")
        self._data = array

    def to(self, dtype: str | None = None) -> None:
        """Makes ``dtype`` the element type of an unbound parameter; None changes nothing.

        Raises:
            OptionError: it is bound, or there is no such element type.
        """
        if dtype is None or _dtype(dtype, "Parameter.to") == self.dtype:
            return
        if self._data is not None:
            raise OptionError(f"Parameter.to: got {dtype!r} for a parameter with data of {self.dtype}; convert the data")
        self.type = TensorType(self.shape, _dtype(dtype, "Parameter.to"))


class Object:
    """What is passed between methods and is not a tensor: a sequence of tensors, say.

    Attributes:
        name: of the input.
        source: the value of the graph.
    """

    def __init__(self, *, _expr: Value, _name: str) -> None:
        self.source = _expr
        self.name = _name

    @property
    def type(self) -> Any:
        return self.source.type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {self.type})"


def wrap_nested(expr: Value | Sequence[Any], name: str) -> Any:
    """Values of a graph as tensors called ``name``; sequences of values as tuples of them.

    Raises:
        OptionError: something is not a value of a graph.
    """
    if isinstance(expr, Value):
        if isinstance(expr.type, SequenceType):
            return Object(_expr=expr, _name=name)
        return Context(name).tensor(expr)
    if isinstance(expr, list | tuple):
        return tuple(wrap_nested(part, f"{name}.{k}") for k, part in enumerate(expr))
    raise OptionError(f"wrap_nested {name!r}: got {type(expr).__name__}; expected values of a graph")


def _dtype(dtype: str, what: str) -> str:
    try:
        return dtypes.canonical(dtype)
    except TypeError as error:
        raise OptionError(f"{what}: {error}") from error


def _array(data: Any, what: str, copies: bool = True) -> np.ndarray:
    from forge_runtime.arrays import as_array

    try:
        is_foreign = hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray)
        given = as_array(data, what) if is_foreign else np.asarray(data)
        return checked(given.copy() if copies and given.flags.writeable else given, what)
    except (InvalidGraphError, ValueError, TypeError) as error:
        raise OptionError(f"{what}: {error}") from error


__all__ = ["Object", "Parameter", "Tensor", "wrap_nested"]
