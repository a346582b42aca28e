"""The report in a real browser: nothing on the console, nothing wider than the window, filters and choices work."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from respect_core.report.page import build_report
from tests.respect_core.report.pipeline_input import pipeline_input

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((found for name in NAMES if (found := shutil.which(name))), None)

LISTEN = """<script>
window.seen = [];
console.error = (...args) => window.seen.push(args.join(" "));
console.warn = console.error;
addEventListener("error", (event) => window.seen.push(String(event.message)), true);
addEventListener("unhandledrejection", (event) => window.seen.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => window.seen.push("blocked " + event.blockedURI));
</script>"""

MEASURE = """<script>
setTimeout(() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const buttons = [...document.querySelectorAll("nav.filter button")];
  const dots = () => document.querySelectorAll("#chart-0 .points path").length;
  const before = dots();
  buttons[0].click();
  const choice = document.getElementById("load-case");
  choice.value = "0";
  choice.dispatchEvent(new Event("change"));
  setTimeout(() => {
    const wide = [...document.body.querySelectorAll("*")].filter((element) =>
      !element.closest(".scroll, nav.filter > div, svg, .chart, .skip")
      && element.getBoundingClientRect().right > innerWidth + 1);
    const charts = [...document.querySelectorAll(".chart")];
    parent.postMessage({
      width: innerWidth, scroll: document.documentElement.scrollWidth, wide: wide.map((e) => e.outerHTML.slice(0, 99)),
      seen: window.seen, charts: charts.length,
      drawn: charts.filter((chart) => chart.querySelector("svg.main-svg")).length,
      clipped: charts.filter((chart) => [...chart.querySelectorAll("svg.main-svg")]
        .some((svg) => svg.getBoundingClientRect().width > chart.clientWidth + 1)).length,
      before, after: dots(), pressed: buttons[0].getAttribute("aria-pressed"),
      bars: document.querySelectorAll("#load-memory .points path").length,
    }, "*");
  }, 1500);
}, 1500);
</script>"""


def look(folder: Path, width: int) -> dict[str, Any]:
    """Open the report in a frame of one width, which browsers allow to be narrower than a window can be."""
    page = build_report(pipeline_input())
    page = page.replace('<meta name="viewport"', f'{LISTEN}<meta name="viewport"').replace(
        "</body>", f"{MEASURE}</body>"
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
    (folder / "frame.html").write_text(
        f'<body><iframe src="report.html" style="border:0;width:{width}px;height:900px"></iframe><pre id="told"></pre>'
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
    return found


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(NAMES)} is installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_it_renders_without_errors_or_overflow(tmp_path: Path, width: int) -> None:
    found = look(tmp_path, width)
    assert found["width"] == width
    assert found["seen"] == []
    assert found["scroll"] <= width
    assert found["wide"] == []
    assert found["drawn"] == found["charts"] > 0
    assert found["clipped"] == 0
    assert found["pressed"] == "false"
    assert found["before"] > found["after"] > 0, "a solver that is filtered out is still drawn"
    assert found["bars"] == 4, "two schedules of two stages"
