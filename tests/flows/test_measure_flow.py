"""The flow `measure` on small segments, and its deployment in a pool of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hardware_runners.errors import InvalidJobError
from respect_core.errors import BadInputError
from respect_core.tables.benchmarks import BENCHMARKS
from tasks.home import Home
from tests.conftest import ROOT
from tests.hardware_runners.jobs import SKIPPING_STAGES, skipping_model, write_segment_job


def test_the_deployment_of_coral_hosts_has_a_pool_of_its_own() -> None:
    from prefect.flows import load_flow_from_entrypoint

    content = yaml.safe_load((ROOT / "deployments" / "coral.yaml").read_text(encoding="utf-8"))
    (deployment,) = content["deployments"]
    flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    assert flow.name == deployment["name"] and flow.validate_parameters(deployment["parameters"])
    assert deployment["work_pool"]["name"] == "coral"
    assert deployment["concurrency_limit"]["limit"] == 1
    for name, schema in flow.parameters.properties.items():
        assert schema.get("description"), f"the form of {flow.name} does not explain {name}"


@pytest.mark.usefixtures("prefect_server")
def test_job_folders_are_measured_and_published_and_failures_raised_in_the_end(home: Home, tmp_path: Path) -> None:
    from flows.measure import measure

    jobs = tmp_path / "jobs"
    for name, stages in (("a", SKIPPING_STAGES), ("b", [0, 0, 1, 2])):
        (jobs / name).mkdir(parents=True)
        write_segment_job(jobs / name / "job", skipping_model(), stages, 3)
    with pytest.raises(InvalidJobError, match="sha256"):
        broken = jobs / "b" / "job" / "graph.json"
        broken.write_bytes(broken.read_bytes().replace(b"op", b"no", 1))
        measure(str(jobs), inferences=3, home=str(home.path))
    dataset = home.dataset(BENCHMARKS)
    (partition,) = dataset.partitions()
    rows = dataset.read(partition).to_pylist()
    assert len(rows) == 6 and {row["runner"] for row in rows} == {"litert"}
    assert len(list((home.path / "results").iterdir())) == 1
    with pytest.raises(BadInputError, match="no job folder"):
        measure(str(tmp_path / "nowhere"), home=str(home.path))
