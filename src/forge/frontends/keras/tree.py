"""A Keras model as a tree of layers: what they are called, their configuration, and where they are called in a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forge.errors import ImportModelError
from forge.frontends.keras.policies import Policy, policy_of

OPS = "ops"
"""The domain of ``keras.ops``; layers have that of the standard, "", and custom ones that of their package."""
FUNCTIONS = "tf"
"""That of TensorFlow's functions between layers of Keras 2."""
_EXPORTED = {"GroupQueryAttention": "GroupedQueryAttention"}
"""Classes that Keras exports under another name -> their own name."""
MAX_DEPTH = 32
MAX_LAYERS = 1 << 17
MODELS = ("Functional", "Sequential", "Model")
_STEMS = {
    **dict.fromkeys(("BatchNormalizationV1", "BatchNormalizationV2", "SyncBatchNormalization"), "BatchNormalization"),
    "LSTMV2": "LSTM", "GRUV2": "GRU"}
"""Classes of old versions of TensorFlow -> what they are now."""


@dataclass(eq=False)
class Layer:
    """A layer, an operation of ``keras.ops``, or a model inside of another.

    Attributes:
        domain: of its converter.
        config: what it was made with.
        calls: where it is called, in the graph of the model that it is in.
        path: of its weights, as Keras stores them.
        children: layers inside, by the attributes that hold them.
        build: what is known of its inputs' shapes.
    """

    class_name: str
    domain: str
    name: str
    config: Mapping[str, Any]
    policy: Policy
    calls: Sequence[Any] = ()
    path: str = ""
    children: dict[str, Layer] = field(default_factory=dict)
    build: Mapping[str, Any] = field(default_factory=dict)
    shared: object = None

    @property
    def is_model(self) -> bool:
        return self.class_name in MODELS and not self.domain and isinstance(self.config.get("layers"), list)

    @property
    def is_trainable(self) -> bool:
        return bool(self.config.get("trainable", True))

    def named(self, class_name: str) -> Layer:
        """It, as one of another class."""
        return replace(self, class_name=class_name)

    def walk(self) -> Iterator[Layer]:
        """It, and all layers in it."""
        yield self
        for child in self.children.values():
            yield from child.walk()


def layer_of(found: Any, path: str = "", depth: int = 0) -> Layer:
    """The layer that a serialized object describes.

    Raises:
        ImportModelError: it describes none, or layers are nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise ImportModelError(f"layers are nested more than {MAX_DEPTH} deep; expected a model of Keras")
    if not isinstance(found, dict) or not isinstance(found.get("class_name"), str):
        raise ImportModelError(f"got {str(found)[:80]!r}; expected a layer, with its class_name and config; the model is damaged")
    class_name, config = found["class_name"].rpartition(">")[2], found.get("config") or {}
    if isinstance(config, list):  # a Sequential of Keras 1 and of early Keras 2
        config = {"layers": config}
    if not isinstance(config, dict):
        raise ImportModelError(f"{class_name[:80]}: its config is {str(config)[:80]!r}; expected an object; the model is damaged")
    name = config.get("name", found.get("name", snake_case(class_name)))
    domain = _domain(found, class_name)
    if class_name in ("TFOpLambda", "SlicingOpLambda") and isinstance(config.get("function"), str):
        domain, class_name, config = FUNCTIONS, config["function"], {}
    layer = Layer(
        _STEMS.get(class_name, class_name), domain, str(found.get("name") or name), config,
        policy_of(config.get("dtype"), str(name)), _list(found.get("inbound_nodes")), path,
        build=found["build_config"] if isinstance(found.get("build_config"), dict) else {}, shared=found.get("shared_object_id"))
    for attribute, child in _children(layer):
        layer.children[attribute] = layer_of(child, f"{path}/{attribute}".lstrip("/"), depth + 1)
    return layer


def _list(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list) else ()


def _is_operation(found: Mapping[str, Any]) -> bool:
    """Whether it is one of ``keras.ops``. Files ``.h5`` of Keras 3 name no modules: there, only layers say if they train."""
    calls, config = _list(found.get("inbound_nodes")), found.get("config")
    if found.get("module") or found.get("registered_name") or ">" in str(found.get("class_name")):
        return str(found.get("module")).startswith("keras.src.ops")
    is_keras_3 = bool(calls) and isinstance(calls[0], dict)
    return is_keras_3 and isinstance(config, dict) and not {"trainable", "batch_shape", "layers"} & config.keys()


def _domain(found: Mapping[str, Any], class_name: str) -> str:
    """Of custom classes, the package that they were registered with, or their module."""
    module, registered = str(found.get("module") or ""), str(found.get("registered_name") or "")
    if _is_operation(found):
        return OPS
    package = found["class_name"].rpartition(">")[0] or (registered.rpartition(">")[0] if ">" in registered else "")
    if package in ("Custom", "") and (module.partition(".")[0] in ("keras", "tf_keras", "tensorflow") or not module):
        return "" if package != "Custom" else "Custom"
    return package or ("Custom" if registered else module)


def _children(layer: Layer) -> Iterator[tuple[str, Any]]:
    """Serialized layers inside of a layer, by where Keras stores their weights."""
    config, kind = layer.config, layer.class_name
    if layer.is_model:
        yield from _members("layers", config["layers"])
    elif kind == "StackedRNNCells":
        yield from _members("cells", _list(config.get("cells")))
    elif kind == "Bidirectional":
        forward = config.get("layer")
        if isinstance(forward, dict):
            yield "forward_layer", _renamed(forward, "forward")
            backward = config.get("backward_layer")
            yield "backward_layer", backward if isinstance(backward, dict) else _backwards(_renamed(forward, "backward"))
    elif kind == "RNN":
        yield "cell", config.get("cell")
    elif kind in ("LSTM", "GRU", "SimpleRNN"):
        yield "cell", {"class_name": f"{kind}Cell", "config": {k: v for k, v in config.items() if k in _CELL}}
    elif kind in ("TimeDistributed", "SpectralNormalization", "Wrapper") and isinstance(config.get("layer"), dict):
        yield "layer", config["layer"]
    elif kind == "Pipeline":
        yield from _members("layers", _list(config.get("layers")))


_CELL = frozenset({
    "units", "activation", "recurrent_activation", "use_bias", "reset_after", "trainable", "dtype", "implementation",
    "unit_forget_bias", "kernel_initializer", "dropout", "recurrent_dropout"})


def _renamed(layer: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    config = dict(layer.get("config") or {})
    config["name"] = f"{prefix}_{str(config.get('name', 'layer')).removeprefix('forward_').removeprefix('backward_')}"
    return {**layer, "config": config}


def _backwards(layer: Mapping[str, Any]) -> dict[str, Any]:
    config = dict(layer["config"])
    config["go_backwards"] = not config.get("go_backwards", False)
    return {**layer, "config": config}


def _members(attribute: str, found: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Layers of a list; each is called by its class, with a number where there are several of one class.

    Operations of ``keras.ops`` are not layers to Keras: they do not count.
    """
    used: dict[str, int] = {}
    if len(found) > MAX_LAYERS:
        raise ImportModelError(f"got a model of {len(found)} layers; expected at most {MAX_LAYERS}")
    for number, member in enumerate(found):
        kind = member.get("class_name") if isinstance(member, dict) else None
        if isinstance(kind, str) and _is_operation(member):
            yield f"operations/{number}", member
            continue
        plain = str(kind).rpartition(">")[2]
        name = snake_case(_EXPORTED.get(plain, plain))
        count = used[name] = used.get(name, -1) + 1
        yield f"{attribute}/{name}_{count}" if count else f"{attribute}/{name}", member


def snake_case(name: str) -> str:
    """As Keras calls what has a class of this name."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
