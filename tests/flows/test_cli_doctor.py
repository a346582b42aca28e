"""`respect doctor` tells of devices and their software too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from hardware_runners.host.findings import Finding

CHECKS = {"host python", "edgetpu_compiler", "pycoral", "interpreter", "libedgetpu", "device"}


def test_devices_and_their_software_are_among_the_findings(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--home", str(tmp_path / "home"), "--json"])
    findings = json.loads(result.stdout)["findings"]
    assert {finding["check"] for finding in findings} >= CHECKS
    for finding in findings:
        assert finding["level"] == "ok" or finding["way_out"]


def test_an_error_of_the_host_is_an_error_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path | None] = []

    def broken(link_test: Path | None) -> list[Finding]:
        asked.append(link_test)
        return [Finding("device", "error", "':0' (usb [red]2-1) is held by process 7 (frigate)", "end it: kill 7")]

    monkeypatch.setattr("flows.doctor_checks.check_host", broken)
    given = ["doctor", "--home", str(tmp_path / "home"), "--link-test", "m_edgetpu.tflite"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert "held by process 7" in " ".join(result.stdout.split()) and "kill 7" in result.stdout
    assert "[red]2-1" in result.stdout, "what a device is called is no markup"
    assert asked == [Path("m_edgetpu.tflite")]
