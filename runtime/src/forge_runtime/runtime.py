"""``Runtime``: a compiled model as a Python callable."""

from __future__ import annotations

import copy
import math
import mmap
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from forge_runtime import _native, artifact
from forge_runtime.arrays import numpy_dtype
from forge_runtime.artifact import PathLike
from forge_runtime.errors import ArtifactError, InputError
from forge_runtime.sequences import OBJECTS
from forge_runtime.session import Session

if TYPE_CHECKING:
    from typing_extensions import Buffer

Shape = tuple[int | str | None, ...]

_LONGEST = 1e9
"""Seconds, some 30 years; the native interface counts nanoseconds in 64 bits."""


class Runtime:
    """A loaded model. Calls are thread-safe and run without the interpreter lock.

    Loading an artifact runs its code with the rights of this process, as ``import`` does: load only what you trust. The SHA-256
    in it shows damage, not an attack: who can change the file can compute the digest anew. ``verify`` does not protect against
    that. An encrypted artifact proves that whoever made it had its key file and password; nothing is signed.

    Inputs are NumPy arrays or anything with ``__dlpack__`` or ``__array__``, such as tensors of torch; their memory is read in
    place, except that a strided or misaligned one is copied once. A dtype is never converted. Outputs are NumPy arrays
    of their own (of bfloat16 and other types that NumPy lacks: a ``Tensor``), or tensors of torch (``returning``); the memory of
    large ones serves later calls when the last array over it is gone.

    Ctrl-C, and whatever else a signal handler raises, ends a call between two kernels or two trips of a loop: its memory is given
    back, and the runtime can be used again.

    Args:
        path: the directory that holds ``modelLibrary.so``, or the file itself.
        password: of an encrypted model.
        key: path of the key file of an encrypted model; None: ``modelLibrary.key`` next to the library.
        num_threads: threads of this model's calls; None: the number of the process (``set_num_threads``).
        verify: compare the SHA-256 of the files before any code is loaded (about 0.6 s per GB).
        copy_weights: weights in a file of their own are memory-mapped and shared between processes; True copies them to
            huge pages instead, which large matrix-vector products read up to twice as fast.
        memory_limit: bytes that one call may hold at once: its outputs, intermediate results, strings and sequences, but not
            weights and inputs. Checked before memory is allocated; None: no limit.
        time_limit: seconds that one call may take, checked between kernels and trips of loops; None: no limit.

    Raises:
        InputError: a limit is not a positive number, or FORGE_NUM_THREADS is none.
        ArtifactError: missing, damaged, newer, or for another architecture.
        CpuFeatureError: this CPU lacks an instruction set the model needs.
        PasswordError: encrypted, and password or key file are missing or wrong.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        password: str | None = None,
        key: PathLike | None = None,
        num_threads: int | None = None,
        verify: bool = True,
        copy_weights: bool = False,
        memory_limit: int | None = None,
        time_limit: float | None = None,
    ) -> None:
        limits = _check_limits(memory_limit, time_limit)
        loaded = artifact.unless_replaced(path, lambda: _load(path, password, key, verify, copy_weights))
        self._init(*loaded, num_threads)
        self._limit(*limits)

    @classmethod
    def from_jit(
        cls,
        address: int,
        keepalive: object,
        weights: Buffer | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        num_threads: int | None = None,
        copy_weights: bool = True,
    ) -> Runtime:
        """A runtime over a ``forge_model`` that lies at ``address`` in this process.

        Args:
            keepalive: held as long as the runtime; it owns the code.
            weights: bytes for a model whose own ``weights`` is NULL.
            copy_weights: False uses ``weights`` in place where it is aligned to 64 bytes.
        """
        runtime = cls.__new__(cls)
        runtime._init(_native.wrap(address, keepalive, weights, copy_weights), dict(metadata or {}), num_threads)
        return runtime

    def _init(self, model: _native.Model, metadata: dict[str, Any], num_threads: int | None) -> None:
        self._model = model
        self._description = model.describe()
        self._metadata = metadata
        self._positions = {name: index for index, (name, _, _) in enumerate(self._description["inputs"])}
        takes_list = [dtype for _, dtype, _ in self._description["inputs"]] in (["sequence"], ["optional"])
        self._containers = (dict,) if takes_list else (list, tuple, dict)
        self._states = dict(self._description["states"])
        self._siblings: dict[str, Runtime] = {}
        self._single = len(self._description["outputs"]) == 1
        self._last: tuple[Any, ...] = ()
        self._limits: tuple[int | None, int | None] = (None, None)
        if num_threads is None:
            _check_threads(os.environ.get("FORGE_NUM_THREADS", ""))
        else:
            model.set_threads(num_threads)

    def _limit(self, *limits: int | None) -> None:
        """Replaces the limits that are given."""
        memory, nanoseconds = (old if new is None else new for old, new in zip(self._limits, limits))
        if (memory, nanoseconds) != self._limits:
            self._limits = (memory, nanoseconds)
            self._siblings = {}
            self._model = self._model.limited(memory or 0, nanoseconds or 0)

    def limited(self, *, memory_limit: int | None = None, time_limit: float | None = None) -> Runtime:
        """The same model, not loaded again, with limits for calls of the returned runtime; None keeps the limit of this one.

        ``run.limited(time_limit=0.5)(x)`` limits one call. The limits are those of the class.

        Raises:
            InputError: a limit is not a positive number.
        """
        view = copy.copy(self)
        view._limit(*_check_limits(memory_limit, time_limit))
        return view

    def returning(self, cls: type, *, detach: bool = False) -> Runtime:
        """The same model, not loaded again, whose outputs are tensors of ``cls`` and lie where the model has written them.

        ``run.returning(torch.Tensor)(x)`` is a tensor; ``returning(numpy.ndarray)`` is the way back. Memory is aligned to 64
        bytes; that of large outputs serves later calls when the last tensor over it is gone. What the caller gives or
        donates is returned itself, whatever its class.

        Args:
            cls: a class with ``__dlpack_c_exchange_api__`` (DLPack 1.3), such as ``torch.Tensor``, or ``numpy.ndarray``.
            detach: inputs may require gradients, and are taken as ``tensor.detach()``, which is not called; without it they are
                an InputError. No output requires gradients. Tensors that are donated or written never may.

        Raises:
            InputError: another class; or it has no tensors of the element type of an output: strings, sequences, optionals, and
                for torch types of less than a byte.
        """
        view = copy.copy(self)
        view._model = self._model.returning(cls, detach)
        view._siblings = {}
        return view

    def __getitem__(self, function: str) -> Runtime:
        """Another function of the model, over the same weights, with the limits and threads of this one.

        Raises:
            InputError: the model has no function of this name.
        """
        if function == self.function:
            return self
        if function not in self._siblings:
            model = self._model.find(function)
            if model is None:
                raise InputError(f"{self._where('function')}: no such name; got {function!r}; expected one of {self.functions}")
            sibling = copy.copy(self)
            sibling._init(model, self._metadata, None)
            sibling._limits = self._limits
            self._siblings[function] = sibling
        return self._siblings[function]

    def session(self, *, capacity: int | None = None) -> Session:
        """A session in which no state is set; its calls are those of this function, or of ``session[name]``.

        Args:
            capacity: for how many elements (tokens, say) a state that calls make longer gets memory at first; what exceeds it is
                moved to twice the memory. None: as many as the first call needs.

        Raises:
            InputError: the capacity is not a positive number.
        """
        if not (capacity is None or (_is_number(capacity, Integral) and 0 < capacity < 1 << 63)):
            raise InputError(f"capacity: got {capacity!r}; expected a positive number of elements, or None")
        return Session(self, self._model.session(int(capacity or 0)))

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Runs the model on positional and named inputs, or on one list, tuple or dict of them.

        A sequence is a list of arrays, an optional its value or None. One list for a model whose only input is a sequence or an
        optional is that input.

        Returns:
            The output, or a list if the model has several.

        Raises:
            InputError: wrong number, name, dtype, rank or shape.
            ExecutionError: an operator met a value that it cannot handle.
            MemoryLimitError, TimeLimitError: the call needs more than its limits allow.
        """
        if named or len(inputs) == 1 and isinstance(inputs[0], self._containers):
            inputs = self._ordered(inputs, named)
        results = self._model.run(inputs)
        return results[0] if self._single else list(results)

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> list[Any]:
        """Runs the model; outputs that are given are written in place (writable, C-contiguous, exact dtype and shape): arrays, or
        tensors of torch.

        Returns:
            All outputs in order.

        Raises:
            InputError: as ``__call__``; also for given outputs.
        """
        return list(self._model.run(self._sequence(inputs), self._given(outputs)))

    def _given(self, outputs: Mapping[str, Any] | Sequence[Any] | None) -> tuple[Any, ...] | None:
        if isinstance(outputs, Mapping):
            return _named(outputs, self.output_names, self._where("output"))
        return None if outputs is None else tuple(outputs)

    def _ordered(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Inputs of a call in the model's order: ``inputs`` and ``named``, or one list, tuple or dict of them."""
        return self._arrange(inputs, named) if named else self._sequence(inputs[0])

    def _sequence(self, inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        return self._arrange((), inputs) if isinstance(inputs, Mapping) else tuple(inputs)

    def _where(self, what: str) -> str:
        return f"model '{self.name}': {what}"

    def _arrange(self, positional: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Inputs in the model's order; positional ones come first."""
        names = self.input_names
        unknown = [name for name in named if name not in self._positions]
        if unknown:
            raise InputError(f"{self._where('input')}: no such name; got {unknown}; expected names of {names}")
        twice = [name for name in names[: len(positional)] if name in named]
        if twice:
            raise InputError(f"{self._where('input')}: given by position and by name: {twice}")
        missing = [name for name in names[len(positional) :] if name not in named]
        if missing:
            raise InputError(f"{self._where('input')}: missing {missing}; expected all of {names}")
        return (*positional, *(named[name] for name in names[len(positional) :]))

    @property
    def name(self) -> str:
        """The model's name."""
        return self._description["name"]

    @property
    def function(self) -> str:
        """Name of the function that calls run: ``main``, unless another was chosen by ``run[name]``."""
        return self._description["function"]

    @property
    def functions(self) -> list[str]:
        """Names of the model's functions."""
        return list(self._description["functions"])

    @property
    def states(self) -> list[str]:
        """Names of the tensors that sessions of the model keep."""
        return list(self._states)

    @property
    def symbols(self) -> list[str]:
        """Names of the dimensions whose size is known only at run time."""
        return list(self._description["symbols"])

    @property
    def input_names(self) -> list[str]:
        return [name for name, _, _ in self._description["inputs"]]

    @property
    def input_dtypes(self) -> list[str]:
        return [dtype for _, dtype, _ in self._description["inputs"]]

    @property
    def input_shapes(self) -> list[Shape | None]:
        """Sizes, symbol names, or None for a size computed from symbols."""
        return [shape for _, _, shape in self._description["inputs"]]

    @property
    def input_layouts(self) -> list[str]:
        return self._layouts("inputs")

    @property
    def output_names(self) -> list[str]:
        return [name for name, _, _ in self._description["outputs"]]

    @property
    def output_dtypes(self) -> list[str]:
        return [dtype for _, dtype, _ in self._description["outputs"]]

    @property
    def output_shapes(self) -> list[Shape | None]:
        """Sizes, symbol names, or None for a size computed from symbols; None in place of a shape of unknown rank."""
        return [shape for _, _, shape in self._description["outputs"]]

    @property
    def output_layouts(self) -> list[str]:
        return self._layouts("outputs")

    def _layouts(self, which: str) -> list[str]:
        interface = self._metadata.get("functions", {}).get(self.function, self._metadata)
        return [str(tensor.get("layout") or "") for tensor in interface.get(which, ())]

    @property
    def metadata(self) -> dict[str, Any]:
        """What the compiler recorded: target, options, versions, tensors, SHA-256."""
        return self._metadata

    def get_metadata(self) -> dict[str, Any]:
        """The same as ``metadata``."""
        return self._metadata

    @property
    def model_id(self) -> str:
        """The UUID given when the model was compiled."""
        return str(self._metadata.get("uuid", ""))

    @property
    def model_precision(self) -> str:
        """The precision the model was compiled for."""
        return str(self._metadata.get("precision", ""))

    @property
    def device_type(self) -> str:
        return "cpu"

    def set_model_precision(self, precision: str) -> None:
        """Accepts the precision the model was compiled for.

        Raises:
            ValueError: any other: a compiled model has one.
        """
        if precision != self.model_precision:
            raise ValueError(
                f"model '{self.name}': precision; got {precision!r}; expected {self.model_precision!r}, "
                "which it was compiled for; compile it again for another"
            )

    def set_num_threads(self, threads: int) -> None:
        """Threads of this model's calls; 0: the number of the process."""
        self._model.set_threads(threads)
        for sibling in self._siblings.values():
            sibling._model.set_threads(threads)

    def infer(self, inputs: Any) -> None:
        """Runs the model on one array, a sequence or a dict, and keeps the outputs for ``get_outputs``."""
        many = isinstance(inputs, (list, tuple, Mapping))
        self._last = self._model.run(self._sequence(inputs) if many else (inputs,))

    def get_outputs(self) -> list[Any]:
        """The outputs of the last ``infer``; an array also serves ``np.from_dlpack`` and ``torch.from_dlpack``."""
        return list(self._last)

    def get_output(self, index: int) -> Any:
        """One output of the last ``infer``."""
        if not 0 <= index < len(self._last):
            raise IndexError(f"model '{self.name}': output {index}; expected one of {len(self._last)} kept by infer")
        return self._last[index]

    def warm_up(self, n: int = 10, inputs: Mapping[str, Any] | Sequence[Any] | None = None) -> None:
        """Runs the model ``n`` times, on zeros with every symbol 1 unless inputs are given.

        Raises:
            InputError: an input's size is computed from symbols, and no inputs are given.
        """
        example = self._sequence(inputs) if inputs is not None else tuple(self._zeros(i) for i in range(len(self._positions)))
        for _ in range(n):
            self._model.run(example)

    def _zeros(self, index: int) -> Any:
        name, dtype, shape = self._description["inputs"][index]
        if dtype in OBJECTS:
            return [] if dtype == "sequence" else None
        if shape is None or None in shape:
            raise InputError(f"{self._where('input')} '{name}': its size is computed from symbols; pass inputs to warm_up")
        extents = [size if isinstance(size, int) else 1 for size in shape]
        return np.full(extents, "", object) if dtype == "string" else np.zeros(extents, numpy_dtype(dtype))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {dtype}{_shape_text(shape)}" for name, dtype, shape in self._description["inputs"])
        outputs = ", ".join(f"{name}: {dtype}{_shape_text(shape)}" for name, dtype, shape in self._description["outputs"])
        name = self.name if self.function in ("main", self.name) else f"{self.name}[{self.function!r}]"
        return f"<Runtime {name}({inputs}) -> {outputs}>"


def _shape_text(shape: Shape | None) -> str:
    return "[...]" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _check_limits(memory_limit: int | None, time_limit: float | None) -> tuple[int | None, int | None]:
    """The limits in bytes and nanoseconds."""
    if not (memory_limit is None or (_is_number(memory_limit, Integral) and 0 < memory_limit < 1 << 63)):
        raise InputError(f"memory_limit: got {memory_limit!r}; expected a positive number of bytes, or None for no limit")
    if not (time_limit is None or (_is_number(time_limit, Real) and 0 < time_limit < math.inf)):
        raise InputError(f"time_limit: got {time_limit!r}; expected a positive number of seconds, or None for no limit")
    nanoseconds = None if time_limit is None else max(1, int(min(time_limit, _LONGEST) * 1e9))
    return None if memory_limit is None else int(memory_limit), nanoseconds


def _check_threads(text: str) -> None:
    """Checks the environment variable; a program in C, which has no errors that Python shows, is told on standard error."""
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise InputError(f"FORGE_NUM_THREADS: got {text!r}; expected a whole number from 1 on")


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _named(values: Mapping[str, Any], names: list[str], where: str) -> tuple[Any, ...]:
    unknown = [name for name in values if name not in names]
    if unknown:
        raise InputError(f"{where}: no such name; got {unknown}; expected names of {names}")
    return tuple(values.get(name) for name in names)


def _load(
    path: PathLike, password: str | None, key: PathLike | None, verify: bool, copy_weights: bool
) -> tuple[_native.Model, dict[str, Any]]:
    with artifact.opened(path, password, key) as (fd, where):
        metadata = artifact.metadata_of(fd, where, verify)
        artifact.check_machine(fd, where)
        _native.check_cpu(metadata.get("cpu_features", ""))
        weights = _map_weights(where, metadata, verify)
        model = _native.load(fd) if weights is None else _native.load(fd, weights, copy_weights)
    return model, metadata


def _map_weights(library: str, metadata: dict[str, Any], check: bool) -> memoryview | None:
    fd = artifact.open_weights(library, metadata, check)
    if fd is None:
        return None
    try:
        return memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ))[metadata.get("weights_offset", 0) :]
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{library}: its weights cannot be mapped: {error}") from error
    finally:
        os.close(fd)
