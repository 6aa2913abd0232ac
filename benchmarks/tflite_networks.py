"""Networks of phones in Keras, seeded and untrained, as TensorFlow's converter writes them: in floats and in quantized forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SEED = 0
SAMPLES = 4
"""With which ranges of activations are found."""
FORMS = ("float32", "float16", "dynamic", "int8")
APPLICATIONS = {
    "mobilenet": ("MobileNet", 224), "mobilenetv2": ("MobileNetV2", 224), "mobilenetv3_small": ("MobileNetV3Small", 224),
    "mobilenetv3_large": ("MobileNetV3Large", 224), "efficientnetb0": ("EfficientNetB0", 224),
    "efficientnetv2b0": ("EfficientNetV2B0", 224), "resnet50": ("ResNet50", 224), "resnet50v2": ("ResNet50V2", 224),
    "densenet121": ("DenseNet121", 224), "inceptionv3": ("InceptionV3", 299), "xception": ("Xception", 299),
    "nasnet_mobile": ("NASNetMobile", 224), "convnext_tiny": ("ConvNeXtTiny", 224), "vgg16": ("VGG16", 224),
}
"""Of ``keras.applications``: names there, and sizes of images."""
OWN = ("blazeface", "deeplab", "unet", "ds_cnn", "yamnet", "encoder")
NAMES = tuple(f"{name}.{form}" for name in (*APPLICATIONS, *OWN) for form in FORMS)
FOLDER = Path.home() / ".cache" / "forge-benchmarks" / "tflite"


def _separable(x: Any, channels: int, stride: int = 1, kernel: int = 3, activation: str = "relu6") -> Any:
    """Filters by channels, and a mixture of these, each normalized."""
    from keras import layers

    x = layers.BatchNormalization()(layers.DepthwiseConv2D(kernel, stride, "same", use_bias=False)(x))
    x = layers.Activation(activation)(x)
    return layers.Activation(activation)(layers.BatchNormalization()(layers.Conv2D(channels, 1, use_bias=False)(x)))


def _blazeface() -> Any:
    import keras
    from keras import layers

    image = keras.Input((128, 128, 3))
    x = layers.Conv2D(24, 5, 2, "same", activation="relu")(image)
    found = []
    for channels, stride in ((24, 1), (28, 1), (32, 2), (36, 1), (42, 1), (48, 2), (56, 1), (64, 1), (88, 1), (96, 2), (96, 1)):
        inner = layers.Conv2D(channels, 1)(layers.DepthwiseConv2D(5, stride, "same")(x))
        if stride == 2:
            found.append(x)
            x = layers.MaxPooling2D(2)(x)
        grown = channels - x.shape[-1]
        x = layers.Lambda(lambda v, n=grown: keras.ops.pad(v, ((0, 0), (0, 0), (0, 0), (0, n))))(x) if grown else x
        x = layers.ReLU()(layers.Add()([x, inner]))
    heads = [layers.Reshape((-1, 17))(layers.Conv2D(17 * boxes, 1)(v)) for v, boxes in ((found[-1], 2), (x, 6))]
    return keras.Model(image, layers.Concatenate(axis=1)(heads))


def _deeplab() -> Any:
    import keras
    from keras import layers

    image = keras.Input((256, 256, 3))
    x = layers.Conv2D(16, 3, 2, "same", activation="hard_swish")(image)
    low = x = _separable(x, 24, 2, activation="hard_swish")
    for channels, stride in ((40, 2), (40, 1), (80, 2), (112, 1), (160, 1)):
        x = _separable(x, channels, stride, 5, "hard_swish")
    pooled = layers.Conv2D(128, 1, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Multiply()([layers.Conv2D(128, 1, activation="relu")(x), pooled])
    x = layers.UpSampling2D(4, interpolation="bilinear")(x)
    x = layers.Add()([layers.Conv2D(21, 1)(x), layers.Conv2D(21, 1)(low)])
    return keras.Model(image, layers.UpSampling2D(4, interpolation="bilinear")(x))


def _unet() -> Any:
    import keras
    from keras import layers

    image = x = keras.Input((128, 128, 3))
    kept = []
    for channels in (16, 32, 64, 128):
        for _ in range(2):
            x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.MaxPooling2D(2)(x) if channels < 128 else x
    for channels, skip in zip((64, 32, 16), kept[-2::-1]):
        x = layers.Concatenate()([layers.Conv2DTranspose(channels, 2, 2, "same")(x), skip])
        x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
    return keras.Model(image, layers.Conv2D(2, 1)(x))


def _ds_cnn() -> Any:
    import keras
    from keras import layers

    sound = keras.Input((49, 10, 1))
    x = layers.Conv2D(64, (10, 4), 2, "same", activation="relu")(sound)
    for _ in range(4):
        x = _separable(x, 64, activation="relu")
    return keras.Model(sound, layers.Dense(12, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


def _yamnet() -> Any:
    import keras
    from keras import layers

    sound = keras.Input((96, 64, 1))
    x = layers.Conv2D(32, 3, 2, "same", activation="relu")(sound)
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        x = _separable(x, channels, stride, activation="relu")
    return keras.Model(sound, layers.Dense(521, activation="sigmoid")(layers.GlobalAveragePooling2D()(x)))


def _encoder() -> Any:
    import keras
    from keras import layers

    tokens = x = keras.Input((64, 128))
    for _ in range(4):
        attended = layers.MultiHeadAttention(4, 32)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(128)(layers.Dense(512, activation="gelu")(x))]))
    return keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


_MAKERS: dict[str, Callable[[], Any]] = {
    "blazeface": _blazeface, "deeplab": _deeplab, "unet": _unet, "ds_cnn": _ds_cnn, "yamnet": _yamnet, "encoder": _encoder}


def network(name: str, size: int | None = None) -> Any:
    """The Keras model; images of ``keras.applications`` have another size than usual where one is given."""
    import keras

    keras.utils.set_random_seed(SEED)
    if name in _MAKERS:
        return _MAKERS[name]()
    called, usual = APPLICATIONS[name]
    size = size or usual
    return getattr(keras.applications, called)(weights=None, input_shape=(size, size, 3))


def samples(shape: Sequence[int]) -> Iterator[list[Any]]:
    import numpy as np

    random = np.random.default_rng(SEED)
    for _ in range(SAMPLES):
        yield [random.uniform(-1, 1, (1, *shape)).astype(np.float32)]


def converted(made: Any, form: str) -> bytes:
    """The Keras model in a form."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(made)
    converter.optimizations = [] if form == "float32" else [tf.lite.Optimize.DEFAULT]
    if form == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if form == "int8":
        converter.representative_dataset = lambda: samples(made.input_shape[1:])
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    found: bytes = converter.convert()
    return found


def model_file(name: str) -> Path:
    """The file of ``NETWORK.FORM``, which is made once."""
    path = FOLDER / f"{name}.tflite"
    if not path.exists():
        of, form = name.rsplit(".", 1)
        FOLDER.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".part")
        written.write_bytes(converted(network(of), form))
        written.rename(path)
    return path


def main() -> None:
    """Makes all files."""
    for name in NAMES:
        print(model_file(name))


if __name__ == "__main__":
    main()
