"""The static check against a model of what the Coral pipeline runner does, and each fault by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.errors import InvalidScheduleError
from respect_core.segments.dataflow import check_dataflow, first_dataflow_fault


@dataclass(frozen=True)
class Link:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    file_name: str


def chain(*ends: tuple[str, str]) -> list[Link]:
    """Return segments from texts of one letter a tensor."""
    return [Link(tuple(a), tuple(b), f"s{k}.tflite") for k, (a, b) in enumerate(ends)]


GOOD = chain(("xy", "ab"), ("ay", "c"), ("bcx", "o"))


def test_a_good_chain_passes() -> None:
    assert first_dataflow_fault(GOOD, "xy", "o") is None
    check_dataflow(GOOD, ("x", "y"), ("o",))
    assert first_dataflow_fault(chain(("x", "o")), "x", "o") is None


@pytest.mark.parametrize(
    ("segments", "fault"),
    [
        (chain(("xx", "a"), ("a", "o")), "tensor 'x' comes 2 times among the inputs of s0.tflite"),
        (chain(("x", "a"), ("a", "oo")), "tensor 'o' comes 2 times among the outputs of s1.tflite"),
        (chain(("x", "a"), ("a", "bo"), ("b", "a")), "tensor 'a' is made by s0.tflite and by s2.tflite"),
        (chain(("x", "a"), ("a", "ao")), "tensor 'a' is an output of s1.tflite and at once its input"),
        (chain(("x", "a"), ("ab", "c"), ("c", "bo")), "tensor 'b' is an input of s1.tflite, but no earlier segment"),
        (chain(("x", "a"), ("ay", "o")), "'y' is an input of the model that s1.tflite needs, but not an input of s0"),
        (chain(("xy", "ab"), ("a", "o")), "tensor 'b', an output of s0.tflite, is read by no later segment"),
        (chain(("xy", ""), ("x", "o")), "s0.tflite makes no tensor for others"),
        (chain(("x", "a"), ("a", "o")), "tensor 'y' is an input of the model but not of s0.tflite"),
        (chain(("xyz", "a"), ("a", "o")), "tensor 'z' is an input of s0.tflite but not of the model"),
        (chain(("xy", "ao"), ("ao", "p")), "'o' is an output of the model but not of s1.tflite, the last segment"),
        (chain(("xy", "a"), ("a", "ob")), "tensor 'b' is an output of s1.tflite, the last segment, but not of the"),
    ],
)
def test_every_fault_names_the_tensor_and_the_file(segments: list[Link], fault: str) -> None:
    found = first_dataflow_fault(segments, "xy", "o")
    assert found is not None
    assert fault in found
    with pytest.raises(InvalidScheduleError, match=r"Coral pipeline runner cannot run.*--any-runner"):
        check_dataflow(segments, ("x", "y"), ("o",))


def runs(segments: list[Link], given: str, wanted: str) -> bool:
    """Push tensors through a chain as the runner does: it forgets a tensor after its last reader."""
    held = dict.fromkeys(given, 1)
    if set(segments[0].inputs) != set(given):
        return False
    for k, segment in enumerate(segments):
        if len(set(segment.inputs)) < len(segment.inputs) or any(name not in held for name in segment.inputs):
            return False
        later = [name for other in segments[k + 1 :] for name in other.inputs]
        for name in segment.outputs:
            if name in held:
                return False  # made twice, or given and made
            held[name] = 1
            if k < len(segments) - 1 and name not in later:
                return False
        if not segment.outputs:
            return False
    return sorted(segments[-1].outputs) == sorted(wanted)


ENDS = st.tuples(st.text("xyabo", max_size=3), st.text("abo", max_size=2))


@given(st.lists(ENDS, min_size=1, max_size=4))
def test_what_passes_is_what_runs(ends: list[tuple[str, str]]) -> None:
    segments = chain(*ends)
    assert (first_dataflow_fault(segments, "xy", "o") is None) == runs(segments, "xy", "o")
