"""The generalisation test within a flow: published once for a policy, resumed, refused where a row is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from prefect import flow

from flows.generalise import ensure_generalisation
from respect_core.errors import QualityError, SolverFailedError
from respect_core.policy.solver import pretrained_path
from respect_core.tables.files import sha256_of
from respect_core.tables.generalisation import GENERALISATION, METHODS
from tasks import generalisation as tasks
from tasks.generalisation import GeneralisationSet
from tasks.home import Home
from tasks.publishing import Published

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]

WANTED = GeneralisationSet(
    policy=sha256_of(pretrained_path()),
    sweeps=("stages K (60 ops)", "largest in-degree (60 ops)"),
    num_graphs=1,
    time_limit_s=0.1,
)


@flow
def generalise(home: str) -> Published:
    return ensure_generalisation(Home.at(home), WANTED, pretrained_path())


def test_a_policy_is_tested_once_also_across_a_kill(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def dies(limit_s: float, function: Any, sweep: str, *args: Any) -> Any:
        if sweep == WANTED.sweeps[1]:
            raise SolverFailedError("the process died (exit code -9), perhaps out of memory")
        made.append(sweep)
        return function(sweep, *args)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "run_in_kept_child", dies)
        with pytest.raises(SolverFailedError, match="exit code -9"):
            generalise(str(home.path))
    assert home.dataset(GENERALISATION).partitions() == {} and made == [WANTED.sweeps[0]]
    monkeypatch.setattr(
        tasks, "run_in_kept_child", lambda limit_s, function, sweep, *args: made.append(sweep) or function(sweep, *args)
    )
    done = generalise(str(home.path))
    assert made == list(WANTED.sweeps) and not done.reused
    rows = home.dataset(GENERALISATION).read(done.partition).to_pylist()
    found = {(row["changed"], row["value"], row["method"]) for row in rows}
    values = {WANTED.sweeps[0]: ("2", "4", "8", "16"), WANTED.sweeps[1]: ("1", "4", "8")}
    assert found == {(name, value, method) for name in values for value in values[name] for method in METHODS}
    assert len(rows) == len(found)
    again = generalise(str(home.path))
    assert again.reused and again.digest == done.digest and len(made) == 2
    home.dataset(GENERALISATION).verify()


def test_a_wrong_row_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def dishonest(limit_s: float, function: Any, *args: Any) -> Any:
        rows = function(*args)
        return [{**rows[0], "num_proven": 2}, *rows[1:]]

    monkeypatch.setattr(tasks, "run_in_kept_child", dishonest)
    with pytest.raises(QualityError, match="proven_within_graphs"):
        generalise(str(home.path))
    assert home.dataset(GENERALISATION).partitions() == {}
