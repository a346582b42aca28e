"""An independent way to run TFLite files one after the other: a thin layer over the LiteRT interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Values = dict[str, np.ndarray]


class Running:
    """One file in the interpreter, in the built-in kernels and one thread; its state lives as long as this."""

    def __init__(
        self,
        content: bytes,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        keep_all: bool = False,
        check_names: bool = True,
    ) -> None:
        """Load a file.

        Args:
            content: The file.
            inputs: Names of its inputs in its order.
            outputs: Names of its outputs in its order.
            keep_all: Whether every tensor can be looked at afterwards (`tensor`).
            check_names: Whether the file's inputs and outputs must be called so in the file too.
        """
        self.interpreter = Interpreter(
            model_content=content,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            num_threads=1,
            experimental_preserve_all_tensors=keep_all,
        )
        self.interpreter.allocate_tensors()
        self.inputs = dict(zip(inputs, self.interpreter.get_input_details(), strict=True))
        self.outputs = dict(zip(outputs, self.interpreter.get_output_details(), strict=True))
        if check_names:
            for name, details in (*self.inputs.items(), *self.outputs.items()):
                assert details["name"] == name

    def run(self, held: Mapping[str, np.ndarray]) -> Values:
        for name, details in self.inputs.items():
            self.interpreter.set_tensor(details["index"], held[name])
        self.interpreter.invoke()
        return {name: self.interpreter.get_tensor(details["index"]) for name, details in self.outputs.items()}

    def tensor(self, index: int) -> np.ndarray:
        """Return the value of the tensor with this index in the file."""
        return self.interpreter.get_tensor(index)


def run_chained(segments: Sequence[Running], given: Values) -> Values:
    """Return every tensor that is given or passed between the segments."""
    held = dict(given)
    for segment in segments:
        held.update(segment.run(held))
    return held


def random_values(running: Running, rng: np.random.Generator) -> Values:
    """Draw a value for every input, over the whole range of its type."""
    values = {}
    for name, details in running.inputs.items():
        if np.issubdtype(details["dtype"], np.floating):
            values[name] = rng.normal(size=details["shape"]).astype(details["dtype"])
        else:
            limits = np.iinfo(details["dtype"])
            values[name] = rng.integers(
                limits.min, limits.max, size=details["shape"], dtype=details["dtype"], endpoint=True
            )
    return values


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
