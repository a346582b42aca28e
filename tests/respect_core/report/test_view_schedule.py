from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from respect_core.errors import InputFileError
from respect_core.report.view_schedule import read_schedule
from tests.respect_core.report.view_input import five_ops, schedule_row

LEGAL = {"num_stages": 2, "stage_of": [0, 0, 1, 1, 1]}


def write(folder: Path, content: Any) -> Path:
    path = folder / "schedule.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_what_the_schedule_command_prints_is_read_back(tmp_path: Path) -> None:
    row = schedule_row(five_ops(), 3)
    found = read_schedule(write(tmp_path, row), five_ops())
    assert list(found.stage_of) == row["stage_of"]
    assert (found.num_stages, found.model, found.device) == (3, "five", "usb3")
    assert (found.objective, found.solver, found.status) == ("throughput", "order-dfs", "feasible")


def test_two_keys_are_enough(tmp_path: Path) -> None:
    found = read_schedule(write(tmp_path, {**LEGAL, "gap": True, "solver": 3}), five_ops())
    assert found.stage_of == (0, 0, 1, 1, 1)
    assert (found.solver, found.gap) == ("", None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "expected the object"),
        ({"stage_of": []}, "lacks 'num_stages'"),
        ({"num_stages": 2}, "lacks 'stage_of'"),
        ({**LEGAL, "num_stages": "2"}, "num_stages is '2'"),
        ({**LEGAL, "num_stages": 0}, "0 stages"),
        ({**LEGAL, "num_stages": 6}, "6 stages"),
        ({**LEGAL, "stage_of": None, "status": "timeout"}, "holds no schedule (status 'timeout')"),
        ({**LEGAL, "stage_of": "00111"}, "stage_of is '00111'"),
        ({**LEGAL, "stage_of": [0, 0, 1, 1, 1.5]}, "stage_of[4] is 1.5"),
        ({**LEGAL, "stage_of": [0, 0, 1, 1, 10**30]}, "stage_of[4] is 1000"),
        ({**LEGAL, "stage_of": [0, 0, 1, 1, True]}, "stage_of[4] is True"),
        ({**LEGAL, "stage_of": [0, 1]}, "stage_of has 2 stages, model 'five' has 5 ops"),
        ({**LEGAL, "stage_of": [0, 1], "model": "six"}, "schedule of 'six'"),
        ({**LEGAL, "stage_of": [0, 0, 1, 1, 2]}, "'sum' is in stage 2"),
        ({**LEGAL, "stage_of": [0, 1, 0, 1, 1]}, "feeds op 'left' in the earlier stage 0"),
        ({**LEGAL, "stage_of": [1, 1, 1, 1, 1]}, "stage 0 has no op"),
        ('{"num_stages": 2, "num_stages": 3, "stage_of": []}', "'num_stages' comes twice"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, content: Any, words: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputFileError) as caught:
        read_schedule(path, five_ops())
    assert str(path) in str(caught.value) and words in str(caught.value)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x81")
    for path in (tmp_path / "missing.json", tmp_path, tmp_path / "binary"):
        with pytest.raises(InputFileError, match=path.name):
            read_schedule(path, five_ops())
