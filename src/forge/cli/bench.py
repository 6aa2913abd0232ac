"""``forge bench``: latency, beside other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from forge.cli import peers, source
from forge.cli.latency import Latencies, measure
from forge.driver import compile_module
from forge.errors import ForgeError

EXAMPLE = "Example: `forge bench model.onnx --vs onnxruntime,openvino --threads 1 --dim batch=8`"


def bench(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .forge, .relay), or a compiled one (directory or .so).")],
    vs: Annotated[str, typer.Option(help="Peers, separated by commas: onnxruntime, openvino, torch.")] = "",
    torch_program: Annotated[Path | None, typer.Option(help="The same model as torch.export.save wrote it, for --vs torch.")] = None,
    inputs: Annotated[list[str], typer.Option("--input", "-i", help="FILE.npy, NAME=FILE.npy or FILE.npz; random if absent.")] = [],  # noqa: B006
    dim: Annotated[list[str], typer.Option(help="Size of a symbolic dimension, NAME=SIZE.")] = [],  # noqa: B006
    target: Annotated[str, typer.Option(help="Target to compile for.")] = "llvm",
    opt_level: Annotated[int, typer.Option("--opt-level", "-O", min=0, max=4)] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every runtime.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Samples of each.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measures latency in interleaved rounds on the same inputs, and how far the outputs agree."""
    console = Console(stderr=True)
    names = [n for n in vs.split(",") if n]
    known = (*peers.LOADERS, "torch")
    unknown = [n for n in names if n not in known]
    if unknown:
        raise ForgeError(f"--vs {unknown[0]}: unknown runtime; expected some of: {', '.join(known)}")
    if names and source.is_artifact(model):
        raise ForgeError(f"--vs: {model} is compiled; pass the .onnx file to compare with other runtimes")
    with source.progress(console, quiet=as_json) as report:
        calls, outputs = _load(model, names, torch_program, inputs, source.parse_sizes(dim), target, opt_level, threads, report)
        report("measure", 0, 1)
        latencies = measure(calls, rounds, pause=0.01 if threads > 1 else 0.0)
    agreement = {name: peers.disagreement(outputs["forge"], outputs[name]) for name in names}
    if as_json:
        source.print_json({"threads": threads, "rounds": rounds, "latencies_ms": {n: _milliseconds(x) for n, x in latencies.items()},
                           "difference": agreement})
        return
    _print(latencies, agreement, threads, rounds)


def _load(
    model: Path, names: list[str], torch_program: Path | None, files: list[str], sizes: dict[str, int], target: str, opt_level: int,
    threads: int, report: source.Report,
) -> tuple[dict[str, peers.Call], dict[str, peers.Outputs]]:
    if source.is_artifact(model):
        from forge_runtime import Runtime

        runtime = Runtime(model)
        feed = source.load_arrays(files, runtime.input_names)
    else:
        module = source.load_model(model)
        feed = {**source.random_inputs(module.input_nodes, sizes), **source.load_arrays(files, module.input_names)}
        runtime = compile_module(module.mod, target=target, opt_level=opt_level, progress=report).runtime()
    missing = [n for n in runtime.input_names if n not in feed]
    if missing:
        raise ForgeError(f"bench: input {missing[0]!r} is missing; pass --input {missing[0]}=FILE.npy")
    runtime.set_num_threads(threads)
    arrays = [feed[n] for n in runtime.input_names]
    calls: dict[str, peers.Call] = {"forge": lambda: peers.as_list(runtime(*arrays))}
    for name in names:
        calls[name] = _load_peer(name, model, torch_program, feed, threads)
    return calls, {name: list(call()) for name, call in calls.items()}


def _load_peer(name: str, model: Path, torch_program: Path | None, feed: peers.Feed, threads: int) -> peers.Call:
    try:
        if name == "torch":
            return peers.load_torch_program(_needed(torch_program), feed, threads)
        if model.suffix != ".onnx":
            raise ForgeError(f"--vs {name}: reads ONNX files; got {model}")
        return peers.LOADERS[name](model, feed, threads)
    except ImportError as error:
        raise ForgeError(f"--vs {name}: the package {name} is not installed; pip install {name}") from error


def _needed(program: Path | None) -> Path:
    if program is None or not program.is_file():
        raise ForgeError("--vs torch: torch cannot read ONNX; pass --torch-program FILE.pt2, written by torch.export.save")
    return program


def _milliseconds(latencies: Latencies) -> dict[str, float]:
    named = {"minimum": 0.0, "median": 0.5, "p90": 0.9, "p99": 0.99, "maximum": 1.0}
    return {name: latencies.quantile(q) * 1e3 for name, q in named.items()}


def _print(latencies: dict[str, Latencies], agreement: dict[str, float], threads: int, rounds: int) -> None:
    columns = ("minimum", "median", "p90", "p99", "maximum")
    shown = source.table(f"latency in ms, {threads} thread(s), {rounds} rounds", "runtime", *columns, "Forge is", "difference",
                         right=(*columns, "Forge is", "difference"))
    own = latencies["forge"]
    for name, taken in latencies.items():
        row: dict[str, Any] = _milliseconds(taken)
        speed = "" if name == "forge" else f"{taken.median / own.median:.2f}x as fast"
        shown.add_row(name, *[f"{row[c]:.4g}" for c in columns], speed, "" if name == "forge" else f"{agreement[name]:.1e}")
    Console().print(shown)
