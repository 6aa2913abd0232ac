"""Memory: tensors that a module keeps and writes, views, strides and parts that share them, next to torch."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils import _pytree as pytree  # noqa: E402

from forge.driver import check_options, compile_module  # noqa: E402
from forge.errors import ImportModelError, OpAttributeUnimplemented  # noqa: E402
from forge.frontends.torch import import_model, register, unregister  # noqa: E402
from forge.frontends.torch.converters.core.views import REBINDS, SHARING  # noqa: E402
from forge.frontends.torch.exported import array_of  # noqa: E402
from forge.frontends.torch.loader import run_decompositions  # noqa: E402
from forge.frontends.torch.overloads import without_out  # noqa: E402
from forge.frontends.torch.steps import lookup  # noqa: E402
from forge.ir.functions.reference import Reference  # noqa: E402
from tests.torch_databases.compare import as_list, difference  # noqa: E402


def exported(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], sizes: Any = None) -> torch.export.ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(copy.deepcopy(module), inputs, dynamic_shapes=sizes)


def compare(imported: Any, module: torch.nn.Module, *calls: tuple[torch.Tensor, ...], compiled: bool) -> None:
    """A session and ``module`` give the same, call after call, and leave the same in the inputs that they write."""
    module = copy.deepcopy(module)
    if compiled:
        runtime = compile_module(imported, check_options(opt_level=3), use_cache=False).runtime()
        call = runtime.session() if imported.main.states else runtime
    else:
        call = Reference(imported)
    for inputs in calls:
        found = as_list(call(*[array_of(t.clone(), "input") for t in inputs]))
        given = [t.clone() for t in inputs]
        wanted = [t for t in pytree.tree_leaves(module(*given)) if t is not None]
        wanted += [after for after, before in zip(given, inputs) if not torch.equal(after, before)]
        assert [difference(a, b) for a, b in zip(found, wanted, strict=True)] == [""] * len(wanted)


class Kept(torch.nn.Module):
    """Writes to a plain attribute and to a buffer, also where gradients are off."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = torch.zeros(3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> Any:
        self.sum.add_(x)
        self.count.add_(1)
        with torch.no_grad():
            self.sum.mul_(2)
            self.count[1:].add_(x[0])
        literal = torch.tensor([1.0, 2.0, 3.0])
        return self.sum * 2, self.count + 1, literal.add_(x)


@pytest.mark.parametrize("form", ["exported", "decomposed", "file", "compiled"])
def test_what_a_module_keeps_is_a_state(form: str, tmp_path: Path) -> None:
    calls = [(torch.tensor(row),) for row in ([1.0, 2, 3], [4.0, 5, 6], [-1.0, 0, 1])]
    program = exported(Kept(), calls[0])
    if form == "decomposed":
        program = run_decompositions(program, {})
    if form == "file":
        torch.export.save(program, tmp_path / "kept.pt2")
    imported = import_model(tmp_path / "kept.pt2" if form == "file" else program)
    assert set(imported.main.states) == {"sum", "count"}
    compare(imported, Kept(), *calls, compiled=form == "compiled")


class Attribute(torch.nn.Module):
    """Writes to a plain attribute, and has a part that torch takes apart for Forge."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.mul_(x)
        with torch.autocast("cpu", torch.bfloat16):
            y = torch.nn.functional.linear(self.kept[None], self.kept[None])
        return y.float()


def test_attributes_are_kept_where_torch_takes_operators_apart() -> None:
    module = Attribute()
    calls = [(torch.tensor([2.0, 3.0, 4.0]),)] * 2
    compare(import_model(exported(module, calls[0])), module, *calls, compiled=False)


class Statistics(torch.nn.Module):
    """Keeps running statistics in one buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.tensor([[0.5, -1.0, 2.0], [1.0, 2.0, 3.0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, self.kept[0], self.kept[1], training=True)


def test_statistics_that_are_views_of_a_buffer_make_it_a_state() -> None:
    calls = [(torch.linspace(-2, 3, 12).reshape(4, 3).sin(),), (torch.linspace(1, 7, 12).reshape(4, 3).cos(),)]
    imported = import_model(exported(Statistics(), calls[0]))
    assert list(imported.main.states) == ["kept"]
    compare(imported, Statistics(), *calls, compiled=False)


class Namesakes(torch.nn.Module):
    """Has a buffer that is called as its input is, and writes to both."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("x", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.x.add_(x)
        x.mul_(2)
        return x + self.x


@pytest.mark.parametrize("form", ["exported", "decomposed", "file"])
def test_a_buffer_and_an_input_of_one_name(form: str, tmp_path: Path) -> None:
    calls = [(torch.tensor([1.0, 2.0, 3.0]),), (torch.tensor([4.0, 5.0, 6.0]),)]
    program = exported(Namesakes(), calls[0])
    program = run_decompositions(program, {}) if form != "exported" else program
    if form == "file":
        torch.export.save(program, tmp_path / "namesakes.pt2")
    imported = import_model(tmp_path / "namesakes.pt2" if form == "file" else program)
    assert list(imported.main.states) == ["x_"] and list(imported.main.donated) == ["x"]
    compare(imported, Namesakes(), *calls, compiled=False)


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(float(math.prod(shape))).reshape(shape) - 3


def check(function: Callable[..., Any], *calls: tuple[torch.Tensor, ...], sizes: Any = None, compiled: bool = False) -> None:
    module = Applied(function)
    program = exported(module, calls[0], None if sizes is None else {"tensors": sizes})
    compare(import_model(program), module, *calls, compiled=compiled)


def written(view: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    """Writes to a view of a tensor, reads both, writes to the tensor and reads the view again."""

    def write(x: torch.Tensor) -> Any:
        base = x.clone()
        part = view(base)
        part.mul_(2)
        first = base + 1, part + 1
        base.add_(10)
        return first, base, part

    return write


def _turned(x: torch.Tensor) -> torch.Tensor:
    x = x.t()
    return x.t_()


SHARED_OR_NOT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "reshape": lambda x: x.reshape(2, -1),
    "reshape_of_a_transpose": lambda x: x.t().reshape(-1),
    "flatten": lambda x: x.flatten(),
    "flatten_of_a_slice": lambda x: x[:, 1:].flatten(),
    "flatten_of_rows": lambda x: x[1:].flatten(),
    "ravel": lambda x: x.ravel(),
    "ravel_of_a_column": lambda x: x[:, :1].ravel(),
    "reshape_of_a_column": lambda x: x[:, :1].reshape(-1),
    "reshape_of_some_axes": lambda x: x[:, 2:].reshape(2, 2, -1),
    "contiguous": lambda x: x.contiguous(),
    "contiguous_transpose": lambda x: x.t().contiguous(),
    "twice": lambda x: x.t().contiguous().flatten(),
    "to_same": lambda x: x.to(torch.float32),
    "to_format": lambda x: x[None, None].to(memory_format=torch.channels_last),
    "as_strided": lambda x: x.as_strided((2, 3), (4, 1), 1),
    "as_strided_of_a_view": lambda x: x[1:].as_strided((2, 2), (1, 2)),
    "as_strided_of_a_transpose": lambda x: x.t().as_strided((3, 2), (2, 7), 1),
    "as_strided_twice": lambda x: x.as_strided((3, 2), (4, 1), 2).as_strided((2, 2), (1, 3), 3),
    "one_place": lambda x: x.as_strided((), (), 5),
    "smaller": lambda x: x.resize_(2, 3),
    "smaller_view": lambda x: x[1:].resize_(2),
    "turned_in_place": _turned,
    "unsqueezed_in_place": lambda x: x.unsqueeze_(0)[:, 1],
    "hsplit": lambda x: x.hsplit(2)[1],
    "vsplit": lambda x: x.vsplit([1, 3])[1],
    "vector_split": lambda x: x[0].hsplit(2)[1],
    "dsplit": lambda x: x[None].dsplit(2)[0],
    "linalg_diagonal": lambda x: torch.linalg.diagonal(x[None], offset=1),
    "detached": lambda x: x.detach_(),
    "conjugate": lambda x: x.conj(),
}


@pytest.mark.parametrize("name", SHARED_OR_NOT)
def test_strides_say_what_shares_memory(name: str) -> None:
    check(written(SHARED_OR_NOT[name]), (numbers(4, 4),))


FIXED = ("reshape", "reshape_of_some_axes", "smaller", "smaller_view", "hsplit", "vsplit", "dsplit", "as_strided_of_a_transpose",
         "as_strided_twice")
"""What torch exports for fixed sizes only, or refuses for some within bounds."""


@pytest.mark.parametrize("name", sorted({*SHARED_OR_NOT} - {*FIXED}))
def test_strides_with_symbols_say_what_shares_memory(name: str) -> None:
    rows = torch.export.Dim("n", min=4, max=64)
    program = exported(Applied(written(SHARED_OR_NOT[name])), (numbers(4, 4),), {"tensors": ({0: rows},)})
    compare(import_model(program), Applied(written(SHARED_OR_NOT[name])), (numbers(4, 4),), (numbers(6, 4),), compiled=False)


def test_strides_say_it_in_compiled_code() -> None:
    functions = [written(function) for function in SHARED_OR_NOT.values()]
    check(lambda x: [function(x) for function in functions], (numbers(4, 4),), compiled=True)


def test_a_conjugate_shares_memory() -> None:
    check(written(lambda x: x.conj()), (torch.complex(numbers(4), -numbers(4)),))


def test_memory_grows() -> None:
    def grown(x: torch.Tensor) -> Any:
        y = x.clone()
        y.resize_(5, 4)
        return y[:4] + 1

    check(grown, (numbers(4, 4),))


def test_scatter_into_strides() -> None:
    def scattered(x: torch.Tensor, y: torch.Tensor) -> Any:
        part = x[1:, 1:]
        return (
            torch.as_strided_scatter(x, y, (2, 2), (3, 2), 1), torch.as_strided_scatter(part, y, (2, 2), (2, 1), 5),
            torch.as_strided_scatter(x.t(), y, (2, 2), (4, 1), 0), torch.as_strided_copy(part, (2, 2), (1, 1)),
        )

    check(scattered, (numbers(4, 4), numbers(2, 2)))
    check(scattered, (numbers(4, 4), numbers(2, 2)), compiled=True)


def test_inputs_with_strides() -> None:
    """An input that is a transpose, of which a view in the order of memory is taken."""
    check(lambda x: (x.as_strided((12,), (1,)), x.reshape(-1)), (numbers(3, 4).t(),))
    check(lambda x: x.as_strided((2, 2), (1, 2)), (numbers(10)[5:],))


@pytest.mark.parametrize(
    ("view", "x", "message"),
    [
        (lambda x: x.as_strided((2,), (1,), 0), numbers(10)[5:], "elements 0 to 1 of a storage of which the program has 5 to 9"),
        (lambda x: x.as_strided((2,), (1,)), numbers(4, 4)[:, :2], r"strides \['4', '1'\]; supported: those without gaps"),
        (lambda x: x.clone().as_strided((2, 2), (1, 1)).add_(1), numbers(4), "may share memory; supported: writes"),
    ],
)
def test_places_that_no_tensor_has(view: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, message: str) -> None:
    with pytest.raises(OpAttributeUnimplemented, match=message):
        import_model(exported(Applied(view), (x,)))


def test_every_operator_that_shares_memory_is_known() -> None:
    """By torch's own schemas, for all that have a converter."""
    wrong = []
    for name in torch._C._dispatch_get_all_op_names():
        base, _, overload = name.removeprefix("aten::").partition(".")
        target = f"aten.{base}.{overload or 'default'}"
        if not name.startswith("aten::") or lookup(target) is None:
            continue
        operator = getattr(getattr(torch.ops.aten, base), overload or "default")
        aliased = [a for a in operator._schema.arguments if a.alias_info is not None]
        if any(a.alias_info.is_write for a in aliased):
            if torch.Tag.inplace_view in operator.tags and target not in REBINDS:
                wrong.append(target)
        elif aliased and target not in SHARING:
            wrong.append(target)
    assert wrong == []


def _out(x: torch.Tensor, y: torch.Tensor) -> Any:
    held, none = torch.zeros(3, 4), torch.empty(0)
    torch.atan2(x, y, out=held[1])
    torch.add(x, y, alpha=2, out=held[0])
    torch.sum(held, 0, out=none)
    values, places = torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.sort(x, out=(values, places))
    total = torch.empty((), dtype=torch.float64)
    torch.sum(x, (0,), dtype=torch.float64, out=total)
    largest = torch.empty(4)
    torch.max(x, y, out=largest)
    torch.mul(held, 2, out=held)
    torch.div(x, y, rounding_mode="floor", out=x)
    return held, none, values, places, total, largest


@pytest.mark.parametrize("compiled", [False, True])
def test_results_are_written_where_out_says(compiled: bool) -> None:
    check(_out, (numbers(4), numbers(4) * 3 + 7), compiled=compiled)


def test_a_result_of_another_shape_than_out_is_refused() -> None:
    def grown(x: torch.Tensor) -> torch.Tensor:
        held = torch.empty(2)
        return torch.add(x, x, out=held)

    with warnings.catch_warnings(), pytest.raises(OpAttributeUnimplemented, match="changes the shape of 'empty'"):
        warnings.simplefilter("ignore")
        import_model(exported(Applied(grown), (numbers(4),)))


def test_torch_does_not_take_programs_apart_that_write() -> None:
    """It would take the result of type_as for a copy."""
    def written(x: torch.Tensor) -> Any:
        base = x + 0
        base.unfold(0, 2, 1).type_as(x).add_(1)
        return base

    with pytest.raises(OpAttributeUnimplemented, match="writes to 'type_as', whose elements may share memory"):
        import_model(exported(Applied(written), (numbers(3),)))


def test_overloads_that_take_their_results_are_those_of_the_same_arguments() -> None:
    """By torch's own schemas, for all that have a converter."""
    wrong, found = [], 0
    for name in torch._C._dispatch_get_all_op_names():
        base, _, overload = name.removeprefix("aten::").partition(".")
        op = f"{base}.{overload or 'default'}"
        if not name.startswith("aten::"):
            continue
        operator = getattr(getattr(torch.ops.aten, base), overload or "default", None)
        if operator is None or lookup(f"aten.{op}") is None:
            continue
        held = [a.name for a in operator._schema.arguments if a.is_out]
        others = [o for o in without_out(op) if lookup(f"aten.{o}") is not None]
        if bool(held) != bool(without_out(op)):
            wrong.append(op)
        elif held:
            found += 1
            plain = getattr(getattr(torch.ops.aten, base), others[0].partition(".")[2], None)
            if plain is None:  # normal.default, which is the converter of normal_.default
                continue
            rest = [a.name for a in operator._schema.arguments if not a.is_out]
            if rest != [a.name for a in plain._schema.arguments if a.name in rest] or [*rest, *held] != [
                a.name for a in operator._schema.arguments
            ]:
                wrong.append(op)
    assert wrong == []
    assert found > 600


@torch.library.custom_op("forge_tests::scaled", mutates_args=("total", "count"))
def scaled(x: torch.Tensor, total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    total.add_(x)
    count.add_(1)
    return x * 2


scaled.register_fake(lambda x, total, count: torch.empty_like(x))


class Custom(torch.nn.Module):
    """An operator of another library writes to a view of a tensor and to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> Any:
        totals = x.clone()
        twice = torch.ops.forge_tests.scaled(x[0], totals[1], self.count)
        return totals, twice, self.count * 3


def convert_scaled(g: Any, x: Any, total: Any, count: Any) -> list[Any]:
    """The result, and then what the tensors become."""
    return [g.call("add", x, x), g.call("add", total, x), g.call("add", count, g.scalar(1, count))]


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_custom_operator_writes_its_arguments(decomposed: bool) -> None:
    register("scaled.default", convert_scaled, domain="forge_tests")
    try:
        program = exported(Custom(), (numbers(2, 3),))
        imported = import_model(run_decompositions(program, {}) if decomposed else program)
        compare(imported, Custom(), (numbers(2, 3),), (numbers(2, 3) + 1,), compiled=False)
        compare(imported, Custom(), (numbers(2, 3),), (numbers(2, 3) + 1,), compiled=True)
        register("scaled.default", lambda g, x, total, count: g.call("add", x, x), domain="forge_tests")
        with pytest.raises(ImportModelError, match="new values of the tensors that it writes: total, count"):
            import_model(program)
    finally:
        unregister("scaled.default", domain="forge_tests")


class Overlapping(torch.nn.Module):
    """Buffers that lie in one memory."""

    def __init__(self) -> None:
        super().__init__()
        memory = torch.zeros(4)
        self.register_buffer("whole", memory)
        self.register_buffer("rest", memory[1:])

    def forward(self, x: torch.Tensor) -> Any:
        self.whole.add_(x)
        return self.rest * 2


def test_writes_to_buffers_that_share_memory_are_refused(tmp_path: Path) -> None:
    program = exported(Overlapping(), (torch.ones(4),))
    torch.export.save(program, tmp_path / "overlapping.pt2")
    for model in (program, tmp_path / "overlapping.pt2"):
        with pytest.raises(OpAttributeUnimplemented, match="it writes to 'whole', which shares memory with 'rest'; supported"):
            import_model(model)


class Hidden(torch.nn.Module):
    """Writes, or does not, to what an operator may have given as a view."""

    def __init__(self, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.view = view

    def forward(self, x: torch.Tensor, is_written: bool) -> torch.Tensor:
        y = x * 1
        z = self.view(y)
        if is_written:
            z.mul_(3)
        return (y + z).add_(1)


def test_views_that_operators_hide() -> None:
    x = torch.randn(3, 3)
    turned, spread = Hidden(lambda x: torch.einsum("ij->ji", x)), Hidden(lambda x: torch.broadcast_tensors(x, x[0])[0])
    for module, is_written in ((turned, False), (spread, False), (spread, True)):
        (found,) = as_list(Reference(import_model(torch.export.export(module, (x, is_written))))(x.numpy()))
        assert difference(found, module(x, is_written)) == ""
    with pytest.raises(OpAttributeUnimplemented, match="may be a view"):  # torch loses the write where it takes this apart
        import_model(torch.export.export(turned, (x, True)))
