"""``SessionOptions`` and ``RunOptions``: what means something here is honoured, hints are accepted, the rest is refused by name.

`HINTS`, `ENTRIES` and `RUN_ENTRIES` are the tables of what is accepted without effect, each with the reason.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from forge.errors import OptionError
from forge.onnxruntime.errors import Refusing, RuntimeException
from forge.onnxruntime.values import OrtValue
from forge.options import UNSET, CompileOptions, options_of


class GraphOptimizationLevel(enum.Enum):
    """How much is optimized: the ``opt_level`` of the compilation."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.Enum):
    """A hint."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.Enum):
    """A hint."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


OPT_LEVELS = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: 0,
    GraphOptimizationLevel.ORT_ENABLE_BASIC: 1,
    GraphOptimizationLevel.ORT_ENABLE_EXTENDED: 2,
    GraphOptimizationLevel.ORT_ENABLE_LAYOUT: 3,
    GraphOptimizationLevel.ORT_ENABLE_ALL: UNSET,
}
"""The ``opt_level`` of each; `UNSET` is what a ``forge.PassContext`` says, or Forge's default."""

_PLANNED = "memory is planned when the model is compiled: one block for all intermediate values"
_IN_ORDER = "kernels run one after another, each on all threads"
HINTS: Mapping[str, tuple[Any, str]] = {
    "inter_op_num_threads": (0, _IN_ORDER),
    "execution_mode": (ExecutionMode.ORT_SEQUENTIAL, _IN_ORDER),
    "execution_order": (ExecutionOrder.DEFAULT, "the compiler orders kernels"),
    "enable_mem_pattern": (True, _PLANNED),
    "enable_mem_reuse": (True, _PLANNED),
    "enable_cpu_mem_arena": (True, _PLANNED),
    "use_per_session_threads": (True, "the threads are the process's; each model says how many of them work for it"),
    "use_deterministic_compute": (False, "equal inputs give equal bits, always"),
    "log_verbosity_level": (0, "a finer grade of the severity 0"),
    "logid": ("", "a name in onnxruntime's log lines"),
}
"""Attributes of ``SessionOptions`` that are accepted: their defaults, and why they change nothing."""

HONOURED: Mapping[str, tuple[Any, str]] = {
    "intra_op_num_threads": (0, "threads of the session's calls; 0 is Forge's default"),
    "graph_optimization_level": (GraphOptimizationLevel.ORT_ENABLE_ALL, "`opt_level`: 0, 1, 2, 3, and 3 for `ORT_ENABLE_ALL`"),
    "log_severity_level": (-1, "what is logged while the session is made: from 0 (all) to 4 (nothing but fatal errors)"),
    "enable_profiling": (False, "times of kernels; `end_profiling` writes them for Chrome's trace viewer"),
    "profile_file_prefix": ("onnxruntime_profile_", "how the name of that file begins"),
    "optimized_model_filepath": ("", "writes the model as Forge loads it, as ONNX"),
}
"""Attributes of ``SessionOptions`` with an effect: their defaults, and what they do."""

_KERNELS = "a setting of onnxruntime's kernels and rewriting"
ENTRIES: Mapping[str, str] = {
    **dict.fromkeys(("session.intra_op.allow_spinning", "session.inter_op.allow_spinning", "session.force_spinning_stop",
                     "session.dynamic_block_base"), "Forge's threads have a schedule of their own"),
    **dict.fromkeys(("session.disable_prepacking", "session.disable_quant_qdq", "session.disable_double_qdq_remover",
                     "session.enable_quant_qdq_cleanup", "session.qdqisint8allowed", "session.disable_aot_function_inlining",
                     "session.enable_cast_chain_elimination", "session.minimal_build_optimizations",
                     "session.strict_shape_type_inference", "session.allow_released_opsets_only"), _KERNELS),
    **dict.fromkeys(("session.use_env_allocators", "session.use_device_allocator_for_initializers",
                     "session.enable_cpu_mem_arena", "session.use_mmap_prefix", "session.use_ort_model_bytes_directly",
                     "session.use_ort_model_bytes_for_initializers", "memory.enable_memory_arena_shrinkage"), _PLANNED),
    "session.disable_cpu_ep_fallback": "all of a model runs in Forge's code, or the session is refused",
    "session.optimized_model_external_initializers_min_size_in_bytes": "weights go to a file of their own from 2 GiB on",
    "session.load_model_format": "files are recognized by their contents",
}
"""Session configuration entries that are accepted, and why they change nothing."""
ENTRY_PREFIXES = {"optimization.": _KERNELS, "mlas.": _KERNELS}
"""Beginnings of others."""

OFF = ("session.set_denormal_as_zero", "session.record_ep_graph_assignment_info", "session.debug_layout_transformation")
"""Entries that may be "0", which is how Forge does it."""

RUN_ENTRIES: Mapping[str, str] = {
    "memory.enable_memory_arena_shrinkage": _PLANNED,
    "disable_synchronize_execution_providers": "a call has ended when it returns",
}

FOLDER = "session.model_external_initializers_file_folder_path"
"""The entry with the folder of external data, for models given as bytes."""

OWN = "forge."
"""How entries begin that are options of Forge's compiler."""
UNIFY = "unify_dimensions"

_SEVERITIES = range(-1, 5)


class _Checked(Refusing):
    """Attributes of a fixed set, each with the type of its default."""

    _defaults: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            known = ", ".join(self._defaults)
            raise AttributeError(f"{type(self).__name__}: no option is called {name!r}; expected one of {known}")
        object.__setattr__(self, name, self._checked(name, value))

    def _checked(self, name: str, value: Any) -> Any:
        default = self._defaults[name]
        kind = type(default)
        if kind is bool and isinstance(value, int) and value in (0, 1):
            return bool(value)
        if kind is int and isinstance(value, int | np.integer) and not isinstance(value, bool):
            value = int(value)
        if kind is str and hasattr(value, "__fspath__"):
            value = value.__fspath__()
        if type(value) is not kind:
            raise OptionError(f"{type(self).__name__}: {name}: got {value!r}; expected {_expected(kind)}")
        if name == "log_severity_level" and value not in _SEVERITIES:
            raise OptionError(f"{type(self).__name__}: {name}: got {value}; expected 0 (verbose) to 4 (fatal)")
        if name.endswith("num_threads") and value < 0:
            raise OptionError(f"{type(self).__name__}: {name}: got {value}; expected a number of threads, or 0 for the default")
        return value


def _expected(kind: type[Any]) -> str:
    if issubclass(kind, enum.Enum):
        return f"a member of forge.onnxruntime.{kind.__name__}"
    return {bool: "True or False", int: "a whole number", str: "a text"}[kind]


class SessionOptions(_Checked):
    """Options of a session, with onnxruntime's names; ``docs/guides/onnxruntime.md`` lists all.

    Options of the compiler are configuration entries: ``add_session_config_entry("forge.bfloat16", "1")``.
    """

    _defaults: ClassVar = {name: default for table in (HONOURED, HINTS) for name, (default, _) in table.items()}
    REFUSED: ClassVar = {
        "add_external_initializers_from_files_in_memory": "give the arrays themselves to add_external_initializers",
        "register_custom_ops_library": "such libraries are made for onnxruntime; write a converter instead: "
                                       "forge.frontends.onnx.register",
        **dict.fromkeys(("add_provider", "add_provider_for_devices", "set_provider_selection_policy",
                         "set_provider_selection_policy_delegate"), "pass providers=[...] to InferenceSession"),
        **dict.fromkeys(("set_ep_context_data_read_func", "clear_ep_context_data_read_func"), "Forge has no such contexts"),
        "set_load_cancellation_flag": "compile ahead, with forge compile, in a process that can be ended",
    }

    intra_op_num_threads: int
    inter_op_num_threads: int
    graph_optimization_level: GraphOptimizationLevel
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    enable_profiling: bool
    profile_file_prefix: str
    optimized_model_filepath: str
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    enable_cpu_mem_arena: bool
    use_per_session_threads: bool
    use_deterministic_compute: bool

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(sizes_by_name={}, sizes_by_denotation={}, entries={}, initializers={})

    def copy(self) -> SessionOptions:
        """What a session keeps, so that later changes do not count."""
        copied = SessionOptions()
        copied.__dict__.update({name: dict(v) if isinstance(v, dict) else v for name, v in self.__dict__.items()})
        return copied

    sizes_by_name: dict[str, int]
    sizes_by_denotation: dict[str, int]
    entries: dict[str, str]
    initializers: dict[str, np.ndarray]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Dimensions of inputs that the model calls ``name`` have this size."""
        self.sizes_by_name[name] = _size(name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Dimensions of inputs with this denotation have this size."""
        self.sizes_by_denotation[denotation] = _size(denotation, size)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Raises OptionError for an entry that means something to onnxruntime and nothing here, and for a bad value."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise OptionError(f"add_session_config_entry: got {key!r}, {value!r}; expected two texts")
        if key.startswith(OWN):
            _own_option(key, value)
        elif key == "session.load_model_format" and value.upper() != "ONNX":
            raise OptionError(f"add_session_config_entry: {key}: got {value!r}; expected 'ONNX', which is what Forge reads")
        elif not (key in ENTRIES or key == FOLDER or key.startswith(tuple(ENTRY_PREFIXES)) or (key in OFF and value == "0")):
            raise OptionError(f"add_session_config_entry: {key}: means nothing to Forge; got {value!r}; leave it out")
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Raises RuntimeException where the entry was not added."""
        return _entry(self.entries, key, "SessionOptions")

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """``value`` takes the place of the model's initializer ``name``."""
        if not isinstance(value, OrtValue) or not value.is_tensor():
            raise OptionError(f"add_initializer: {name}: got {type(value).__name__}; expected an OrtValue with a tensor")
        self.initializers[name] = value.numpy()

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """As `add_initializer`, for several."""
        if len(names) != len(values):
            raise OptionError(f"add_external_initializers: got {len(names)} names and {len(values)} values; expected as many")
        for name, value in zip(names, values):
            self.add_initializer(name, value)

    def has_providers(self) -> bool:
        """False: providers are an argument of the session."""
        return False

    @property
    def compile_options(self) -> dict[str, Any]:
        """For `check_options`: what the level and the entries of Forge say."""
        own = {key.removeprefix(OWN): _own_option(key, self.entries[key]) for key in self.own_entries}
        own.pop(UNIFY, None)
        return {"opt_level": OPT_LEVELS[self.graph_optimization_level], **own}

    @property
    def own_entries(self) -> list[str]:
        """Those of Forge."""
        return [key for key in self.entries if key.startswith(OWN)]

    @property
    def unifies_dimensions(self) -> bool:
        """Whether dimensions of one name have one size."""
        return self.entries.get(OWN + UNIFY, "1") == "1"


class RunOptions(_Checked):
    """Options of a call. ``terminate`` ends calls that begin after it was set; one that runs is not interrupted."""

    _defaults: ClassVar = {"log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "only_execute_path_to_fetches": False,
                           "terminate": False}
    REFUSED: ClassVar = {"add_active_adapter": "weights are compiled into the model; merge adapters into them before the export"}

    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    terminate: bool

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["entries"] = {}

    entries: dict[str, str]

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Raises OptionError for an entry that means something to onnxruntime and nothing here."""
        if key not in RUN_ENTRIES:
            raise OptionError(f"add_run_config_entry: {key}: means nothing to Forge; got {value!r}; leave it out")
        self.entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        return _entry(self.entries, key, "RunOptions")

def _size(name: str, size: object) -> int:
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
        raise OptionError(f"add_free_dimension_override: {name}: got {size!r}; expected a size")
    return int(size)


def _entry(entries: Mapping[str, str], key: str, where: str) -> str:
    if key not in entries:
        raise RuntimeException(f"{where} does not have configuration with key: {key}; got {', '.join(entries) or 'none'}")
    return entries[key]


def _own_option(key: str, text: str) -> Any:
    """The value of an option of the compiler."""
    known = {o.name: o for o in options_of(CompileOptions) if o.declaration.config or o.name == "opt_level"}
    name = key.removeprefix(OWN)
    if name != UNIFY and name not in known:
        raise OptionError(f"add_session_config_entry: {key}: no such option; expected {OWN} and {', '.join((*known, UNIFY))}")
    if name == UNIFY or isinstance(known[name].default, bool):
        if text not in ("0", "1"):
            raise OptionError(f"add_session_config_entry: {key}: got {text!r}; expected '0' or '1'")
        return text == "1"
    if name == "typical":
        return text.split(",")
    if name == "opt_level" and text.isdigit():
        return int(text)
    return text
