"""What `respect doctor` prints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from flows.doctor_checks import run_checks
from flows.options import EXIT_BAD_INPUT, print_json, printable
from tasks.home import Home

_MARKS = {"ok": "[green]ok[/green]", "warning": "[yellow]warning[/yellow]", "error": "[red]error[/red]"}


def run_doctor(home: Path | None, as_json: bool, link_test: Path | None = None) -> None:
    """Print every finding; exit with 2 if one of them is an error."""
    at = Home.at(home)
    at.prepare_environment()
    findings = run_checks(at, link_test)
    if as_json:
        print_json({"home": str(at.path), "findings": [asdict(finding) for finding in findings]})
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for heading in ("check", "", "finding"):
            table.add_column(heading)
        for finding in findings:
            way_out = f"\n-> {printable(finding.way_out)}" if finding.way_out else ""
            text = f"{printable(finding.what)}{way_out}"
            table.add_row(finding.check, _MARKS[finding.level], escape(text))
        Console().print(table)
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(EXIT_BAD_INPUT)
