"""The profile over time as a page and as a picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import plotly.graph_objects as go
import pytest

from respect_core.errors import BadInputError
from respect_core.memory.peak import memory_profile
from respect_core.memory.profile_plot import Curve, profile_figure, write_profile_plot
from tests.memory_graphs import graph_of

EVIL = "</script><script>alert(1)</script>"


def curves() -> list[Curve]:
    graph = graph_of([1024, 2048, 512], [[], [0], [1]], name=EVIL)
    return [
        Curve(name="file", graph=graph, profile=memory_profile(graph)),
        Curve(name=EVIL, graph=graph, profile=memory_profile(graph, [0, 1, 2])),
    ]


def test_the_figure_holds_what_is_held_at_each_step() -> None:
    figure = profile_figure(curves(), 2048)
    assert figure["data"][0]["y"] == [1.0, 3.0, 2.5, 2.5]
    assert figure["data"][0]["text"] == ["op0", "op1", "op2", "op2"]
    go.Figure(figure)


@pytest.mark.parametrize("room", [None, 0, 2048, 10**9])
def test_a_picture_is_well_formed_and_a_page_is_closed(tmp_path: Path, room: int | None) -> None:
    write_profile_plot(tmp_path / "p.svg", EVIL, curves(), room)
    root = ET.parse(tmp_path / "p.svg").getroot()
    assert EVIL in "".join(root.itertext())
    dashed = [e for e in root.iter() if e.get("stroke-dasharray")]
    assert len(dashed) == (room in (0, 2048))
    write_profile_plot(tmp_path / "p.HTML", EVIL, curves(), room)
    page = (tmp_path / "p.HTML").read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    assert "src=" not in page.replace("srcdoc", "").split("<script>")[0]


def test_other_endings_and_empty_networks(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"its name ends in \.html or \.svg"):
        write_profile_plot(tmp_path / "p.png", "t", curves())
    graph = graph_of([0], [[]])
    write_profile_plot(tmp_path / "p.svg", "t", [Curve(name="x", graph=graph, profile=memory_profile(graph))])
    ET.parse(tmp_path / "p.svg")
