from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_runners.compiling.log import (
    FAILURES,
    MAPPED,
    STATUSES,
    UNITS,
    CompilerFacts,
    OperatorCount,
    parse_log,
    printed_tolerance,
    size_in_bytes,
)
from tests.hardware_runners.compiler_double import BANNER, FAILURE_TEXTS, log_text, operator_table, size_text

DOCUMENTED = """\
Edge TPU Compiler version 16.0.384591198
Started a compilation timeout timer of 180 seconds.

Model compiled successfully in 1857 ms.

Input model: X_segment_0_of_2.tflite
Input size: 5.20MiB
Output model: X_segment_0_of_2_edgetpu.tflite
Output size: 6.51MiB
On-chip memory used for caching model parameters: 6.02MiB
On-chip memory remaining for caching model parameters: 1.02MiB
Off-chip memory used for streaming uncached model parameters: 0.00B
Number of Edge TPU subgraphs: 1
Total number of operations: 84
Operation log: X_segment_0_of_2_edgetpu.log
See the operation log file for individual operation details.
Compilation child process completed within timeout period.
Compilation succeeded!
"""

PARTLY = """\
Edge TPU Compiler version 15.0.340273435

Model compiled successfully in 96 ms.

Input model: a model: with odd name.tflite
Input size: 7.02MiB
Output model: a model: with odd name_edgetpu.tflite
Output size: 7.14MiB
On-chip memory used for caching model parameters: 80.00KiB
On-chip memory remaining for caching model parameters: 6.04MiB
Off-chip memory used for streaming uncached model parameters: 1.50GiB
Number of Edge TPU subgraphs: 3
Total number of operations: 191
Operation log: x_edgetpu.log

Model successfully compiled but not all operations are supported by the Edge TPU.
Number of operations that will run on Edge TPU: 1
Number of operations that will run on CPU: 190

Operator                       Count      Status

TRANSPOSE                      70         Operation not supported
CONV_2D                        119        More than one subgraph is not supported
QUANTIZE                       1          Operation is otherwise supported, but not mapped due to some unspecified limitation
QUANTIZE                       1          Mapped to Edge TPU
"""  # noqa: E501

OLD = """\
Edge TPU Compiler version 2.0.267685300
Model compiled successfully in 231 ms.
Input model: m.tflite
Input size: 3.03KiB
Output model: m_edgetpu.tflite
Output size: 296.85KiB
On-chip memory available for caching model parameters: 1.75MiB
On-chip memory used for caching model parameters: 512.00KiB
Off-chip memory used for streaming uncached model parameters: 0.00B
Number of Edge TPU subgraphs: 1
Total number of operations: 3
"""


def test_the_documented_output_is_read() -> None:
    facts = parse_log(DOCUMENTED)
    assert facts == CompilerFacts(
        version="16.0.384591198",
        success=True,
        compile_ms=1857,
        input_model="X_segment_0_of_2.tflite",
        input_bytes=round(5.2 * 2**20),
        output_model="X_segment_0_of_2_edgetpu.tflite",
        output_bytes=round(6.51 * 2**20),
        on_chip_bytes=round(6.02 * 2**20),
        on_chip_remaining_bytes=round(1.02 * 2**20),
        off_chip_bytes=0,
        num_subgraphs=1,
        num_ops=84,
        edge_tpu_ops=84,
        cpu_ops=0,
    )


def test_ops_on_the_cpu_and_their_reasons_are_read() -> None:
    facts = parse_log(PARTLY)
    assert (facts.edge_tpu_ops, facts.cpu_ops, facts.num_subgraphs) == (1, 190, 3)
    assert facts.on_chip_bytes == 80 * 1024
    assert facts.off_chip_bytes == 3 * 2**29
    assert facts.input_model == "a model: with odd name.tflite"
    assert facts.operators[0] == OperatorCount("TRANSPOSE", 70, "Operation not supported")
    assert [row.count for row in facts.operators if row.status == MAPPED] == [1]
    assert sum(row.count for row in facts.operators) == facts.num_ops


def test_what_remains_follows_from_what_old_versions_call_available() -> None:
    facts = parse_log(OLD)
    assert facts.on_chip_bytes == 2**19
    assert facts.on_chip_remaining_bytes == 2**20 + 3 * 2**18 - 2**19
    assert facts.version == "2.0.267685300"


def test_an_operation_log_alone_tells_where_ops_run() -> None:
    table = operator_table([("CONV_2D", 5, MAPPED), ("custom:Odd.Op", 2, "Operation not supported")])
    facts = parse_log(f"{BANNER}Input: a.tflite\nOutput: a_edgetpu.tflite\n\n{table}")
    assert (facts.edge_tpu_ops, facts.cpu_ops) == (5, 0)  # a row begins with a capital letter
    table = operator_table([("CONV_2D", 5, MAPPED), ("ARG_MAX", 2, "Operation not supported")])
    facts = parse_log(f"{BANNER}Input: a.tflite\nOutput: a_edgetpu.tflite\n\n{table}")
    assert (facts.edge_tpu_ops, facts.cpu_ops) == (5, 2)
    assert (facts.input_model, facts.output_model) == ("a.tflite", "a_edgetpu.tflite")


@pytest.mark.parametrize("name", [name for name in FAILURES if FAILURES[name].pattern])
def test_every_failure_that_is_printed_is_recognised(name: str) -> None:
    facts = parse_log(BANNER + FAILURE_TEXTS[name])
    assert facts.failure == name
    assert facts.failure_line
    assert not facts.success


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("Compilation failed due to large activation tensors in model.", "large_activations"),
        ("Internal compiler error. Aborting!", "internal_error"),
        ("ERROR: Restored original execution plan after delegate application failure.", "delegate_failed"),
        ("/usr/bin/edgetpu_compiler: line 8: 12345 Segmentation fault   (core dumped)", "crashed"),
        ("Started a compilation timeout timer of 180 seconds.", None),
        ("Compilation child process completed within timeout period.", None),
        ("", None),
    ],
)
def test_what_the_facts_list_is_recognised(text: str, failure: str | None) -> None:
    assert parse_log(f"{BANNER}{text}\n").failure == failure


def test_a_warning_is_no_failure_of_a_model_that_was_compiled() -> None:
    assert parse_log(DOCUMENTED + "WARNING: internal error ignored\n").failure is None


sizes = st.one_of(st.just(0), st.integers(0, 2**36))
counts = st.integers(0, 10**6)
names = st.from_regex(r"[A-Za-z0-9_.-]([A-Za-z0-9_.: -]{0,20}[A-Za-z0-9_.-])?", fullmatch=True)
operators = st.lists(
    st.tuples(
        st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True),
        counts,
        st.one_of(st.just(MAPPED), st.from_regex(r"[A-Z][a-z ,]{0,40}[a-z]", fullmatch=True)),
    ),
    max_size=5,
)


@given(st.data())
def test_what_is_printed_is_read_again(data: st.DataObject) -> None:
    """Print a log of random facts; all of them come back, sizes as exactly as two decimals tell them."""
    on_chip, remaining, off_chip, given_bytes, made = (data.draw(sizes) for _ in range(5))
    on_device, on_cpu = data.draw(counts), data.draw(counts)
    unit = data.draw(st.sampled_from([None, *UNITS]))
    old = data.draw(st.booleans())
    rows = data.draw(operators)
    name, subgraphs = data.draw(names), data.draw(st.integers(1, 9))
    printed = {value: size_text(value, unit) for value in (on_chip, remaining, off_chip, given_bytes, made)}
    text = log_text(
        name=name,
        compile_ms=data.draw(counts),
        input_size=printed[given_bytes],
        output_size=printed[made],
        on_chip=printed[on_chip],
        remaining=None if old else printed[remaining],
        available=size_text(on_chip + remaining, "B") if old else None,
        off_chip=printed[off_chip],
        subgraphs=subgraphs,
        num_ops=on_device + on_cpu,
        edge_tpu_ops=on_device if on_cpu else None,
        cpu_ops=on_cpu or None,
        operators=rows if sum(count for _, count, _ in rows) and on_cpu else (),
    )
    if data.draw(st.booleans()):
        text = text.replace("\n", "\n\n")
    facts = parse_log(text)
    assert (facts.success, facts.failure) == (True, None)
    assert (facts.input_model, facts.output_model) == (f"{name}.tflite", f"{name}_edgetpu.tflite")
    assert (facts.num_ops, facts.edge_tpu_ops, facts.cpu_ops) == (on_device + on_cpu, on_device, on_cpu)
    assert facts.num_subgraphs == subgraphs
    for value, read in (
        (on_chip, facts.on_chip_bytes),
        (off_chip, facts.off_chip_bytes),
        (given_bytes, facts.input_bytes),
        (made, facts.output_bytes),
    ):
        assert read is not None
        assert abs(read - value) <= 0.005 * UNITS[unit or _largest(value)] + 0.5
    if not old:
        assert facts.on_chip_remaining_bytes is not None
        assert abs(facts.on_chip_remaining_bytes - remaining) <= 0.005 * UNITS[unit or _largest(remaining)] + 0.5
    if facts.operators:
        assert [(row.kind, row.count, row.status) for row in facts.operators] == rows


def _largest(value: int) -> str:
    return next(unit for unit in ("GiB", "MiB", "KiB", "B") if value >= UNITS[unit] or unit == "B")


@given(sizes)
def test_the_tolerance_covers_what_printing_loses(value: int) -> None:
    number, unit = size_text(value)[:-3], size_text(value)[-3:]
    if value < 1024:
        number, unit = size_text(value)[:-1], "B"
    assert abs(size_in_bytes(number, unit) - value) <= printed_tolerance(value)


@given(st.text(), st.sampled_from([DOCUMENTED, PARTLY, OLD]), st.integers(0, 2000), st.integers(0, 200))
def test_no_text_breaks_the_reader(odd: str, log: str, at: int, cut: int) -> None:
    facts = parse_log(log[:at] + odd + log[at + cut :])
    assert facts.failure is None or facts.failure in FAILURES
    assert replace(facts) == facts


def test_endless_lines_take_no_time() -> None:
    text = "compil " * 10**5 + "\nInput model: " + " " * 10**6 + "x\n" + "A 1 " * 10**5
    assert parse_log(text + "\nInternal compiler error. Aborting!\n").failure == "internal_error"


def test_every_failure_says_what_to_do() -> None:
    assert list(STATUSES) == ["not_run", "compiled", *FAILURES]
    for failure in FAILURES.values():
        assert failure.why and failure.way_out and not failure.why.endswith(".")
