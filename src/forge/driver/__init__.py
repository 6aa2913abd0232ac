"""The whole compiler: stages, compilation, artifacts."""

from forge.driver.compiled import CompiledModel
from forge.driver.compiler import compile_module, optimized_graph
from forge.driver.pass_context import check_options
from forge.driver.pipeline import GRAPH_STAGES, Stage, run_graph_stages
from forge.options import CompileOptions

__all__ = [
    "GRAPH_STAGES", "CompileOptions", "CompiledModel", "Stage", "check_options", "compile_module", "optimized_graph",
    "run_graph_stages",
]
