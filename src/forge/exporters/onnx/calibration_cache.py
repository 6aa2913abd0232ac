"""TensorRT's calibration cache: text that says how wide the steps of int8 are, tensor by tensor.

    TRT-100900-EntropyCalibration2
    x: 3c008912

A head with TensorRT's version and its calibrator, which reads only what it takes for its own, then for each tensor its name and
the bytes of its scale, float32, the highest first, in hexadecimal digits. The scale is the largest number divided by 127, and
zero points are 0. ``trtexec --calib=FILE`` and ``readCalibrationCache`` take it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from forge.errors import OptionError

CALIBRATOR = "EntropyCalibration2"
"""That of ``trtexec``."""


def cache_text(scales: Mapping[str, float], version: str) -> str:
    """The contents of the file.

    Args:
        scales: by name of tensor.
        version: of TensorRT, ``"10.9.0"``.

    Raises:
        OptionError: it is none; or a name has a line break, which the format cannot hold.
    """
    broken = next((name for name in scales if "\n" in name or "\r" in name), None)
    if broken is not None:
        raise OptionError(f"calibration cache: got the name {broken!r}; expected names of tensors without line breaks; rename it")
    lines = [f"{name}: {struct.pack('>f', scale).hex()}\n" for name, scale in scales.items()]
    return f"TRT-{version_number(version)}-{CALIBRATOR}\n{''.join(lines)}"


def version_number(version: str) -> int:
    """As TensorRT counts its versions: 8.6.1 is 8601; from 10 on, with two digits for each part, 10.9.0 is 100900.

    Raises:
        OptionError: it is not a version.
    """
    parts = version.split(".") if isinstance(version, str) else []
    if not 2 <= len(parts) <= 4 or not all(p.isascii() and p.isdigit() for p in parts) or any(int(p) > 99 for p in parts[:3]):
        raise OptionError(f"tensorrt_version: got {version!r}; expected a text such as '10.9.0'")
    major, minor, patch = (int(p) for p in [*parts, "0"][:3])
    return major * 10000 + minor * 100 + patch if major >= 10 else major * 1000 + minor * 100 + patch
