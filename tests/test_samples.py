"""Samples of inputs from everything that users have, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.errors import InputError
from forge.samples import ROWS, Spec, samples

ONE: list[Spec] = [("x", "float32", ("batch", 3))]
FIXED: list[Spec] = [("x", "float32", (2, 3))]
TWO: list[Spec] = [("x", "float32", ("n", 3)), ("ids", "int32", ("n",))]

X = np.arange(6, dtype=np.float32).reshape(2, 3)
IDS = np.arange(2, dtype=np.int32)


def read(source: Any, specs: list[Spec] = ONE, **options: Any) -> list[dict[str, Any]]:
    return list(samples(source, specs, **options))


class Dataset:
    """As torch's: items by number, without a batch."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.items[number]


class Loader:
    """As torch's: batches in an iteration, and no items."""

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        return iter([[X, IDS], [X + 1, IDS]])

    def __len__(self) -> int:
        return 2


class Tensor:
    """As torch's."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


@pytest.mark.parametrize(("source", "shapes"), [
    (X, [(2, 3)]), (X[0], [(1, 3)]), (np.stack([X, X, X]), [(2, 3)] * 3), ({"x": X}, [(2, 3)]), ((X,), [(2, 3)]),
    ([X, X], [(2, 3)] * 2), ([{"x": X}], [(2, 3)]), ([(X, 7)], [(2, 3)]), ((array for array in (X, X)), [(2, 3)] * 2),
    (Dataset([(X[0], 1), (X[1], 0)]), [(1, 3)] * 2),
    (Loader(), [(2, 3)] * 2), (Tensor(X), [(2, 3)]), ([Tensor(X)], [(2, 3)]), (Dataset([{"x": X}]), [(2, 3)]),
], ids=["array", "row", "stacked", "dictionary", "tuple", "list", "dictionaries", "labelled", "generator", "data set", "loader",
        "tensor", "tensors", "data set of dictionaries"])
def test_sources_of_one_input(source: Any, shapes: list[tuple[int, ...]]) -> None:
    assert [s["x"].shape for s in read(source)] == shapes
    assert all(s["x"].dtype == np.float32 for s in read([X]))


def test_arrays_are_given_in_their_order() -> None:
    stacked = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    assert [s["x"].tolist() for s in read(stacked)] == stacked.tolist()


@pytest.mark.parametrize("source", [
    (X, IDS), {"x": X, "ids": IDS}, [(X, IDS)], [{"ids": IDS, "x": X}], Loader(), Dataset([(X, IDS)]),
], ids=["tuple", "dictionary", "tuples", "dictionaries", "loader", "data set"])
def test_sources_of_two_inputs(source: Any) -> None:
    first = read(source, TWO)[0]
    assert list(first) == ["x", "ids"]
    np.testing.assert_array_equal(first["x"], X)
    np.testing.assert_array_equal(first["ids"], IDS)


def test_a_multiple_of_a_fixed_batch_is_split() -> None:
    found = read(np.arange(18, dtype=np.float32).reshape(6, 3), FIXED)
    assert [s["x"][0, 0] for s in found] == [0, 6, 12]


def test_a_long_batch_of_any_size_is_given_in_parts() -> None:
    found = read(np.zeros((2 * ROWS + 1, 3), np.float32))
    assert [len(s["x"]) for s in found] == [ROWS, ROWS, 1]


def test_what_is_no_batch_is_given_whole() -> None:
    square: list[Spec] = [("x", "float32", ("n", "n"))]
    assert len(read(np.zeros((40, 40), np.float32), square)) == 1
    assert len(read(np.zeros(40, np.float32), [("x", "float32", ("n",))])) == 1


def test_an_input_without_samples_goes_with_all() -> None:
    specs: list[Spec] = [("x", "float32", (1, 3)), ("mask", "float32", (3,))]
    found = read({"x": np.zeros((4, 1, 3), np.float32), "mask": np.ones(3, np.float32)}, specs)
    assert len(found) == 4
    assert all(s["mask"].shape == (3,) for s in found)


def test_files_and_folders(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "both.npz", x=X, ids=IDS)
    assert len(read(tmp_path / "x.npy")) == 1
    assert list(read(str(tmp_path / "both.npz"), TWO)[0]) == ["x", "ids"]
    folder = tmp_path / "samples"
    folder.mkdir()
    for k in range(3):
        np.save(folder / f"{k}.npy", X + k)
    assert [s["x"][0, 0] for s in read(folder)] == [0, 1, 2]


def test_a_folder_with_a_file_for_each_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "ids.npy", IDS)
    assert len(read(tmp_path, TWO)) == 1


@pytest.mark.parametrize(("given", "wanted"), [
    ("float64", "float32"), ("float32", "float64"), ("int64", "int32"), ("bool", "int8"), ("uint8", "float32"),
    ("float32", "bfloat16"), ("float32", "complex64"),
])
def test_element_types_are_converted(given: str, wanted: str) -> None:
    found = read(np.array([1, 0], given), [("x", wanted, (2,))])[0]["x"]
    assert found.dtype.name == wanted
    assert found.tolist() == [1, 0]


def test_sizes_are_checked_across_inputs_and_expressions() -> None:
    n = dims.symbol("n")
    specs: list[Spec] = [("x", "float32", (n,)), ("y", "float32", (2 * n,)), ("z", "float32", (None,))]
    sample = {"x": np.zeros(3, "f"), "y": np.zeros(6, "f"), "z": np.zeros(5, "f")}
    assert len(read(sample, specs)) == 1
    with pytest.raises(InputError, match=r"input 'y': sample 0: got shape \(5,\); expected \(2\*n,\)"):
        read({**sample, "y": np.zeros(5, "f")}, specs)


WRONG: dict[str, tuple[Any, list[Spec], str]] = {
    "NaN": (np.array([[0, np.nan, 0]], "f"), ONE, r"data: input 'x': sample 0: got nan at \(0, 1\); expected finite numbers"),
    "infinity": ([X, np.full((2, 3), np.inf, "f")], ONE, r"input 'x': sample 1: got .* at"),
    "too large": (np.full((1, 3), 1e300), ONE, r"got 1e\+300 at \(0, 0\); expected finite numbers of float32"),
    "rank": (np.zeros((1, 1, 1, 3), "f"), ONE, r"input 'x': sample 0: got shape \(1, 1, 1, 3\); expected \(batch, 3\)"),
    "size": (np.zeros((2, 4), "f"), ONE, r"got shape \(2, 4\); expected \(batch, 3\), or samples of that shape"),
    "no multiple": (np.zeros((3, 3), "f"), FIXED, r"got shape \(3, 3\); expected \(2, 3\)"),
    "float to int": ((X, IDS + 0.5), TWO, "input 'ids': sample 0: got float64; expected int32"),
    "large int": ((X, IDS + np.int64(2**40)), TWO, "input 'ids': sample 0: got int64; expected int32"),
    "int to bool": (np.ones(2, int), [("x", "bool", (2,))], "got int64; expected bool"),
    "complex to float": (X + 1j, ONE, "got complex64; expected float32"),
    "text": (np.array([["a", "b", "c"]]), ONE, "got string; expected float32"),
    "missing": ({"x": X}, TWO, "input 'ids' is missing; got x; expected x, ids"),
    "unknown": ({"x": X, "y": X}, ONE, "'y' is not an input of the model; expected x"),
    "too few": ((X,), TWO, "sample 0: got 1 arrays; expected 2 arrays: x, ids"),
    "one for two": ([X, X], TWO, "sample 0: got ndarray; expected a tuple of 2 arrays, or arrays by name: x, ids"),
    "counts": ({"x": np.zeros((4, 2, 3), "f"), "ids": np.zeros((3, 2), "i")}, TWO, "'ids': got 3 samples; expected 4, as 'x'"),
    "empty list": ([], ONE, "data: got no sample; expected one or more, for x"),
    "empty stack": (np.zeros((0, 1, 3), "f"), ONE, "got no sample"),
    "no source": (7, ONE, "got int; expected arrays"),
    "no array": ([[object()]], ONE, "input 'x'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_data_are_refused_by_name(case: str) -> None:
    source, specs, message = WRONG[case]
    with np.errstate(all="ignore"), pytest.raises(InputError, match=message) as error:
        read(source, specs)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(("name", "message"), [
    ("none.npy", "no such file"), ("bad.npy", "no array file"), ("bad.npz", "no array file"), ("objects.npy", "no array file"),
    ("empty", "got no .npy or .npz file"),
])
def test_wrong_files_are_refused_by_name(name: str, message: str, tmp_path: Path) -> None:
    for bad in ("bad.npy", "bad.npz"):
        (tmp_path / bad).write_bytes(b"PK\x03\x04" + b"\xff" * 40)
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path / name)
    assert name in str(error.value)


def test_special_numbers_pass_where_they_are_wanted() -> None:
    assert np.isnan(read(np.full((1, 3), np.nan, "f"), finite=False)[0]["x"]).all()


def test_a_model_without_inputs_has_one_sample() -> None:
    assert read({}, []) == [{}]


def test_the_message_says_whose_data_they_are() -> None:
    with pytest.raises(InputError, match=r"^calibrate: data: got no sample"):
        read([], where="calibrate: data")


def test_torch_tensors_and_data_sets() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.zeros(4, 3, requires_grad=True), torch.zeros(4))
    assert [s["x"].shape for s in read(data)] == [(1, 3)] * 4
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    assert [s["x"].shape for s in read(loader)] == [(2, 3)] * 2
