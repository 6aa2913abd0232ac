"""The whole compiler: stages, compilation, artifacts."""

from forge.driver.compiled import CompiledModel
from forge.driver.compiler import Options, check_options, compile_module, optimized_graph
from forge.driver.pipeline import GRAPH_STAGES, Stage, run_graph_stages

__all__ = [
    "GRAPH_STAGES", "CompiledModel", "Options", "Stage", "check_options", "compile_module", "optimized_graph", "run_graph_stages",
]
