"""The network that the project writes itself: LiteRT computes what its layers say, and the bytes never change."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError
from respect_core.sources.calibrated_layers import NUM_IMAGES, Activation, CalibratedNetwork
from respect_core.sources.catalog import load_model
from respect_core.sources.small_network import SmallNetwork, small_network
from respect_core.sources.tflite import read_tflite
from tests.same_graph import differences

SHA256 = "ca17ccf41bdba3b121b27b4b751395e702ebde758353ccb9b5b0b2f8e14ec19c"


def interpreter_of(content: bytes) -> Any:
    """LiteRT with its reference kernels, which keep all tensors."""
    interpreter = Interpreter(
        model_content=content,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    return interpreter


def outputs_of(content: bytes, images: Any) -> list[dict[str, Any]]:
    """Run images; return all tensors of each run by name."""
    interpreter = interpreter_of(content)
    (given_at,) = (detail["index"] for detail in interpreter.get_input_details())
    runs = []
    for image in images:
        interpreter.set_tensor(given_at, image[np.newaxis].astype(np.int8))
        interpreter.invoke()
        details = interpreter.get_tensor_details()
        runs.append({d["name"]: interpreter.get_tensor(d["index"]) for d in details if d["name"]})
    return runs


def all_layers(seed: int, size: int) -> tuple[bytes, dict[str, Activation]]:
    """A network with every kind of layer, and what each should compute."""
    net = CalibratedNetwork("test", seed=seed)
    made: dict[str, Activation] = {}

    def keep(name: str, made_now: Activation) -> Activation:
        made[name] = made_now
        return made_now

    x = keep("image", net.image("image", size))
    x = keep("conv", net.conv(x, "conv", 8, kernel=3, stride=2, relu=True))
    y = keep("depthwise", net.depthwise_conv(x, "depthwise", kernel=3))
    y = keep("add", net.add(x, y, "add"))
    y = keep("add_relu", net.add(x, y, "add_relu", relu=True))
    y = keep("max_pool", net.max_pool(y, "max_pool", 3, 2))
    y = keep("concat", net.concat_of_convs("concat", ((y, "one", 5, 1), (y, "two", 3, 3))))
    y = keep("strided", net.depthwise_conv(y, "strided", kernel=5, stride=2, relu=True))
    y = keep("mean", net.global_average_pool(y, "mean"))
    y = keep("flat", net.flatten(y, "flat"))
    y = keep("logits", net.fully_connected(y, "logits", 12))
    return net.finish({"logits": y.tensor, "probabilities": net.softmax(y, "probabilities")}), made


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(9, 33))
def test_litert_computes_what_the_layers_say(seed: int, size: int) -> None:
    content, made = all_layers(seed, size)
    runs = outputs_of(content, made["image"].values)
    for name, expected in made.items():
        found = np.concatenate([run[name] for run in runs]).astype(np.float64)
        assert found.shape == (NUM_IMAGES, *expected.values.shape[1:]), name
        # Each layer may round by one; what is rounded before travels on and shrinks or grows with the weights. A wrong
        # scale, zero point or padding is off by tens: the values fill -128..127.
        assert np.abs(found - expected.values).mean() < 3, name
        assert np.abs(found - expected.values).max() <= 24, name
    assert np.abs(np.concatenate([run["conv"] for run in runs]) - made["conv"].values).max() <= 1
    probabilities = np.concatenate([run["probabilities"] for run in runs]) + 128.0
    scores = np.exp(made["logits"].reals)
    assert np.abs(probabilities / 256 - scores / scores.sum(axis=1, keepdims=True)).max() < 0.2


def test_ranges_are_used_to_their_ends() -> None:
    _, made = all_layers(0, 24)
    for name in ("conv", "depthwise", "add", "concat", "logits"):
        values = made[name].values
        assert (values.min(), values.max()) == (-128, 127), name
        assert np.abs(made[name].reals.max()) < 50


def test_the_bytes_are_always_the_same() -> None:
    assert hashlib.sha256(small_network()).hexdigest() == SHA256
    code = (
        "import hashlib; from respect_core.sources.small_network import small_network; "
        "print(hashlib.sha256(small_network()).hexdigest())"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "7"}
    again = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert again.stdout.strip() == SHA256


def test_the_committed_op_graph_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "small-int8.tflite"
    path.write_bytes(small_network())
    assert differences(read_tflite(path), load_model("small-int8")) == []


def test_it_is_int8_throughout_with_a_scale_for_each_channel() -> None:
    interpreter = interpreter_of(small_network())
    details = {detail["name"]: detail for detail in interpreter.get_tensor_details() if detail["name"]}
    for name, detail in details.items():
        expected = np.int32 if name.endswith(("/bias", "/shape")) else np.int8
        assert detail["dtype"] == expected, name
    assert len(details["stem/weights"]["quantization_parameters"]["scales"]) == 16
    assert details["stem/weights"]["quantization_parameters"]["quantized_dimension"] == 0
    assert details["first/depthwise/weights"]["quantization_parameters"]["quantized_dimension"] == 3
    assert interpreter.get_signature_list() == {
        "serving_default": {"inputs": ["image"], "outputs": ["logits", "probabilities"]}
    }


def test_outputs_do_not_collapse() -> None:
    images = np.random.default_rng(5).integers(-128, 128, (3, 48, 48, 3))
    first, *others = outputs_of(small_network(), images)
    assert len(np.unique(first["logits"])) > 50
    for other in others:
        assert (first["logits"] != other["logits"]).mean() > 0.5
        assert (first["stem"] != other["stem"]).mean() > 0.5


def test_it_can_be_larger_than_a_devices_memory(tmp_path: Path) -> None:
    path = tmp_path / "wide.tflite"
    path.write_bytes(small_network(SmallNetwork(width=6, image_size=16)))
    graph, small = read_tflite(path), load_model("small-int8")
    assert graph.param_bytes.sum() > 8 * 2**20 > 8 * small.param_bytes.sum()
    assert graph.op_kinds == small.op_kinds


@settings(max_examples=10)
@given(
    config=st.builds(
        SmallNetwork,
        width=st.integers(1, 2),
        image_size=st.integers(16, 40),
        num_classes=st.integers(2, 30),
        seed=st.integers(0, 2**32 - 1),
    )
)
def test_any_size_runs(config: SmallNetwork) -> None:
    content = small_network(config)
    assert content == small_network(config)
    image = np.zeros((1, config.image_size, config.image_size, 3))
    (run,) = outputs_of(content, image)
    assert run["probabilities"].shape == (1, config.num_classes)


def test_the_seed_changes_the_weights() -> None:
    assert small_network(SmallNetwork(seed=1, image_size=16)) != small_network(SmallNetwork(seed=2, image_size=16))


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [("width", 0, "1..16"), ("image_size", 8, "16..128"), ("num_classes", 1, "2..10000"), ("seed", -1, "0..")],
)
def test_a_wrong_size_is_named(field: str, value: int, allowed: str) -> None:
    with pytest.raises(BadInputError, match=rf"{field} {value} of the small network: it must be in {allowed}"):
        SmallNetwork(**{field: value})
