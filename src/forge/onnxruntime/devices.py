"""Devices and execution providers: the CPU, and that there is no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forge import errors
from forge.errors import OptionError
from forge.onnxruntime.errors import EPFail, RuntimeException

CPU = "CPUExecutionProvider"
"""By this name programs ask for the CPU; what runs there is Forge's code."""

ProviderOptions = dict[str, Any]
Providers = Sequence[str | tuple[str, ProviderOptions]]

_OPTIONS_OF_CPU = ("arena_extend_strategy", "use_arena")
"""About onnxruntime's allocator, which Forge has none of: memory is planned when the model is compiled."""


class OrtDevice:
    """The CPU's memory; ``OrtDevice.make("cpu", 0)``."""

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Raises RuntimeException for any device but the CPU."""
        check_device("OrtDevice.make", ort_device_name, device_id)
        return OrtDevice()

    def device_type(self) -> int:
        return 0

    def device_id(self) -> int:
        return 0

    def device_vendor_id(self) -> int:
        return 0

    def device_mem_type(self) -> int:
        return 0


def check_device(where: str, kind: object, number: object = 0) -> None:
    """Raises RuntimeException for any device but the CPU."""
    if kind != "cpu" or number not in (0, -1):
        raise RuntimeException(f"{where}: device; got {kind} {number}; expected 'cpu' and 0: Forge computes on the CPU; leave "
                               "arrays in its memory, as with tensor.cpu()")


def get_available_providers() -> list[str]:
    """``["CPUExecutionProvider"]``."""
    return [CPU]


get_all_providers = get_available_providers


def get_device() -> str:
    """``"CPU"``."""
    return "CPU"


def chosen(providers: Providers | None, provider_options: Sequence[ProviderOptions] | None) -> None:
    """Checks what a session was asked to run on. Providers that are not there are left out with a warning, if the CPU is named.

    Raises:
        EPFail: the CPU is not among them; OptionError: an option that means something elsewhere only, or arguments of the wrong
        kind.
    """
    options = _by_name(providers, provider_options)
    missing = [name for name in options if name != CPU]
    if options and CPU not in options:
        raise EPFail(f"InferenceSession: providers: Unknown Provider Type: {missing[0]}; got {list(options)}; expected {CPU!r} "
                     "among them, which is what Forge compiles for; add it as the last one")
    for name in missing:
        errors.warn(f"Specified provider {name!r} is not in available provider names. Available providers: {CPU!r}; the CPU "
                      "is used")
    for name in options.get(CPU, {}):
        if name not in _OPTIONS_OF_CPU:
            raise OptionError(f"InferenceSession: option {name!r} of {CPU}; expected {' or '.join(_OPTIONS_OF_CPU)}; "
                              "leave it out, or set what it means in SessionOptions")


def _by_name(providers: Providers | None, provider_options: Sequence[ProviderOptions] | None) -> dict[str, ProviderOptions]:
    given = [] if providers is None else providers
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise OptionError(f"InferenceSession: providers: got {providers!r}; expected a list, as in [{CPU!r}]")
    names: dict[str, ProviderOptions] = {}
    for item in given:
        name, options = item if isinstance(item, tuple) and len(item) == 2 else (item, {})
        if not isinstance(name, str) or not isinstance(options, Mapping):
            raise OptionError(f"InferenceSession: providers: got {item!r}; expected a name, or a name and its options")
        names[name] = dict(options)
    if provider_options is not None:
        are_options = isinstance(provider_options, Sequence) and all(isinstance(o, Mapping) for o in provider_options)
        if not are_options or len(provider_options) != len(names) or any(names.values()):
            raise OptionError(f"InferenceSession: provider_options: got {provider_options!r} for {len(names)} providers; "
                              "expected a dictionary for each, and none in `providers`")
        names = {name: dict(options) for name, options in zip(names, provider_options, strict=True)}
    return names
