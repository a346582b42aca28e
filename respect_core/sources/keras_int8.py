"""Int8 TFLite files of Keras applications, made with TensorFlow: real files to split, compile and run.

Nobody's trained weights are in them. Random weights alone would not do: with a batch norm that does nothing the
converter drops additions, and the outputs collapse to one value. So batch norm is drawn at random and calibrated, which
keeps all ops and lets activations spread over the int8 range as those of a trained model do.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import MissingExtraError, ModelBuildError, UnknownNameError
from respect_core.sources.catalog import EXTRA_MODELS, IMAGENET_MODELS

SEED: Final = 0
"""Seed of the weights, the batch norm and the images."""

NUM_IMAGES: Final = 4
"""Random images that calibrate batch norm and then the ranges of the activations."""


def build_int8_model(name: str) -> bytes:
    """Build a Keras application and convert it to a fully int8 TFLite model, inputs and outputs included.

    Convolutions have a scale for each output channel. Batch norm has gamma uniform in 0.6..1.4 and beta normal with
    deviation 0.2; its moments are those of one run in training mode, and the converter folds it into the convolutions.
    The bytes are the same on every run with the same TensorFlow on the same kind of processor. It takes seconds to a
    minute and up to 8 GB of memory that TensorFlow keeps, so call it in a process of its own.

    Args:
        name: One of `IMAGENET_MODELS` or `EXTRA_MODELS`, at its default image size.

    Returns:
        The content of the file.

    Raises:
        UnknownNameError: No known model has this name.
        MissingExtraError: TensorFlow is not installed.
        ModelBuildError: TensorFlow could not convert the model, or Keras already runs on another backend.
    """
    if name not in IMAGENET_MODELS + EXTRA_MODELS:
        raise UnknownNameError("Keras model", name, IMAGENET_MODELS + EXTRA_MODELS)
    keras, tf = _import_tensorflow()
    with _collected_stderr() as read_log:
        try:
            return _convert(tf, _calibrated(keras, name))
        except Exception as error:
            last = read_log().strip().rpartition("\n")[2]
            raise ModelBuildError(
                f"TensorFlow {tf.__version__} cannot convert {name} ({type(error).__name__}: {error}; it said {last!r})"
            ) from error


def check_tensorflow() -> None:
    """Tell at once, without the seconds of an import, that TensorFlow is missing.

    Raises:
        MissingExtraError: It is not installed.
    """
    from importlib.util import find_spec

    for package in ("tensorflow", "keras"):
        if find_spec(package) is None:
            raise MissingExtraError(_how_to_install(package))


def _how_to_install(package: str) -> str:
    return (
        f"building int8 TFLite models needs the package {package!r}: "
        "pip install 'respect-edgetpu[tensorflow]' brings it"
    )


def _import_tensorflow() -> tuple[Any, Any]:
    """Import Keras on TensorFlow, with what makes results depend on the machine switched off as far as that goes."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        with _collected_stderr():
            import keras
            import tensorflow as tf
    except ImportError as error:
        raise MissingExtraError(_how_to_install(error.name or "tensorflow")) from error
    if keras.backend.backend() != "tensorflow":
        raise ModelBuildError(
            f"Keras already runs on {keras.backend.backend()} in this process: build int8 models in one of their own"
        )
    # Sums of floats depend on how they are divided between threads, and so would the bytes on the number of cores.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return keras, tf


def _calibrated(keras: Any, name: str) -> tuple[Any, NDArray[np.float32]]:
    """Return the model with random weights, its batch norm drawn and calibrated, and the images used."""
    keras.utils.clear_session()
    keras.config.set_image_data_format("channels_last")
    keras.utils.set_random_seed(SEED)
    model = getattr(keras.applications, name)(weights=None, classifier_activation="softmax")
    rng = np.random.default_rng(SEED)
    images = rng.uniform(-1, 1, (NUM_IMAGES, *model.input_shape[1:])).astype(np.float32)
    for layer in model.layers:
        if type(layer).__name__ != "BatchNormalization":
            continue
        size = layer.moving_mean.shape
        if layer.gamma is not None:
            layer.gamma.assign(rng.uniform(0.6, 1.4, size).astype(np.float32))
        layer.beta.assign(rng.normal(0, 0.2, size).astype(np.float32))
        layer.momentum = 0.0  # one run in training mode then sets the moments to those of the images
    model(images, training=True)
    return model, images


def _convert(tf: Any, calibrated: tuple[Any, NDArray[np.float32]]) -> bytes:
    # Freezing the variables first is several times faster than converting the Keras model.
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    model, images = calibrated
    height, width, channels = model.input_shape[1:]
    signature = tf.TensorSpec([1, height, width, channels], tf.float32, name="image")
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(signature)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([convert_variables_to_constants_v2(function)])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[np.newaxis]] for image in images)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    return bytes(converter.convert())


@contextmanager
def _collected_stderr() -> Iterator[Any]:
    """Keep what native code writes to stderr; yield a function that reads it.

    TensorFlow's converter prints dozens of lines there that no setting silences.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log:
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)

        def read() -> str:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
            log.seek(0)
            return log.read().decode(errors="replace")

        try:
            yield read
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
