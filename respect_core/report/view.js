"use strict";
/* Facts about ops, search, keys and buttons around the drawn graph. */
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("view-data").textContent);
  const svg = byId("graph");
  const facts = byId("facts");
  const query = byId("query");
  const { ops, tensors, edges, stages } = data;
  const before = ops.map(() => []);
  const after = ops.map(() => []);
  for (const [u, v] of edges) {
    after[u].push(v);
    before[v].push(u);
  }
  const top = ops.reduce((best, op, v) => (op.layer < ops[best].layer ? v : best), 0);

  const html = (tag, text = "", className = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const grouped = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  const bytes = (number) => {
    if (number < 1024) return `${number} B`;
    const short = number < 1048576 ? `${(number / 1024).toFixed(1)} KiB` : `${(number / 1048576).toFixed(2)} MiB`;
    return `${short} (${grouped(number)} B)`;
  };

  const graph = GraphView(data, {
    svg,
    strip: byId("strip"),
    overlay: document.querySelector(".overlay"),
    onScale: (k) => { byId("scale").textContent = `${k < 0.1 ? (k * 100).toFixed(1) : Math.round(k * 100)} %`; },
    onPick: (v) => select(v, false),
  });

  // -- facts about one op, or the kinds of all ---------------------------------------------------------------------
  let selected = null;
  const button = (text, action) => {
    const element = html("button", text, "jump");
    element.type = "button";
    element.title = text;
    element.addEventListener("click", action);
    return element;
  };
  const jump = (v) => button(ops[v].n, () => select(v, true));
  const list = (title, entries) => {
    if (!entries.length) return [];
    const items = html("ul");
    for (const parts of entries) {
      const item = html("li");
      item.append(...parts);
      items.append(item);
    }
    return [html("h4", title), items];
  };
  const numbers = (v) => {
    const op = ops[v];
    const rows = [["kind", op.k]];
    if (op.s !== null) rows.push(["stage", String(op.s)]);
    rows.push(["parameters", bytes(op.p)], ["MACs", grouped(op.m)]);
    rows.push(["compiled", op.c === null ? "not known" : bytes(op.c)]);
    if (op.a) rows.push(["always streamed", bytes(op.a)]);
    const time = `${(op.t / 1e6).toFixed(4)} ms`;
    rows.push(op.measured ? ["measured time", time] : ["modelled compute", `${time} on ${data.device}`]);
    rows.push(["index, layer", `${v}, ${op.layer}`]);
    const entries = html("dl");
    for (const [name, value] of rows) entries.append(html("dt", name), html("dd", value));
    return entries;
  };
  const tensor = ({ n, b, p, o }) => {
    const notes = [bytes(b), ...(p === null ? ["graph input"] : []), ...(o ? ["graph output"] : [])];
    return [document.createTextNode(`${n} `), html("span", notes.join(" · "), "of")];
  };
  const neighbour = (v, stage) => [jump(v), html("span", ops[v].k + (ops[v].s === stage ? "" : ` · stage ${ops[v].s}`), "of")];
  const showFacts = (v) => facts.replaceChildren(
    html("h3", ops[v].n), numbers(v),
    ...list("Inputs", tensors.filter((t) => t.c.includes(v)).map(tensor)),
    ...list("Outputs", tensors.filter((t) => t.p === v).map(tensor)),
    ...list("Reads from", before[v].map((u) => neighbour(u, ops[v].s))),
    ...list("Read by", after[v].map((w) => neighbour(w, ops[v].s))),
  );
  const showKinds = () => {
    const count = new Map();
    for (const { k } of ops) count.set(k, (count.get(k) || 0) + 1);
    const kinds = [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const find = (kind) => () => {
      query.value = kind;
      search();
    };
    facts.replaceChildren(
      html("p", "Click an op, or press an arrow key in the graph.", "note"),
      ...list("Kinds of ops", kinds.map(([kind, n]) => [button(kind, find(kind)), html("span", `${n}`, "of")])),
    );
  };
  const select = (v, follow) => {
    if (selected !== null) graph.mark(selected, false);
    selected = v;
    if (v === null) return showKinds();
    graph.mark(v, true);
    showFacts(v);
    facts.scrollTop = 0;
    if (follow) graph.bringIntoView(v);
  };

  // -- search ----------------------------------------------------------------------------------------------------
  let found = [];
  let current = -1;
  const step = (by) => {
    if (found.length) {
      current = (current + by + found.length) % found.length;
      select(found[current], true);
    }
    const none = query.value.trim() ? "no match" : "";
    byId("matches").textContent = found.length ? `${current + 1} of ${found.length}` : none;
  };
  const search = () => {
    const wanted = query.value.trim().toLowerCase();
    const fits = ({ n, k }) => n.toLowerCase().includes(wanted) || k.toLowerCase().includes(wanted);
    found = wanted ? ops.flatMap((op, v) => (fits(op) ? [v] : [])) : [];
    found.sort((a, b) => ops[a].y - ops[b].y || ops[a].x - ops[b].x);
    current = -1;
    graph.setMatches(found);
    step(1);
  };
  query.addEventListener("input", search);
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    step(1);
  });
  byId("previous").addEventListener("click", () => step(-1));

  // -- keys and buttons ------------------------------------------------------------------------------------------
  const away = (v) => Math.abs(ops[v].x - ops[selected].x);
  const nearest = (entries) => [...entries].sort((a, b) => away(a) - away(b))[0];
  const beside = (by) => nearest(ops.flatMap(({ layer, x }, v) => (
    layer === ops[selected].layer && (x - ops[selected].x) * by > 0 ? [v] : [])));
  const towards = {
    ArrowDown: () => nearest(after[selected]), ArrowUp: () => nearest(before[selected]),
    ArrowRight: () => beside(1), ArrowLeft: () => beside(-1),
  };
  const keys = {
    "+": () => graph.zoom(1.4), "=": () => graph.zoom(1.4), "-": () => graph.zoom(1 / 1.4), 0: graph.fit,
    PageDown: () => graph.scroll(0.85), PageUp: () => graph.scroll(-0.85),
    Home: () => graph.goTo(0), End: () => graph.goTo(data.height), Escape: () => select(null, false),
  };
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in towards) {
      const target = selected === null ? top : towards[event.key]();
      if (target !== undefined) select(target, true);
    } else if (event.key in keys) keys[event.key]();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
      event.preventDefault();
      query.focus();
    } else if (event.key === "Escape" && document.activeElement === query) {
      query.value = "";
      search();
      svg.focus();
    }
  });
  byId("zoom-in").addEventListener("click", keys["+"]);
  byId("zoom-out").addEventListener("click", keys["-"]);
  byId("zoom-fit").addEventListener("click", graph.fit);
  const showing = (action) => () => {
    byId("view").scrollIntoView({ block: "nearest" });
    action();
  };
  for (const element of document.querySelectorAll("button.stage")) {
    element.addEventListener("click", showing(() => graph.goTo(stages[Number(element.dataset.stage)].top)));
  }
  for (const element of document.querySelectorAll("main table .jump")) {
    element.addEventListener("click", showing(() => select(Number(element.dataset.op), true)));
  }
  showKinds();
})();
