"""Each operation of the specification is imported and compared with NumPy, with sizes that are numbers and that are not."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.errors import OpAttributeUnimplemented, OpNotImplemented
from forge.frontends.stablehlo.coverage import SPECIFICATION
from tests.frontends.stablehlo.specification import PROGRAMS, REFUSED

COMPARED = [name for name in SPECIFICATION if name not in REFUSED]
DYNAMIC = [name for name in COMPARED if "N" in PROGRAMS[name].text]
CASES = [*((name, "3") for name in COMPARED), *((name, "?") for name in DYNAMIC)]


def test_few_operations_are_refused() -> None:
    assert set(REFUSED) <= set(SPECIFICATION) and len(COMPARED) >= 0.97 * len(SPECIFICATION)


@pytest.mark.parametrize("target", ["reference", "llvm"])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_equals_numpy(name: str, size: str, target: str) -> None:
    program = PROGRAMS[name]
    assert f"stablehlo.{name}" in program.text
    found = forge.from_stablehlo(program.text.replace("<Nx", f"<{size}x")).get_inference_function(target)(*program.inputs)
    for one, expected in zip(found if isinstance(found, list | tuple) else [found], program.expected, strict=True):
        one = np.asarray(one)
        assert one.shape == expected.shape and one.dtype.kind == expected.dtype.kind
        np.testing.assert_allclose(one, np.asarray(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_operations_say_why(name: str) -> None:
    text = f'func.func @main(%a: tensor<f32>) -> tensor<f32> {{\n%r = "stablehlo.{name}"(%a) : (tensor<f32>) -> tensor<f32>\n'
    with pytest.raises(OpNotImplemented, match=REFUSED[name]):
        forge.from_stablehlo(f"{text}return %r : tensor<f32>\n}}")


def test_the_host_exchanges_data_once() -> None:
    text = """func.func @main(%a: tensor<i1>, %t: !stablehlo.token) -> tensor<f32> {
      %r = "stablehlo.if"(%a) ({
        %b, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
        stablehlo.return %b : tensor<f32>
      }, {
        %c = stablehlo.constant dense<1.0> : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) : (tensor<i1>) -> tensor<f32>
      return %r : tensor<f32>
    }"""
    with pytest.raises(OpAttributeUnimplemented, match="in the body of a loop or a branch"):
        forge.from_stablehlo(text)
