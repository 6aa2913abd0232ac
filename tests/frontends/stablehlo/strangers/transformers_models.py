"""Models of transformers: https://github.com/huggingface/transformers, of the versions before 5."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.frontends.stablehlo.strangers.case import BATCH, LENGTH, VOCABULARY, Case, Cases, numbers, tokens

_ENCODER = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 64}
_SEQUENCES = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64}
_T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_HEADS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM")
TEXT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Bert": (_ENCODER, ("Model", "ForPreTraining", "ForCausalLM", "ForNextSentencePrediction", *_HEADS)),
    "Roberta": (_ENCODER, ("Model", "ForCausalLM", *_HEADS)),
    "RobertaPreLayerNorm": (_ENCODER, ("Model", "ForMaskedLM")),
    "XLMRoberta": (_ENCODER, ("Model", "ForMaskedLM")),
    "Albert": ({**_ENCODER, "embedding_size": 16}, ("Model", "ForPreTraining", *_HEADS)),
    "DistilBert": (
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64},
        ("Model", *_HEADS)),
    "Electra": ({**_ENCODER, "embedding_size": 16}, ("Model", "ForPreTraining", "ForCausalLM", *_HEADS)),
    "RoFormer": ({**_ENCODER, "embedding_size": 16}, ("Model", *_HEADS)),
    "BigBird": ({**_ENCODER, "block_size": 4, "attention_type": "original_full"}, ("Model", "ForMaskedLM", "ForCausalLM")),
    "GPT2": (_GPT2, ("Model", "LMHeadModel")),
    "GPTNeo": (
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64,
         "attention_types": [[["global", "local"], 1]], "window_size": 4}, ("Model", "ForCausalLM")),
    "GPTJ": ({**_GPT2, "rotary_dim": 4}, ("Model", "ForCausalLM")),
    "Llama": ({**_ENCODER, "num_key_value_heads": 2}, ("Model", "ForCausalLM")),
    "Mistral": ({**_ENCODER, "num_key_value_heads": 2, "sliding_window": 4}, ("Model", "ForCausalLM")),
    "Gemma": ({**_ENCODER, "num_key_value_heads": 2, "head_dim": 8}, ("Model", "ForCausalLM")),
    "OPT": (
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
         "max_position_embeddings": 64, "word_embed_proj_dim": 32}, ("Model", "ForCausalLM")),
    "Bloom": ({"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}, ("Model", "ForCausalLM")),
    "XGLM": (
        {"vocab_size": VOCABULARY, "d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4,
         "max_position_embeddings": 64}, ("Model", "ForCausalLM")),
}
PAIRS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "T5": (_T5, ("Model", "ForConditionalGeneration")),
    "MT5": (_T5, ("Model", "ForConditionalGeneration")),
    "LongT5": ({**_T5, "local_radius": 3}, ("Model", "ForConditionalGeneration")),
    "Bart": (_SEQUENCES, ("Model", "ForConditionalGeneration", "ForQuestionAnswering")),
    "Marian": ({**_SEQUENCES, "pad_token_id": 1}, ("Model", "MTModel")),
    "Pegasus": (_SEQUENCES, ("Model", "ForConditionalGeneration")),
    "MBart": (_SEQUENCES, ("Model", "ForConditionalGeneration")),
    "Blenderbot": (_SEQUENCES, ("Model", "ForConditionalGeneration")),
    "BlenderbotSmall": (_SEQUENCES, ("Model", "ForConditionalGeneration")),
}
IMAGES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "ViT": (_VISION, ("Model", "ForImageClassification")),
    "Beit": (
        {**_VISION, "vocab_size": VOCABULARY, "use_relative_position_bias": True}, ("Model", "ForImageClassification")),
    "Dinov2": (_VISION, ("Model", "ForImageClassification")),
    "RegNet": (
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "groups_width": 4}, ("Model", "ForImageClassification")),
    "ResNet": ({"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]}, ("Model", "ForImageClassification")),
}


def cases() -> Cases:
    _mend()
    for kinds, how in ((TEXT, _text_model), (PAIRS, _pair_model), (IMAGES, _image_model)):
        for name, (settings, heads) in kinds.items():
            for head in heads:
                for is_open in (False, True):
                    label = f"{name}{head}" + ("-open" if is_open else "")
                    yield label, lambda how=how, name=name, head=head, settings=settings, o=is_open: how(name, head, settings, o)
    yield "BigBirdModel-sparse", lambda: _text_model(
        "BigBird", "Model", {**_ENCODER, "block_size": 4, "num_random_blocks": 1, "attention_type": "block_sparse"}, False, 64)
    yield "BertModel-bfloat16", lambda: _text_model("Bert", "Model", _ENCODER, False, dtype=jnp.bfloat16)
    yield "GPT2LMHeadModel-step", lambda: _decoding_step("GPT2", "LMHeadModel", _GPT2)
    for name in ("Llama", "Mistral", "Gemma", "OPT", "Bloom", "XGLM", "GPTJ", "GPTNeo"):
        yield f"{name}ForCausalLM-step", lambda name=name: _decoding_step(name, "ForCausalLM", TEXT[name][0])
    yield "GPT2LMHeadModel-generate", lambda: _generated("GPT2", "LMHeadModel", _GPT2, {"do_sample": False})
    yield "GPT2LMHeadModel-sample", lambda: _generated(
        "GPT2", "LMHeadModel", _GPT2, {"do_sample": True, "top_k": 5, "top_p": 0.9, "temperature": 0.7})
    yield "GPT2LMHeadModel-beams", lambda: _generated("GPT2", "LMHeadModel", _GPT2, {"num_beams": 3})
    yield "T5ForConditionalGeneration-generate", lambda: _generated("T5", "ForConditionalGeneration", _T5, {"do_sample": False})
    yield "BartForConditionalGeneration-beams", lambda: _generated(
        "Bart", "ForConditionalGeneration", _SEQUENCES, {"num_beams": 2})
    yield "Whisper", _whisper
    yield "WhisperForAudioClassification", lambda: _whisper("ForAudioClassification")
    yield "Wav2Vec2Model", lambda: _speech("Model")
    yield "Wav2Vec2ForCTC", lambda: _speech("ForCTC")
    yield "CLIPModel", _clip
    yield "BertModel-gradient", lambda: _gradient("Bert", "ForSequenceClassification", _ENCODER)
    yield "GPT2LMHeadModel-gradient", lambda: _gradient("GPT2", "LMHeadModel", _GPT2)


def _mend() -> None:
    """Gives ``jnp.clip`` the names of its arguments again that transformers uses."""
    clip = jnp.clip
    jnp.clip = lambda x, *limits, a_min=None, a_max=None, **more: (
        clip(x, a_min, a_max) if a_min is not None or a_max is not None else clip(x, *limits, **more))


def _made(name: str, head: str, settings: dict[str, Any], shape: tuple[int, ...] | None = None, dtype: Any = jnp.float32) -> Any:
    import transformers

    config = getattr(transformers, f"{name}Config")(**settings)
    more = {} if shape is None else {"input_shape": shape}
    return getattr(transformers, f"Flax{name}{head}")(config, seed=0, dtype=dtype, **more)


def _outputs(found: Any) -> Any:
    return found.to_tuple() if hasattr(found, "to_tuple") else found


def _text_model(
    name: str, head: str, settings: dict[str, Any], is_open: bool, length: int = LENGTH, dtype: Any = jnp.float32
) -> Case:
    model = _made(name, head, settings, dtype=dtype)
    ids = tokens(BATCH, length)
    mask = np.ones_like(ids)
    mask[1, -2:] = 0
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), ids.shape)
    needs = name in ("GPT2", "GPTNeo", "GPTJ", "Llama", "Mistral", "Gemma", "OPT", "XGLM")

    def run(params: Any, ids: Any, mask: Any, positions: Any) -> Any:
        more = {"position_ids": positions} if needs else {}
        return _outputs(model(ids, attention_mask=mask, params=params, **more))

    if is_open:
        return Case(lambda *given: run(model.params, *given), (ids, mask, positions), ("batch, length",) * 3)
    return Case(run, (model.params, ids, mask, positions))


def _pair_model(name: str, head: str, settings: dict[str, Any], is_open: bool) -> Case:
    model = _made(name, head, settings)
    source, target = tokens(BATCH, LENGTH + 2), tokens(BATCH, LENGTH)
    mask, decoded = np.ones_like(source), np.ones_like(target)
    mask[1, -2:] = 0

    def run(params: Any, ids: Any, mask: Any, target: Any, decoded: Any) -> Any:
        places = {}
        if name not in ("T5", "MT5", "LongT5"):
            places = {
                f"{prefix}position_ids": jnp.broadcast_to(jnp.arange(v.shape[1]), v.shape)
                for prefix, v in (("", ids), ("decoder_", target))}
        return _outputs(model(
            ids, attention_mask=mask, decoder_input_ids=target, decoder_attention_mask=decoded, params=params, **places))

    if is_open:
        sizes = ("batch, source", "batch, source", "batch, target", "batch, target")
        return Case(lambda *given: run(model.params, *given), (source, mask, target, decoded), sizes)
    return Case(run, (model.params, source, mask, target, decoded))


def _image_model(name: str, head: str, settings: dict[str, Any], is_open: bool) -> Case:
    model = _made(name, head, settings)
    images = numbers(BATCH, 3, 32, 32)

    def run(params: Any, images: Any) -> Any:
        return _outputs(model(images, params=params))

    if is_open:
        return Case(lambda given: run(model.params, given), (images,), ("batch, 3, 32, 32",))
    return Case(run, (model.params, images))


def _decoding_step(name: str, head: str, settings: dict[str, Any]) -> Case:
    """One more token, with a cache of those before."""
    model = _made(name, head, settings)
    ids, capacity = tokens(), 12
    cache = model.init_cache(BATCH, capacity)
    mask = np.ones((BATCH, capacity), np.int32)
    places = np.broadcast_to(np.arange(LENGTH, dtype=np.int32), ids.shape)
    more = {} if name == "Bloom" else {"position_ids": places}
    first = model(ids, attention_mask=mask, past_key_values=cache, params=model.params, **more)

    def run(params: Any, cache: Any, token: Any, mask: Any, place: Any) -> Any:
        more = {} if name == "Bloom" else {"position_ids": place}
        return _outputs(model(token, attention_mask=mask, past_key_values=cache, params=params, **more))

    return Case(run, (model.params, first.past_key_values, ids[:, :1], mask, np.full((BATCH, 1), LENGTH, np.int32)))


def _generated(name: str, head: str, settings: dict[str, Any], how: dict[str, Any]) -> Case:
    model = _made(name, head, settings)
    key = jax.random.PRNGKey(3)

    def run(params: Any, ids: Any) -> Any:
        options = {"max_new_tokens": 6, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0, **how}
        return model.generate(ids, params=params, prng_key=key, **options).sequences

    return Case(run, (model.params, tokens()))


def _whisper(head: str = "ForConditionalGeneration") -> Case:
    settings = {
        **{k: v for k, v in _SEQUENCES.items() if k != "max_position_embeddings"}, "num_mel_bins": 8, "max_source_positions": 20,
        "max_target_positions": 16, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 3}
    import transformers

    shape = (1, 8, 40)
    model = getattr(transformers, f"FlaxWhisper{head}")(transformers.WhisperConfig(**settings), input_shape=shape)
    if head == "ForAudioClassification":
        return Case(lambda params, x: _outputs(model(x, params=params)), (model.params, numbers(BATCH, 8, 40)))
    return Case(
        lambda params, x, ids: _outputs(model(x, decoder_input_ids=ids, params=params)),
        (model.params, numbers(BATCH, 8, 40), tokens()))


def _speech(head: str) -> Case:
    settings = {
        **{k: v for k, v in _ENCODER.items() if k != "max_position_embeddings"}, "conv_dim": [8, 8], "conv_kernel": [5, 3],
        "conv_stride": [4, 2], "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
        "do_stable_layer_norm": True, "feat_extract_norm": "layer"}
    model = _made("Wav2Vec2", head, settings, (1, 160))
    return Case(lambda params, x: _outputs(model(x, params=params)), (model.params, numbers(BATCH, 160)))


def _clip() -> Case:
    import transformers

    config = transformers.CLIPConfig(text_config=_ENCODER, vision_config=_VISION, projection_dim=16)
    model = transformers.FlaxCLIPModel(config)

    def run(params: Any, ids: Any, images: Any) -> Any:
        return tuple(_outputs(model(ids, images, params=params))[:4])

    return Case(run, (model.params, tokens(), numbers(BATCH, 3, 32, 32)))


def _gradient(name: str, head: str, settings: dict[str, Any]) -> Case:
    model = _made(name, head, settings)

    def run(params: Any, ids: Any) -> Any:
        def loss(params: Any) -> Any:
            return -jax.nn.log_softmax(model(ids, params=params).logits)[..., 0].mean()

        value, gradients = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    return Case(run, (model.params, tokens()))
