"""Profiles with ranges: every built-in constant is described, files are checked, scenarios stay in their ranges."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.device import FINER_KEYS, load_profile
from respect_core.device_constants import CONSTANTS, load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.errors import BadInputError, InputFileError, UnknownNameError

BUILT_IN = tuple(tomllib.loads((resources.files("respect_core") / "devices.toml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_constant_says_what_it_is(name: str) -> None:
    known = load_known_profile(name)
    assert set(known.constants) == {*CONSTANTS, *FINER_KEYS}
    for constant in known.constants.values():
        assert constant.low <= constant.value <= constant.high and constant.low < constant.high
        assert constant.unit and constant.confidence and constant.what and constant.source
    assert known.profile == load_profile(name) and known.doc


def test_the_built_in_values_are_those_of_the_published_fit() -> None:
    usb, pcie = load_known_profile("usb3"), load_known_profile("pcie")
    assert usb["streaming_ms_per_mib"].value == 2.37 and pcie["streaming_ms_per_mib"].value == 2.73
    assert load_known_profile("usb3-rpi4")["streaming_ms_per_mib"].value == 3.29
    assert load_known_profile("usb3-rpi5")["streaming_ms_per_mib"].value == 2.85
    differing = {name for name in usb.constants if usb[name].value != pcie[name].value}
    assert differing == {"streaming_ms_per_mib"}


def test_a_neutral_profile_lies_in_the_middle_of_the_ranges() -> None:
    neutral = load_known_profile("pcie").neutral()
    assert neutral["overhead_ms"].value == pytest.approx(0.35) == neutral.profile.overhead_ms
    assert neutral["capacity_mib"].value == 7.7


@given(st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_scenarios_stay_in_the_ranges_and_do_not_depend_on_their_number(count: int, seed: int) -> None:
    known = load_known_profile("pcie")
    drawn = draw_scenarios(known, count, seed)
    assert drawn == draw_scenarios(known, 20, seed)[:count] and len(drawn) == count
    for profile in drawn:
        for name in CONSTANTS:
            assert known[name].low - 1e-6 <= getattr(profile, name) <= known[name].high + 1e-6


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_a_number_of_scenarios_out_of_its_range_is_refused(count: int) -> None:
    with pytest.raises(BadInputError, match=f"{count} scenarios"):
        draw_scenarios(load_known_profile("pcie"), count, 0)


def test_a_file_may_inherit_and_its_ranges_are_checked(tmp_path: Path) -> None:
    base = "\n".join(f"{name} = 0.5" for name in CONSTANTS)
    path = tmp_path / "mine.toml"
    path.write_text(f"[a]\n{base}\n[b]\ninherits = 'a'\noverhead_ms = {{value = 0.7, range = [0.6, 0.9]}}\n")
    known = load_known_profile(f"{path}:b")
    assert known.profile.overhead_ms == 0.7 and known.profile.overlap == 0.5
    assert (known["overhead_ms"].low, known["overhead_ms"].high) == (0.6, 0.9)
    assert (known["overlap"].low, known["overlap"].high) == (0.5, 0.5)
    assert known["host_thread_ms"].value == 0.244


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[b]\ninherits = 'c'\n", "inherits 'c', allowed are a"),
        ("[b]\ninherits = 'b'\n", "inherits 'b', allowed are a"),
        ("[b]\ninherits = 'a'\noverlap = {value = 0.5, range = [0.6, 1.0]}\n", "overlap has the range"),
        ("[b]\ninherits = 'a'\noverlap = {value = 0.5, range = 3}\n", "overlap has the range 3"),
        ("[b]\ninherits = 'a'\nactivation_mib = -1\n", "activation_mib is -1"),
        ("[b]\ninherits = 'a'\nactivation_mib = 'x'\n", "activation_mib is 'x'"),
        ("[b]\ninherits = 'a'\nspeed = 1\n", "unknown key 'speed'"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[a]\n" + "\n".join(f"{name} = 0.5" for name in CONSTANTS) + "\n" + text)
    with pytest.raises(InputFileError, match=why):
        load_known_profile(f"{path}:b")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="usb4"):
        load_known_profile("usb4")
