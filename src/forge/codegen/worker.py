"""The compile worker: LLVM IR text in, object code out, over pipes.

Runs as a script in a process of its own, because LLVM holds one lock per process and aborts the process on fatal errors.
Imports only llvmlite and the standard library.

A request is three frames: levels of optimization ("3 1": of code generation, of passes; or `QUICK`), "cpu|features", IR text. A
reply is two frames: "ok" and the object, or "error" and a message. A frame is its length (8 bytes, little endian) and its bytes.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, BinaryIO

QUICK = -1
"""In the place of a level: values go to registers where that costs nothing, which takes LLVM a fifteenth of the time of level 3.

Multiplications and additions are fused as at other levels: results are the same.
"""


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame; None where the stream has ended."""
    header = stream.read(8)
    if len(header) < 8:
        return None
    (size,) = struct.unpack("<Q", header)
    body = stream.read(size)
    return body if len(body) == size else None


def write_frame(stream: BinaryIO, body: bytes) -> None:
    stream.write(struct.pack("<Q", len(body)))
    stream.write(body)


class Compiler:
    """Compiles modules; keeps target machines."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm  # here, so that the parent process can share the frame functions cheaply

        self._llvm = llvm
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        llvm.set_option("forge", "-fast-isel=false")  # which fuses no multiplications and additions, and is level 0's
        self._machines: dict[tuple[str, str, int], Any] = {}

    def compile(self, ir: str, machine: str, level: int, passes_level: int) -> bytes:
        """Object code of ``ir``. Raises RuntimeError where LLVM refuses the text."""
        llvm = self._llvm
        module = llvm.parse_assembly(ir)
        module.verify()
        target_machine = self._machine(machine, max(level, 0), module.triple)
        options = llvm.create_pipeline_tuning_options(speed_level=max(passes_level, 0))
        options.loop_vectorization = passes_level >= 2
        options.loop_unrolling = level >= 2
        builder = llvm.create_pass_builder(target_machine, options)
        if level == QUICK:
            passes = llvm.create_new_module_pass_manager()
            passes.add_sroa_pass()
        else:
            passes = builder.getModulePassManager()
        passes.run(module, builder)
        return bytes(target_machine.emit_object(module))

    def _machine(self, machine: str, level: int, triple: str) -> Any:
        key = (triple, machine, level)
        if key not in self._machines:
            cpu, _, features = machine.partition("|")
            target = self._llvm.Target.from_triple(triple)
            self._machines[key] = target.create_target_machine(
                cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small")
        return self._machines[key]


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answers requests until the stream of requests ends."""
    compiler = Compiler()
    while (levels := read_frame(requests)) is not None:
        machine, ir = read_frame(requests), read_frame(requests)
        if machine is None or ir is None:
            return
        try:
            reply = (b"ok", compiler.compile(ir.decode(), machine.decode(), *map(int, levels.split())))
        except RuntimeError as error:
            reply = (b"error", str(error).encode())
        for frame in reply:
            write_frame(replies, frame)
        replies.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
