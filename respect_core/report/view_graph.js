"use strict";
/* Draws the graph, moves and zooms it, and keeps the strip beside it; knows nothing of facts and search. */
const GraphView = (data, { svg, strip, overlay, onScale, onPick }) => {
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const COLOURS = 8;
  const CHUNK = 1500; // px of the graph that are shown or hidden together
  const LARGEST = 4;
  const { ops, edges, stages } = data;
  const half = { w: data.opWidth / 2, h: data.opHeight / 2 };
  const stageClass = (stage) => (stage === null ? "" : `s${stage % COLOURS}`);
  let matches = [];

  const make = (tag, attributes, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (parent) parent.append(element);
    return element;
  };

  // -- the graph -------------------------------------------------------------------------------------------------
  const world = make("g", {}, svg);
  const ground = make("g", {}, world);
  const chunks = [];
  const layers = { edges: make("g", {}, world), ops: make("g", {}, world) };
  const chunkAt = (kind, top, bottom) => {
    const index = Math.floor(top / CHUNK);
    let chunk = chunks.find((entry) => entry.kind === kind && entry.index === index);
    if (!chunk) {
      chunk = { kind, index, top, bottom, group: make("g", {}, layers[kind]) };
      chunks.push(chunk);
    }
    chunk.top = Math.min(chunk.top, top);
    chunk.bottom = Math.max(chunk.bottom, bottom);
    return chunk.group;
  };

  const far = 4 * Math.max(data.width, data.height, 4000);
  stages.forEach((stage, k) => {
    const top = k ? stage.top : -far;
    const bottom = k < stages.length - 1 ? stage.bottom : data.height + far;
    const box = { x: -far, width: data.width + 2 * far, y: top, height: bottom - top };
    make("rect", { class: `ground ${stageClass(k)}`, ...box }, ground);
    if (k) make("line", { class: "cut", x1: -far, x2: data.width + far, y1: stage.top, y2: stage.top }, ground);
  });

  const curve = (points) => {
    let path = `M${points[0]} ${points[1]}`;
    for (let i = 2; i < points.length; i += 2) {
      const [x0, y0, x1, y1] = points.slice(i - 2, i + 2);
      const middle = (y0 + y1) / 2;
      path += x0 === x1 ? `V${y1}` : `C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
    }
    return path;
  };
  const edgeElements = edges.map(([u, v, points]) => {
    const crossing = ops[u].s !== ops[v].s ? " crossing" : "";
    return make("path", { class: `edge${crossing}`, d: curve(points) }, chunkAt("edges", points[1], points.at(-1)));
  });
  const touching = ops.map(() => []);
  edges.forEach(([u, v], e) => {
    touching[u].push(edgeElements[e]);
    touching[v].push(edgeElements[e]);
  });
  const opElements = ops.map((op, v) => {
    const place = { class: `op ${stageClass(op.s)}`, transform: `translate(${op.x} ${op.y})`, "data-op": v };
    const group = make("g", place, chunkAt("ops", op.y - half.h, op.y + half.h));
    make("title", {}, group).textContent = `${op.n} (${op.k}${op.s === null ? "" : `, stage ${op.s}`})`;
    make("rect", { x: -half.w, y: -half.h, width: data.opWidth, height: data.opHeight, rx: 4 }, group);
    make("text", { y: -3 }, group).textContent = op.l;
    make("text", { y: 13, class: "second" }, group).textContent = op.d;
    return group;
  });

  const label = (text, className) => {
    const element = document.createElement("span");
    element.textContent = text;
    element.className = className;
    return element;
  };
  const labels = stages.map((stage, k) => {
    const band = label(`${stage.label} · ${stage.facts}`, `band ${stageClass(k)}`);
    const border = k ? label(data.boundaries[k - 1], "border") : null;
    overlay.append(...(border ? [band, border] : [band]));
    return { band, border };
  });

  // -- moving and zooming ----------------------------------------------------------------------------------------
  let size = { w: 800, h: 600 };
  let at = { k: 1, x: 0, y: 0 };
  let goal = at; // where a running move ends
  let waiting = 0;
  let running = 0;

  const limited = ({ k, x, y }) => {
    const room = (length, extent) => [Math.min(60, extent / 4) - length, extent - Math.min(60, extent / 4)];
    const [left, right] = room(data.width * k, size.w);
    const [top, bottom] = room(data.height * k, size.h);
    return { k, x: Math.min(right, Math.max(left, x)), y: Math.min(bottom, Math.max(top, y)) };
  };
  const show = (target) => {
    at = goal = limited(target);
    repaint();
  };
  const repaint = () => {
    if (!waiting) waiting = requestAnimationFrame(paint);
  };
  const halt = () => {
    cancelAnimationFrame(running);
    goal = at;
  };
  const moveTo = (target) => {
    cancelAnimationFrame(running);
    const from = at;
    const to = limited(target);
    goal = to;
    if (calm.matches || Math.abs(to.y - from.y) > 6 * size.h) return show(to);
    const start = performance.now();
    const step = (now) => {
      const part = Math.min(1, Math.max(0, now - start) / 220);
      const eased = 1 - (1 - part) ** 3;
      const mixed = (name) => from[name] + (to[name] - from[name]) * eased;
      at = { k: mixed("k"), x: mixed("x"), y: mixed("y") };
      repaint();
      if (part < 1) running = requestAnimationFrame(step);
    };
    running = requestAnimationFrame(step);
  };
  const zoomed = (factor, x = size.w / 2, y = size.h / 2) => {
    const k = Math.min(LARGEST, Math.max(fitted().k / 2, goal.k * factor));
    return { k, x: x - ((x - goal.x) * k) / goal.k, y: y - ((y - goal.y) * k) / goal.k };
  };
  const fitted = () => {
    const k = Math.min(1.25, size.w / data.width, size.h / data.height);
    return { k, x: (size.w - data.width * k) / 2, y: (size.h - data.height * k) / 2 };
  };
  const opening = () => {
    const whole = fitted();
    if (whole.k >= 0.6) return whole;
    const k = Math.min(1, Math.max(0.6, size.w / data.width));
    const first = ops.reduce((best, op) => (op.layer < best.layer ? op : best));
    const x = data.width * k <= size.w ? (size.w - data.width * k) / 2 : size.w / 2 - first.x * k;
    return { k, x, y: 0 };
  };

  const paint = () => {
    waiting = 0;
    world.setAttribute("transform", `translate(${at.x} ${at.y}) scale(${at.k})`);
    const top = -at.y / at.k - 40;
    const bottom = (size.h - at.y) / at.k + 40;
    for (const chunk of chunks) {
      chunk.group.style.display = chunk.bottom < top || chunk.top > bottom ? "none" : "";
    }
    svg.classList.toggle("far", at.k < 0.38);
    onScale(at.k);
    stages.forEach((stage, k) => {
      const y0 = stage.top * at.k + at.y;
      const y1 = stage.bottom * at.k + at.y;
      const { band, border } = labels[k];
      band.hidden = y1 < 30 || y0 > size.h - 24 || y1 - y0 < 22;
      band.style.top = `${Math.max(6, y0 + 6)}px`;
      if (border) {
        border.hidden = y0 < 12 || y0 > size.h - 12 || y1 - y0 < 22;
        border.style.top = `${y0 - 11}px`;
      }
    });
    paintStrip();
  };

  // -- the strip: the whole graph beside its part ----------------------------------------------------------------
  const whole = document.createElement("canvas");
  const drawWhole = () => {
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [strip, whole]) {
      canvas.width = Math.max(1, Math.round(strip.clientWidth * ratio));
      canvas.height = Math.max(1, Math.round(strip.clientHeight * ratio));
    }
    const pen = whole.getContext("2d");
    const colour = (name, element = svg) => getComputedStyle(element).getPropertyValue(name).trim();
    const colours = new Map();
    const stageColour = (stage, element) => {
      if (!colours.has(stage)) colours.set(stage, colour("--stage", element));
      return colours.get(stage);
    };
    const sx = whole.width / data.width;
    const sy = whole.height / data.height;
    stages.forEach((stage, k) => {
      pen.globalAlpha = 0.16;
      pen.fillStyle = stageColour(k, labels[k].band);
      pen.fillRect(0, stage.top * sy, whole.width, (stage.bottom - stage.top) * sy);
    });
    pen.globalAlpha = 1;
    ops.forEach((op, v) => {
      pen.fillStyle = stageColour(op.s, opElements[v]);
      const high = Math.max(1, data.opHeight * sy * 0.8);
      pen.fillRect((op.x - half.w) * sx, op.y * sy - high / 2, Math.max(2, data.opWidth * sx), high);
    });
    pen.fillStyle = colour("--ink");
    for (const stage of stages.slice(1)) pen.fillRect(0, stage.top * sy - 0.5, whole.width, 1);
  };
  const paintStrip = () => {
    const pen = strip.getContext("2d");
    pen.clearRect(0, 0, strip.width, strip.height);
    pen.drawImage(whole, 0, 0);
    const ink = getComputedStyle(svg).getPropertyValue("--ink");
    const scale = strip.height / data.height;
    if (svg.classList.contains("searching")) {
      pen.fillStyle = ink;
      for (const v of matches) pen.fillRect(strip.width * 0.7, ops[v].y * scale - 1, strip.width * 0.3, 2);
    }
    const across = strip.width / data.width;
    const left = Math.max(0, (-at.x / at.k) * across);
    const right = Math.min(strip.width, ((size.w - at.x) / at.k) * across);
    const y = (-at.y / at.k) * scale;
    const high = Math.max(4, (size.h / at.k) * scale);
    pen.fillStyle = ink;
    pen.globalAlpha = 0.12;
    pen.fillRect(left, y, right - left, high);
    pen.globalAlpha = 1;
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.strokeRect(left + 1, y, Math.max(2, right - left - 2), high);
  };
  const goOnStrip = (event) => {
    const y = (event.offsetY / strip.clientHeight) * data.height;
    const x = (event.offsetX / strip.clientWidth) * data.width;
    const fits = data.width * at.k <= size.w;
    halt();
    show({ k: at.k, x: fits ? at.x : size.w / 2 - x * at.k, y: size.h / 2 - y * at.k });
  };
  strip.addEventListener("pointerdown", (event) => {
    strip.setPointerCapture(event.pointerId);
    goOnStrip(event);
  });
  strip.addEventListener("pointermove", (event) => event.buttons && goOnStrip(event));

  // -- pointers --------------------------------------------------------------------------------------------------
  const pointers = new Map();
  let travelled = 0;
  const inView = (event) => {
    const box = svg.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, d: Math.hypot(a.x - b.x, a.y - b.y) || 1 };
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    halt();
    pointers.set(event.pointerId, inView(event));
    travelled = 0;
  });
  svg.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const now = inView(event);
    const pinch = pointers.size === 2 ? spread() : null;
    pointers.set(event.pointerId, now);
    travelled += Math.abs(now.x - last.x) + Math.abs(now.y - last.y);
    // Only a drag captures the pointer: a captured one would not click the op below it.
    if (travelled > 4 && !svg.hasPointerCapture(event.pointerId)) {
      svg.setPointerCapture(event.pointerId);
      svg.classList.add("moving");
    }
    if (pinch) {
      const { x, y, d } = spread();
      const to = zoomed(d / pinch.d, pinch.x, pinch.y);
      show({ ...to, x: to.x + x - pinch.x, y: to.y + y - pinch.y });
    } else if (travelled > 4) {
      show({ ...at, x: at.x + now.x - last.x, y: at.y + now.y - last.y });
    }
  });
  for (const name of ["pointerup", "pointercancel"]) {
    window.addEventListener(name, (event) => {
      pointers.delete(event.pointerId);
      svg.classList.remove("moving");
    });
  }
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    halt();
    const unit = event.deltaMode === 1 ? 20 : 1;
    if (event.shiftKey) {
      show({ ...at, y: at.y - (event.deltaY || event.deltaX) * unit }); // some turn the wheel sideways with Shift
    } else {
      const { x, y } = inView(event);
      show(zoomed(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * unit)) * 0.0022), x, y));
    }
  }, { passive: false });
  svg.addEventListener("click", (event) => {
    const group = event.target.closest(".op");
    if (group && travelled <= 4) onPick(Number(group.dataset.op));
  });

  // -- marks -----------------------------------------------------------------------------------------------------
  const mark = (v, on) => {
    opElements[v].classList.toggle("selected", on);
    for (const edge of touching[v]) edge.classList.toggle("touched", on);
  };
  const setMatches = (wanted) => {
    for (const v of matches) opElements[v].classList.remove("match");
    matches = wanted;
    for (const v of matches) opElements[v].classList.add("match");
    svg.classList.toggle("searching", matches.length > 0);
    repaint();
  };
  const bringIntoView = (v) => {
    const op = ops[v];
    const k = goal.k < 0.5 ? 0.8 : goal.k;
    const x = op.x * k + goal.x;
    const y = op.y * k + goal.y;
    const outside = k !== goal.k || x < 100 || y < 70 || x > size.w - 100 || y > size.h - 60;
    if (outside) moveTo({ k, x: size.w / 2 - op.x * k, y: size.h / 2 - op.y * k });
  };

  // -- start -----------------------------------------------------------------------------------------------------
  let opened = false;
  const resize = () => {
    const width = size.w;
    size = { w: Math.max(1, svg.clientWidth), h: Math.max(1, svg.clientHeight) };
    drawWhole();
    show(opened ? { ...at, x: at.x + (size.w - width) / 2 } : opening());
    opened = true;
  };
  resize();
  paint();
  new ResizeObserver(resize).observe(svg);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawWhole();
    paint();
  });

  return {
    mark, setMatches, bringIntoView,
    zoom: (factor) => moveTo(zoomed(factor)),
    fit: () => moveTo(fitted()),
    scroll: (pages) => moveTo({ ...goal, y: goal.y - pages * size.h }),
    goTo: (y) => moveTo({ ...goal, y: 4 - y * goal.k }),
  };
};
