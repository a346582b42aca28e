"""Power meters on made-up hardware: RAPL as files, drivers as modules of their names."""

from __future__ import annotations

import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_runners.errors import InvalidPlanError, MeterUnavailableError
from hardware_runners.power import METERS, Reading, energy_of, modelled_energy, open_meter


def rapl(root: Path, *, first: int = 1000, second: int = 5000, name: str = "package") -> Path:
    for k, energy in enumerate((first, second)):
        folder = root / f"sys/class/powercap/intel-rapl:{k}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}-{k}\n")
        (folder / "energy_uj").write_text(f"{energy}\n")
        (folder / "max_energy_range_uj").write_text("262143328850\n")
    core = root / "sys/class/powercap/intel-rapl:0:0"
    core.mkdir()
    (core / "name").write_text("core\n")
    return root / "sys/class/powercap"


def test_rapl_sums_the_packages_of_the_host(tmp_path: Path) -> None:
    folder = rapl(tmp_path)
    with open_meter("rapl", root=str(tmp_path)) as meter:
        meter.start()
        (folder / "intel-rapl:0/energy_uj").write_text("2001000\n")
        (folder / "intel-rapl:1/energy_uj").write_text("1005000\n")
        reading = meter.stop()
    assert reading.joules == pytest.approx(3.0)
    assert reading.window_ns > 0
    assert meter.source == "rapl of the host (package-0, package-1), without the devices"


def test_a_rapl_counter_that_ran_round_is_counted_on(tmp_path: Path) -> None:
    folder = rapl(tmp_path, first=262143328850)
    with open_meter("rapl", root=str(tmp_path)) as meter:
        meter.start()
        (folder / "intel-rapl:0/energy_uj").write_text("999999\n")
        assert meter.stop().joules == pytest.approx(1.0)


def test_rapl_that_is_not_there_or_unreadable_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MeterUnavailableError, match="no RAPL counters"), open_meter("rapl", root=str(tmp_path)):
        pass
    folder = rapl(tmp_path)
    (folder / "intel-rapl:1/energy_uj").write_text("much\n")
    with (
        pytest.raises(MeterUnavailableError, match="cannot be read as a number"),
        open_meter("rapl", root=str(tmp_path)),
    ):
        pass


@pytest.fixture
def i2c(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Drivers of both sensors at 2.5 W; change the entries to change what they do."""
    state: dict[str, Any] = {"watts": 2.5, "error": None, "present": True}

    def driver(name: str, unit: float) -> type:
        class Sensor:
            def __init__(self, bus: Any, address: int) -> None:
                if not state["present"]:
                    raise ValueError(f"No I2C device at address: {address:#x}")

            @property
            def power(self) -> float:
                if state["error"]:
                    raise state["error"]
                return float(state["watts"]) * unit

        return Sensor

    for name, unit in (("INA219", 1.0), ("INA260", 1000.0)):
        module = types.ModuleType(f"adafruit_{name.lower()}")
        setattr(module, name, driver(name, unit))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    board = types.ModuleType("board")
    board.I2C = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "board", board)
    return state


@pytest.mark.parametrize("name", ["ina219", "ina260"])
def test_samples_are_integrated_in_watts(i2c: dict[str, Any], name: str) -> None:
    with open_meter(name, interval_s=0.001) as meter:
        for _ in range(2):
            meter.start()
            time.sleep(0.03)
            reading = meter.stop()
            assert reading.joules / (reading.window_ns / 1e9) == pytest.approx(2.5)
    assert meter.source == f"{name.upper()} at I2C address 0x40"


def test_a_sensor_that_stops_answering_or_is_not_there(i2c: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_meter("ina219") as meter:
        i2c["error"] = OSError(121, "Remote I/O error")
        meter.start()
        time.sleep(0.02)
        with pytest.raises(MeterUnavailableError, match="stopped answering"):
            meter.stop()
    i2c["present"] = False
    with (
        pytest.raises(MeterUnavailableError, match="no INA219 answers at I2C address 0x41"),
        open_meter("ina219", address=0x41),
    ):
        pass
    monkeypatch.setitem(sys.modules, "adafruit_ina219", None)
    with pytest.raises(MeterUnavailableError, match="pip install adafruit-circuitpython-ina219"), open_meter("ina219"):
        pass


@pytest.fixture
def joulescope(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Joulescope whose messages the test sends itself."""

    class Device:
        model = "JS220"
        is_open = False
        told: Any = None

        def statistics_callback_register(self, callback: Any, source: str) -> None:
            self.told = callback

        def open(self) -> None:
            self.is_open = True

        def parameter_set(self, name: str, value: str) -> None:
            assert (name, value) == ("i_range", "auto")

        def close(self) -> None:
            self.is_open = False

        def tell(self, seconds: float, joules: float) -> None:
            self.told(
                {
                    "time": {"range": {"value": [seconds - 0.5, seconds], "units": "s"}},
                    "accumulators": {"energy": {"value": joules, "units": "J"}},
                }
            )

    device = Device()
    module = types.ModuleType("joulescope")
    module.scan_require_one = lambda config: device  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "joulescope", module)
    return device


def test_a_joulescope_tells_its_accumulated_energy(joulescope: Any) -> None:
    with open_meter("joulescope") as meter:
        joulescope.tell(0.5, 0.1)
        meter.start()
        for seconds, joules in ((1.0, 1.0), (1.5, 2.0), (2.0, 3.5)):
            joulescope.tell(seconds, joules)
        assert meter.stop() == Reading(2.5, 1_000_000_000)
        meter.start()
        joulescope.tell(2.5, 4.0)
        with pytest.raises(MeterUnavailableError, match="told its energy 1 times"):
            meter.stop()
        assert meter.source == "Joulescope JS220"
    assert not joulescope.is_open


def test_no_single_joulescope_is_said(joulescope: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(config: str) -> None:
        raise RuntimeError("no devices found")

    monkeypatch.setattr(sys.modules["joulescope"], "scan_require_one", none)
    with pytest.raises(MeterUnavailableError, match="no devices found"), open_meter("joulescope"):
        pass
    monkeypatch.setitem(sys.modules, "joulescope", None)
    with pytest.raises(MeterUnavailableError, match="pip install joulescope"), open_meter("joulescope"):
        pass


@given(st.floats(0.1, 100), st.integers(1, 1000), st.integers(10**6, 10**10), st.floats(0.5, 1))
def test_energy_of_an_item_is_mean_power_times_mean_time(watts: float, items: int, run_ns: int, seen: float) -> None:
    window = max(1, int(run_ns * seen)) + 1
    energy = energy_of(Reading(watts * window / 1e9, window), run_ns, items, "meter")
    assert energy.uj_per_inference == pytest.approx(watts * run_ns / items / 1000)
    assert not energy.is_modelled and energy.window_us == window / 1000


def test_a_meter_that_saw_too_little_is_refused() -> None:
    with pytest.raises(MeterUnavailableError, match=r"meter saw 0.40 s of a run of 1.00 s"):
        energy_of(Reading(1.0, 400_000_000), 1_000_000_000, 10, "meter")


def test_modelled_energy_is_marked_and_has_a_source() -> None:
    energy = modelled_energy([1_000_000, 500_000], 10**9)
    assert energy.is_modelled and "datasheets" in energy.source
    assert energy.uj_per_inference == pytest.approx(3000)


def test_meters_and_options_that_do_not_exist() -> None:
    with pytest.raises(InvalidPlanError, match="'abacus': choose from rapl"):
        open_meter("abacus")
    for name in METERS:
        with pytest.raises(InvalidPlanError, match="colour"):
            open_meter(name, colour="red")


@pytest.mark.parametrize("name", sorted(METERS))
def test_an_option_that_a_meter_does_not_have_is_named(name: str) -> None:
    with pytest.raises(InvalidPlanError, match=f"power meter '{name}' has no option 'colour': its options are"):
        open_meter(name, colour="red")
