"""Reference items of a job folder: equal arrays make equal files, and whatever does not fit is named."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given

from hardware_runners.errors import InvalidJobError
from hardware_runners.job import Job, JobSegment, TensorSpec, write_job
from hardware_runners.jobs.format import DTYPES, REFERENCE_FILE
from hardware_runners.jobs.reference import pack_reference, read_reference

ITEMS = np.arange(24, dtype=np.int8).reshape(3, 2, 4)
SCORES = np.array([[0.0], [np.nan], [-0.0]], dtype=np.float32)


def job_with(folder: Path, reference: bytes | None) -> Job:
    taken, given_ = TensorSpec("image:0", "int8", (2, 4)), TensorSpec("a/b", "float32", (1,))
    return write_job(
        folder,
        model="m",
        num_stages=1,
        objective="throughput",
        solver="s",
        stage_of=[0],
        profile={"name": "p"},
        files={"a.tflite": b"a", **({} if reference is None else {REFERENCE_FILE: reference})},
        whole=JobSegment(None, None, (taken,), (given_,)),
        segments=[JobSegment("a.tflite", None, (taken,), (given_,))],
        reference=None if reference is None else REFERENCE_FILE,
    )


def test_items_come_back_bit_by_bit(tmp_path: Path) -> None:
    found = read_reference(job_with(tmp_path / "job", pack_reference([ITEMS], [SCORES])))
    assert found.num_items == 3
    assert found.inputs[0].tobytes() == ITEMS.tobytes()
    assert found.outputs[0].tobytes() == SCORES.tobytes()


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes()))
def test_equal_arrays_make_equal_files_that_numpy_reads(array: Any) -> None:
    content = pack_reference([array], [array])
    assert content == pack_reference([array.copy()], [array.copy()])
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        assert archive.files == ["input_0", "output_0"]
        assert archive["input_0"].tobytes() == np.ascontiguousarray(array).tobytes()


def test_the_names_of_types_are_numpys() -> None:
    assert {name: np.dtype(name).itemsize for name in DTYPES} == DTYPES


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"no archive", "no archive of arrays"),
        (b"", "no archive of arrays"),
        (pack_reference([ITEMS], [SCORES])[:-40], "no archive of arrays"),
        (pack_reference([], [SCORES]), "lacks 'input_0', the input 'image:0'"),
        (pack_reference([ITEMS], []), "lacks 'output_0', the output 'a/b'"),
        (pack_reference([ITEMS, ITEMS], [SCORES]), "arrays of other names"),
        (pack_reference([ITEMS.astype(np.uint8)], [SCORES]), "uint8"),
        (pack_reference([ITEMS[:, :1]], [SCORES]), r"input 'image:0' needs int8 \(items, 2, 4\)"),
        (pack_reference([ITEMS[:2]], [SCORES]), r"hold \[2, 3\] items"),
        (pack_reference([ITEMS[:0]], [SCORES[:0]]), r"hold \[0\] items"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, content: bytes, named: str) -> None:
    job = job_with(tmp_path / "job", content)
    with pytest.raises(InvalidJobError, match=named):
        read_reference(job)


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, input_0=np.array([{}], dtype=object), output_0=SCORES)
    with pytest.raises(InvalidJobError, match="no archive of arrays"):
        read_reference(job_with(tmp_path / "job", buffer.getvalue()))


def test_a_job_without_reference_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="without verification"):
        read_reference(job_with(tmp_path / "job", None))


def test_the_archive_is_compressed(tmp_path: Path) -> None:
    content = pack_reference([np.zeros((1, 10**6), np.int8)], [SCORES[:1]])
    assert len(content) < 10_000
    assert {info.date_time[0] for info in zipfile.ZipFile(io.BytesIO(content)).infolist()} == {1980}
