"""The program level: the entry that calls kernels in order, and the tables of ``forge_model``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge.codegen import abi, conversions, dynamic
from forge.codegen.functions import FunctionEmitter
from forge.codegen.llvm import text
from forge.codegen.module import ModuleEmitter, kernel_symbol
from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as tir
from forge.tir import stmt, visit
from forge.tir.program import Program, TensorSpec

MODEL_SYMBOL = "forge_model_data"
WEIGHTS_SYMBOL = "forge_weights"

_SPEC_TYPE = f"{{ ptr, i32, i32, [{abi.MAX_RANK} x {{ i64, i64 }}] }}"


class EntryEmitter(FunctionEmitter):
    """The function ``i32 forge_entry(const forge_call *)``."""

    def __init__(self, module: ModuleEmitter, program: Program) -> None:
        super().__init__(module, "@forge_entry")
        self._bases: dict[tuple[str, int], str] = {}
        self._fields = {name: abi.field(self.builder, "%call", offset) for name, offset in abi.CALL_OFFSETS.items()}
        self._dynamic = dynamic.DynamicMemory(self, self._fields["host"], self._fields["out"], program.entry)
        bind_symbols(self, program.symbols, self._fields["symbols"])
        self._load_bases(program.entry)

    def _load_bases(self, entry: stmt.Stmt) -> None:
        late = {s.number for s in visit.statements(entry) if isinstance(s, stmt.AllocateOutput)}
        for call in visit.statements(entry):
            addresses = call.buffers if isinstance(call, stmt.CallKernel) else ()
            for address in (call.address,) if isinstance(call, stmt.LoadSymbol) else addresses:
                kind, number = address.base
                if kind != "dynamic" and not (kind == "output" and number in late):
                    self._bases.setdefault(address.base, self._base(kind, number))

    def _base(self, kind: str, number: int) -> str:
        if kind in ("weights", "arena"):
            return self._fields[kind]
        if kind in ("input", "output"):
            return abi.field(self.builder, self._fields[f"{kind}s"], 8 * number)
        raise CompileError(f"codegen: address base {kind!r}; expected input, output, weights or arena")

    def emit(self, s: stmt.Stmt) -> None:
        match s:
            case stmt.CallKernel():
                self._call_kernel(s)
            case stmt.LoadSymbol(var=var, address=address):
                self.e.forget()
                self.e.env[var] = self.builder.value(f"load i64, ptr {self._pointer(address)}, align 8")
                self.e.nonnegative_vars.add(var)
            case stmt.AllocateMemory(number=number, size=size):
                self.e.forget()
                wanted, estimate = self.e.text(size.bytes), self.e.text(size.estimate)
                self._bases["dynamic", number] = self._dynamic.allocate(number, wanted, estimate)
            case stmt.FreeMemory(number=number):
                self._dynamic.free(number)
            case stmt.AllocateOutput(number=number, shape=shape, size=size):
                self.e.forget()
                sizes = [self._scalar(d) for d in shape]
                self._bases["output", number] = self._dynamic.allocate_output(
                    number, sizes, self.e.text(size.bytes), self.e.text(size.estimate))
            case _:
                super().emit(s)

    def check_status(self, status: str) -> None:
        b = self.builder
        failed, passed = b.fresh("failed"), b.fresh("passed")
        bad = b.value(f"icmp ne i32 {status}, 0")
        b.effect(f"br i1 {bad}, label %{failed}, label %{passed}")
        b.label(failed)
        self._dynamic.free_all()
        b.effect(f"ret i32 {status}")
        b.label(passed)

    def _call_kernel(self, call: stmt.CallKernel) -> None:
        self.e.forget()
        args = [f"ptr {self._pointer(address)}" for address in call.buffers]
        args += [f"i64 {self._scalar(x)}" for x in call.scalars]
        symbol = self.module.symbol(call.name)
        self.check_status(self.builder.value(f"call i32 {symbol}({', '.join([*args, 'ptr ' + self._fields['host']])})"))

    def _pointer(self, address: stmt.Address) -> str:
        base, offset = self._bases[address.base], self.e.value(address.offset)
        return base if offset == 0 else self.builder.pure(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _scalar(self, x: tir.Expr) -> str:
        return text(conversions.convert(self.e, self.e.value(x), x.dtype, tir.INDEX, 1), "i64")


def bind_symbols(f: FunctionEmitter, symbols: Sequence[tir.Var], values: str) -> None:
    """Loads the values of ``symbols`` from the array that ``values`` points to. Sizes are never negative."""
    for position, var in enumerate(symbols):
        slot = f.builder.pure(f"getelementptr i64, ptr {values}, i64 {position}")
        f.e.env[var] = f.builder.value(f"load i64, ptr {slot}, align 8")
        f.e.nonnegative_vars.add(var)


def emit_program_entry(program: Program, target: Target, embedded_weights: bool) -> str:
    """LLVM IR of the module that defines ``forge_model_get`` and what it returns; kernels are declared.

    With ``embedded_weights`` the tables point to symbol ``forge_weights``, which another object defines; without, to NULL.
    """
    module = ModuleEmitter(target)
    entry = EntryEmitter(module, program)
    entry.emit(program.entry)
    entry.finish(["ptr noundef readonly %call"], "hidden ")
    expressions = _dim_expressions(program)
    module.add(_size_function(module, program))
    if expressions:
        module.add(_dims_function(module, program, expressions))
    for line in _declarations(program):
        module.add(line)
    module.add(_tables(program, expressions, embedded_weights))
    return module.text()


def _size_function(module: ModuleEmitter, program: Program) -> str:
    f = FunctionEmitter(module, "@forge_arena_size")
    bind_symbols(f, program.symbols, "%symbols")
    f.builder.effect(f"ret {f.e.text(program.arena_size)}")
    return "\n".join(["define hidden i64 @forge_arena_size(ptr noundef readonly %symbols) #0 {", f.builder.body(), "}"])


def _dims_function(module: ModuleEmitter, program: Program, expressions: Sequence[tir.Expr]) -> str:
    f = FunctionEmitter(module, "@forge_dims")
    bind_symbols(f, program.symbols, "%symbols")
    for position, x in enumerate(expressions):
        value = f.e.text(x)
        slot = f.builder.value(f"getelementptr i64, ptr %values, i64 {position}")
        f.builder.effect(f"store {value}, ptr {slot}, align 8")
    f.builder.effect("ret void")
    header = "define hidden void @forge_dims(ptr noalias noundef readonly %symbols, ptr noalias noundef %values) #0 {"
    return "\n".join([header, f.builder.body(), "}"])


def _dim_expressions(program: Program) -> list[tir.Expr]:
    """Dimensions that are neither constants nor symbols; equal objects once."""
    found: dict[tir.Expr, None] = {}
    for spec in (*program.inputs, *program.outputs):
        for dim in spec.dims:
            if not isinstance(dim, tir.Const) and dim not in program.symbols:
                found[dim] = None
    return list(found)


def _declarations(program: Program) -> list[str]:
    called = {s.name: s for s in visit.statements(program.entry) if isinstance(s, stmt.CallKernel)}
    lines = []
    for name, call in called.items():
        types = ["ptr"] * len(call.buffers) + ["i64"] * len(call.scalars) + ["ptr"]
        lines.append(f'declare hidden i32 @"{kernel_symbol(name)}"({", ".join(types)})')
    return lines


def _tables(program: Program, expressions: Sequence[tir.Expr], embedded_weights: bool) -> str:
    strings = _Strings()
    lines = [_string_table("@forge_symbol_names", [strings.pointer(v.name) for v in program.symbols])]
    lines += [_spec_table(f"@forge_{kind}_specs", program, specs, expressions, strings.pointer)
              for kind, specs in (("input", program.inputs), ("output", program.outputs))]
    weights = "ptr null"
    if embedded_weights and program.weights_size:
        lines.append(f"@{WEIGHTS_SYMBOL} = external hidden constant [{program.weights_size} x i8], align 64")
        weights = f"ptr @{WEIGHTS_SYMBOL}"
    counts = (abi.ABI_VERSION, len(program.inputs), len(program.outputs), len(program.symbols), len(expressions), 0)
    fields = [*(f"i32 {count}" for count in counts), strings.pointer(program.name),
              strings.pointer(",".join(program.cpu_features)), "ptr @forge_symbol_names", "ptr @forge_input_specs",
              "ptr @forge_output_specs", weights, f"i64 {program.weights_size}", "ptr @forge_arena_size",
              "ptr @forge_dims" if expressions else "ptr null", "ptr @forge_entry"]
    types = ", ".join(field.split(" ", 1)[0] for field in fields)
    lines.append(f"@{MODEL_SYMBOL} = hidden constant {{ {types} }} {{ {', '.join(fields)} }}, align 8")
    lines.append(f"define ptr @forge_model_get() #0 {{\n  ret ptr @{MODEL_SYMBOL}\n}}")
    return "\n\n".join([*strings.definitions, *lines])


class _Strings:
    def __init__(self) -> None:
        self.definitions: list[str] = []

    def pointer(self, value: str) -> str:
        """A pointer to ``value`` as a C string."""
        data = value.encode() + b"\0"
        escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
        symbol = f"@forge_string{len(self.definitions)}"
        self.definitions.append(f'{symbol} = private unnamed_addr constant [{len(data)} x i8] c"{escaped}"')
        return f"ptr {symbol}"


def _string_table(symbol: str, pointers: list[str]) -> str:
    return f"{symbol} = internal constant [{len(pointers)} x ptr] [{', '.join(pointers)}]"


def _spec_table(symbol: str, program: Program, specs: Sequence[TensorSpec], expressions: Sequence[tir.Expr],
                string: Callable[[str], str]) -> str:
    rows = [f"{_SPEC_TYPE} {_spec(program, spec, expressions, string)}" for spec in specs]
    return f"{symbol} = internal constant [{len(rows)} x {_SPEC_TYPE}] [{', '.join(rows)}]"


def _spec(program: Program, spec: TensorSpec, expressions: Sequence[tir.Expr], string: Callable[[str], str]) -> str:
    if spec.dtype not in abi.DTYPE_CODES:
        raise CompileError(f"codegen: {program.name}: tensor {spec.name!r} of {spec.dtype}; expected a numeric dtype")
    if len(spec.dims) > abi.MAX_RANK:
        raise CompileError(f"codegen: {program.name}: tensor {spec.name!r} has rank {len(spec.dims)}; "
                           f"expected at most {abi.MAX_RANK}")
    dims = [_dim(program, dim, expressions) for dim in spec.dims]
    dims += [(0, 0)] * (abi.MAX_RANK - len(dims))
    pairs = ", ".join(f"{{ i64, i64 }} {{ i64 {size}, i64 {symbol} }}" for size, symbol in dims)
    code = abi.DTYPE_CODES[spec.dtype]
    return f"{{ {string(spec.name)}, i32 {code}, i32 {len(spec.dims)}, [{abi.MAX_RANK} x {{ i64, i64 }}] [{pairs}] }}"


def _dim(program: Program, dim: tir.Expr, expressions: Sequence[tir.Expr]) -> tuple[int, int]:
    """``forge_dim``: the size; -1 and a symbol's number; or -2 and an expression's number."""
    if isinstance(dim, tir.Const) and isinstance(dim.value, int):
        return dim.value, 0
    if isinstance(dim, tir.Var) and dim in program.symbols:
        return -1, program.symbols.index(dim)
    return -2, list(expressions).index(dim)
