"""``InferenceSession``: onnxruntime's class of that name over models that Forge compiles."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

import numpy as np

from forge.errors import ForgeError, OptionError
from forge.onnxruntime import devices
from forge.onnxruntime.binding import IOBinding
from forge.onnxruntime.devices import CPU, ProviderOptions, Providers
from forge.onnxruntime.elements import dtype_of
from forge.onnxruntime.errors import Fail, InvalidArgument, Refusing, raise_named
from forge.onnxruntime.model import Model, ModelMetadata, NodeArg, Program, read
from forge.onnxruntime.options import RunOptions, SessionOptions
from forge.onnxruntime.profile import Profiler
from forge.onnxruntime.values import OrtValue, content

Callback = Callable[[list[Any], Any, str], object]

SEVERITIES = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""Levels of Python's logging for onnxruntime's severities."""


class InferenceSession(Refusing):
    """A model, compiled when the session is made, and found in the compile cache the next time.

    Calls are thread-safe. One compilation serves all sizes of the dimensions that the model leaves open.

    Args:
        path_or_bytes: an ONNX file, or its bytes; a module that Forge saved; or an artifact that it compiled.
        sess_options: ``docs/guides/onnxruntime.md`` lists what they do.
        providers: names, or pairs of a name and options, the CPU among them; None: the CPU.
        provider_options: options of ``providers``, in order.
        disabled_optimizers, enable_fallback: hints that change nothing.

    Raises:
        NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented: the model cannot be read, or not be compiled.
        EPFail: the CPU is not among ``providers``; OptionError: an argument or option that does not fit.
    """

    REFUSED: ClassVar = {
        "run_with_ortvaluevector": "use run_with_ort_values, or run_with_iobinding",
        "create_ortvalue_from_shape_and_type": "use OrtValue.ortvalue_from_shape_and_type",
        **dict.fromkeys(("get_tuning_results", "set_tuning_results"), "forge tune measures kernels, and the entry forge.tuned "
                        "of the options uses what it found"),
        **dict.fromkeys(("get_input_memory_infos", "get_output_memory_infos", "get_input_epdevices", "set_ep_dynamic_options",
                         "get_provider_graph_assignment_info", "release_captured_graph"), "all of a model runs on the CPU"),
    }

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[ProviderOptions] | None = None,
        *,
        disabled_optimizers: Sequence[str] | None = None,
        enable_fallback: bool = True,
    ) -> None:
        _check_kind("InferenceSession: sess_options", sess_options, SessionOptions)
        devices.chosen(providers, provider_options)
        self._sess_options = (sess_options or SessionOptions()).copy()
        self._model_path = None if isinstance(path_or_bytes, bytes) else path_or_bytes
        self._profiler = Profiler(self._sess_options.profile_file_prefix) if self._sess_options.enable_profiling else None
        begin = time.perf_counter_ns()
        self._lock = threading.Lock()
        try:
            with _logging_from(self._sess_options.log_severity_level):
                self._model: Model = read(path_or_bytes, self._sess_options)
        except ForgeError as error:
            raise_named(error)
        self._programs = {frozenset[str](): self._model.program}
        self._types = {arg.name: arg.type for arg in (*self._model.inputs, *self._model.overridable)}
        self._has_texts = _TEXT in self._types.values()
        self._positions = {arg.name: position for position, arg in enumerate(self._model.outputs)}
        self._finish = None if self._profiler is None else weakref.finalize(self, self._profiler.write)
        if self._profiler is not None:
            self._profiler.phase("session_initialization", begin)

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Runs the model.

        Args:
            output_names: which outputs, in this order; None or none: all.
            input_feed: a value for each input, by name: an array, a tensor of torch, nested lists, or an `OrtValue`;
                a list of them for a sequence; a value or None for an optional.

        Returns:
            Arrays; lists for sequences and maps.

        Raises:
            InvalidArgument: a name, rank, shape or element type that does not fit. RuntimeException: an operator met a value
            that it cannot handle. Fail: ``run_options.terminate`` is set.
        """
        if run_options is not None:
            _check_run_options(run_options)
        try:
            chosen = self._chosen(output_names) if output_names else None
            results = self._run(*self._bound(input_feed))
        except ForgeError as error:
            raise_named(error)
        return results if chosen is None else [results[k] for k in chosen]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """As `run`, of `OrtValue`."""
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], callback: Callback, user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """As `run`, in a thread of its own: ``callback(results, user_data, "")``, or ``callback([], user_data, message)``."""

        def call() -> None:
            try:
                results, message = self.run(output_names, input_feed, run_options), ""
            except (ForgeError, TypeError, ValueError) as error:
                results, message = [], str(error)
            callback(results, user_data, message)

        threading.Thread(target=call, name="run_async", daemon=True).start()

    def io_binding(self) -> IOBinding:
        """Inputs and outputs for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model on what is bound. Outputs that are bound to memory are written there by the model itself, unless it lies
        over an input, or their size depends on data: these are copied.

        Raises:
            RuntimeException: no output is bound, or its memory has another type or shape; others as `run`.
        """
        if run_options is not None:
            _check_run_options(run_options)
        try:
            chosen = self._chosen(iobinding.outputs)
            if not chosen:
                raise Fail("run_with_iobinding: no output is bound; expected at least one; call bind_output")
            program, inputs = self._bound(iobinding.inputs)
            memories = {position: memory for position, memory in zip(chosen, iobinding.outputs.values()) if memory is not None}
            results = self._run(program, inputs, _placed(program, memories, inputs) if memories else None)
            iobinding.take([results[k] for k in chosen], bool(memories))
        except ForgeError as error:
            raise_named(error)

    def _bound(self, feed: Mapping[str, Any]) -> tuple[Program, tuple[Any, ...]]:
        """The code that takes the inputs of ``feed``, and these in its order."""
        program = self._model.program
        if len(feed) > len(self._model.inputs):
            program = self._overriding(feed)
        try:
            values = [feed[name] for name in program.input_names]
        except (KeyError, TypeError):
            self._refuse(feed)
        if len(feed) != len(values):
            self._refuse(feed)
        if self._has_texts or any(type(value) is not np.ndarray for value in values):
            values = [self._array(name, value) for name, value in zip(program.input_names, values)]
        return program, tuple(values)

    def _run(self, program: Program, inputs: tuple[Any, ...], outputs: Sequence[np.ndarray | None] | None = None) -> list[Any]:
        if self._profiler is None:
            results = program.runtime.run(inputs, outputs)
        else:
            extended = None if outputs is None else [*outputs, None]
            results = self._profiler.call(program, lambda: program.runtime.run(inputs, extended))
        for position, labels in self._model.labels.items():
            rows = np.atleast_2d(results[position]).tolist()
            results[position] = [{label: row[column] for label, column in labels} for row in rows]
        return results

    def _array(self, name: str, value: Any) -> Any:
        """What the runtime takes for ``value``."""
        value, type_ = content(value), self._types[name]
        if type_ == _TEXT:
            return _texts(np.asarray(value)) if isinstance(value, np.ndarray | list | tuple) else value
        if not isinstance(value, list | tuple) or not type_.startswith("tensor("):
            return value
        dtype = dtype_of(_NUMPY.get(type_, type_[len("tensor(") : -1]), f"input {name!r}")
        try:
            return np.array(value, dtype)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"input {name!r}: got a list that is not an array: {error}; expected {type_}") from error

    def _overriding(self, feed: Mapping[str, Any]) -> Program:
        """Code for calls that give initializers, too; compiled when the first one does."""
        given = frozenset({arg.name for arg in self._model.overridable} & feed.keys())
        with self._lock:
            if given not in self._programs and self._model.overriding is not None:
                self._programs[given] = self._model.overriding(given)
            return self._programs[given]

    def _refuse(self, feed: Mapping[str, Any]) -> NoReturn:
        if not isinstance(feed, Mapping):
            raise OptionError(f"run: input_feed: got {type(feed).__name__}; expected a dictionary, values by name of input")
        names = [arg.name for arg in self._model.inputs]
        unknown = [name for name in feed if name not in self._types]
        if unknown:
            raise InvalidArgument(f"input: Invalid input name: {unknown[0]}; expected names of {[*self._types]}")
        missing = [name for name in names if name not in feed]
        raise InvalidArgument(f"input: Required inputs ({missing}) are missing from input feed ({[*feed]}); expected {names}")

    def _chosen(self, names: Sequence[str] | Mapping[str, Any]) -> list[int]:
        if isinstance(names, str):
            raise OptionError(f"run: output_names: got {names!r}; expected a list of names, or None for all outputs")
        try:
            return [self._positions[name] for name in names]
        except KeyError as error:
            known = [*self._positions]
            raise InvalidArgument(f"output: Invalid output name: {error.args[0]}; expected names of {known}") from None

    def get_inputs(self) -> list[NodeArg]:
        """What calls have to give."""
        return list(self._model.inputs)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._model.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """What calls may give; without, they are what the model says. The first call that gives one compiles the model for it."""
        return list(self._model.overridable)

    def get_modelmeta(self) -> ModelMetadata:
        return self._model.metadata

    def get_session_options(self) -> SessionOptions:
        return self._sess_options

    def get_providers(self) -> list[str]:
        return [CPU]

    def get_provider_options(self) -> dict[str, ProviderOptions]:
        return {CPU: {}}

    def set_providers(
        self, providers: Providers | None = None, provider_options: Sequence[ProviderOptions] | None = None
    ) -> None:
        """Raises EPFail where the CPU is not among them."""
        devices.chosen(providers, provider_options)

    def disable_fallback(self) -> None:
        """There is none."""

    def enable_fallback(self) -> None:
        """There is none."""

    def end_profiling(self) -> str:
        """Writes the times of calls for Chrome's trace viewer; the path, or "" without ``enable_profiling`` and from then on."""
        return "" if self._finish is None else self._finish() or ""

    def get_profiling_start_time_ns(self) -> int:
        """Nanoseconds since 1970; 0 without ``enable_profiling``."""
        return 0 if self._profiler is None else self._profiler.start_ns


def _texts(array: np.ndarray) -> np.ndarray:
    """Strings of bytes as objects, which the runtime takes."""
    if array.dtype.kind == "V":
        array = array.view(f"S{array.itemsize}")
    return array.astype(object) if array.dtype.kind == "S" else array


_TEXT = "tensor(string)"
_NUMPY = {"tensor(float)": "float32", "tensor(double)": "float64"}


def _check_kind(where: str, given: object, kind: type) -> None:
    if not isinstance(given, kind | None):
        got = f"{type(given).__module__}.{type(given).__name__}"
        raise OptionError(f"{where}: got {got}; expected forge.onnxruntime.{kind.__name__}")


def _check_run_options(options: RunOptions) -> None:
    _check_kind("run: run_options", options, RunOptions)
    if options.terminate:
        raise Fail("run: Exiting due to terminate flag being set to true; set run_options.terminate to False, or pass no options")


def _placed(program: Program, memories: Mapping[int, np.ndarray], inputs: Sequence[Any]) -> list[np.ndarray | None]:
    """Of all outputs, the memory that the model can write to: none that may lie over an input."""
    fits = {p for p, memory in memories.items() if all(_is_apart(memory, value) for value in inputs)}
    return [memories[p] if p in fits and is_placeable else None for p, is_placeable in enumerate(program.placeable)]


def _is_apart(memory: np.ndarray, value: Any) -> bool:
    return isinstance(value, np.ndarray) and not np.may_share_memory(memory, value)


@contextmanager
def _logging_from(severity: int) -> Iterator[None]:
    """Within the block, Forge logs from this severity on; -1 leaves it as it is."""
    logger = logging.getLogger("forge")
    before = logger.level
    if severity >= 0:
        logger.setLevel(SEVERITIES[severity])
    try:
        yield
    finally:
        logger.setLevel(before)


def set_default_logger_severity(severity: int) -> None:
    """What Forge logs from now on: from 0 (all) to 4 (nothing but fatal errors).

    Raises:
        OptionError: another number.
    """
    if severity not in range(len(SEVERITIES)):
        raise OptionError(f"set_default_logger_severity: got {severity!r}; expected 0 (verbose) to 4 (fatal)")
    logging.getLogger("forge").setLevel(SEVERITIES[severity])
