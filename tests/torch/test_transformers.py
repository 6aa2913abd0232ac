"""Models of transformers, exported with Forge as backend: next to transformers' own results."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.23")

import transformers  # noqa: E402
from transformers.exporters import AutoExportConfig, AutoHfExporter, ExportedModel  # noqa: E402

import forge  # noqa: E402
import forge.torch.transformers as hf  # noqa: E402
from forge.options import CompileOptions, options_of  # noqa: E402

LIMIT = 1e-5
SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
TOKENS = 12


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    transformers.logging.set_verbosity(verbosity)


def made(make: Any, config: Any) -> Any:
    torch.manual_seed(0)
    return make(config).eval()


def llama() -> Any:
    config = transformers.LlamaConfig(**SIZES, **SPECIAL, num_key_value_heads=2, max_position_embeddings=64)
    return made(transformers.LlamaForCausalLM, config)


def prompt(batch: int = 2, count: int = 7) -> dict[str, Any]:
    tokens = torch.randint(3, 96, (batch, count), generator=torch.Generator().manual_seed(0))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def settings(**more: Any) -> Any:
    return transformers.GenerationConfig(**SPECIAL, max_new_tokens=TOKENS, do_sample=False, **more)


STATIC = {"cache_implementation": "static", "max_cache_len": 32}


def export(model: Any, inputs: dict[str, Any], generation: Any, **options: Any) -> ExportedModel:
    return hf.ForgeExporter().export_for_generation(model, inputs, hf.ForgeConfig(**options), generation_config=generation)


@pytest.fixture(scope="module")
def static() -> ExportedModel:
    """Prefill and decode with a static cache, of fixed sizes. Do not change it."""
    return export(llama(), prompt(), settings(**STATIC))


def step(exported: ExportedModel, cache: Any, tokens: Any, past: int) -> Any:
    """A call of ``decode`` with a static cache."""
    mask = (torch.arange(32) <= past).expand(len(tokens), 1, 1, 32)
    positions = torch.full((len(tokens), 1), past)
    return exported.runners["decode"](input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=cache)


def begin(exported: ExportedModel) -> Any:
    """A call of ``prefill``."""
    cache = transformers.StaticCache(config=exported.config, max_cache_len=32)
    tokens = prompt()["input_ids"]
    return exported.runners["prefill"](input_ids=tokens, position_ids=torch.arange(7).expand(2, 7), past_key_values=cache)


def test_one_graph_of_any_size_and_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = transformers.BertConfig(**SIZES)
    model = made(transformers.BertModel, config)
    exporter = AutoHfExporter.from_config(hf.ForgeConfig())
    assert isinstance(exporter, hf.ForgeExporter)
    exporter.export(model, prompt(), {"dynamic": True, "opt_level": 1}).save_pretrained(tmp_path)
    assert {"forge_model.json", "modelLibrary.so", "export.json", "config.json"} == {p.name for p in tmp_path.iterdir()}
    monkeypatch.setattr(forge.IRModule, "compile", None)
    loaded = ExportedModel.from_pretrained(tmp_path)
    for inputs in (prompt(), prompt(3, 5)):
        with torch.no_grad():
            expected, found = model(**inputs), loaded(**inputs)
        assert type(found) is type(expected)
        for name in ("last_hidden_state", "pooler_output"):
            assert (found[name] - expected[name]).abs().max() <= LIMIT
    assert loaded.program.runtime.metadata["options"]["opt_level"] == 1
    loaded.save_pretrained(tmp_path)
    assert ExportedModel.from_pretrained(tmp_path).program.runtime.output_names == ["last_hidden_state", "pooler_output"]


def test_a_static_cache_generates_torchs_tokens(static: ExportedModel, tmp_path: Path) -> None:
    static.save_pretrained(tmp_path)
    loaded = ExportedModel.from_pretrained(tmp_path)
    expected = llama().generate(**prompt(), generation_config=settings(**STATIC))
    for exported in (static, loaded):
        model = hf.generation_model(exported)
        assert {p.device.type for p in model.parameters()} == {"meta"}
        assert torch.equal(model.generate(**prompt()), expected)


def test_decoding_writes_a_static_cache_where_it_lies(static: ExportedModel) -> None:
    first = begin(static)
    cache = first.past_key_values
    places = [(layer.keys.data_ptr(), layer.values.data_ptr()) for layer in cache.layers]
    tokens, known = first.logits[:, -1:].argmax(-1), cache.layers[0].keys.clone()
    after = step(static, cache, tokens, 7).past_key_values
    assert [(layer.keys.data_ptr(), layer.values.data_ptr()) for layer in after.layers] == places
    changed = (cache.layers[0].keys != known).any(dim=(0, 1, 3)).nonzero()
    assert changed.tolist() == [[7]]
    assert int(cache.get_seq_length()) == 8


def test_caches_that_cannot_be_written_in_place_are_copied(static: ExportedModel) -> None:
    plain, strided = begin(static).past_key_values, begin(static).past_key_values
    for layer in strided.layers:
        layer.keys = layer.keys.transpose(0, 1).contiguous().transpose(0, 1)
    tokens = torch.full((2, 1), 5)
    results = [step(static, cache, tokens, 7) for cache in (plain, strided)]
    assert torch.equal(results[0].logits, results[1].logits)
    assert torch.equal(plain.layers[0].keys, strided.layers[0].keys)
    assert int(strided.get_seq_length()) == 8


def test_components_are_functions_of_one_library(static: ExportedModel, tmp_path: Path) -> None:
    static.save_pretrained(tmp_path)
    loaded = ExportedModel.from_pretrained(tmp_path)
    prefill, decode = (loaded.components[name].program for name in ("prefill", "decode"))
    assert prefill.library is decode.library
    assert prefill.runtime.functions == ["prefill", "decode"]
    weights = sum(p.numel() * p.element_size() for p in llama().parameters())
    alone = forge.Runtime(tmp_path).metadata["weights_size"]
    assert weights <= alone < 1.25 * weights


def test_a_growing_cache_generates_torchs_tokens_for_any_prompt() -> None:
    model = hf.generation_model(export(llama(), prompt(), settings(), dynamic=True))
    for inputs in (prompt(), prompt(3, 5)):
        assert torch.equal(model.generate(**inputs), llama().generate(**inputs, generation_config=settings()))
    beams = {"generation_config": settings(num_beams=3)}
    assert torch.equal(model.generate(**prompt(), **beams), llama().generate(**prompt(), **beams))
    padded = prompt()
    padded["attention_mask"][0, :2] = 0
    with pytest.raises(forge.ForgeError, match=r"got attention_mask; expected .* in which something is masked"):
        model.generate(**padded)


def test_an_encoder_is_a_component() -> None:
    config = transformers.T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0,
        eos_token_id=None)
    model = made(transformers.T5ForConditionalGeneration, config)
    generation = settings(decoder_start_token_id=0, **STATIC)
    exported = export(model, prompt(), generation)
    assert set(exported.components) == {"encoder", "prefill", "decode"}
    found = hf.generation_model(exported).generate(**prompt())
    assert torch.equal(found, model.generate(**prompt(), generation_config=generation))


@pytest.mark.slow
def test_a_sliding_window_of_views_is_exported() -> None:
    """The caches that ``generate`` captures are views with gaps, of which torch would note the strides."""
    config = transformers.MistralConfig(**SIZES, **SPECIAL, num_key_value_heads=2, sliding_window=4, max_position_embeddings=64)
    model = made(transformers.MistralForCausalLM, config)
    found = hf.generation_model(export(model, prompt(), settings(), dynamic=True)).generate(**prompt())
    assert torch.equal(found, model.generate(**prompt(), generation_config=settings()))


def test_bfloat16_stays_so() -> None:
    model = llama().bfloat16()
    exported = hf.ForgeExporter().export(model, prompt(), hf.ForgeConfig())
    assert exported.program.runtime.output_dtypes == ["bfloat16"] * 5
    with torch.no_grad():
        expected, found = model(**prompt()), exported(**prompt())
    assert found.logits.dtype == torch.bfloat16
    scale = expected.logits.abs().max()
    assert (found.logits - expected.logits).abs().max() <= 2e-2 * scale


def test_a_static_cache_of_bfloat16_is_written_in_place() -> None:
    exported = export(llama().bfloat16(), prompt(), settings(**STATIC))
    cache = begin(exported).past_key_values
    place = cache.layers[1].values.data_ptr()
    assert cache.layers[1].values.dtype == torch.bfloat16
    after = step(exported, cache, torch.full((2, 1), 5), 7).past_key_values
    assert after.layers[1].values.data_ptr() == place
    assert after.layers[1].values[:, :, 7].abs().max() > 0


def test_the_configuration_has_all_options_of_a_compilation() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(hf.ForgeConfig)}
    assert {o.python: o.default for o in options_of(CompileOptions)}.items() <= fields.items()
    assert all(o.python in hf.ForgeConfig.__doc__ for o in options_of(CompileOptions))
    config = hf.ForgeConfig(opt_level=2, dynamic=True)
    assert AutoExportConfig.from_dict(json.loads(config.to_json_string())) == config
    with pytest.raises(forge.ForgeError, match="opt_level: got 9; expected an integer from 0 to 4"):
        hf.ForgeConfig(opt_level=9)


def test_arguments_that_do_not_fit_are_named(static: ExportedModel) -> None:
    decode = static.runners["decode"]
    with pytest.raises(forge.ForgeError, match=r"component 'decode': missing \['input_ids'"):
        decode()
    with pytest.raises(forge.ForgeError, match=r"no such argument; got \['labels'\]"):
        decode(labels=1)
    cache = transformers.StaticCache(config=static.config, max_cache_len=32)
    with pytest.raises(forge.ForgeError, match=r"'past_key_values': got 2 tensors; expected 6: \['past_key_values.layers.0.k"):
        step(static, cache, torch.full((2, 1), 5), 7)
    with pytest.raises(forge.ForgeError, match="wrong shape"):
        step(static, begin(static).past_key_values, torch.full((3, 1), 5), 7)
    with pytest.raises(forge.ForgeError, match="device: got cuda; expected 'cpu' or None"):
        static.to("cuda")


def test_options_are_those_of_all_components() -> None:
    configs = {"prefill": hf.ForgeConfig(), "decode": hf.ForgeConfig(opt_level=1)}
    with pytest.raises(forge.ForgeError, match=r"component 'decode': got options {'opt_level': 1}; expected {}"):
        hf.ForgeExporter().export_for_generation(llama(), prompt(), configs)


def test_operators_without_a_converter_are_named() -> None:
    class Odd(transformers.BertModel):  # type: ignore[misc]
        def forward(self, input_ids: Any = None, attention_mask: Any = None, **kwargs: Any) -> Any:
            return {"values": torch.linalg.eigvals(super().forward(input_ids, attention_mask).last_hidden_state[0, :5, :5])}

    model = made(Odd, transformers.BertConfig(**SIZES))
    with pytest.raises(forge.OpNotImplemented, match=r"aten\.linalg_eig\.default"):
        hf.ForgeExporter().export(model, prompt(), hf.ForgeConfig())


def test_damaged_files_are_named(static: ExportedModel, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    static.save_pretrained(whole)
    for name, content in (("modelLibrary.so", None), ("forge_decode.json", "{}"), ("forge_decode.json", "no")):
        folder = shutil.copytree(whole, tmp_path / "damaged", dirs_exist_ok=True)
        if content is None:
            (folder / name).write_bytes(b"")
        else:
            (folder / name).write_text(content)
        with pytest.raises(forge.errors.ArtifactError, match=name.replace(".", r"\.")):
            ExportedModel.from_pretrained(folder)


def test_a_saved_model_is_of_one_library(static: ExportedModel, tmp_path: Path) -> None:
    model = made(transformers.BertModel, transformers.BertConfig(**SIZES))
    other = hf.ForgeExporter().export(model, prompt(), hf.ForgeConfig())
    mixed = copy.copy(static)
    mixed.components = {"decode": static.components["decode"], "other": other.components["model"]}
    with pytest.raises(forge.ForgeError, match="the components are of several libraries; expected those of one export"):
        mixed.save_pretrained(tmp_path)
    with pytest.raises(forge.ForgeError, match=r"got components \['model'\]; expected prefill and decode"):
        hf.generation_model(other)
