"""What an audit of a table found, for errors, artifacts and people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A rule that some rows break."""

    rule: str
    column: str | None
    """Column that the rule is about, None for a rule of the table."""
    count: int
    """Rows that break it, 0 for a rule of the whole table."""
    examples: tuple[str, ...]
    """A few of those rows by key, or what was found instead."""

    @property
    def line(self) -> str:
        """The failure in one line."""
        rows = f"{self.count} row{'' if self.count == 1 else 's'}" if self.count else "the table"
        return f"rule {self.rule} is broken by {rows} ({'; '.join(self.examples)})"


@dataclass(frozen=True, kw_only=True)
class Unchecked:
    """A rule that could not be checked, which is no pass and no finding about the rows."""

    rule: str
    why: str

    @property
    def line(self) -> str:
        """The mishap in one line."""
        return f"rule {self.rule} could not be checked ({self.why})"


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an audit of one table found."""

    table: str
    rows: int
    rules: tuple[str, ...]
    """Every rule that was to be checked."""
    failures: tuple[Failure, ...]
    unchecked: tuple[Unchecked, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """True where every rule was checked and holds."""
        return not self.failures and not self.unchecked

    @property
    def lines(self) -> tuple[str, ...]:
        """One line a broken or unchecked rule."""
        return (*(failure.line for failure in self.failures), *(unchecked.line for unchecked in self.unchecked))

    def summary_rows(self) -> list[dict[str, str | int]]:
        """Return one row a rule, of plain values, as a table artifact takes it."""
        failed = {failure.rule: failure for failure in self.failures}
        missed = {unchecked.rule: unchecked for unchecked in self.unchecked}
        out: list[dict[str, str | int]] = []
        for rule in dict.fromkeys([*self.rules, *failed, *missed]):
            row: dict[str, str | int] = {"rule": rule, "result": "holds", "broken rows": 0, "details": ""}
            if rule in failed:
                row |= {
                    "result": "broken",
                    "broken rows": failed[rule].count,
                    "details": "; ".join(failed[rule].examples),
                }
            elif rule in missed:
                row |= {"result": "could not be checked", "details": missed[rule].why}
            out.append(row)
        return out

    def markdown(self) -> str:
        """Return the report for people: one sentence, and one row a rule that does not hold."""
        verdict = "All hold." if self.passed else "**Not published.**"
        head = f"`{self.table}`: {self.rows} rows, {len(self.rules)} rules, {self.seconds:.1f} s. {verdict}"
        if self.passed:
            return head + "\n"
        lines = [head, "", "| rule | result | broken rows | details |", "|---|---|---|---|"]
        for row in self.summary_rows():
            if row["result"] != "holds":
                details = str(row["details"]).replace("|", "\\|").replace("\n", " ")
                lines.append(f"| `{row['rule']}` | {row['result']} | {row['broken rows']} | {details} |")
        return "\n".join([*lines, ""])
