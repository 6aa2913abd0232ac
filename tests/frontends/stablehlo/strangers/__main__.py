"""Models and programs of packages of jax, with random weights, exported with what jax gives for them.

``python -m tests.frontends.stablehlo.strangers FOLDER [WORD ...]`` writes ``NAME.jaxexport`` and ``NAME.npz``; it needs the
packages, and no Forge. ``python -m tests.frontends.stablehlo.real_files --exported FOLDER --compiled`` compares; it needs no
package, nor jax.

Packages: jax flatbuffers flax transformers<5 equinox dm-haiku optax distrax tfp-nightly diffrax lineax optimistix blackjax
numpyro jaxopt jraph rlax dm-pix mctx jax-md mujoco-mjx brax e3nn-jax equimo flaxmodels tinygp s2fft gymnax. What a package that
is missing has is left out, and said.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from tests.frontends.stablehlo.strangers import networks, programs, transformers_models

SOURCES = {"transformers": transformers_models.cases, "network": networks.cases, "program": programs.cases}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("words", nargs="*", help="cases only whose names have one of them")
    options = parser.parse_args()
    os.environ.setdefault("EQX_ON_ERROR", "nan")  # equinox's checks call Python otherwise, which no file can have
    options.folder.mkdir(parents=True, exist_ok=True)
    for package, source in SOURCES.items():
        for label, case in source():
            name = f"{package}-{label}"
            if options.words and not any(word in name for word in options.words):
                continue
            try:
                case().write(options.folder, name)
            except Exception:  # noqa: BLE001  whatever the package raises: it is not ours
                sys.stdout.write(f"{name}: not exported: {traceback.format_exc(limit=-3)[-600:]}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
