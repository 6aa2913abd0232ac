"""Statements of the loop IR as LLVM functions.

A kernel becomes ``i32 kernel(ptr buffers..., i64 scalars..., ptr host)``; its scalars are sizes, never negative. The body
of a parallel loop becomes a function of its own, which gets the same pointers (with the same no-alias promises) and a
range of iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from forge import dtypes
from forge.codegen import abi, conversions, extern, memory, tiles
from forge.codegen.expressions import ExpressionEmitter
from forge.codegen.llvm import IRBuilder, Operand, memory_type, register_type, scalar_type
from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import rows, stmt, visit

if TYPE_CHECKING:
    from forge.codegen.module import ModuleEmitter

LOCAL_ALIGNMENT = 64
MAX_STACK_BYTES = 1 << 20
UNROLLED_BODY = 40
"""Instructions of a loop's body from which on LLVM shall not unroll it further: more code, no more speed."""


class Parameter(NamedTuple):
    """A parameter of an LLVM function."""

    type: str
    name: str
    attributes: str = "noundef"

    def __str__(self) -> str:
        return f"{self.type} {self.attributes} {self.name}"


HOST = Parameter("ptr", "%host")
RANGE = (Parameter("i64", "%begin"), Parameter("i64", "%end"))
"""The iterations that one call of a parallel loop's body runs."""


class FunctionEmitter:
    """Emits the statements of one LLVM function of type i32; ends it with ``finish``."""

    def __init__(self, module: ModuleEmitter, symbol: str) -> None:
        self.module = module
        self.symbol = symbol
        self.builder = IRBuilder()
        self.e = ExpressionEmitter(module, self.builder)
        self.unaliased: dict[tir.Buffer, bool] = {}
        self.in_parallel = False
        self._stack_bytes = 0
        self._heap: list[str] = []
        self._chunks = 0

    def finish(self, parameters: Iterable[Parameter], linkage: str) -> None:
        """Appends the function to the module."""
        self.builder.effect("ret i32 0")
        self.leave()
        if self._heap:
            self._free_heap()
        self.module.add(self.builder.function(f"{linkage}i32 {self.symbol}({', '.join(map(str, parameters))}) #0"))

    def emit(self, s: stmt.Stmt) -> None:
        rule = _RULES.get(type(s))
        if rule is None:
            raise CompileError(f"codegen: {self.symbol}: no machine code for statement {type(s).__name__}")
        self.e.forget()
        rule(self, s)

    def buffer_parameter(self, buffer: tir.Buffer) -> Parameter:
        """The parameter that points to ``buffer``."""
        noalias = "noalias " if self.unaliased.get(buffer, False) else ""
        readonly = "" if buffer.writable else "readonly "
        alignment = buffer.alignment or dtypes.alignment(buffer.dtype)
        return Parameter("ptr", self.e.pointers[buffer], f"{noalias}{readonly}noundef align {alignment}")

    def check_status(self, status: str) -> None:
        """Returns from the function where ``status`` is not 0."""
        b = self.builder
        failed, passed = b.fresh("failed"), b.fresh("passed")
        bad = b.value(f"icmp ne i32 {status}, 0")
        b.effect(f"br i1 {bad}, label %{failed}, label %{passed}")
        b.label(failed)
        b.effect(f"ret i32 {status}")
        b.label(passed)

    def leave(self) -> None:
        """What stands after the statements, for branches to it."""

    def local_buffer(self, buffer: tir.Buffer) -> str:
        """Memory of the function's own: on the stack, as far as there is room."""
        count: Operand = buffer.lanes
        for extent in buffer.shape:
            size = self.e.value(extent)
            if isinstance(size, str):
                raise CompileError(f"codegen: {self.symbol}: local buffer {buffer.name!r} has a size known only at run time")
            count = int(count) * int(size)
        size, alignment = int(count) * dtypes.itemsize(buffer.dtype), max(LOCAL_ALIGNMENT, buffer.alignment)
        if self._stack_bytes + size > MAX_STACK_BYTES:
            return self._heap_buffer(size, alignment)
        self._stack_bytes += size
        return self.builder.alloca(f"[{count} x {memory_type(buffer.dtype)}]", alignment)

    def _heap_buffer(self, size: int, alignment: int) -> str:
        """Memory from the C library, which the function takes when it is entered, and gives back where it is left."""
        self.module.add_once("@aligned_alloc", "declare noalias ptr @aligned_alloc(i64, i64)")
        self.module.add_once("@free", "declare void @free(ptr)")
        name = self.builder.fresh("%heap")
        self._heap.append(name)
        self.builder.allocas.append(
            f"  {name} = call ptr @aligned_alloc(i64 {alignment}, i64 {-(-size // alignment) * alignment})")
        return name

    def _free_heap(self) -> None:
        """Puts what frees the memory before each end, and an end where there was none in front of all."""
        b = self.builder
        free = [f"  call void @free(ptr {name})" for name in self._heap]
        ends = [[*free, line] if line.startswith("  ret ") else [line] for line in b.lines]
        missing = [f"  %missing{k} = icmp eq ptr {name}, null" for k, name in enumerate(self._heap)]
        some = [f"  %some{k} = or i1 %{f'some{k - 1}' if k else 'missing0'}, %missing{k}" for k in range(len(missing))]
        b.lines = [*missing, *some, f"  br i1 %some{len(some) - 1}, label %full, label %begins", "full:", *free,
                   f"  ret i32 {abi.STATUS_MEMORY}", "begins:", *(line for end in ends for line in end)]


def emit_kernel(module: ModuleEmitter, function: stmt.Function) -> None:
    """Appends the LLVM function of one loop function to ``module``."""
    f = FunctionEmitter(module, module.symbol(function.name))
    shared = {b for pair in function.aliases for b in pair}
    parameters = []
    for position, buffer in enumerate(function.buffers):
        repeated = function.buffers.count(buffer) > 1
        if buffer in f.e.pointers:
            parameters.append(Parameter("ptr", f"%unused{position}"))
            continue
        f.e.pointers[buffer] = f"%buffer{position}"
        f.unaliased[buffer] = buffer not in shared and not repeated
        parameters.append(f.buffer_parameter(buffer))
    for position, var in enumerate(function.scalars):
        parameters.append(Parameter("i64", f"%scalar{position}"))
        f.e.env[var] = conversions.convert(f.e, f"%scalar{position}", tir.INDEX, var.dtype, 1)
        f.e.nonnegative_vars.add(var)
    f.emit(function.body)
    f.finish([*parameters, HOST], "hidden ")


def _seq(f: FunctionEmitter, s: stmt.Seq) -> None:
    for inner in s.body:
        f.emit(inner)


def _for(f: FunctionEmitter, s: stmt.For) -> None:
    begin, extent = f.e.value(s.begin), f.e.value(s.extent)
    if not isinstance(extent, str) and int(extent) <= 0:
        return
    if s.kind == "unrolled" or not isinstance(extent, str) and extent == 1:
        _unrolled(f, s, begin, extent)
    elif s.kind == "parallel" and not f.in_parallel:
        _parallel(f, s, begin, extent)
    else:
        _serial(f, s, begin, extent)


def _bind(f: FunctionEmitter, var: tir.Var, value: Operand, nonnegative: bool) -> None:
    f.e.env[var] = value
    (f.e.nonnegative_vars.add if nonnegative else f.e.nonnegative_vars.discard)(var)


def _unrolled(f: FunctionEmitter, s: stmt.For, begin: Operand, extent: Operand) -> None:
    if isinstance(extent, str):
        raise CompileError(f"codegen: {f.symbol}: unrolled loop over {s.var.name!r} has an extent known only at run time")
    nonnegative = f.e.nonnegative(s.begin)
    t = f.e.typed(s.var)
    for i in range(int(extent)):
        value = t.op("add", begin, i) if isinstance(begin, str) and i else begin if isinstance(begin, str) else int(begin) + i
        _bind(f, s.var, value, nonnegative)
        f.emit(s.body)


def _serial(f: FunctionEmitter, s: stmt.For, begin: Operand, extent: Operand) -> None:
    """A loop with its test at the end, after a guard where the extent may be 0."""
    b, type_ = f.builder, scalar_type(s.var.dtype)
    nonnegative = f.e.nonnegative(s.begin)
    head, body, after = b.fresh("loop"), b.fresh("body"), b.fresh("after")
    end = extent if begin == 0 else b.value(f"add {type_} {begin}, {extent}")
    b.effect(f"br label %{head}")
    b.label(head)
    if isinstance(extent, str):
        some = b.value(f"icmp sgt {type_} {extent}, 0")
        b.effect(f"br i1 {some}, label %{body}, label %{after}")
    else:
        b.effect(f"br label %{body}")
    b.enter()
    latch = b.fresh("latch")
    name, following = b.fresh("%i"), b.fresh("%next")
    b.label(body)
    start = len(b.lines)
    b.effect(f"{name} = phi {type_} [ {begin}, %{head} ], [ {following}, %{latch} ]")
    _bind(f, s.var, name, nonnegative)
    f.emit(s.body)
    b.effect(f"br label %{latch}")
    b.label(latch)
    b.effect(f"{following} = add nsw {type_} {name}, 1")
    again = b.value(f"icmp slt {type_} {following}, {end}")
    # a loop over vectors of unknown number is unrolled as far as it pays already: by its schedule
    is_vector = isinstance(extent, str) and any(" x " in line for line in b.lines[start:])
    hint = f", !llvm.loop {f.module.no_unrolling()}" if is_vector or len(b.lines) - start > UNROLLED_BODY else ""
    b.effect(f"br i1 {again}, label %{body}, label %{after}{hint}")
    b.leave()
    b.label(after)


def _parallel(f: FunctionEmitter, s: stmt.For, begin: Operand, extent: Operand) -> None:
    """Hands the iterations to ``host->parallel_for``, with what the body uses in a closure on the stack."""
    used, buffers = visit.free_names(s.body)
    captured = [v for v in used if v is not s.var and isinstance(f.e.env.get(v), str)]
    _check_captured(f, captured, buffers)
    fields = [*(f"ptr {f.e.pointers[b]}" for b in buffers), *(f.e.text(v) for v in captured),
              f"{scalar_type(s.var.dtype)} {begin}"]
    symbol = _chunk_function(f, s, captured, buffers)
    closure = f.builder.alloca(f"[{len(fields)} x i64]", 8)
    for position, field in enumerate(fields):
        slot = f.builder.value(f"getelementptr i64, ptr {closure}, i64 {position}")
        f.builder.effect(f"store {field}, ptr {slot}, align 8")
    grain = 1 if s.grain is None else f.e.value(s.grain)
    run = abi.host_function(f.builder, "%host", "parallel_for")
    f.check_status(f.builder.value(f"call i32 {run}(ptr %host, ptr {symbol}, ptr {closure}, i64 {extent}, i64 {grain})"))


def _check_captured(f: FunctionEmitter, captured: list[tir.Var], buffers: list[tir.Buffer]) -> None:
    for buffer in buffers:
        if buffer not in f.e.pointers:
            raise CompileError(f"codegen: {f.symbol}: buffer {buffer.name!r} is neither a parameter nor allocated here")
    for var in captured:
        if var.lanes > 1:
            raise CompileError(f"codegen: {f.symbol}: a parallel loop uses vector {var.name!r} from outside; "
                               "expected it to be bound inside the loop")


def _chunk_function(f: FunctionEmitter, s: stmt.For, captured: list[tir.Var], buffers: list[tir.Buffer]) -> str:
    """Emits the loop over a range of iterations and the thunk that unpacks the closure; returns the thunk's symbol."""
    f._chunks += 1
    chunk = FunctionEmitter(f.module, f'{f.symbol[:-1]}.chunk{f._chunks}"')
    thunk = FunctionEmitter(f.module, f'{f.symbol[:-1]}.thunk{f._chunks}"')
    chunk.in_parallel = True
    chunk.e.env = dict(f.e.env)
    chunk.e.nonnegative_vars = set(f.e.nonnegative_vars)
    chunk.unaliased = f.unaliased
    parameters = []
    for position, buffer in enumerate(buffers):
        chunk.e.pointers[buffer] = f"%buffer{position}"
        parameters.append(chunk.buffer_parameter(buffer))
    for position, var in enumerate(captured):
        chunk.e.env[var] = f"%captured{position}"
        parameters.append(Parameter(register_type(var.dtype, var.lanes), f"%captured{position}"))
    index = scalar_type(s.var.dtype)
    parameters.append(Parameter(index, "%base"))
    first, end = tir.var("first"), tir.var("end")
    for bound in (first, end):
        _bind(chunk, bound, chunk.builder.value(f"add {index} %base, %{'begin' if bound is first else 'end'}"), True)
    chunk.emit(rows.iterations(s, first, end))
    chunk.finish([*parameters, *RANGE, HOST], "internal ")
    return _thunk(thunk, chunk.symbol, parameters)


def _thunk(thunk: FunctionEmitter, chunk: str, captured: list[Parameter]) -> str:
    b = thunk.builder
    args = []
    for position, parameter in enumerate(captured):
        slot = b.value(f"getelementptr i64, ptr %closure, i64 {position}")
        args.append(f"{parameter.type} {b.value(f'load {parameter.type}, ptr {slot}, align 8')}")
    status = b.value(f"call i32 {chunk}({', '.join([*args, 'i64 %begin', 'i64 %end', 'ptr null'])})")
    thunk.check_status(status)
    thunk.finish([*RANGE, Parameter("ptr", "%closure")], "internal ")
    return thunk.symbol


def _store(f: FunctionEmitter, s: stmt.Store) -> None:
    memory.store(f.e, s)


def _if(f: FunctionEmitter, s: stmt.If) -> None:
    condition = f.e.value(s.condition)
    if not isinstance(condition, str):
        chosen = s.then if condition else s.otherwise
        if chosen is not None:
            f.emit(chosen)
        return
    b = f.builder
    then, otherwise, after = b.fresh("then"), b.fresh("else"), b.fresh("after")
    b.effect(f"br i1 {condition}, label %{then}, label %{otherwise if s.otherwise is not None else after}")
    for label, branch in ((then, s.then), (otherwise, s.otherwise)):
        if branch is not None:
            b.enter()
            b.label(label)
            f.emit(branch)
            b.effect(f"br label %{after}")
            b.leave()
    b.label(after)


def _let(f: FunctionEmitter, s: stmt.Let) -> None:
    nonnegative = f.e.nonnegative(s.value)
    _bind(f, s.var, f.e.value(s.value), nonnegative)


def _allocate(f: FunctionEmitter, s: stmt.Allocate) -> None:
    if s.buffer not in f.e.pointers:
        f.e.pointers[s.buffer] = f.local_buffer(s.buffer)


def _evaluate(f: FunctionEmitter, s: stmt.Evaluate) -> None:
    f.e.value(s.value)


def _prefetch(f: FunctionEmitter, s: stmt.Prefetch) -> None:
    memory.prefetch(f.e, s)


def _fail(f: FunctionEmitter, s: stmt.Fail) -> None:
    if f.in_parallel:
        raise CompileError(f"codegen: {f.symbol}: a failure inside a parallel loop; expected it before the loop")
    message = f.module.message(s.message)
    report = abi.host_function(f.builder, "%host", "report_error")
    f.builder.effect(f"call void {report}(ptr %host, i32 {s.status}, ptr {message})")
    f.builder.effect(f"ret i32 {s.status}")
    f.builder.label(f.builder.fresh("unreachable"))


def _call_routine(f: FunctionEmitter, s: stmt.CallRoutine) -> None:
    if f.in_parallel:
        raise CompileError(f"codegen: {f.symbol}: routine {s.name!r} is called inside a parallel loop; expected it outside")
    types = ["ptr"] * len(s.buffers) + ["i64"] * len(s.scalars) + ["ptr"]
    f.module.add_once(f"@{s.name}", f"declare i32 @{s.name}({', '.join(types)})")
    args = [f"ptr {f.e.pointers[b]}" for b in s.buffers] + [f.e.text(x) for x in s.scalars]
    f.check_status(f.builder.value(f"call i32 @{s.name}({', '.join([*args, 'ptr %host'])})"))


def _call_extern(f: FunctionEmitter, s: stmt.CallExtern) -> None:
    if f.in_parallel:
        raise CompileError(f"codegen: {f.symbol}: function {s.name!r} is called inside a parallel loop; expected it outside")
    status = extern.call(f.module, f.builder, f.e, s)
    b = f.builder
    failed, passed = b.fresh("failed"), b.fresh("passed")
    b.effect(f"br i1 {b.value(f'icmp ne i32 {status}, 0')}, label %{failed}, label %{passed}")
    b.label(failed)
    text = extern.message(f.module, b, s, status)
    report = abi.host_function(b, "%host", "report_error")
    b.effect(f"call void {report}(ptr %host, i32 {stmt.STATUS_FUNCTION}, ptr {text})")
    b.effect(f"ret i32 {stmt.STATUS_FUNCTION}")
    b.label(passed)


_RULES: dict[type[stmt.Stmt], Callable[[FunctionEmitter, Any], None]] = {
    stmt.Seq: _seq, stmt.For: _for, stmt.Store: _store, stmt.If: _if, stmt.Let: _let, stmt.Allocate: _allocate,
    stmt.Evaluate: _evaluate, stmt.Prefetch: _prefetch, stmt.Fail: _fail, stmt.CallRoutine: _call_routine,
    stmt.CallExtern: _call_extern, stmt.Tiles: tiles.emit,
}
