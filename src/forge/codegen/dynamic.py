"""Memory that the entry itself asks the host for, because its size is known only after some kernels have run."""

from __future__ import annotations

from collections.abc import Sequence

from forge.codegen import abi, control
from forge.codegen.functions import FunctionEmitter
from forge.codegen.llvm import c_string
from forge.tir import stmt, visit

LARGEST = float(1 << 46)
"""Bytes; larger requests are refused before their size could overflow."""

_KEPT = "noinline"
"""Inlined, they let SROA promote the slots, and the exit gets a phi of each slot over every call that may fail."""

_ALLOCATE = f"""define internal i32 @forge.allocate(ptr %slot, ptr %size, i64 %bytes, double %estimate, ptr %host) {_KEPT} {{
  %absurd = fcmp ugt double %estimate, {LARGEST:e}
  br i1 %absurd, label %refuse, label %ask
ask:
  %few = icmp slt i64 %bytes, 64
  %some = select i1 %few, i64 64, i64 %bytes
  %function = getelementptr i8, ptr %host, i64 {abi.HOST_OFFSETS["alloc"]}
  %alloc = load ptr, ptr %function, align 8
  %memory = call ptr %alloc(ptr %host, i64 %some, i64 64)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %refuse, label %keep
keep:
  store ptr %memory, ptr %slot, align 8
  store i64 %some, ptr %size, align 8
  ret i32 0
refuse:
  %report.at = getelementptr i8, ptr %host, i64 {abi.HOST_OFFSETS["report_error"]}
  %report = load ptr, ptr %report.at, align 8
  call void %report(ptr %host, i32 {abi.STATUS_MEMORY}, ptr @forge.no.memory)
  ret i32 {abi.STATUS_MEMORY}
}}"""

_ALLOCATE_OUTPUT = f"""define internal i32 @forge.allocate.output(ptr %tensor, i64 %bytes, double %estimate, ptr %host) {_KEPT} {{
  %given = load ptr, ptr %tensor, align 8
  %capacity.at = getelementptr i8, ptr %tensor, i64 {abi.TENSOR_OFFSETS["capacity"]}
  %missing = icmp eq ptr %given, null
  br i1 %missing, label %ask, label %check
ask:
  %status = call i32 @forge.allocate(ptr %tensor, ptr %capacity.at, i64 %bytes, double %estimate, ptr %host)
  ret i32 %status
check:
  %capacity = load i64, ptr %capacity.at, align 8
  %fits = icmp sge i64 %capacity, %bytes
  %sane = fcmp ole double %estimate, {LARGEST:e}
  %good = and i1 %fits, %sane
  br i1 %good, label %done, label %refuse
done:
  ret i32 0
refuse:
  %report.at = getelementptr i8, ptr %host, i64 {abi.HOST_OFFSETS["report_error"]}
  %report = load ptr, ptr %report.at, align 8
  call void %report(ptr %host, i32 {abi.STATUS_INPUT}, ptr @forge.small.output)
  ret i32 {abi.STATUS_INPUT}
}}"""

_FREE = f"""define internal void @forge.free(ptr %slot, ptr %size, ptr %host) {_KEPT} {{
  %memory = load ptr, ptr %slot, align 8
  %none = icmp eq ptr %memory, null
  br i1 %none, label %done, label %free
free:
  %bytes = load i64, ptr %size, align 8
  %function = getelementptr i8, ptr %host, i64 {abi.HOST_OFFSETS["free"]}
  %release = load ptr, ptr %function, align 8
  call void %release(ptr %host, ptr %memory, i64 %bytes)
  store ptr null, ptr %slot, align 8
  br label %done
done:
  ret void
}}"""

_NO_MEMORY = "run: no memory for an intermediate result whose size depends on the input's contents"
_SMALL_OUTPUT = "run: the given output is too small for a result whose size depends on the input's contents; pass none"


class DynamicMemory:
    """Slots of the entry for pointers and sizes; all empty at the start. Results of control-flow nodes have theirs too."""

    def __init__(self, f: FunctionEmitter, host: str, out: str, entry: stmt.Stmt) -> None:
        statements = list(visit.statements(entry))
        self.f = f
        self.host = host
        self.out = out
        self.controls = control.ControlCalls(f, host, [s for s in statements if isinstance(s, stmt.RunControl)])
        own = sorted({s.number for s in statements if isinstance(s, stmt.AllocateMemory)})
        self.slots = {n: (f.builder.alloca("ptr", 8), f.builder.alloca("i64", 8)) for n in own}
        for slot, _ in self.slots.values():
            f.builder.effect(f"store ptr null, ptr {slot}, align 8")
        self.slots.update({n: self.controls.slot(n) for n in self.controls.descriptors})
        if self.slots or any(isinstance(s, stmt.AllocateOutput) for s in statements):
            texts = [c_string("@forge.no.memory", _NO_MEMORY), c_string("@forge.small.output", _SMALL_OUTPUT)]
            f.module.add_once("@forge.allocate", "\n\n".join([*texts, _ALLOCATE, _ALLOCATE_OUTPUT, _FREE]))

    def allocate(self, number: int, size: str, estimate: str) -> str:
        """The pointer to fresh memory."""
        slot, length = self.slots[number]
        b = self.f.builder
        status = b.value(f"call i32 @forge.allocate(ptr {slot}, ptr {length}, {size}, {estimate}, ptr {self.host})")
        self.f.check_status(status)
        return b.value(f"load ptr, ptr {slot}, align 8")

    def free(self, number: int) -> None:
        slot, length = self.slots[number]
        self.f.builder.effect(f"call void @forge.free(ptr {slot}, ptr {length}, ptr {self.host})")

    def free_all(self) -> None:
        for number in self.slots:
            self.free(number)

    def allocate_output(self, number: int, shape: Sequence[str], size: str, estimate: str) -> str:
        """The pointer to the memory of an output, whose descriptor is filled."""
        b = self.f.builder
        tensor = abi.tensor(b, self.out, number)
        self.f.check_status(b.value(f"call i32 @forge.allocate.output(ptr {tensor}, {size}, {estimate}, ptr {self.host})"))
        abi.store_shape(b, tensor, shape)
        return b.value(f"load ptr, ptr {tensor}, align 8")
