"""``python -m hardware_runners JOB``: times a job folder on this host, which needs Python 3.9 and NumPy alone for it.

Copying the folder `hardware_runners` is all the installation there is; an interpreter (ai-edge-litert, tflite-runtime
or pycoral) must be there for the runner that uses it.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from hardware_runners.devices.runtime import RUNTIMES
from hardware_runners.errors import DeviceUnavailableError, MeterUnavailableError, RunnerError, WrongOutputError
from hardware_runners.job import read_job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.power import METERS
from hardware_runners.protocol import RUNNERS
from hardware_runners.results import result_facts
from hardware_runners.summary import result_lines
from hardware_runners.timing import time_job

EXIT_BAD_INPUT = 2
EXIT_WRONG_OUTPUT = 4
EXIT_NO_DEVICE = 5
EXIT_INTERRUPTED = 130


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Time a job folder, or look at this host; returns the exit status.

    0 complete, 2 bad input or a failed run, 4 wrong outputs, 5 no device, 130 interrupted.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.doctor:
        return _doctor(given)
    if given.job is None:
        parser.error("a job folder is needed (or --doctor)")
    try:
        plan = read_job(given.job).plan
        chosen = TimingPlan(
            warm_up=plan.warm_up if given.warm_up is None else given.warm_up,
            repeats=plan.repeats if given.repeats is None else given.repeats,
            items=plan.items if given.items is None else given.items,
        )
        kept = given.out or Path(f"{given.job.resolve().name}-{given.runner}.partial.json")
        result = time_job(given.job, given.runner, chosen, given.out, kept, **_options(given))
    except RunnerError as error:
        sys.stderr.write(f"error: {error}\n")
        if error.partial is not None:
            sys.stderr.write(f"what was measured until then is kept in {kept}, marked as partial\n")
        return exit_status(error)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: the measuring process was ended, nothing is kept\n")
        return EXIT_INTERRUPTED
    text = json.dumps(result_facts(result)) if given.json else "\n".join(result_lines(result))
    sys.stdout.write(f"{text}\n")
    return 0


def exit_status(error: RunnerError) -> int:
    """Return the exit status of an error."""
    if isinstance(error, (DeviceUnavailableError, MeterUnavailableError)):
        return EXIT_NO_DEVICE
    return EXIT_WRONG_OUTPUT if isinstance(error, WrongOutputError) else EXIT_BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hardware_runners", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", nargs="?", type=Path, help="job folder")
    parser.add_argument("--runner", default="coral", choices=sorted(RUNNERS), help="what runs it (default: coral)")
    parser.add_argument("--engine", choices=("pycoral", "litert"), help="of runner coral (default: pycoral)")
    parser.add_argument("--devices", help="of runner coral, one a stage: :0,:1 or usb:0,pci:0 (default: :0,:1,...)")
    parser.add_argument("--runtime", choices=list(RUNTIMES), help="interpreter (default: the first that is there)")
    parser.add_argument("--library", help="of runner coral with engine litert: name or path of libedgetpu")
    parser.add_argument("--out", type=Path, help="result file (JSON) to write")
    parser.add_argument("--warm-up", type=int, help="inferences that are not counted (default: the job's)")
    parser.add_argument("--repeats", type=int, help="inferences one at a time (default: the job's)")
    parser.add_argument("--items", type=int, help="inferences with full queues (default: the job's)")
    parser.add_argument("--meter", choices=sorted(METERS), help="power meter")
    parser.add_argument("--stall", type=float, help="seconds without progress after which a run is ended")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--doctor", action="store_true", help="check this host and its devices instead")
    parser.add_argument(
        "--link-test", type=Path, metavar="MODEL", help="with --doctor: run this compiled model on each"
    )
    return parser


def _options(given: argparse.Namespace) -> Dict[str, Any]:
    """Return the runner's options, those that were given alone."""
    devices: Optional[List[str]] = None if given.devices is None else given.devices.split(",")
    wanted = {
        "engine": given.engine,
        "devices": devices,
        "runtime": given.runtime,
        "library": given.library,
        "meter": given.meter,
        "stall_s": given.stall,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _doctor(given: argparse.Namespace) -> int:
    from hardware_runners.host.checks import check_host

    findings = check_host(link_test=given.link_test)
    if given.json:
        sys.stdout.write(json.dumps({"findings": [asdict(finding) for finding in findings]}) + "\n")
    else:
        for finding in findings:
            way_out = f"\n{'':27} -> {finding.way_out}" if finding.way_out else ""
            sys.stdout.write(f"{finding.level:8} {finding.check:18} {finding.what}{way_out}\n")
    return EXIT_BAD_INPUT if any(finding.level == "error" for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
