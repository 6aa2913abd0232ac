"""Makes the files in ``data``: ``python -m tests.frontends.stablehlo.make_data``. They are read where there is no jax.

Each module is there as text, in the form of its dialects, and as portable artifacts of several versions of StableHLO; one is
what ``jax.export`` serializes. Names of files of this machine are left out.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.frontends.stablehlo.functions import exported
from tests.frontends.stablehlo.modules import ATTRIBUTES, QUANTIZED, QUANTIZED_VHLO, RESOURCES, artifact, bytecode, texts

DATA = Path(__file__).parent / "data"
VERSIONS = ("0.9.0", "0.10.0", "0.12.0", "0.14.0", "0.16.0", "1.0.0", "1.8.0", "1.17.0")
NAMES = (
    "nested", "conv_dilated", "scatter_add", "reduce_two", "sort_keys", "symbolic_pad", "special_floats", "bool_constant",
    "complex_constant", "cholesky", "dot_general", "fft")
OF_NEWER_VERSIONS = {"composite": ("1.0.0", "1.17.0"), "vmap_gather": ("1.8.0", "1.17.0")}
EXPORTED = "many_results"


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for index, name in enumerate((*NAMES, *OF_NEWER_VERSIONS)):
        _, text = texts(exported(name).mlir_module(), locations=False)
        (DATA / f"{name}.mlir").write_text(text)
        for version in OF_NEWER_VERSIONS.get(name, (VERSIONS[index % len(VERSIONS)], VERSIONS[(3 * index + 4) % len(VERSIONS)])):
            (DATA / f"{name}.{version}.mlir.bc").write_bytes(artifact(text, version))
    for name, text, version in (("resources", RESOURCES, "1.17.0"), ("attributes", ATTRIBUTES, "1.4.0")):
        (DATA / f"{name}.mlir").write_text(text)
        (DATA / f"{name}.{version}.mlir.bc").write_bytes(artifact(text, version))
    (DATA / "quantized.mlir").write_text(QUANTIZED)
    (DATA / "quantized.mlir.bc").write_bytes(bytecode(QUANTIZED_VHLO))
    function = exported(EXPORTED)
    _, text = texts(function.mlir_module(), locations=False)
    (DATA / f"{EXPORTED}.mlir").write_text(text)
    stripped = dataclasses.replace(function, mlir_module_serialized=artifact(text, "1.17.0"))
    (DATA / f"{EXPORTED}.jaxexport").write_bytes(stripped.serialize())


if __name__ == "__main__":
    main()
