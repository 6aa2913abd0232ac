"""Programs of the backend: functions of one compiled library, and how the tensors of transformers become their arguments."""

from __future__ import annotations

import dataclasses
import filecmp
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from forge.errors import ArtifactError, OptionError
from forge.module import IRModule, join
from forge_runtime import Runtime, read_metadata

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from forge.ir.nodes import Value

LIBRARY = "modelLibrary.so"


@dataclass(frozen=True)
class Signature:
    """How the leaves of a call, in the order of ``torch.export``, become arguments of a function, and its results leaves.

    Attributes:
        inputs: for each leaf of the arguments: the name of the function's input; None for a leaf that was traced as a constant.
        constants: the values of those, by the number of the leaf.
        mutated: numbers of leaves that the program writes in place, with the number of the function's output that is their new
            value.
        outputs: for each leaf of what the model returns: ``["output", number]``, ``["number", number]`` for an integer of Python,
            ``["input", leaf]`` for a leaf that was written in place, or ``["constant", value]``.
    """

    inputs: list[str | None]
    constants: dict[int, Any]
    mutated: dict[int, int]
    outputs: list[list[Any]]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Signature:
        numbers = {name: {int(k): v for k, v in values[name].items()} for name in ("constants", "mutated")}
        return cls(values["inputs"], numbers["constants"], numbers["mutated"], values["outputs"])


class Library:
    """A compiled library, which is loaded once for all programs that are its functions."""

    _known: ClassVar[WeakValueDictionary[tuple[Any, ...], Library]] = WeakValueDictionary()

    def __init__(self, path: Path, folder: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.path = path
        self._folder = folder
        self.runtime = Runtime(path)

    @classmethod
    def load(cls, path: Path) -> Library:
        """The library in a file: the same object as long as it is in use and the file is not replaced.

        Raises:
            ArtifactError: it is missing, damaged, or not for this machine.
        """
        try:
            status = path.stat()
        except OSError as error:
            raise ArtifactError(f"{path}: {error.strerror}; expected the library of an exported model") from error
        key = (path.resolve(), status.st_ino, status.st_mtime_ns, status.st_size)
        found = cls._known.get(key)
        if found is None:
            found = cls._known[key] = cls(path)
        return found

    @classmethod
    def compile(cls, module: IRModule, options: Mapping[str, Any]) -> Library:
        """Compiles all functions of ``module`` into a folder that goes when nothing uses the library."""
        folder = tempfile.TemporaryDirectory(prefix="forge-export-")
        module.compile(output_path=folder.name, force_overwrite=True, **options)
        return cls(Path(folder.name) / LIBRARY, folder)

    def save(self, folder: Path) -> None:
        """Copies the artifact into ``folder``, unless it is there.

        Raises:
            OptionError: another library is.
        """
        names = [LIBRARY, *filter(None, [read_metadata(self.path).get("weights_file")])]
        for name in names:
            source, target = self.path.parent / name, folder / name
            if not target.exists():
                shutil.copyfile(source, target)
            elif name == LIBRARY and not filecmp.cmp(source, target, shallow=False):
                raise OptionError(
                    f"save_pretrained: {folder}: the components are of several libraries; expected those of one export")


@dataclass
class ForgeProgram:
    """One component: a function of a compiled library.

    Attributes:
        signature: how its arguments and results are those of transformers.
        options: arguments of ``IRModule.compile``.
        module: what is compiled at the first use of ``library``; None afterwards.
        function: its name in the library.
    """

    signature: Signature
    options: dict[str, Any] = field(default_factory=dict)
    module: IRModule | None = None
    function: str = "main"
    _library: Library | None = None

    @property
    def library(self) -> Library:
        """The library that it is a function of.

        Raises:
            CompileError: the module cannot be compiled.
        """
        if self._library is None:
            compile_together({self.function: self})
        assert self._library is not None
        return self._library

    @property
    def runtime(self) -> Runtime:
        """The compiled function; its inputs and outputs are those of the module."""
        return self.library.runtime[self.function]

    def save(self, path: Path) -> None:
        """Writes the description to ``path`` and the library next to it."""
        self.library.save(path.parent)
        described = {"function": self.function, "library": LIBRARY, "signature": dataclasses.asdict(self.signature)}
        path.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> ForgeProgram:
        """Reads what `save` wrote; nothing is compiled.

        Raises:
            ArtifactError: a file is missing or damaged.
        """
        try:
            described = json.loads(path.read_text(encoding="utf-8"))
            signature, function = Signature.from_dict(described["signature"]), described["function"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"{path}: cannot be read: {error!r}; expected a component that save_pretrained wrote") from error
        library = Library.load(path.parent / LIBRARY)
        return cls(signature, function=library.runtime[function].function, _library=library)


def compile_together(programs: Mapping[str, ForgeProgram]) -> None:
    """Makes programs that are not compiled yet functions of one library, over one set of weights.

    Raises:
        OptionError: their options of compilation differ; CompileError: one cannot be compiled.
    """
    first = next(iter(programs.values()))
    for name, program in programs.items():
        if program.options != first.options:
            raise OptionError(
                f"export: component {name!r}: got options {program.options}; expected {first.options}, those of the other "
                "components: they are compiled into one library")
    modules = {name: program.module for name, program in programs.items() if program.module is not None}
    library = Library.compile(join(modules), first.options)
    for name, program in programs.items():
        program.module, program.function, program._library = None, name, library


def program_of(exported: ExportedProgram, names: list[str], options: dict[str, Any]) -> ForgeProgram:
    """The program of what torch exported.

    Args:
        names: those of the inputs that are tensors or numbers, in order.

    Raises:
        ImportModelError, OpNotImplemented: it cannot be converted.
    """
    module = IRModule.from_torch(exported, through_onnx=False)
    inputs, constants = _inputs(exported, names)
    graph = module.main
    renamed = dict(zip([v.name for v in graph.inputs], [n for n in inputs if n is not None]))
    leaf_of = {name: leaf for leaf, name in enumerate(inputs) if name is not None}
    for value in graph.inputs:
        value.name = renamed.get(value.name, value.name)
    donated = {renamed[name]: number for name, number in graph.donated.items()}
    held = {_source(value): leaf_of[value.name] for value in graph.inputs if value.name in leaf_of and value.name not in donated}
    held |= {_source(graph.outputs[number]): leaf_of[name] for name, number in donated.items()}
    kept: list[int] = []
    outputs = []
    for kind, content in _outputs(exported):
        if kind == "output" and (leaf := held.get(_source(graph.outputs[content]))) is not None:
            outputs.append(["input", leaf])
        elif kind == "constant":
            outputs.append([kind, content])
        else:
            outputs.append([kind, len(kept)])
            kept.append(content)
    others = [state.output for state in graph.states.values() if state.output is not None]
    order = {number: k for k, number in enumerate([*kept, *donated.values(), *others])}
    graph.outputs = [graph.outputs[number] for number in order]
    graph.donated = {name: order[number] for name, number in donated.items()}
    graph.states = {
        name: state if state.output is None else dataclasses.replace(state, output=order[state.output])
        for name, state in graph.states.items()}
    mutated = {leaf_of[name]: number for name, number in graph.donated.items()}
    return ForgeProgram(Signature(inputs, constants, mutated, outputs), options, module)


def _source(value: Value) -> Value:
    """The value of which ``value`` is a copy, as outputs are that are listed twice or are inputs."""
    node = value.producer
    copied = node.operands[0] if node is not None and node.op == "copy" else None
    return value if copied is None else _source(copied)


def _inputs(exported: ExportedProgram, names: list[str]) -> tuple[list[str | None], dict[int, Any]]:
    """For each leaf of the arguments the name of its input, and the values of those that are constants, by number."""
    from torch.export.graph_signature import ConstantArgument, InputKind

    arguments = [spec.arg for spec in exported.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    constants = {k: arg.value for k, arg in enumerate(arguments) if isinstance(arg, ConstantArgument)}
    if len(names) != len(arguments) - len(constants):
        names = [arg.name for k, arg in enumerate(arguments) if k not in constants]
    left = iter(names)
    return [None if k in constants else next(left) for k in range(len(arguments))], constants


def _outputs(exported: ExportedProgram) -> list[tuple[str, Any]]:
    """For each leaf of what the model returns: what it is, and the number of the module's output or its value."""
    from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument

    found: list[tuple[str, Any]] = []
    number = 0
    for spec in exported.graph_signature.output_specs:
        if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            continue
        if isinstance(spec.arg, ConstantArgument):
            found.append(("constant", spec.arg.value))
            number += isinstance(spec.arg.value, bool | int | float)
        else:
            found.append(("output" if isinstance(spec.arg, TensorArgument) else "number", number))
            number += 1
    return found
