"""Branches, loops, sizes that depend on data and writes through views, next to torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops import associative_scan, scan, while_loop  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from forge.errors import OpAttributeUnimplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from forge.frontends.torch.converters.core.views import SHARING  # noqa: E402
from forge.frontends.torch.steps import lookup  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

BATCH = torch.export.Dim("batch", min=2, max=30)


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def check(function: Callable[..., Any], *calls: tuple[torch.Tensor, ...], sizes: Any = None, compiled: bool = False) -> None:
    """The program that torch exports for the first of ``calls`` gives what torch gives, for all of them."""
    module = Function(function)
    exported = torch.export.export(module, calls[0], dynamic_shapes=None if sizes is None else (sizes,))
    imported = import_model(exported)
    for inputs in calls:
        wanted = pytree.tree_leaves(module(*(t.clone() for t in inputs)))
        found = run(imported, inputs, compiled=compiled)
        assert [difference(a, b) for a, b in zip(found, wanted)] == [""] * len(wanted)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize("compiled", [False, True])
def test_both_branches(compiled: bool) -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        shift = torch.tensor([1.0, 2.0, 3.0])
        return torch.cond(x.sum() > 0, lambda x: (x * shift).reshape(-1) + x.shape[0], lambda x: x.flatten() * x.shape[0], (x,))

    check(branches, (torch.ones(4, 3),), (-torch.ones(6, 3),), sizes=({0: BATCH},), compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_loop_ends_where_its_condition_says(compiled: bool) -> None:
    def loop(i: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, (x + i).reshape(-1, 3) * x.shape[0]), (i, x))

    calls = [(torch.tensor(start), torch.ones(rows, 3)) for start, rows in ((0, 4), (2, 7), (9, 2))]
    check(loop, *calls, sizes=(None, {0: BATCH}), compiled=compiled)


def test_scans() -> None:
    def both(state: torch.Tensor, x: torch.Tensor) -> Any:
        forward = scan(lambda s, row: (s + row, s * row), state, x, dim=0)
        backward = scan(lambda s, row: (s + row, s * row + 1), state, x, dim=0, reverse=True)
        return forward, backward, associative_scan(lambda a, b: a * b + a, x, dim=0, combine_mode="generic")

    check(both, (torch.zeros(3), numbers(5, 3)))
    check(lambda x, y: torch._higher_order_ops.map(lambda row, y: row * y, x, y), (numbers(4, 3), numbers(3)))


def test_parts_that_are_only_marked() -> None:
    def marked(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        return y.sin() + x

    check(marked, (numbers(3),))


@pytest.mark.parametrize("compiled", [False, True])
def test_programs_go_on_with_sizes_that_depend_on_data(compiled: bool) -> None:
    def after(x: torch.Tensor) -> Any:
        y = x[x.nonzero().squeeze(1)]
        n = y.shape[0]
        return torch.cat([y, y * 2]), torch.arange(n), torch.full((n, 2), 3.0), y.view(-1, 1) + torch.ones(n, 2), n

    check(after, *((torch.tensor(row),) for row in ([0.0, 1, 2, 0], [1.0, 2, 3, 4], [0.0, 0, 0, 0])), compiled=compiled)


def test_a_number_of_the_data_is_a_size_and_a_number() -> None:
    def sized(x: torch.Tensor) -> Any:
        n = x.sum().item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return torch.arange(n) * n, torch.zeros(n, 3) + n, n

    check(sized, (torch.tensor([2, 3]),), (torch.tensor([1, 0]),))
    check(lambda x: (x.sum().item() * 2, x * x.min().item()), (torch.tensor([-2, -3]),))


def test_a_part_of_a_symbolic_axis_has_the_size_that_torch_says() -> None:
    check(lambda x: x[0:1].view(3) + x[-1], (numbers(4, 3),), (numbers(9, 3),), sizes=({0: BATCH},))


def test_indices_in_any_position() -> None:
    def read(x: torch.Tensor, i: torch.Tensor, mask: torch.Tensor) -> Any:
        return (
            x[i], x[:, i[:2]], x[i, :, None], x[i[:, None], torch.tensor([0, 1])], x[mask], x[mask, 1],
            x.index_put((i,), torch.zeros(3)), x.index_put((i,), x[i], accumulate=True), x.index_put((mask,), x[mask] * 2),
        )

    inputs = (numbers(4, 3), torch.tensor([0, 2, 2]), torch.tensor([True, False, True, True]))
    check(read, inputs, sizes=({0: BATCH}, None, {0: BATCH}))


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "narrow": lambda y: y.narrow(0, 1, 2).add_(1),
    "chunk": lambda y: y.chunk(2)[1].mul_(3),
    "split": lambda y: y.split([1, 3])[1].add_(1),
    "tensor_split": lambda y: y.tensor_split(3)[1].add_(1),
    "hsplit": lambda y: y.hsplit(2)[1].add_(1),
    "vsplit": lambda y: y.vsplit([1, 3])[1].add_(1),
    "dsplit": lambda y: y[None].dsplit(2)[0].add_(1),
    "unsafe_chunk": lambda y: y.unsafe_chunk(2)[1].mul_(3),
    "unsafe_split": lambda y: y.unsafe_split(3)[0].mul_(3),
    "conj_of_real": lambda y: y.conj().add_(1),
    "last_diagonal": lambda y: torch.linalg.diagonal(y[None]).add_(1),
    "diagonal": lambda y: y.diagonal(1).add_(5),
    "movedim": lambda y: y.movedim(0, 1)[1].zero_(),
    "swapaxes": lambda y: y.swapaxes(0, 1)[1].fill_(4),
    "permute": lambda y: y.permute(1, 0).select(0, 2).mul_(2),
    "mask": lambda y: y.masked_fill_(y < 0, 0.0),
    "unflatten": lambda y: y.unflatten(0, (2, 2))[1].add_(2),
    "real": lambda y: y.real.add_(1),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_through_a_view_is_in_the_tensor(name: str) -> None:
    def write(x: torch.Tensor) -> Any:
        y = x.clone()
        WRITES[name](y)
        return y, x

    check(write, (numbers(4, 4),))


def test_writes_to_parts_of_complex_numbers() -> None:
    def write(x: torch.Tensor) -> Any:
        y = x.clone()
        y.real.add_(1)
        y.imag.mul_(2)
        pairs = torch.view_as_real(y)
        pairs[..., 0] = 3
        y[:2].conj().add_(1 + 2j)
        return y, pairs

    check(write, (torch.complex(numbers(4), numbers(4)),))


def test_operators_that_torch_says_give_views_do() -> None:
    """Of those with a converter."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        target = f"aten.{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
        aliases = [r.alias_info for r in schema.returns if r.alias_info is not None]
        if schema.name.startswith("aten::") and aliases and not any(a.is_write for a in aliases) and lookup(target):
            found.add(target)
    assert len(found) > 50
    assert found <= SHARING


def test_writes_to_what_may_be_a_copy_are_refused() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.conj().resolve_conj().add_(1)
        return y

    with pytest.raises(OpAttributeUnimplemented, match="share its memory, or not"):
        check(write, (torch.complex(numbers(4), numbers(4)),))


def _scored(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i > j, s * 2, s) - 0.1 * h * b, enable_gqa=True)


def _masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    def seen(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return (i >= j + 3) & (i - j < 40)  # the first queries see nothing

    mask = create_block_mask(seen, None, None, q.shape[2], k.shape[2], device="cpu")
    return flex_attention(q, k, v, block_mask=mask, scale=0.3, enable_gqa=True)


class Biased(torch.nn.Module):
    """Reads a parameter at the head and the distance, under a causal mask of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(4, 128, generator=torch.Generator().manual_seed(1)))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        def score(s: torch.Tensor, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            return s + self.bias[h, (i - j).abs()]

        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
        return flex_attention(q, k, v, score_mod=score, block_mask=mask, enable_gqa=True)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("form", ["scored", "masked", "biased"])
def test_flex_attention(form: str, compiled: bool) -> None:
    module = Biased() if form == "biased" else Function({"scored": _scored, "masked": _masked}[form])
    inputs = (numbers(2, 4, 128, 16), numbers(2, 2, 128, 16), numbers(2, 2, 128, 8))
    imported = import_model(torch.export.export(module, inputs))
    (found,) = run(imported, inputs, compiled=compiled)
    assert difference(found, module(*inputs)) == ""


def test_a_score_that_is_computed_of_others_is_refused() -> None:
    def summed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + s.sum())

    inputs = (numbers(1, 1, 128, 16), numbers(1, 1, 128, 16), numbers(1, 1, 128, 16))
    with pytest.raises(OpAttributeUnimplemented, match=r"aten\.sum\.default: supported: element-wise"):
        import_model(torch.export.export(Function(summed), inputs))


@pytest.mark.parametrize("compiled", [False, True])
def test_every_higher_order_operator(compiled: bool) -> None:
    """Compiled, too; a part may read what is around it."""
    @torch.compiler.nested_compile_region
    def repeated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sin() + y

    def every(x: torch.Tensor, state: torch.Tensor) -> Any:
        with torch.no_grad():
            shift = x.cos()
        with torch.autocast("cpu", enabled=False):
            turned = x @ x.t()
        return (
            shift, turned,
            torch.cond(state.sum() > 1, lambda x: x + 1, lambda x: x * state, (x,)),
            while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2 + state), (torch.tensor(0), x)),
            scan(lambda s, row: (s + row, s * row), state, x, dim=0),
            scan(lambda s, row: (s + row, s - row), state, x, dim=0, reverse=True),
            associative_scan(lambda a, b: a + b * 2, x, dim=0, combine_mode="generic"),
            torch._higher_order_ops.map(lambda row, y: row * y, x, state),
            repeated(x, state), repeated(state, x),
        )

    check(every, (numbers(4, 3), torch.ones(3)), (numbers(4, 3) + 1, torch.zeros(3)), compiled=compiled)


def test_a_region_with_more_operands_than_letters(tmp_path: Path) -> None:
    @torch.compiler.nested_compile_region
    def product(x: torch.Tensor, *factors: torch.Tensor) -> torch.Tensor:
        for factor in factors:
            x = x * factor
        return x

    factors = [torch.nn.Parameter(torch.tensor([1.0, 0.9, -1.1]) + k / 100) for k in range(30)]
    module = Function(lambda x: product(x, *module.factors) + product(x + 1, *module.factors))
    module.factors = torch.nn.ParameterList(factors)
    exported = torch.export.export(module, (numbers(3),), strict=True)
    assert max(len(node.args) for node in exported.graph.nodes) > 30
    torch.export.save(exported, tmp_path / "region.pt2")
    for form in (exported, tmp_path / "region.pt2"):
        (found,) = run(import_model(form), (numbers(3),), compiled=False)
        assert difference(found, module(numbers(3))) == ""
