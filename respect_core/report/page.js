"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const hovers = window.matchMedia("(hover: hover)").matches;
  const config = {
    displaylogo: false, displayModeBar: hovers ? "hover" : false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  };
  // Where a finger scrolls the page, dragging over a plot must not zoom it.
  const fitted = (layout) => ({ ...layout, dragmode: hovers ? "zoom" : false });
  const hidden = new Set();
  const shownAs = (name) => (hidden.has(name) ? false : true);

  // Follow the width of the box, whatever changes it: the window, a rotated phone, a print layout.
  const widths = new WeakMap();
  const resized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const before = widths.get(target);
      widths.set(target, contentRect.width);
      if (before !== undefined && before !== contentRect.width && contentRect.width > 0) Plotly.Plots.resize(target);
    }
  });

  for (const [id, spec] of Object.entries(report.charts)) {
    Plotly.newPlot(id, spec.data, fitted(spec.layout), config);
    resized.observe(document.getElementById(id));
  }

  for (const button of document.querySelectorAll("nav.filter button")) {
    button.addEventListener("click", () => {
      const name = button.dataset.solver;
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      for (const id of report.filtered) {
        const spec = report.charts[id];
        Plotly.restyle(id, { visible: spec.data.map((trace) => shownAs(report.solver_of[trace.name])) });
      }
    });
  }

  const choice = document.getElementById("load-case");
  if (!choice) return;
  const first = document.getElementById("load-first");
  const second = document.getElementById("load-second");

  const fill = (select, names, chosen) => {
    select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
  };
  const draw = () => {
    const solvers = report.loads[Number(choice.value)].solvers;
    const chosen = [...new Set([first.value, second.value])].map((name) => solvers.find((s) => s.solver === name));
    for (const [id, key, unit] of [["load-memory", "memory_mib", "MiB"], ["load-time", "time_ms", "ms"]]) {
      const bars = chosen.map((entry, place) => ({
        type: "bar", name: report.label_of[entry.solver] || entry.solver, x: entry[key].map((_, k) => k), y: entry[key],
        marker: { color: entry.colour, pattern: { shape: place ? "/" : "", fillmode: "overlay", fgcolor: "#ffffff", fgopacity: 0.55, solidity: 0.2 } },
        hovertemplate: `stage %{x}: %{y:.3f} ${unit}<extra></extra>`,
      }));
      const target = document.getElementById(id);
      target.setAttribute("aria-label", chosen.map((e) => `${e.solver}: ${e[key].join(", ")} ${unit}`).join("; "));
      Plotly.react(target, bars, fitted(report.load_layouts[id]), config);
    }
  };
  const choose = () => {
    const entry = report.loads[Number(choice.value)];
    const names = entry.solvers.map((s) => s.solver);
    fill(first, names, names.includes(first.value) ? first.value : entry.first);
    fill(second, names, names.includes(second.value) ? second.value : entry.second);
    draw();
  };
  choice.addEventListener("change", choose);
  first.addEventListener("change", draw);
  second.addEventListener("change", draw);
  choose();
  resized.observe(document.getElementById("load-memory"));
  resized.observe(document.getElementById("load-time"));
})();
