"""A language model generates eager's tokens under ``torch.compile``, its cache written in place."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from forge.torch import compiled  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("cache", "compilations"), [("static", 2), (None, 3)])
def test_tokens(cache: str | None, compilations: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    original = compiled.compile_module
    monkeypatch.setattr(compiled, "compile_module", lambda *args, **kwargs: found.append(1) or original(*args, **kwargs))
    torch.compiler.reset()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=99, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(config).eval().to(dtype)
    prompt = torch.randint(0, 99, (2, 7))
    options = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "cache_implementation": cache}
    wanted = model.generate(prompt, **options)
    model.forward = torch.compile(model.forward, backend="forge", fullgraph=True)
    for _ in range(2):
        assert torch.equal(model.generate(prompt, **options), wanted)
    assert len(found) == compilations  # prefill, and steps of any length
