"""``IOBinding``: the inputs and outputs of a session's calls, given once, and where outputs go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.errors import OptionError
from forge.onnxruntime.devices import OrtDevice, check_device
from forge.onnxruntime.elements import Array, dtype_of
from forge.onnxruntime.errors import RuntimeException
from forge.onnxruntime.values import OrtValue, array_at, content

if TYPE_CHECKING:
    from forge.onnxruntime.session import InferenceSession


class IOBinding:
    """What ``session.io_binding()`` gives. All of it is in the CPU's memory, so nothing is ever copied between devices."""

    def __init__(self, session: InferenceSession) -> None:
        self._input_names = {arg.name for arg in (*session.get_inputs(), *session.get_overridable_initializers())}
        self._output_names = {arg.name for arg in session.get_outputs()}
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Array | None] = {}
        self._results: list[Any] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Calls read ``arr_on_cpu`` as it is then."""
        self._check("bind_cpu_input", name, self._input_names)
        self.inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: object, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Calls read a tensor at an address, which the caller keeps alive."""
        self._check("bind_input", name, self._input_names)
        check_device(f"bind_input: {name!r}", device_type, device_id)
        self.inputs[name] = array_at(buffer_ptr, dtype_of(element_type, f"bind_input: {name!r}"), shape)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._check("bind_ortvalue_input", name, self._input_names)
        self.inputs[name] = content(ortvalue)

    def bind_output(
        self, name: str, device_type: str | OrtDevice = "cpu", device_id: int = 0, element_type: object = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:
        """Calls give this output: in memory of its own, or written to an address, which the caller keeps alive."""
        self._check("bind_output", name, self._output_names)
        check_device(f"bind_output: {name!r}", "cpu" if isinstance(device_type, OrtDevice) else device_type, device_id)
        if buffer_ptr is None:
            self.outputs[name] = None
            return
        if shape is None:
            raise OptionError(f"bind_output: {name!r}: got an address without a shape; expected element type and shape with it")
        self.outputs[name] = array_at(buffer_ptr, dtype_of(element_type, f"bind_output: {name!r}"), shape)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Calls write this output into the tensor of ``ortvalue``."""
        self._check("bind_ortvalue_output", name, self._output_names)
        self.outputs[name] = ortvalue.numpy()

    def clear_binding_inputs(self) -> None:
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        self.outputs.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for."""

    def get_outputs(self) -> list[OrtValue]:
        """Those of the last call, in the order in which they were bound."""
        return [OrtValue(value) for value in self._results]

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the outputs of the last call."""
        return [value.copy() if isinstance(value, np.ndarray) else value for value in self._results]

    def take(self, results: list[Any], is_bound_to_memory: bool) -> None:
        """Keeps the results of a call; what belongs to memory that was bound, and is elsewhere, is copied there."""
        self._results = results
        if not is_bound_to_memory:
            return
        for target, result in zip(self.outputs.values(), results, strict=True):
            if target is not None and target is not result and not _is_view(target, result):
                _copy(target, result)
        self._results = [result if target is None else target for target, result in zip(self.outputs.values(), results)]

    @staticmethod
    def _check(where: str, name: str, known: set[str]) -> None:
        if name not in known:
            raise RuntimeException(f"{where}: the model has no {name!r}; expected one of {', '.join(sorted(known))}")


def _is_view(target: Array, result: Any) -> bool:
    return isinstance(result, np.ndarray) and target.ctypes.data == result.ctypes.data


def _copy(target: Array, result: Array) -> None:
    if target.shape != result.shape or target.dtype != result.dtype:
        raise RuntimeException(f"run_with_iobinding: the memory of an output; got {target.dtype} {list(target.shape)}; "
                               f"expected {result.dtype} {list(result.shape)}")
    np.copyto(target, result)
