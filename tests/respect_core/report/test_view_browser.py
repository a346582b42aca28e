"""The view in a real browser: it draws every op, nothing overflows, and clicking, searching and zooming work."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from respect_core.device import load_profile
from respect_core.graph import DnnGraph
from respect_core.report.view_data import safe_text
from respect_core.report.view_page import View, build_view
from respect_core.sources.catalog import resolve_model
from tests.respect_core.report.view_input import five_ops, hostile_graph, schedule_for

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((found for name in NAMES if (found := shutil.which(name))), None)
MODELS = Path(__file__).resolve().parents[4] / "shared" / "data" / "models"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(NAMES)} is installed"),
]

LISTEN = """<script>
// Without a screen frames are drawn only while the page loads.
window.requestAnimationFrame = (paint) => setTimeout(() => paint(performance.now()), 16);
window.cancelAnimationFrame = clearTimeout;
window.seen = [];
console.error = (...args) => window.seen.push(args.join(" "));
console.warn = console.error;
addEventListener("error", (event) => window.seen.push(String(event.message)), true);
addEventListener("unhandledrejection", (event) => window.seen.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => window.seen.push("blocked " + event.blockedURI));
</script>"""

DRIVE = """<script>
(() => {
  const byId = (id) => document.getElementById(id);
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const names = () => [...document.querySelectorAll("#facts dt")];
  const fact = (name) => names().find((dt) => dt.textContent === name)?.nextSibling.textContent;
  const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const heading = () => document.querySelector("#facts h3")?.textContent;
  const transform = () => document.querySelector("#graph > g").getAttribute("transform");
  const scale = () => Number(/scale\\(([^)]+)\\)/.exec(transform())[1]);
  const inView = (v) => {
    const op = document.querySelector(`[data-op="${v}"] rect`).getBoundingClientRect();
    const box = byId("graph").getBoundingClientRect();
    return op.left >= box.left - 1 && op.right <= box.right + 1 && op.top >= box.top - 1 && op.bottom <= box.bottom + 1;
  };
  const look = async () => {
    const told = { seen: window.seen };
    const data = JSON.parse(byId("view-data").textContent);
    await wait(400);
    told.first_in_view = inView(data.ops.findIndex((op) => op.layer === 0));
    told.drawn = document.querySelectorAll("#graph .op").length;
    told.edges = document.querySelectorAll("#graph .edge").length;
    const boxes = [...document.querySelectorAll("#graph .op rect")];
    told.colours = new Set(boxes.map((box) => getComputedStyle(box).stroke)).size;
    const bitmap = byId("strip").getContext("2d").getImageData(0, 0, byId("strip").width, byId("strip").height).data;
    told.strip = bitmap.some((value) => value > 0);

    const last = data.ops.length - 1;
    click(document.querySelector(`#graph .op[data-op="${last}"] rect`));
    told.clicked = heading();
    told.kind = fact("kind");
    told.stage = fact("stage");
    told.links = document.querySelectorAll("#facts .jump").length;
    document.querySelector("#facts .jump").click();
    await wait(400);
    told.followed = heading();
    told.followed_in_view = inView(Number(document.querySelector("#graph .selected").dataset.op));

    const wanted = data.ops[0];
    byId("query").value = wanted.n.toUpperCase();
    byId("query").dispatchEvent(new Event("input"));
    await wait(400);
    told.found = heading();
    told.matches = byId("matches").textContent;
    told.found_in_view = inView(0);
    told.outlined = document.querySelectorAll("#graph .op.match").length;
    byId("query").value = "no such op";
    byId("query").dispatchEvent(new Event("input"));
    told.not_found = byId("matches").textContent;
    byId("query").value = "";
    byId("query").dispatchEvent(new Event("input"));

    const before = scale();
    byId("zoom-in").click();
    await wait(400);
    const middle = scale();
    told.zoomed_in = middle > before;
    const box = byId("graph").getBoundingClientRect();
    const turn = { bubbles: true, cancelable: true, deltaY: 120, clientX: box.left + 50, clientY: box.top + 50 };
    byId("graph").dispatchEvent(new WheelEvent("wheel", turn));
    await wait(100);
    told.zoomed_out = scale() < middle;
    told.scales = [before, middle, scale()];
    byId("zoom-fit").click();
    await wait(400);
    told.fits = data.ops.every((op, v) => (v % 50 && v !== last) || inView(v));

    byId("graph").focus();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    told.kinds = document.querySelectorAll("#facts li").length;
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
    await wait(400);
    const start = document.querySelector("#graph .selected").dataset.op;
    told.key_start = data.ops[start].layer;
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
    await wait(400);
    told.key_moved = document.querySelector("#graph .selected").dataset.op !== start;

    const places = transform();
    const down = { bubbles: true, pointerId: 1, button: 0, buttons: 1 };
    const point = (name, x, y) => byId("graph").dispatchEvent(
      new PointerEvent(name, { ...down, clientX: box.left + x, clientY: box.top + y }));
    byId("graph").setPointerCapture = () => {};
    point("pointerdown", 60, 200);
    point("pointermove", 90, 150);
    window.dispatchEvent(new PointerEvent("pointerup", { pointerId: 1 }));
    await wait(100);
    told.dragged = transform() !== places;

    const stages = [...document.querySelectorAll(".tools .stage")];
    if (stages.length) {
      byId("zoom-fit").click();
      await wait(400);
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
      stages.at(-1).click();
      await wait(400);
      const bands = [...document.querySelectorAll(".overlay .band")].filter((band) => !band.hidden);
      told.bands = bands.map((band) => band.textContent);
      document.querySelector("main table .jump").click();
      await wait(400);
      told.table_jump = heading();
    }
    document.querySelector('#graph .op[data-op="0"]').parentNode.style.display = "";
    byId("graph").classList.remove("far");
    told.long_labels = [...document.querySelectorAll("#graph .op text")]
      .filter((text) => text.getComputedTextLength() > data.opWidth + 1).map((text) => text.textContent);
    told.width = innerWidth;
    told.scroll = document.documentElement.scrollWidth;
    told.wide = [...document.body.querySelectorAll("*")].filter((element) =>
      !element.closest(".scroll, svg, .skip, .overlay") && element.getBoundingClientRect().right > innerWidth + 1)
      .map((element) => element.outerHTML.slice(0, 99));
    told.cut = [...document.querySelectorAll("h1, h2, figcaption, .value, .tools button, .lead")]
      .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
      .map((element) => element.outerHTML.slice(0, 99));
    return told;
  };
  const tell = (told) => parent.postMessage(told, "*");
  look().then(tell, (error) => tell({ failed: String(error.stack) }));
})();
</script>"""


def look(folder: Path, view: View, width: int) -> dict[str, Any]:
    """Open a view in a frame of one width, which browsers allow to be narrower than a window can be."""
    page = build_view(view).replace('<meta name="viewport"', f'{LISTEN}<meta name="viewport"')
    (folder / "view.html").write_text(page.replace("</body>", f"{DRIVE}</body>"), encoding="utf-8")
    (folder / "frame.html").write_text(
        f'<body><iframe src="view.html" style="border:0;width:{width}px;height:900px"></iframe><pre id="told"></pre>'
        "<script>onmessage = (event) => { document.getElementById('told').textContent = JSON.stringify(event.data); };"
        "</script></body>",
        encoding="utf-8",
    )
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}",
            "--allow-file-access-from-files", f"--window-size={max(width, 800)},1000", "--virtual-time-budget=20000",
            "--dump-dom", (folder / "frame.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    told = re.search(r'<pre id="told">(.+?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(html.unescape(told[1]))
    assert "failed" not in found, found["failed"]
    return found


def check(found: dict[str, Any], graph: DnnGraph, num_stages: int, width: int) -> None:
    """Check everything that `DRIVE` tells, for a graph with a schedule of so many stages (0 for none)."""
    last = graph.num_ops - 1
    names = [safe_text(name) for name in graph.op_names]
    assert found["seen"] == []
    assert found["width"] == width
    assert found["scroll"] <= width
    assert found["wide"] == found["cut"] == []
    assert found["long_labels"] == []
    assert found["drawn"] == graph.num_ops
    assert found["edges"] == len(graph.edges)
    assert found["colours"] == max(1, num_stages)
    assert found["strip"]
    assert found["first_in_view"]
    assert found["clicked"] == names[last]
    assert found["kind"] == safe_text(graph.op_kinds[last])
    assert found["links"] == len(graph.parents[last]) + len(graph.children[last])
    assert found["followed"] == names[(graph.parents[last] + graph.children[last])[0]]
    assert found["followed_in_view"]
    matching = [
        v for v, name in enumerate(names) if names[0].lower() in name.lower() + "\n" + graph.op_kinds[v].lower()
    ]
    assert found["outlined"] == len(matching)
    assert found["matches"].endswith(f" of {len(matching)}")
    assert found["found"] in {names[v] for v in matching}
    assert found["not_found"] == "no match"
    assert [found[did] for did in ("zoomed_in", "zoomed_out", "fits", "dragged")] == [True] * 4, found["scales"]
    assert found["kinds"] == len(set(graph.op_kinds))
    assert found["key_start"] == 0 and found["key_moved"]
    if num_stages:
        assert found["stage"] == str(num_stages - 1)
        assert any(band.startswith(f"Stage {num_stages - 1} ·") for band in found["bands"])
        assert found["table_jump"] in names
    else:
        assert "stage" not in found


def view_of(graph: DnnGraph, num_stages: int) -> View:
    schedule = schedule_for(graph, num_stages) if num_stages else None
    return View(graph=graph, profile=load_profile("usb3"), schedule=schedule)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("model", "num_stages"), [("five", 3), ("InceptionResNetV2", 4)])
def test_a_view_works(tmp_path: Path, model: str, num_stages: int, width: int) -> None:
    graph = five_ops() if model == "five" else resolve_model(model)
    check(look(tmp_path, view_of(graph, num_stages), width), graph, num_stages, width)


@pytest.mark.shared
@pytest.mark.skipif(not MODELS.is_dir(), reason="there is no ../shared/data/models")
@pytest.mark.parametrize(("num_stages", "width"), [(0, 400), (3, 1280)])
def test_a_view_of_a_real_file_works(tmp_path: Path, num_stages: int, width: int) -> None:
    graph = resolve_model(str(MODELS / "swiftnet_hpd_uint8.lite"))
    check(look(tmp_path, view_of(graph, num_stages), width), graph, num_stages, width)


def test_hostile_names_are_shown_as_they_are(tmp_path: Path) -> None:
    graph = hostile_graph()
    check(look(tmp_path, view_of(graph, 2), 400), graph, 2, 400)
