"""Finds the first stage, and its rule, or the first kernel, where compiled code leaves the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forge import external
from forge.backend import Stage
from forge.driver import check_options, compile_module
from forge.driver.compilation import Compilation, bound, of_graphs
from forge.driver.pipeline import STAGES, run_stages, stage_of
from forge.driver.profiler import items_of
from forge.errors import CompileError, OptionError
from forge.ir.edits import budget, journal
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph, run_module
from forge.lowering.groups import Group
from forge.lowering.program import Item
from forge.lowering.texts import parts
from forge.module import IRModule
from forge.numerics.comparison import feeds
from forge.numerics.differences import Difference, difference
from forge.numerics.reproducer import Reproducer
from forge.numerics.segments import FAILURES, Contents, Segment, first, shrink
from forge.numerics.sides import without_states
from forge.numerics.tolerances import Judge, Tolerance
from forge.options import CompileOptions
from forge.progress import Progress
from forge_runtime import Runtime

_FUSION = next(k for k, stage in enumerate(STAGES) if stage.name == "fusion")
_KERNEL_STAGES = [stage for stage in STAGES[_FUSION:] if stage.name != "link"]


@dataclass(frozen=True)
class Bisection:
    """The result of `bisect`.

    Attributes:
        samples: that were compared; the last one differs, unless all agree.
        kind: "stage": a stage changes what the graph means; "kernel": one is wrong; "entry": kernels are right alone, but not
            together; empty: compiled code agrees with the interpreter.
        stage: of the compiler, to which that belongs.
        rule, node: of the stage, the rule and the node that it replaced; empty where the stage has no rules.
        kernel: its name in the compiled model.
        operators, nodes: that the kernel, or the part of the graph, consists of.
        output: of the model, which differs most.
        difference: of that output, between the interpreter and compiled code.
        allowed: the largest difference relative to its largest element that rounding explains.
        reproducer: a small model that shows it.
    """

    samples: int
    kind: str = ""
    stage: str = ""
    rule: str = ""
    node: str = ""
    kernel: str = ""
    operators: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    output: str = ""
    difference: Difference = field(default_factory=Difference)
    allowed: float = 0.0
    reproducer: Reproducer | None = None

    @property
    def agrees(self) -> bool:
        return not self.kind

    @property
    def blame(self) -> str:
        """A line that says what is wrong."""
        computed = " + ".join(self.operators)
        if self.kind == "stage":
            rule = f", rule {self.rule!r} at node {self.node!r}" if self.rule else ""
            return f"stage {self.stage!r} changes what the graph means{rule}: {computed}"
        if self.kind == "kernel":
            return f"kernel {self.kernel!r} is wrong: {computed}"
        if self.kind == "entry":
            return f"kernels are right alone, but not together: {computed}"
        return "compiled code agrees with the interpreter"

    def as_dict(self) -> dict[str, Any]:
        """Returns the document that ``forge bisect --json`` prints."""
        texts = {name: getattr(self, name) for name in ("kind", "stage", "rule", "node", "kernel", "output")}
        lists = {"operators": list(self.operators), "nodes": list(self.nodes)}
        d = self.difference
        numbers = {"sqnr_db": d.sqnr, "max_abs": d.error, "max_rel": d.relative, "allowed": self.allowed}
        return {"agrees": self.agrees, "samples": self.samples, "blame": self.blame, **texts, **lists, **numbers}


def bisect(
    module: IRModule, data: Any = None, *, options: CompileOptions | None = None, tolerance: float | str | None = None,
    sizes: Mapping[str, int] | None = None, progress: Progress | None = None,
) -> Bisection:
    """Finds where compiled code of ``main`` leaves the interpreter: the first stage of the compiler, or else the first kernel.

    Args:
        module: it is not changed. States are plain inputs and outputs.
        data: what `forge.samples.samples` takes; None: random inputs. The first sample that differs is searched.
        options: of the compilation; None: the defaults.
        tolerance: the largest difference that counts as agreement, relative to the largest element; or a text, decibels of the
            ratio of signal to noise, as in ``"60dB"``. None: what the accuracy classes of the operators come to.
        sizes: of symbolic dimensions of random inputs; else 1.
        progress: called with phase, number done, number in all.

    Raises:
        OptionError: an argument is wrong; InputError: the data are. What the compiler raises.
    """
    if not isinstance(module, IRModule):
        raise OptionError(f"bisect: got {type(module).__name__}; expected an IRModule; load models with forge.from_onnx")
    with external.used(module.mod.external_modules):
        search = _Bisector(without_states(module.mod), options or check_options(), Tolerance.parse(tolerance), progress)
        return search.run(data, sizes)


def apply_stage(stage: Stage, graph: Graph, options: CompileOptions) -> Graph:
    """Returns a copy of ``graph`` after a stage that works on graphs."""
    compilation = of_graphs({"main": graph}, options)
    run_stages(compilation, [stage])
    return compilation.graph


def compile_as_is(graphs: Mapping[str, Graph], options: CompileOptions) -> Runtime:
    """Compiles ``graphs``, by name, as they are: no graph stage changes them."""
    compilation = of_graphs(graphs, options)
    run_stages(compilation, _KERNEL_STAGES)
    return compilation.compiled.runtime()


def after_stage(module: IRModule, stage: str, **options: Any) -> IRModule:
    """Returns ``main`` of ``module`` after one stage of the compiler that works on graphs.

    Args:
        options: as of `check_options`.

    Raises:
        OptionError: no stage or option has this name.
    """
    found = stage_of(stage, "after_stage")
    graph = apply_stage(found, module.mod.main, check_options(**options))
    return IRModule(module.mod.with_main(graph), fold_constants=False, fold_batch_norms=False)


def compiled_as_is(module: IRModule, **options: Any) -> Runtime:
    """Compiles ``main`` of ``module`` as it is: no graph stage changes it.

    Args:
        options: as of `check_options`.

    Raises:
        OptionError: no option has this name; CompileError: an operator has no native code.
    """
    with external.used(module.mod.external_modules):
        return compile_as_is({"main": module.mod.main}, check_options(**options))


@dataclass
class _Trace:
    """Copies of the graph after each stage that works on it."""

    graphs: list[tuple[Stage, Graph]] = field(default_factory=list)
    compilation: Compilation | None = None

    def __call__(self, stage: Stage, compilation: Compilation) -> None:
        self.compilation = compilation
        if stage.phase == "graph" or stage.name == "fusion":
            self.graphs.append((stage, compilation.graph.copy()))


class _Bisector:
    def __init__(self, module: Module, options: CompileOptions, limits: Tolerance, progress: Progress | None) -> None:
        self.module, self.options, self.limits = module, options, limits
        self.progress = progress or (lambda phase, done, total: None)
        self.trace = _Trace()
        with journal.recorded() as kept:
            self.compiled = compile_module(
                module, options, observer=self.trace, use_cache=False, progress=progress)
        self.moves_rounding = bool(kept.moved())
        self.runtime = self.compiled.runtime()

    def run(self, data: Any, sizes: Mapping[str, int] | None) -> Bisection:
        inputs = [v for v in self.module.main.inputs if v.name not in self.module.params]
        agreed: Bisection | None = None
        for number, sample in enumerate(feeds(inputs, data, sizes, "bisect"), 1):
            given = [sample[v.name] for v in inputs]
            expected = run_module(self.module, sample)
            judge = Judge(self.trace.graphs[0][1], given, expected, self.limits, self.moves_rounding)
            found = self.runtime.run([sample[name] for name in self.runtime.input_names])
            wrong = judge.wrong(found)
            if wrong:
                output, worst = max(wrong, key=lambda pair: pair[1].relative)
                allowed = 0.0 if self.limits.is_given else judge.bounds[output]
                name = self.module.main.output_names[output]
                return self._blame(Bisection(number, output=name, difference=worst, allowed=allowed), judge, given)
            agreed = self._agreed(number, expected, found, agreed)
        assert agreed is not None
        return agreed

    def _agreed(self, samples: int, expected: Sequence[Any], found: Sequence[Any], before: Bisection | None) -> Bisection:
        """With the largest difference so far."""
        names = self.module.main.output_names
        ranked = [(difference(e, f), name) for e, f, name in zip(expected, found, names)]
        ranked += [] if before is None else [(before.difference, before.output)]
        worst, output = max(ranked, key=lambda pair: pair[0].relative, default=(Difference(), ""))
        return Bisection(samples, output=output, difference=worst)

    def _judge(self, graph: Graph, inputs: Sequence[Any]) -> Judge:
        return Judge(graph, inputs, run_graph(graph, inputs), self.limits, self.moves_rounding)

    def _blame(self, seen: Bisection, judge: Judge, given: list[Any]) -> Bisection:
        graphs = [graph for _, graph in self.trace.graphs]
        if _is_wrong(judge, graphs[-1], given):
            number = first(lambda count: _is_wrong(judge, graphs[count - 1], given), len(graphs)) - 1
            before = graphs[number - 1] if number else bound(self.module.main)
            return self._blame_stage(seen, self.trace.graphs[number][0], before, given)
        return self._blame_kernel(seen, given) or self._blame_entry(seen, graphs[-2], given)

    def _blame_stage(self, seen: Bisection, stage: Stage, before: Graph, given: list[Any]) -> Bisection:
        if any(node.op == "call" for node in before.walk()):
            return replace(seen, kind="stage", stage=stage.name)
        judge = self._judge(before, given)
        rule, node = _rule(stage, before, self.options, judge, given)
        small = shrink(before, given, lambda graph, inputs: self._wrong_after(stage, graph, inputs))
        return self._finding(small, seen, kind="stage", stage=stage.name, rule=rule, node=node)

    def _wrong_after(self, stage: Stage, graph: Graph, inputs: Sequence[Any]) -> list[int]:
        judge = self._judge(graph, inputs)
        changed = apply_stage(stage, graph, self.options)
        try:
            found = run_graph(changed, inputs)
        except FAILURES:
            return list(range(len(graph.outputs)))
        return [number for number, _ in judge.wrong(found)]

    def _blame_kernel(self, seen: Bisection, given: list[Any]) -> Bisection | None:
        assert self.trace.compilation is not None
        contents = Contents(self.trace.compilation.functions[0].grouped.graph, given)
        items = [(item, name, contents.cut(parts(item)[0])) for item, name in items_of(self.compiled)]
        known = [(item, name, segment) for item, name, segment in items if segment is not None and segment.graph.outputs]
        for number, (item, name, segment, found) in enumerate(_results(known, self.options)):
            self.progress("kernels", number + 1, len(known))
            judge = Judge(segment.graph, segment.inputs, run_graph(segment.graph, segment.inputs), self.limits)
            if judge.wrong(found):
                stage = "loops" if isinstance(item, Group) else "runtime"
                return self._finding(segment, seen, kind="kernel", stage=stage, kernel=name or parts(item)[0][0].op)
        return None

    def _blame_entry(self, seen: Bisection, graph: Graph, given: list[Any]) -> Bisection:
        def wrong(graph: Graph, inputs: Sequence[Any]) -> list[int]:
            judge = self._judge(graph, inputs)
            return [number for number, _ in judge.wrong(compile_as_is({"main": graph}, self.options).run(list(inputs)))]

        return self._finding(shrink(graph, given, wrong), seen, kind="entry", stage="memory_plan")

    def _finding(self, small: Segment, seen: Bisection, *, kind: str, stage: str, **found: Any) -> Bisection:
        nodes = [node for node in small.graph.nodes if node.op != "constant"]
        reproducer = Reproducer(small.graph, small.inputs, stage if kind == "stage" else "", self.options)
        operators, names = tuple(node.op for node in nodes), tuple(node.name for node in nodes if node.name)
        return replace(seen, kind=kind, stage=stage, operators=operators, nodes=names, reproducer=reproducer, **found)


def _is_wrong(judge: Judge, graph: Graph, given: Sequence[Any]) -> bool:
    try:
        return bool(judge.wrong(run_graph(graph, given)))
    except FAILURES:
        return True


def _rule(stage: Stage, before: Graph, options: CompileOptions, judge: Judge, given: Sequence[Any]) -> tuple[str, str]:
    """The rule of the first replacement after which the graph is wrong, and the node; empty where none is to blame alone."""
    def after(count: int | None) -> tuple[Graph | None, list[tuple[str, str]]]:
        with budget.limited(count) as spent:
            try:
                return apply_stage(stage, before, options), spent.replaced
            except FAILURES:
                return None, spent.replaced

    def fails(count: int) -> bool:
        graph, _ = after(count)
        return graph is None or _is_wrong(judge, graph, given)

    _, replaced = after(None)
    if not replaced or fails(0) or not fails(len(replaced)):
        return "", ""
    return after(first(fails, len(replaced)))[1][-1]


def _results(known: Sequence[tuple[Item, str, Segment]], options: CompileOptions) -> Any:
    """(item, kernel, segment, results of its machine code), in order; segments that cannot be compiled alone are left out."""
    try:
        whole = compile_as_is({f"part_{k}": segment.graph for k, (_, _, segment) in enumerate(known)}, options)
    except CompileError:
        whole = None
    for k, (item, name, segment) in enumerate(known):
        try:
            runtime = compile_as_is({"main": segment.graph}, options) if whole is None else whole[f"part_{k}"]
        except CompileError:
            continue
        yield item, name, segment, runtime.run(list(segment.inputs))
