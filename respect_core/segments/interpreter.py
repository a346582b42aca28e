"""TFLite models in the LiteRT interpreter, in one kernel mode, with failures that name the op.

The mode is the builtin kernels without the delegate (XNNPACK) that the interpreter would choose by itself, on one
thread: a delegate takes over whole groups of ops, which a cut model has others of, and may round otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import InputFileError, ModelCannotRunError
from respect_core.json_text import shown
from respect_core.segments.model_file import TfliteModel

Array = NDArray[Any]

KERNELS: Final = "builtin kernels, no delegate, one thread"
"""The kernel mode, for reports."""

DTYPES: Final = {
    name: name.lower()
    for name in (
        "BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64",
        "FLOAT16", "FLOAT32", "FLOAT64", "COMPLEX64", "COMPLEX128",
    )
}  # fmt: skip
"""NumPy's name of every element type of TFLite that it has."""

_NODE: Final = re.compile(r"Node number (\d+) \(([^)]*)\)")
_CUSTOM: Final = re.compile(r"unresolved custom op: (\S+?)\.?\s")


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A tensor that a model takes or gives."""

    name: str
    dtype: str
    """NumPy's name."""
    shape: tuple[int, ...]


def tensor_specs(model: TfliteModel) -> dict[str, TensorSpec]:
    """Return what is known of every tensor that flows, by its name in the graph.

    Raises:
        InputFileError: A tensor's type is none that NumPy has; the tensor is named.
    """
    specs = {}
    names = model.graph.tensor_names
    for name, type_name, shape in zip(names, model.tensor_types, model.tensor_shapes, strict=True):
        if type_name not in DTYPES:
            raise InputFileError(
                model.path, f"tensor {shown(name)} is of type {type_name}, runners take {', '.join(DTYPES)}"
            )
        specs[name] = TensorSpec(name=name, dtype=DTYPES[type_name], shape=shape)
    return specs


class ModelRunner:
    """One TFLite model, ready to run; it keeps its state (as of an LSTM) from one item to the next."""

    def __init__(
        self,
        model: Path | bytes,
        what: str,
        op_names: Sequence[str] = (),
        *,
        keep_tensors: bool = False,
        ends: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        """Load the model and allocate its tensors.

        Args:
            model: The file, or its content.
            what: What to call it in messages.
            op_names: Names of its ops in their order, for messages.
            keep_tensors: Keep every tensor, so that `tensor` can read those in between.
            ends: Numbers in the file of the inputs and outputs; without them the interpreter is asked, which cannot
                speak of names that are not UTF-8.

        Raises:
            ModelCannotRunError: The interpreter cannot load it, does not know an op, or cannot allocate it.
        """
        self._what, self._op_names = what, op_names
        where = {"model_path": str(model)} if isinstance(model, Path) else {"model_content": model}
        interpreter_class, mode = _interpreter_class()
        try:
            self._interpreter = interpreter_class(
                **where,
                num_threads=1,
                experimental_op_resolver_type=mode,
                experimental_preserve_all_tensors=keep_tensors,
            )
            self._interpreter.allocate_tensors()
            self._inputs, self._outputs = ends or self._ends()
        except (RuntimeError, ValueError, MemoryError) as error:
            raise self._failure("prepare", error) from error

    def _ends(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the numbers of inputs and outputs; a file may list a tensor twice."""
        inputs = [details["index"] for details in self._interpreter.get_input_details()]
        outputs = [details["index"] for details in self._interpreter.get_output_details()]
        return list(dict.fromkeys(inputs)), list(dict.fromkeys(outputs))

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Run one item.

        Args:
            inputs: One array an input, in their order.

        Returns:
            Copies of the outputs, in their order.

        Raises:
            ModelCannotRunError: An input is not of the model's type and shape, or an op fails.
        """
        if len(inputs) != len(self._inputs):
            raise ModelCannotRunError(f"{self._what} takes {len(self._inputs)} inputs, {len(inputs)} were given")
        try:
            for index, array in zip(self._inputs, inputs, strict=True):
                self._interpreter.set_tensor(index, np.ascontiguousarray(array))
            self._interpreter.invoke()
            return tuple(self._interpreter.get_tensor(index) for index in self._outputs)
        except (RuntimeError, ValueError, MemoryError) as error:
            raise self._failure("run", error) from error

    def tensor(self, index: int) -> Array:
        """Return a copy of any tensor after a run, by its number in the file; the model must keep its tensors.

        Raises:
            ModelCannotRunError: The interpreter does not have its value.
        """
        try:
            return np.asarray(self._interpreter.get_tensor(index))
        except (RuntimeError, ValueError, MemoryError) as error:
            raise self._failure("read", error) from error

    def reset(self) -> None:
        """Set the state back to what it was before the first item."""
        try:
            self._interpreter.reset_all_variables()
        except RuntimeError as error:
            raise self._failure("reset", error) from error

    def _failure(self, doing: str, error: BaseException) -> ModelCannotRunError:
        """Say in one sentence which op failed and what can be done."""
        text = " ".join(str(error).split()) or type(error).__name__
        node = _NODE.search(text)
        place = ""
        if node:
            number = int(node.group(1))
            name = self._op_names[number] if number < len(self._op_names) else f"number {number}"
            place = f" op {shown(name)} ({node.group(2)}) of"
        custom = _CUSTOM.search(text + " ")
        why = f"it has no kernel for the custom op {custom.group(1)!r}" if custom else text[:300]
        return ModelCannotRunError(
            f"the LiteRT interpreter cannot {doing}{place} {self._what}: {why}; without a run nothing can be verified, "
            "--no-verify leaves verification out"
        )


def runtime_version() -> str:
    """Return the name and version of the interpreter's package."""
    return f"ai-edge-litert {metadata.version('ai-edge-litert')}"


def _interpreter_class() -> tuple[Any, Any]:
    """Return the interpreter's class and the kernel mode; it loads a large library."""
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError as error:
        raise ModelCannotRunError(
            f"models are run by ai-edge-litert, which cannot be imported here ({error}): install it again, or leave "
            "verification out with --no-verify"
        ) from error
    return Interpreter, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
