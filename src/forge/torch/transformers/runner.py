"""Calls a compiled component with what its model takes, and returns what its model returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers.exporters import ExportMetadata
from transformers.exporters.metadata import load_treespec
from transformers.exporters.runners import ModelRunner

import forge_runtime
from forge.errors import InputError, OptionError
from forge.torch.transformers.program import ForgeProgram


class ForgeRunner(ModelRunner):
    """Runs one component.

    Inputs are read where they lie. Tensors that the model writes in place, such as those of a static cache, are written in their
    own memory. Results are tensors of their own. So ``share_inputs`` and ``share_outputs`` change nothing.
    """

    def __init__(self, program: ForgeProgram, metadata: ExportMetadata, runtime: forge_runtime.Runtime) -> None:
        super().__init__(metadata)
        self.signature = program.signature
        self.runtime = runtime = runtime.returning(torch.Tensor, detach=True)
        self._run = runtime.session().run if runtime.states else runtime.run
        kwargs = load_treespec(metadata.in_spec).child(1)
        self._arguments = dict(zip(kwargs.context, kwargs.children()))

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @classmethod
    def from_program(
        cls,
        program: ForgeProgram,
        metadata: ExportMetadata,
        device: Any = None,
        num_threads: int | None = None,
        memory_limit: int | None = None,
        time_limit: float | None = None,
    ) -> ForgeRunner:
        """A runner of a component.

        Args:
            device: None or the CPU.
            num_threads: threads of calls of all components; None: as they are.
            memory_limit, time_limit: bytes and seconds that a call may take, as of ``forge.Runtime``.

        Raises:
            OptionError: another device; InputError: a limit is not a positive number; CompileError: it cannot be compiled.
        """
        if device is not None and torch.device(device).type != "cpu":
            raise OptionError(f"forge: device: got {device}; expected 'cpu' or None: programs are compiled for the CPU")
        runtime = program.runtime
        if num_threads is not None:
            runtime.set_num_threads(num_threads)
        return cls(program, metadata, runtime.limited(memory_limit=memory_limit, time_limit=time_limit))

    def __call__(self, share_inputs: bool = True, share_outputs: bool = False, **kwargs: Any) -> Any:
        """Calls the component.

        Args:
            kwargs: the arguments that the model was exported with: tensors of torch in memory of the CPU, caches, constants.

        Returns:
            What the model returns. A static cache holds the tensors that were given.

        Raises:
            InputError: arguments are missing, or of another structure, type or shape than exported.
        """
        leaves = self._leaves(kwargs)
        signature = self.signature
        donated = self._donatable(leaves)
        inputs = [
            forge_runtime.donate(leaf) if number in donated else _input(leaf)
            for number, (name, leaf) in enumerate(zip(signature.inputs, leaves)) if name is not None]
        results = self._run(inputs)
        for number, output in signature.mutated.items():
            if number not in donated:
                leaves[number].copy_(results[output])
        returned = [self._result(entry, leaves, results) for entry in signature.outputs]
        return torch.utils._pytree.tree_unflatten(returned, self.out_spec)

    def _leaves(self, kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments, in the order in which they were exported."""
        unknown = [name for name in kwargs if name not in self._arguments]
        given = {**self.metadata.in_constants, **kwargs}
        missing = [name for name, spec in self._arguments.items() if spec.num_leaves and name not in given]
        if unknown or missing:
            what = f"no such argument; got {unknown}" if unknown else f"missing {missing}"
            raise InputError(f"{self.where}: {what}; expected those that it was exported with: {list(self._arguments)}")
        leaves: list[Any] = []
        for name, spec in self._arguments.items():
            found = torch.utils._pytree.tree_leaves(given[name]) if name in given else []
            if len(found) != spec.num_leaves:
                expected = [self.signature.inputs[len(leaves) + k] for k in range(spec.num_leaves)]
                counts = f"got {len(found)} tensors; expected {spec.num_leaves}: {expected}"
                raise InputError(f"{self.where}: argument {name!r}: {counts}, as it was exported")
            leaves += found
        for number, value in self.signature.constants.items():
            if not isinstance(leaves[number], type(value)) or leaves[number] != value:
                raise InputError(f"{self.where}: got {leaves[number]!r} for a constant; expected {value!r}, as it was exported")
        return leaves

    @property
    def argument_names(self) -> list[str]:
        """Names of the arguments that the component was exported with."""
        return list(self._arguments)

    @property
    def where(self) -> str:
        """What messages call the component."""
        return f"component '{self.runtime.function}'"

    def takes(self, kwargs: dict[str, Any]) -> bool:
        """Whether the arguments that are given have as many tensors each as the component was exported with."""
        found = {name: len(torch.utils._pytree.tree_leaves(value)) for name, value in kwargs.items()}
        return all(found.get(name, spec.num_leaves) == spec.num_leaves for name, spec in self._arguments.items())

    def _donatable(self, leaves: list[Any]) -> set[int]:
        """Numbers of the leaves that are written where they lie: others are copied, as are those that share memory."""
        places = [leaf.untyped_storage().data_ptr() if isinstance(leaf, torch.Tensor) else 0 for leaf in leaves]
        return {
            number for number in self.signature.mutated
            if leaves[number].is_contiguous() and not leaves[number].requires_grad and places.count(places[number]) == 1}

    def _result(self, entry: list[Any], leaves: list[Any], results: list[Any]) -> Any:
        kind, content = entry
        if kind == "constant":
            return content
        if kind == "input":
            return leaves[content]
        return results[content] if kind == "output" else int(results[content])


def _input(leaf: Any) -> Any:
    return leaf if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
