"""``Session``: what the calls of a model keep from one to the next."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forge_runtime import _native, state_files
from forge_runtime.arrays import Array, adapt_element, as_array, copy_contiguous
from forge_runtime.errors import InputError

if TYPE_CHECKING:
    from forge_runtime.runtime import Runtime

_FORMAT = "forge-session-1"


class Session:
    """Values of the states of a model, and calls of its functions that read and replace them. `Runtime.session` makes one.

    A session is cheap, and shares weights and kernels with all others of the model. It is for one thread at a time: a call while
    another is under way in the same session is an InputError. The interpreter lock is released during calls.

    A call that fails leaves the states as they were, but for those of more than 4096 bytes that the model writes in place: if it
    had begun to, they are undefined, and calls that read them are refused until they are loaded or the session is reset.
    """

    def __init__(self, runtime: Runtime, native: _native.Session) -> None:
        self._runtime = runtime
        self._native = native
        self._model = runtime._model
        self._siblings: dict[str, Session] = {}

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Calls the function: its inputs that are not states, as in a call of `Runtime`.

        Returns:
            The output that is not a state, or a list if there are several or none.

        Raises:
            InputError: wrong number, name, dtype, rank or shape; another thread uses the session; a state is undefined.
            ExecutionError: an operator met a value that it cannot handle.
            MemoryLimitError, TimeLimitError: the call needs more than its limits allow.
        """
        runtime = self._runtime
        if named or len(inputs) == 1 and isinstance(inputs[0], runtime._containers):
            inputs = runtime._ordered(inputs, named)
        results = self._native.run(self._model, inputs)
        return results[0] if len(results) == 1 else list(results)

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> list[Any]:
        """Calls the function; outputs that are given are written in place.

        Returns:
            All outputs that are not states, in order.

        Raises:
            InputError: as a call; also for given outputs.
        """
        runtime = self._runtime
        return list(self._native.run(self._model, runtime._sequence(inputs), runtime._given(outputs)))

    def __getitem__(self, function: str) -> Session:
        """The same session, for calls of another function of the model.

        Raises:
            InputError: the model has no function of this name.
        """
        if function not in self._siblings:
            self._siblings[function] = Session(self._runtime[function], self._native)
        return self._siblings[function]

    @property
    def runtime(self) -> Runtime:
        """The model, which makes further sessions."""
        return self._runtime

    @property
    def functions(self) -> list[str]:
        """Names of the model's functions."""
        return self._runtime.functions

    def limited(self, *, memory_limit: int | None = None, time_limit: float | None = None) -> Session:
        """The same session, with limits for calls through the returned object; they are those of `Runtime`. What a call takes for
        states counts as its memory."""
        return Session(self._runtime.limited(memory_limit=memory_limit, time_limit=time_limit), self._native)

    def returning(self, cls: type, *, detach: bool = False) -> Session:
        """The same session, with outputs of another class from calls through the returned object, as `Runtime.returning` has it.
        `state` gives arrays.

        Raises:
            InputError: as that of `Runtime`.
        """
        return Session(self._runtime.returning(cls, detach=detach), self._native)

    def state(self) -> dict[str, Array]:
        """Copies of the states by name. One that was not set yet has its initial value, or zeros; where its shape is not known
        before the first call, it is left out.

        Raises:
            InputError: a state is undefined because a call failed; another thread uses the session.
        """
        names = tuple(self._runtime._states)
        return {name: value for name, value in zip(names, self._native.get(names), strict=True) if value is not None}

    def load_state(self, states: Mapping[str, Any] | str | os.PathLike[str]) -> None:
        """Sets the states to copies of arrays, or to what `save` wrote; those that are missing become unset.

        Raises:
            InputError: of another model; damaged; unknown names, other dtypes or shapes, and nothing is changed; another thread
                uses the session.
            OSError: the file cannot be read.
        """
        if not isinstance(states, Mapping):
            states = self._read(states)
        dtypes = self._runtime._states
        unknown = [name for name in states if name not in dtypes]
        if unknown:
            where = f"model '{self._runtime.name}': session"
            raise InputError(f"{where}: no such state; got {unknown}; expected names of {list(dtypes)}")
        self._native.load(tuple(states), tuple(self._adapted(name, value, dtypes[name]) for name, value in states.items()))

    def _adapted(self, name: str, value: object, dtype: str) -> Array:
        """What native code reads for the value of a state."""
        where = f"model '{self._runtime.name}': state '{name}'"
        array = adapt_element(as_array(value, where), where, dtype)
        return array if array.flags.c_contiguous and array.flags.aligned else copy_contiguous(array)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the states to a file of the safetensors format, with the fingerprint of the model. A model that was compiled in
        memory has none: its states go with those of all models whose states are called the same and have the same types.

        Raises:
            InputError: as `state`; or the format has no code for a dtype.
            OSError: the file cannot be written.
        """
        state_files.write(path, self.state(), {"format": _FORMAT, "fingerprint": self._fingerprint})

    def reset(self) -> None:
        """No state is set afterwards, as in a new session.

        Raises:
            InputError: another thread uses the session.
        """
        self._native.reset()

    def copy(self) -> Session:
        """Another session with copies of the states.

        Raises:
            InputError: another thread uses the session.
        """
        return Session(self._runtime, self._native.copy())

    @property
    def _fingerprint(self) -> str:
        return str(self._runtime.metadata.get("fingerprint", ""))

    def _read(self, path: str | os.PathLike[str]) -> dict[str, Array]:
        arrays, metadata = state_files.read(path)
        if metadata.get("format") != _FORMAT:
            raise InputError(f"{path}: got format {metadata.get('format')!r:.60}; expected {_FORMAT!r}, written by `save`")
        found, expected = metadata.get("fingerprint"), self._fingerprint
        if found and expected and found != expected:
            raise InputError(f"{path}: the state of another model; got fingerprint {found!r:.60}; expected {expected!r}")
        return arrays

    def __repr__(self) -> str:
        return f"<Session of {self._runtime!r}>"
