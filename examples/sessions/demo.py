"""A model that remembers what it was given: two functions over one state, in a session.

    python examples/sessions/demo.py FOLDER

compiles the model into FOLDER and runs it here; ``main.c`` runs the same library from C.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import forge

MODEL = """
def @add(%x: Tensor[(n), float32], state %seen: Tensor[(m), float32], public=True) {
  %0 = concatenate(%seen, %x);
  (mean(%0, axis=[0]), %seen = %0)
}
def @largest(state %seen: Tensor[(m), float32], public=True) { max(%seen, axis=[0]) }
"""


def main(folder: Path) -> None:
    """Compiles, loads, runs."""
    forge.IRModule(MODEL).compile(output_path=folder, force_overwrite=True)
    session = forge.Runtime(folder)["add"].session(capacity=1000)
    print("mean", session(np.array([1, 2], np.float32)))
    print("mean", session(np.array([6], np.float32)))
    fork = session.copy()
    print("mean in a fork", fork(np.array([-9], np.float32)))
    print("largest", session["largest"]())
    print("seen", session.state()["seen"].tolist())
    session.reset()
    print("mean", session(np.array([5], np.float32)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
