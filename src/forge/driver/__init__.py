"""The whole compiler: stages, compilation, artifacts."""

from forge.backend import Stage
from forge.backends.compiled import CompiledModel
from forge.driver.compilation import Compilation
from forge.driver.compiler import compile_module, optimized_graph
from forge.driver.pass_context import check_options
from forge.driver.pipeline import GRAPH_STAGES, STAGES, run_stages
from forge.options import CompileOptions

__all__ = [
    "GRAPH_STAGES", "STAGES", "Compilation", "CompileOptions", "CompiledModel", "Stage", "check_options", "compile_module",
    "optimized_graph", "run_stages",
]
