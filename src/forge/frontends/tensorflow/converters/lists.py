"""Lists of tensors of the same sizes: tensors whose first axis counts the elements.

A list without elements, of which the sizes of elements are not known, is a `PendingList` until one is set.
"""

from __future__ import annotations

from typing import Any

from forge import dims
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.control import allocated
from forge.frontends.tensorflow.registry import converts, takes_handles
from forge.frontends.tensorflow.resources import Operand, PendingList
from forge.ir.nodes import Value


def _shape(g: Context, value: Operand) -> tuple[int | Dim | None, ...] | None:
    """Sizes of elements; None where they, or their number, are not known."""
    known = g.dims(value) if isinstance(value, Value) else None
    if known is None or isinstance(value, Value) and value.rank == 0:
        return None
    return tuple(None if isinstance(size, int) and size < 0 else size for size in known)


def new_list(g: Context, count: Dim | Value, dtype: str, shape: tuple[Any, ...] | None) -> Operand:
    """A list: a tensor where the sizes of elements are known."""
    pending = PendingList(count, dtype, shape)
    return pending if shape is None or None in shape else allocated(g, pending, shape)


def count_of(g: Context, value: Operand) -> Dim | Value:
    """A number of elements: a size where it is known."""
    tensor = g.tensor(value)
    known = g.dims(tensor)
    return tensor if known is None else known[0]


@converts("TensorListReserve")
@takes_handles
def reserve(g: Context, shape: Operand, count: Operand, *, element_dtype: str, shape_type: str = "int32") -> Operand:
    return new_list(g, count_of(g, count), element_dtype, _shape(g, shape))


@converts("EmptyTensorList")
@takes_handles
def empty(g: Context, shape: Operand, limit: Operand, *, element_dtype: str, shape_type: str = "int32") -> Operand:
    return new_list(g, 0, element_dtype, _shape(g, shape))


@converts("TensorListFromTensor")
@takes_handles
def from_tensor(g: Context, x: Operand, shape: Operand, *, element_dtype: str = "", shape_type: str = "int32") -> Value:
    return g.tensor(x)


def whole_list(g: Context, value: Operand) -> Value:
    """A list that is read as a tensor."""
    if isinstance(value, PendingList):
        if value.shape is not None and None not in value.shape:
            return allocated(g, value, value.shape)
        raise g.unsupported("a list is read of which no element was set; expected elements whose sizes are known")
    return g.tensor(value)


def element(g: Context, data: Value, place: Value) -> Value:
    """An element of a list."""
    return g.call("take", data, g.reshape(g.cast(place, "int64"), ()), axis=0)


def with_element(g: Context, target: Operand, place: Value, item: Value) -> Value:
    """A list with ``item`` at a place."""
    data = allocated(g, target, item.shape) if isinstance(target, PendingList) else g.tensor(target)
    zeros = [g.constant(0, "int64")] * item.rank
    start = g.call("concatenate", *(g.reshape(v, (1,)) for v in (g.cast(place, "int64"), *zeros)), axis=0)
    return g.call("dynamic_update_slice", data, g.call("expand_dims", item, axis=0), start)


@converts("TensorListGetItem")
@takes_handles
def get_item(g: Context, data: Operand, index: Operand, shape: Operand, *, element_dtype: str = "") -> Value:
    if isinstance(data, PendingList):
        sizes = _shape(g, shape)
        if sizes is None or None in sizes:
            return element(g, whole_list(g, data), g.tensor(index))
        return element(g, allocated(g, data, sizes), g.tensor(index))
    return element(g, g.tensor(data), g.tensor(index))


@converts("TensorListSetItem")
@takes_handles
def set_item(
    g: Context, data: Operand, index: Operand, item: Operand, *, element_dtype: str = "",
    resize_if_index_out_of_bounds: bool = False,
) -> Value:
    place, value = g.tensor(index), g.tensor(item)
    return with_element(g, grown(g, data, place, value) if resize_if_index_out_of_bounds else data, place, value)


def grown(g: Context, target: Operand, place: Value, item: Value) -> Value:
    """A list with zeros at its end, where it is too short to have an element at a place."""
    data = allocated(g, target, item.shape) if isinstance(target, PendingList) else g.tensor(target)
    known = g.dims(place)
    if known is not None and dims.is_static(known[0], data.shape[0]):
        missing: Dim | Value = max(0, int(known[0]) + 1 - int(data.shape[0]))  # type: ignore[arg-type]
        if missing == 0:
            return data
    else:
        end = g.call("add", g.reshape(g.cast(place, "int64"), ()), g.constant(1, "int64"))
        missing = g.call("maximum", g.call("subtract", end, g.size(data.shape[0])), g.constant(0, "int64"))
    return g.call("concatenate", data, allocated(g, PendingList(missing, data.dtype), data.shape[1:]), axis=0)


@converts("TensorListLength")
@takes_handles
def length(g: Context, data: Operand) -> Value:
    """How many elements a list has."""
    if isinstance(data, PendingList):
        return g.cast(data.count, "int32") if isinstance(data.count, Value) else g.cast(g.size(data.count), "int32")
    return g.cast(g.size(g.tensor(data).shape[0]), "int32")


@converts("TensorListElementShape")
@takes_handles
def element_shape(g: Context, data: Operand, *, shape_type: str = "int32") -> Value:
    return g.cast(g.vector(whole_list(g, data).shape[1:]), shape_type)


@converts("TensorListStack")
@takes_handles
def stack(g: Context, data: Operand, shape: Operand, *, element_dtype: str = "", num_elements: int = -1) -> Value:
    if isinstance(data, PendingList) and (sizes := _shape(g, shape)) is not None and None not in sizes:
        return allocated(g, data, sizes)
    return whole_list(g, data)


@converts("TensorListGather")
@takes_handles
def gather(g: Context, data: Operand, indices: Operand, shape: Operand, *, element_dtype: str = "") -> Value:
    return g.call("take", whole_list(g, data), g.tensor(indices), axis=0)


@converts("TensorListScatter", "TensorListScatterV2")
@takes_handles
def scatter(
    g: Context, x: Operand, indices: Operand, shape: Operand, count: Operand | None = None, *, element_dtype: str = "",
    shape_type: str = "int32",
) -> Value:
    items, places = g.tensor(x), g.tensor(indices)
    number = None if count is None else g.dims(g.tensor(count))
    size: Any = number[0] if number is not None and number[0] != -1 else None
    if size is None:
        known = g.ints(places)
        if known is None:
            raise g.unsupported("the number of elements is computed at run time; expected a known one")
        size = max(known, default=-1) + 1
    return scattered(g, PendingList(size, items.dtype), places, items)


def scattered(g: Context, target: Operand, places: Value, items: Value) -> Value:
    """A list with items at places."""
    data = allocated(g, target, items.shape[1:]) if isinstance(target, PendingList) else g.tensor(target)
    return g.call("scatter_nd", data, g.reshape(g.cast(places, "int64"), (1, *places.shape)), items)


@converts("TensorListScatterIntoExistingList")
@takes_handles
def scatter_into(g: Context, data: Operand, x: Operand, indices: Operand, *, element_dtype: str = "") -> Value:
    return scattered(g, data, g.tensor(indices), g.tensor(x))


@converts("TensorListPushBack")
@takes_handles
def push_back(g: Context, data: Operand, item: Operand, *, element_dtype: str = "") -> Value:
    row = g.call("expand_dims", g.tensor(item), axis=0)
    if isinstance(data, PendingList) and data.count == 0:
        return row
    return g.call("concatenate", whole_list(g, data), row, axis=0)


@converts("TensorListPopBack", outputs="output_handle tensor")
@takes_handles
def pop_back(g: Context, data: Operand, shape: Operand, *, element_dtype: str = "") -> list[Value]:
    whole = whole_list(g, data)
    size = whole.shape[0]
    rest, last = g.multi("split", whole, indices_or_sections=(size - 1,), axis=0)
    return [rest, g.call("squeeze", last, axis=(0,))]


@converts("TensorListResize")
@takes_handles
def resize(g: Context, data: Operand, count: Operand) -> Operand:
    wanted = count_of(g, count)
    if isinstance(data, PendingList):
        return PendingList(wanted, data.dtype, data.shape)
    whole = g.tensor(data)
    if isinstance(wanted, Value) or not isinstance(whole.shape[0], int) or not isinstance(wanted, int):
        raise g.unsupported("the number of elements is computed at run time; expected a known one")
    if wanted <= whole.shape[0]:
        return g.call("strided_slice", whole, begin=(0,), end=(wanted,), strides=(1,), axes=(0,))
    rest = allocated(g, PendingList(wanted - whole.shape[0], whole.dtype), whole.shape[1:])
    return g.call("concatenate", whole, rest, axis=0)


@converts("TensorListConcat", "TensorListConcatV2", outputs="tensor lengths")
@takes_handles
def concat(
    g: Context, data: Operand, shape: Operand | None = None, leading: Operand | None = None, *, element_dtype: str = "",
    element_shape: Any = None, shape_type: str = "int32",
) -> list[Value]:
    return joined(g, whole_list(g, data))


def joined(g: Context, whole: Value) -> list[Value]:
    """All elements put together along their first axis, and how long each is."""
    if whole.rank < 2:
        raise g.invalid(f"got elements of {whole.type}; expected axes to put together")
    flat = g.reshape(whole, (whole.shape[0] * whole.shape[1], *whole.shape[2:]))
    lengths = g.broadcast(g.reshape(g.size(whole.shape[1]), (1,)), (whole.shape[0],))
    return [flat, lengths]


@converts("TensorListConcatLists")
@takes_handles
def concat_lists(g: Context, a: Operand, b: Operand, *, element_dtype: str = "") -> Operand:
    present = [v for v in (a, b) if not (isinstance(v, PendingList) and v.count == 0)]
    if len(present) == 2:
        return g.call("concatenate", *(whole_list(g, v) for v in present), axis=0)
    return present[0] if present else a


@converts("TensorListSplit")
@takes_handles
def split(
    g: Context, x: Operand, shape: Operand, lengths: Operand, *, element_dtype: str = "", shape_type: str = "int32"
) -> Value:
    return parts_of(g, g.tensor(x), g.tensor(lengths))


def parts_of(g: Context, x: Value, lengths: Value) -> Value:
    """A list of parts of equal lengths."""
    known = g.ints(lengths)
    if not known or len(set(known)) != 1:
        raise g.unsupported("parts of different lengths, or of lengths that are computed at run time; expected equal ones")
    return g.reshape(x, (len(known), known[0], *x.shape[1:]))
