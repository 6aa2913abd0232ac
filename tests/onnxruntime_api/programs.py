"""Programs as users of onnxruntime write them. Each gets the module in the place of ``ort`` and a folder."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.onnxruntime_api import models

Ort = Any
SIZE = 8


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(proto, path)
    return path


def embeddings(ort: Ort, folder: Path) -> Any:
    """Sentence embeddings: padded token ids in, mean of the hidden states under the mask out."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = 2
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(saved(models.encoder(), folder)), sess_options=options, providers=["CPUExecutionProvider"])
    takes = {node.name for node in session.get_inputs()}
    found = []
    for lengths in ([5, 3], [7], [2, 4, 4]):
        ids = np.zeros((len(lengths), max(lengths)), np.int64)
        for row, length in zip(ids, lengths):
            row[:length] = np.arange(1, length + 1) * 3 % models.VOCABULARY
        feed = {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64)}
        if "token_type_ids" in takes:
            feed["token_type_ids"] = np.zeros_like(ids)
        hidden = session.run(["last_hidden_state"], feed)[0]
        mask = feed["attention_mask"][..., None].astype(np.float32)
        mean = (hidden * mask).sum(1) / np.clip(mask.sum(1), 1e-9, None)
        found.append(mean / np.linalg.norm(mean, axis=1, keepdims=True))
    return found, sorted(takes), [node.shape for node in session.get_outputs()]


def generation(ort: Ort, folder: Path) -> Any:
    """Greedy generation, with keys and values fed by hand."""
    session = ort.InferenceSession(models.decoder().SerializeToString(), providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_outputs()]
    past = {name.replace("present", "past"): np.zeros((1, models.HEADS, 0, SIZE), np.float32) for name in names[1:]}
    tokens = [3, 14, 15]
    step = np.array([tokens])
    while len(tokens) < 9:
        feed = {"input_ids": step, "attention_mask": np.ones((1, len(tokens)), np.int64), **past}
        logits, *present = session.run(None, feed)
        past = {name.replace("present", "past"): value for name, value in zip(names[1:], present)}
        tokens.append(int(logits[0, -1].argmax()))
        step = np.array([tokens[-1:]])
    return tokens, list(past.values())


def generation_with_binding(ort: Ort, folder: Path) -> Any:
    """The same with IO binding: caches stay `OrtValue`, logits go to memory of the caller."""
    session = ort.InferenceSession(models.decoder().SerializeToString(), providers=["CPUExecutionProvider"])
    caches = {n: ort.OrtValue.ortvalue_from_numpy(np.zeros((1, models.HEADS, 0, SIZE), np.float32)) for n in ("key", "value")}
    tokens = [3, 14, 15]
    step = np.array([tokens])
    while len(tokens) < 9:
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", step)
        mask = ort.OrtValue.ortvalue_from_numpy(np.ones((1, len(tokens)), np.int64), "cpu", 0)
        binding.bind_input("attention_mask", mask.device_name(), 0, np.int64, mask.shape(), mask.data_ptr())
        for name, value in caches.items():
            binding.bind_ortvalue_input(f"past_{name}", value)
        logits = np.empty((1, step.shape[1], models.VOCABULARY), np.float32)
        binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
        for name in caches:
            binding.bind_output(f"present_{name}", "cpu")
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        caches = dict(zip(caches, binding.get_outputs()[1:]))
        assert np.array_equal(binding.copy_outputs_to_cpu()[0], logits)
        tokens.append(int(logits[0, -1].argmax()))
        step = np.array([tokens[-1:]])
    return tokens, [value.numpy() for value in caches.values()], [value.data_type() for value in caches.values()]


def preallocated_caches(ort: Ort, folder: Path) -> Any:
    """Outputs of sizes that are sums of inputs', each written to an `OrtValue` made beforehand."""
    session = ort.InferenceSession(models.decoder().SerializeToString())
    binding = session.io_binding()
    binding.bind_cpu_input("input_ids", np.array([[1, 2]]))
    binding.bind_cpu_input("attention_mask", np.ones((1, 5), np.int64))
    outputs = {}
    for name in ("key", "value"):
        binding.bind_cpu_input(f"past_{name}", np.ones((1, models.HEADS, 3, SIZE), np.float32))
        outputs[name] = ort.OrtValue.ortvalue_from_shape_and_type([1, models.HEADS, 5, SIZE], np.float32, "cpu", 0)
        binding.bind_ortvalue_output(f"present_{name}", outputs[name])
    session.run_with_iobinding(binding, ort.RunOptions())
    first = [value.numpy().copy() for value in outputs.values()]
    binding.bind_cpu_input("input_ids", np.array([[3, 4]]))
    session.run_with_iobinding(binding)
    return first, [value.numpy() for value in outputs.values()], [value.shape() for value in binding.get_outputs()]


def images(ort: Ort, folder: Path) -> Any:
    """Image classification with preprocessing in NumPy, names of classes from the metadata, sizes from the inputs."""
    wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    providers = [provider for provider in wanted if provider in ort.get_available_providers()]
    session = ort.InferenceSession(saved(models.network(), folder), providers=providers)
    meta = session.get_modelmeta()
    labels = ast.literal_eval(meta.custom_metadata_map["names"])
    images_, outputs = session.get_inputs()[0], session.get_outputs()
    is_dynamic = isinstance(images_.shape[2], str)
    is_half = "float16" in images_.type
    found = []
    for size in (12, 20):
        pixels = np.random.default_rng(size).integers(0, 256, (size, size + 2, 3), dtype=np.uint8)
        x = (pixels.astype(np.float32) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        batch = np.ascontiguousarray(x.transpose(2, 0, 1)[None], dtype=np.float16 if is_half else np.float32)
        scores = session.run([output.name for output in outputs], {images_.name: batch})[0]
        found.append((labels[int(scores.argmax())], scores))
    return found, is_dynamic, is_half, images_.shape, outputs[0].shape, meta.custom_metadata_map["task"]


def detector(ort: Ort, folder: Path) -> Any:
    """A wrapper as detectors have it: fixed sizes from the inputs, memory for outputs bound once."""
    session = ort.InferenceSession(str(saved(models.network("16, 16"), folder)), providers=["CPUExecutionProvider"])
    node = session.get_inputs()[0]
    batch = [1 if not isinstance(size, int) else size for size in node.shape]
    output = np.empty((1, len(models.LABELS)), np.float32)
    binding = session.io_binding()
    binding.bind_output("output0", "cpu", 0, np.float32, output.shape, output.ctypes.data)
    found = []
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(batch).astype(np.float32)
        binding.bind_input(
            name=node.name, device_type="cpu", device_id=0, element_type=np.float32, shape=x.shape, buffer_ptr=x.ctypes.data)
        session.run_with_iobinding(binding)
        found.append(output.copy())
    return found, batch


def recognizer(ort: Ort, folder: Path) -> Any:
    """A wrapper as OCR packages have it: checks the file and the providers, reads the alphabet, wraps errors."""
    class Session:
        def __init__(self, path: Path) -> None:
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.enable_cpu_mem_arena = False
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            providers = [("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})]
            self.session = ort.InferenceSession(str(path), sess_options=options, providers=providers)
            self.inputs = [node.name for node in self.session.get_inputs()]

        def __call__(self, *arrays: np.ndarray) -> Any:
            try:
                return self.session.run([node.name for node in self.session.get_outputs()], dict(zip(self.inputs, arrays)))
            except Exception as error:  # noqa: BLE001
                return type(error).__name__

        def characters(self) -> list[str]:
            return list(self.session.get_modelmeta().custom_metadata_map["character"].splitlines())

    session = Session(saved(models.network(), folder))
    x = np.ones((2, 3, 10, 12), np.float32)
    return session(x), session.characters(), session(x[0]), session(x.astype(np.float64)), session.session.get_providers(), \
        ort.get_device()


def regression(ort: Ort, folder: Path) -> Any:
    """A classifier of scikit-learn: labels and probabilities as dictionaries."""
    found = []
    for labels in ("strings", "integers"):
        session = ort.InferenceSession(models.classifier(labels).SerializeToString(), providers=["CPUExecutionProvider"])
        name, label = session.get_inputs()[0].name, session.get_outputs()[0].name
        x = np.array([[1, 2], [-3, 0.5], [0, 0]], np.float32)
        both = session.run(None, {name: x})
        assert session.run([label], {name: x})[0].tolist() == both[0].tolist()
        found.append([both, [(node.name, node.type, node.shape) for node in session.get_outputs()]])
    return found


def speech(ort: Ort, folder: Path) -> Any:
    """A detector of speech in a stream, whose state the caller keeps."""
    options = ort.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(saved(models.voice(), folder), providers=["CPUExecutionProvider"], sess_options=options)
    state, found = np.zeros((2, 1, 4), np.float32), []
    for chunk in np.random.default_rng(0).standard_normal((4, 1, 8)).astype(np.float32):
        output, state = session.run(None, {"input": chunk, "state": state, "sr": np.array(16000, dtype="int64")})
        found.append(output)
    return found, state, [node.shape for node in session.get_inputs()]


def subclass(ort: Ort, folder: Path) -> Any:
    """A session that can be pickled, as packages for faces derive it."""
    class Picklable(ort.InferenceSession):  # type: ignore[misc]
        def __init__(self, model_path: str, **kwargs: Any) -> None:
            super().__init__(model_path, **kwargs)
            self.model_path = model_path

        def __getstate__(self) -> dict[str, str]:
            return {"model_path": self.model_path}

        def __setstate__(self, values: dict[str, str]) -> None:
            self.__init__(values["model_path"], providers=["CPUExecutionProvider"])  # type: ignore[misc]

    import copy

    session = copy.copy(Picklable(str(saved(models.linear(), folder)), providers=["CPUExecutionProvider"]))
    session.set_providers(["CPUExecutionProvider"])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    return session.run([], {session.get_inputs()[0].name: x}), session.get_providers(), session.get_provider_options()


def texts(ort: Ort, folder: Path) -> Any:
    session = ort.InferenceSession(models.strings().SerializeToString())
    words = ["this", "is", "täst", "test"]
    found = [session.run(None, {"x": x}) for x in (words, np.array(words), np.array(words, object))]
    return [[array.tolist() for array in outputs] for outputs in found], [node.type for node in session.get_inputs()]


def bytes_as_texts(ort: Ort, folder: Path) -> Any:
    session = ort.InferenceSession(models.strings().SerializeToString())
    return session.run(["codes"], {"x": np.array([b"this", b"other", b"test"])})


def examples(ort: Ort, folder: Path) -> Any:
    """The models that come with onnxruntime."""
    from onnxruntime import datasets

    found = []
    for name in ("mul_1.onnx", "sigmoid.onnx"):
        session = ort.InferenceSession(datasets.get_example(name), providers=ort.get_available_providers()[-1:])
        node = session.get_inputs()[0]
        x = np.random.default_rng(0).random([size if isinstance(size, int) else 3 for size in node.shape]).astype(np.float32)
        found.append([session.run(None, {node.name: x}), node.name, node.type, [output.name for output in session.get_outputs()]])
    return found


def passed_through(ort: Ort, folder: Path) -> Any:
    """Outputs that are inputs are arrays of their own."""
    proto = models.model("same (float[N] x) => (float[N] x, float[N] y) { y = Add(x, x) }", 17)
    session = ort.InferenceSession(proto.SerializeToString())
    x = np.ones(3, np.float32)
    outputs = session.run(None, {"x": x})
    x[:] = 5
    return outputs


def lists(ort: Ort, folder: Path) -> Any:
    session = ort.InferenceSession(models.sequences().SerializeToString())
    items = [np.array([1, 2]), np.array([3])]
    types = [(node.name, node.type, node.shape) for node in (*session.get_inputs(), *session.get_outputs())]
    return session.run(None, {"items": items, "item": np.array([4, 5, 6])}), \
        session.run(["length"], {"items": [], "item": np.array([4])}), types


def ortvalues(ort: Ort, folder: Path) -> Any:
    session = ort.InferenceSession(models.linear().SerializeToString())
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    outputs = session.run_with_ort_values(["sum", "product"], {"x": value})
    value.update_inplace(array + 1)
    later = session.run(None, {"x": value})
    made = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64)
    halves = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3F80, 0x4000], np.uint16), onnx.TensorProto.BFLOAT16)
    facts = [(v.shape(), v.data_type(), v.element_type(), v.device_name(), v.is_tensor(), v.is_sparse_tensor(), v.has_value(),
              v.is_tensor_sequence(), v.tensor_size_in_bytes()) for v in (value, made, halves)]
    return [v.numpy() for v in outputs], later, array, facts


def nested_lists(ort: Ort, folder: Path) -> Any:
    session = ort.InferenceSession(models.linear().SerializeToString())
    return session.run([], {"x": [[1, 2, 3], [4.5, 5, 6]]})


def overridden_initializer(ort: Ort, folder: Path) -> Any:
    session = ort.InferenceSession(models.linear().SerializeToString())
    x = np.ones((2, 3), np.float32)
    found = [session.run(["sum"], feed) for feed in ({"x": x}, {"x": x, "shift": np.arange(3, dtype=np.float32)}, {"x": x})]
    optional = [(node.name, node.type, node.shape) for node in session.get_overridable_initializers()]
    return found, optional, [node.name for node in session.get_inputs()]


def initializers_of_old_models(ort: Ort, folder: Path) -> Any:
    """Before version 4 of the IR all initializers are inputs, and calls cannot give them."""
    proto = models.linear()
    proto.ir_version = 3
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [3, 2]))
    session = ort.InferenceSession(proto.SerializeToString())
    x = np.ones((2, 3), np.float32)
    refused = name_of_error(lambda: session.run(None, {"x": x, "shift": x[0]}))
    return session.run(None, {"x": x}), [node.name for node in session.get_inputs()], \
        [node.name for node in session.get_overridable_initializers()], refused


def one_row(ort: Ort, folder: Path) -> Any:
    """A map of a vector of scores."""
    proto = models.model("""
        row (float[2] x) => (float[2] y) { y = ai.onnx.ml.ZipMap<classlabels_strings = ["b", "a"]>(x) }""", 15,
        domains={"ai.onnx.ml": 1})
    proto.graph.output[0].CopyFrom(models.classifier().graph.output[1])
    proto.graph.output[0].name = "y"
    return ort.InferenceSession(proto.SerializeToString()).run(None, {"x": np.array([1, 2], np.float32)})


def described(ort: Ort, folder: Path) -> Any:
    """All that a session says of its model."""
    found = []
    protos = models.linear(), models.linear("None, 3"), models.network(), models.encoder(), models.decoder(), models.counting()
    for proto in protos:
        session = ort.InferenceSession(proto.SerializeToString())
        meta = session.get_modelmeta()
        found.append([[(node.name, node.type, node.shape) for node in session.get_inputs()],
                      [(node.name, node.type, node.shape) for node in session.get_outputs()], str(session.get_inputs()[0]),
                      meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.graph_description, meta.version,
                      sorted(meta.custom_metadata_map.items())])
    return found


def free_dimensions(ort: Ort, folder: Path) -> Any:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    options.add_free_dimension_override_by_denotation("HEIGHT", 10)
    proto = models.network()
    proto.graph.input[0].type.tensor_type.shape.dim[2].denotation = "HEIGHT"
    session = ort.InferenceSession(proto.SerializeToString(), options)
    fits = session.run(None, {"images": np.ones((2, 3, 10, 14), np.float32)})
    try:
        session.run(None, {"images": np.ones((3, 3, 10, 14), np.float32)})
    except Exception as error:  # noqa: BLE001
        return fits, type(error).__name__, session.get_inputs()[0].shape, session.get_outputs()[0].shape
    return None


def added_initializer(ort: Ort, folder: Path) -> Any:
    """Weights that the program gives, in the place of those in a file of their own that is missing."""
    proto = models.linear()
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)
    options, value = ort.SessionOptions(), ort.OrtValue.ortvalue_from_numpy(weights)
    options.add_initializer("w", value)
    session = ort.InferenceSession(str(folder / "model.onnx"), options)
    return session.run(None, {"x": np.ones((2, 3), np.float32)})


def external_data(ort: Ort, folder: Path) -> Any:
    """A model with its weights in another file: by path, and from bytes with the folder in the options."""
    onnx.save(models.linear(), folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    sessions = [ort.InferenceSession(folder / "model.onnx"), ort.InferenceSession((folder / "model.onnx").read_bytes(), options)]
    return [session.run(None, {"x": np.ones((2, 3), np.float32)}) for session in sessions]


def optimized_model(ort: Ort, folder: Path) -> Any:
    """The optimized model is written, and runs."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    ort.InferenceSession(models.network().SerializeToString(), options, ["CPUExecutionProvider"])
    session = ort.InferenceSession(str(folder / "optimized.onnx"))
    return session.run(["output0"], {"images": np.ones((1, 3, 8, 8), np.float32)})


def errors(ort: Ort, folder: Path) -> Any:
    """What is raised, by name."""
    session = ort.InferenceSession(models.linear().SerializeToString())
    x = np.ones((2, 3), np.float32)
    (folder / "broken.onnx").write_bytes(b"not a model")
    terminated = ort.RunOptions()
    terminated.terminate = True
    attempts = [
        lambda: session.run(["none"], {"x": x}), lambda: session.run(None, {"x": x, "none": x}),
        lambda: session.run(None, {"x": x[0]}), lambda: session.run(None, {"x": x.astype(np.float64)}),
        lambda: session.run(None, {"x": x[:, :2]}), lambda: session.run(None, {"x": x}, terminated),
        lambda: ort.InferenceSession(str(folder / "none.onnx")), lambda: ort.InferenceSession(str(folder / "broken.onnx")),
        lambda: ort.InferenceSession(b"not a model"),
    ]
    return [name_of_error(attempt) for attempt in attempts]


def name_of_error(attempt: Any) -> str:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001
        assert str(error).startswith("[ONNXRuntimeError] : ")
        return f"{type(error).__name__} {str(error).split(' : ')[1:3]}"
    return ""


PROGRAMS = [
    embeddings, generation, generation_with_binding, preallocated_caches, images, detector, recognizer, regression,
    speech, subclass, texts, bytes_as_texts, examples, passed_through, lists, ortvalues, nested_lists,
    overridden_initializer, initializers_of_old_models, one_row, described, free_dimensions, added_initializer,
    external_data, optimized_model, errors,
]
