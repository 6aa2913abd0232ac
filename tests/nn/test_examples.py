"""The examples of ``forge.nn`` run, and compute what torch computes."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import forge
from examples.nn import llama, resnet, three_ways, unet_block, whisper
from examples.nn.weights import fill
from forge import nn
from forge.nn import spec


@pytest.mark.parametrize("example", [resnet, unet_block, whisper, llama])
def test_examples_run(example: object, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()  # type: ignore[attr-defined]
    assert capsys.readouterr().out


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_one_operator_three_ways(capsys: pytest.CaptureFixture[str]) -> None:
    three_ways.main()  # which compares
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == list(three_ways.WAYS)


def test_words_one_by_one_are_those_of_all_at_once() -> None:
    model = llama.Llama(llama.Config())
    fill(model)
    run = model.jit(llama.SPEC, out_format="numpy")
    words = llama.generate(run, [3, 1, 4], 5)
    run.reset()
    step = [run(np.array([[word]]), k + 1) for k, word in enumerate(words)]
    run.reset()
    whole = run(np.array([words]), len(words))
    np.testing.assert_allclose(step[-1], whole, rtol=2e-4, atol=2e-5)
    assert whole.shape == (1, llama.Config().vocab_size)


def test_decoder_over_caches_equals_one_without() -> None:
    model = whisper.Whisper()
    fill(model)
    run = model.jit(whisper.specification(), out_format="numpy")
    states = run["encode"](np.random.default_rng(0).standard_normal((1, 16, 64)).astype(np.float32))
    words = [1, 5, 9, 2]
    scores = [run["decode"](np.array([[word]]), states, k + 1) for k, word in enumerate(words)]
    run.reset()
    np.testing.assert_allclose(scores[-1], run["decode"](np.array([words]), states, len(words)), rtol=2e-4, atol=2e-5)


def test_llama_equals_transformers() -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = llama.Config()
    sizes = {name: getattr(config, name) for name in config.__dataclass_fields__}
    torch.manual_seed(0)
    other = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, tie_word_embeddings=False)).eval()
    model = llama.Llama(config)
    model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in other.state_dict().items()})
    words = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    with torch.no_grad():
        expected = other(words).logits[:, -1]
    result = model.jit(llama.SPEC)(words, words.shape[1])
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_resnet_loads_weights_of_torch() -> None:
    torch = pytest.importorskip("torch")
    tnn = torch.nn

    class Block(tnn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inputs: int, channels: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = tnn.Conv2d(inputs, channels, 3, stride, 1, bias=False), tnn.BatchNorm2d(channels)
            self.conv2, self.bn2 = tnn.Conv2d(channels, channels, 3, 1, 1, bias=False), tnn.BatchNorm2d(channels)
            self.downsample = tnn.Sequential(tnn.Conv2d(inputs, channels, 1, stride, bias=False), tnn.BatchNorm2d(channels))

        def forward(self, x: object) -> object:
            y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(y + self.downsample(x))

    torch.manual_seed(0)
    other = Block(4, 8, 2)
    for name, tensor in other.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            tensor.uniform_(0.5, 1.5)
    other.eval()
    block = resnet.BasicBlock(4, 8, 2)
    block.load_state_dict(other.state_dict())
    x = torch.randn(2, 4, 9, 9)
    ir = block.export({"x": spec.Tensor(["n", 4, "h", "w"], "float32")})
    assert not any(node.op == "nn.batch_norm" for node in ir)
    np.testing.assert_allclose(forge.compile(ir)(x.numpy()), other(x).detach(), rtol=1e-4, atol=1e-5)
    assert isinstance(block, nn.Module)
