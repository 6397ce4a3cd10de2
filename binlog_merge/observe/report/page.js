"use strict";
// The timeline. A lane is a histogram of what is in view; statements stand across all lanes. Of a small log each
// transaction is known, of a large one only bins: their counts are spread over the columns that they cover.
(() => {
  const D = JSON.parse(document.getElementById("data").textContent), T = D.timeline, box = document.getElementById("timeline");
  if (!box || !T.lanes.length) return;
  const NS = "http://www.w3.org/2000/svg", tip = document.getElementById("tip"), said = document.getElementById("said");
  const ROW = T.lanes.length <= 9 ? 56 : T.lanes.length <= 24 ? 44 : 34, TOP = 30, FOOT = 24, COLUMN = 3, FLAG = 22, CROWD = 60;
  const el = (tag, attributes, parent, text) => {
    const node = document.createElementNS(NS, tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };
  const number = n => Math.round(n).toLocaleString("en-US");
  const count = (n, noun) => number(n) + " " + noun + (Math.round(n) === 1 ? "" : "s");
  const size = n => { let u = 0; while (n >= 1000 && u < 4) { n /= 1000; u++; } return (u ? n.toFixed(1) : Math.round(n)) + " " + ["B", "kB", "MB", "GB", "TB"][u]; };

  const lanes = T.lanes.filter(l => l.kind !== "statements").map(l => ({ ...l, axes: l.kind === "node" ? { time: T.node_time, rank: T.node_rank } : { time: T.time, rank: T.rank } }));
  lanes.push({ name: "bytes", kind: "bytes", time: T.bytes.time.counts, rank: T.bytes.rank.counts, axes: { time: T.bytes.time, rank: T.bytes.rank } });
  const detail = T.transactions, water = D.watersheds, marks = D.watermark;
  const wholes = { time: [T.time.start, T.time.start + T.time.width * T.time.bins], rank: [D.first_rank, D.last_rank + 1] };
  if (detail && detail.length) {
    const us = detail.map(t => t.us);
    wholes.time = [Math.min(...us), Math.max(...us)];
  }
  if (D.watermark.us > wholes.time[1]) wholes.time[1] = Math.min(D.watermark.us, wholes.time[1] + (wholes.time[1] - wholes.time[0]) / 4);
  const inner = { time: [...wholes.time], rank: [D.first_rank, D.last_rank] };
  for (const axis in wholes) {
    const [a, b] = wholes[axis], pad = Math.max((b - a) * 0.01, 0.5);
    wholes[axis] = [a - pad, b + pad];
  }
  let axis = "time", view = [...wholes.time], width = 0, left = 0, right = 0;

  const svg = el("svg", { role: "group", "aria-label": "Timeline: lanes of the nodes, with statements across them" }, null);
  box.prepend(svg);
  const back = el("g", {}, svg), ticks = el("g", { "aria-hidden": "true" }, svg);
  const rows = lanes.map((lane, i) => {
    const g = el("g", { class: "lane " + lane.kind, tabindex: "0", role: "img" }, svg);
    const row = { lane, g, y: TOP + i * ROW, skews: [], ran: [] };
    row.ground = el("rect", { class: "ground", y: row.y + 14, height: ROW - 18 }, g);
    for (const s of D.skew) if (s.node === lane.name && lane.kind !== "bytes") row.skews.push([s, el("rect", { class: "skew" + (s.problem ? " problem" : ""), y: row.y + 14, height: ROW - 18 }, g)]);
    row.path = el("path", {}, g);
    for (const d of D.node_ddl) if (d.node === lane.name && lane.kind !== "bytes") row.ran.push([d, el("path", { class: "ran" }, g)]);
    row.frame = el("rect", { class: "frame", y: row.y + 13, height: ROW - 16 }, g);
    row.label = el("text", { x: 0, y: row.y + 10 }, g, "");
    row.most = el("text", { class: "dim", y: row.y + 10, "text-anchor": "end" }, g, "");
    g.addEventListener("focus", () => tell(lane_text(row), left + 8, row.y + ROW));
    g.addEventListener("blur", hush);
    return row;
  });
  const bottom = TOP + rows.length * ROW;
  const flags = water.map((w, i) => {
    const g = el("g", { class: "water", role: "img", "aria-label": statement_text(w) }, svg);
    const line = el("line", { y1: TOP - 10 }, g);
    const rect = el("rect", { y: 2, height: 17 }, g), text = el("text", { y: 15, "text-anchor": "middle" }, g, w.number);
    g.addEventListener("focus", () => tell(statement_text(w), place(at_of(w)), TOP));
    g.addEventListener("blur", hush);
    return { w, g, line, rect, text };
  });
  const water_mark = el("line", { class: "mark", y1: TOP - 8, y2: bottom }, svg), water_text = el("text", { class: "mark", y: bottom + 34 }, svg);

  const at_of = w => axis === "time" ? w.us : w.rank === null ? null : w.rank + (w.sql !== undefined && w.node === undefined ? 0.5 : 0);
  const place = v => left + (v - view[0]) / (view[1] - view[0]) * (right - left);
  const value = x => view[0] + (x - left) / (right - left) * (view[1] - view[0]);

  function stamp(us, exact) {
    const date = new Date(us / 1000);
    if (isNaN(date)) return "?";
    const iso = date.toISOString();
    return exact ? iso.replace("T", " ").replace("Z", "") : iso;
  }
  const shown = v => axis === "time" ? stamp(v, true) + " UTC" : "transaction " + number(v);

  function columns(lane, n) {
    const found = new Float64Array(n), [a, b] = view, scale = n / (b - a);
    if (detail && lane.kind !== "bytes") {
      for (const t of detail) if (t.lanes.includes(lane.lane)) {
        const c = Math.floor(((axis === "time" ? t.us : t.rank + 0.5) - a) * scale);
        if (c >= 0 && c < n) found[c]++;
      }
      return found;
    }
    const meta = lane.axes[axis], bins = lane[axis];
    if (!meta || !bins) return null;
    for (let i = 0; i < bins.length; i += 2) {
      const from = (meta.start + bins[i] * meta.width - a) * scale, to = from + meta.width * scale;
      if (to <= 0 || from >= n) continue;
      const first = Math.max(0, Math.floor(from)), last = Math.min(n - 1, Math.ceil(to) - 1);
      for (let c = first; c <= last; c++) found[c] += bins[i + 1] * (Math.min(to, c + 1) - Math.max(from, c)) / (to - from);
    }
    return found;
  }

  function draw() {
    width = box.clientWidth || 600;
    const narrow = width < 640;
    left = narrow ? 1 : 132; right = width - 2;
    const n = Math.max(20, Math.floor((right - left) / COLUMN)), step = (right - left) / n;
    svg.setAttribute("viewBox", `0 0 ${width} ${bottom + FOOT + 18}`);
    svg.setAttribute("height", bottom + FOOT + 18);
    for (const row of rows) row.columns = columns(row.lane, n);
    const most = Math.max(...rows.filter(r => r.lane.kind !== "bytes" && r.columns).map(r => Math.max(...r.columns)), 1e-9);
    for (const row of rows) {
      const { lane, y } = row, high = ROW - 19, floor = y + ROW - 4, top = lane.kind === "bytes" ? Math.max(...(row.columns || [0]), 1e-9) : most;
      let d = "";
      if (row.columns) row.columns.forEach((v, c) => {
        if (v > 0) { const h = Math.max(1.5, v / top * high); d += `M${(left + c * step).toFixed(1)} ${floor}v${(-h).toFixed(1)}h${Math.max(step - 0.4, 1).toFixed(1)}v${h.toFixed(1)}z`; }
      });
      row.path.setAttribute("d", d);
      row.seen = row.columns ? row.columns.reduce((s, v) => s + v, 0) : null;
      for (const part of [row.ground, row.frame]) { part.setAttribute("x", left); part.setAttribute("width", right - left); }
      row.label.textContent = names[lane.kind] ? names[lane.kind] : lane.name;
      row.label.setAttribute("x", narrow ? 2 : 0);
      row.label.setAttribute("y", narrow ? y + 10 : y + 29);
      if (!narrow) fit(row.label, left - 8);
      row.most.setAttribute("x", right);
      row.most.textContent = row.columns === null ? "not known by rank" : lane.kind === "bytes" ? size(row.seen) + " of rows events in view" : count(row.seen, "transaction") + " in view";
      for (const [s, rect] of row.skews) {
        const from = s.begins[axis === "time" ? "us" : "rank"], to = s.ends ? s.ends[axis === "time" ? "us" : "rank"] : null;
        const x1 = Math.max(left, from === null ? left : place(from)), x2 = Math.min(right, to === null ? right : place(to));
        rect.setAttribute("x", x1); rect.setAttribute("width", Math.max(0, x2 - x1));
      }
      for (const [ddl, path] of row.ran) {
        const v = at_of(ddl), x = v === null ? -9 : place(v), inside = v !== null && x >= left && x <= right;
        path.setAttribute("d", inside ? `M${x - 4} ${floor + 1}h8l-4 -8z` : "");
      }
      row.g.setAttribute("aria-label", lane_text(row));
    }
    const visible = flags.filter(f => { const x = place(at_of(f.w)); f.x = x; f.inside = x >= left - 1 && x <= right + 1; return f.inside; });
    // Too many lines across the lanes would hide them.
    const crowded = visible.length > CROWD;
    let taken = -1e9;
    for (const f of flags) {
      f.g.setAttribute("display", f.inside ? "inline" : "none");
      f.line.setAttribute("y2", crowded ? TOP + 8 : bottom - 2);
      f.g.setAttribute("transform", `translate(${f.x.toFixed(1)} 0)`);
      const labelled = f.inside && !crowded && f.x - taken > 10 + 7 * f.w.number.length;
      if (labelled) taken = f.x;
      const wide = 8 + 7 * f.w.number.length, by = Math.max(wide / 2 + 1, Math.min(f.x, width - wide / 2 - 1)) - f.x;
      f.rect.setAttribute("x", by - wide / 2); f.rect.setAttribute("width", wide); f.text.setAttribute("x", by);
      f.rect.setAttribute("display", labelled ? "inline" : "none"); f.text.setAttribute("display", labelled ? "inline" : "none");
      f.g.setAttribute("tabindex", f.inside && !crowded ? "0" : "-1");
    }
    const w = axis === "time" ? marks.us : marks.rank, x = w === null ? -1 : place(w), on = w !== null && x >= left && x <= right + 1;
    water_mark.setAttribute("display", on ? "inline" : "none"); water_text.setAttribute("display", on ? "inline" : "none");
    water_mark.setAttribute("x1", x); water_mark.setAttribute("x2", x);
    water_text.textContent = "watermark" + (marks.held_back_by ? ", held back by " + marks.held_back_by : "");
    water_text.setAttribute("x", x - 4 > width / 2 ? x - 4 : x + 4); water_text.setAttribute("text-anchor", x - 4 > width / 2 ? "end" : "start");
    scale(narrow);
    const [first, last] = inner[axis].map(v => Math.max(view[0], Math.min(v, view[1])));
    said.textContent = `Shown: ${shown(first)} to ${shown(last)}; the highest bar is ${most < 10 ? Number(most.toFixed(1)) : number(most)} ${most === 1 ? "transaction" : "transactions"} in ${wide()}` + (crowded ? `; ${number(visible.length)} statements are in view: zoom in to see them across the lanes` : "");
  }
  const names = { shared: "distributed", unknown: "key not in the log", bytes: "bytes of rows" };
  function wide() {
    const span = (view[1] - view[0]) / Math.max(20, Math.floor((right - left) / COLUMN));
    if (axis === "rank") return span < 1 ? "one transaction’s width" : number(span) + " ranks";
    return span < 1e3 ? span.toFixed(0) + " µs" : span < 1e6 ? (span / 1e3).toFixed(1) + " ms" : span < 6e7 ? (span / 1e6).toFixed(1) + " s" : span < 36e8 ? (span / 6e7).toFixed(1) + " min" : (span / 36e8).toFixed(1) + " h";
  }
  function fit(text, most) {
    const whole = text.textContent;
    for (let keep = whole.length; keep > 4 && text.getComputedTextLength() > most; keep--) text.textContent = whole.slice(0, keep - 1) + "…";
  }

  const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 15e6, 3e7, 6e7, 12e7, 3e8, 6e8, 9e8, 18e8, 36e8, 72e8, 108e8, 216e8, 432e8, 864e8, 1728e8, 6048e8, 2592e9, 7776e9, 31536e9];
  function scale(narrow) {
    ticks.replaceChildren();
    const span = view[1] - view[0], most = narrow ? 3 : 7;
    let step = axis === "time" ? STEPS.find(s => span / s <= most) || STEPS[STEPS.length - 1] : 10 ** Math.max(0, Math.floor(Math.log10(span / most)));
    if (axis === "rank") while (span / step > most) step *= span / step > most * 2.5 ? 5 : 2;
    for (let v = Math.ceil(view[0] / step) * step; v <= view[1]; v += step) {
      const x = place(v);
      if (x < left || x > right) continue;
      el("line", { class: "grid", x1: x, x2: x, y1: TOP - 4, y2: bottom + 4 }, ticks);
      let text = number(v);
      if (axis === "time") {
        const iso = stamp(v, false);
        text = step >= 864e8 ? iso.slice(0, 10) : step >= 6e7 ? iso.slice(5, 16).replace("T", " ") : step >= 1e6 ? iso.slice(11, 19) : iso.slice(11, 23) + (step < 1e3 ? String(Math.round(v) % 1000).padStart(3, "0") : "");
      }
      el("text", { class: "dim", x: Math.min(Math.max(x, left + 24), right - 40), y: bottom + 17, "text-anchor": "middle" }, ticks, text);
    }
  }

  function statement_text(w) {
    const made = w.versions.map(v => `${v.table} version ${v.version}`).join(", ");
    return `${w.number}  ${w.time || ""}  transaction ${number(w.rank)}\n${w.sql}${made ? "\nmakes " + made : ""}\n${w.at}`;
  }
  function lane_text(row) {
    const lane = row.lane, what = { node: "node " + lane.name, local: `node ${lane.name}, transactions without a commit TSO of their own`, shared: "transactions with a commit TSO of their own; the log does not record their nodes", unknown: "transactions whose order key is not in the log", bytes: "bytes of rows events" }[lane.kind];
    if (lane.kind === "bytes") return `${what}: ${size(row.seen || 0)} in view`;
    const ran = row.ran.length ? `\n${count(row.ran.length, "DDL statement")} of its own` : "";
    const skews = row.skews.length ? `\n${number(row.skews.length)} ${row.skews.length === 1 ? "stretch" : "stretches"} with another table shape` : "";
    const seen = row.seen === null ? "not known by rank" : count(row.seen, "transaction") + " in view";
    return `${what}: ${seen}, ${number(lane.transactions)} in all${ran}${skews}`;
  }
  function tell(text, x, y) {
    tip.textContent = text; tip.hidden = false;
    tip.style.left = Math.max(0, Math.min(x, width - tip.offsetWidth - 2)) + "px";
    tip.style.top = y + 4 + "px";
  }
  function hush() { tip.hidden = true; }

  function look(a, b) {
    const [lo, hi] = wholes[axis], least = axis === "rank" ? 2 : detail ? 20 : Math.max(20, (hi - lo) / 5e5), span = Math.min(Math.max(b - a, least), hi - lo);
    let from = (a + b - span) / 2;
    from = Math.max(lo, Math.min(from, hi - span));
    view = [from, from + span];
    draw();
  }
  const zoom = (factor, around) => { const c = around === undefined ? (view[0] + view[1]) / 2 : around; look(c - (c - view[0]) * factor, c + (view[1] - c) * factor); };
  const pan = part => { const by = (view[1] - view[0]) * part; look(view[0] + by, view[1] + by); };
  const whole = () => { view = [...wholes[axis]]; hush(); draw(); };
  function choose(name) {
    axis = name;
    document.querySelectorAll("[data-axis]").forEach(b => b.setAttribute("aria-pressed", String(b.dataset.axis === name)));
    whole();
  }

  const DO = { in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.25), right: () => pan(0.25), whole };
  document.querySelectorAll("[data-do]").forEach(b => b.addEventListener("click", () => DO[b.dataset.do]()));
  document.querySelectorAll("[data-axis]").forEach(b => b.addEventListener("click", () => choose(b.dataset.axis)));
  document.querySelectorAll("[data-go]").forEach(b => b.addEventListener("click", () => {
    const flag = flags.find(f => f.w.number === b.dataset.go), span = (wholes[axis][1] - wholes[axis][0]) / 8, v = at_of(flag.w);
    look(v - span / 2, v + span / 2);
    box.scrollIntoView({ block: "nearest" });
    flag.g.focus({ preventScroll: true });
  }));
  const KEYS = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", _: "out", Escape: "whole", 0: "whole" };
  box.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const stops = [...flags.filter(f => f.g.getAttribute("tabindex") === "0").map(f => f.g)], lanes_ = rows.map(r => r.g), at = lanes_.indexOf(document.activeElement);
    if (KEYS[event.key]) { DO[KEYS[event.key]](); if (event.key !== "Escape" && at >= 0) tell(lane_text(rows[at]), left + 8, rows[at].y + ROW); }
    else if (event.key === "ArrowDown" && at < lanes_.length - 1) lanes_[at + 1].focus();
    else if (event.key === "ArrowUp" && at >= 0) (at ? lanes_[at - 1] : stops[0] || lanes_[0]).focus();
    else return;
    event.preventDefault();
  });
  let grip = null;
  svg.addEventListener("pointerdown", event => { if (event.button === 0) grip = { x: event.clientX, view: [...view], moved: false }; });
  window.addEventListener("pointerup", () => { grip = null; });
  window.addEventListener("pointercancel", () => { grip = null; });
  svg.addEventListener("pointermove", event => {
    if (grip) {
      const by = (grip.x - event.clientX) / (right - left) * (grip.view[1] - grip.view[0]);
      if (Math.abs(grip.x - event.clientX) > 3) grip.moved = true;
      if (grip.moved) { look(grip.view[0] + by, grip.view[1] + by); hush(); }
      return;
    }
    hover(event);
  });
  svg.addEventListener("pointerleave", hush);
  svg.addEventListener("dblclick", event => zoom(0.4, value(event.clientX - svg.getBoundingClientRect().left)));
  svg.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, value(event.clientX - svg.getBoundingClientRect().left));
  }, { passive: false });

  function hover(event) {
    const rect = svg.getBoundingClientRect(), x = event.clientX - rect.left, y = event.clientY - rect.top, row = rows[Math.floor((y - TOP) / ROW)];
    const flag = flags.filter(f => f.inside && Math.abs(f.x - x) < (y < TOP ? FLAG / 2 : 3)).sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x))[0];
    if (flag) return tell(statement_text(flag.w), x + 12, y + 10);
    if (!row || x < left || x > right || y < TOP) return hush();
    const lane = row.lane, near = 5 * (view[1] - view[0]) / (right - left), v = value(x), lines = [shown(v)];
    const ran = row.ran.find(([d]) => at_of(d) !== null && Math.abs(at_of(d) - v) < near);
    if (ran && y > row.y + ROW - 14) return tell(`${lane.name} ran ${ran[0].sql}\non ${ran[0].table}, ${ran[0].time || ""}\n${ran[0].at}`, x + 12, y + 10);
    if (detail && lane.kind !== "bytes") {
      const found = detail.filter(t => t.lanes.includes(lane.lane)).map(t => [Math.abs((axis === "time" ? t.us : t.rank + 0.5) - v), t]).filter(([far]) => far < near).sort((a, b) => a[0] - b[0]);
      for (const [, t] of found.slice(0, 4)) lines.push(`transaction ${number(t.rank)}: ${count(t.rows, "row")}, ${size(t.bytes)}${t.tables.length ? " in " + t.tables.slice(0, 4).join(", ") : ""}\n${t.time}  ${t.at}`);
      if (found.length > 4) lines.push(`and ${found.length - 4} more`);
    } else if (row.columns) {
      const c = Math.floor((x - left) / (right - left) * row.columns.length), n = row.columns[c] || 0;
      lines.push(lane.kind === "bytes" ? size(n) + " in " + wide() : (n < 10 ? Number(n.toFixed(1)) : number(n)) + " transactions in " + wide());
    }
    for (const [s] of row.skews) {
      const key = axis === "time" ? "us" : "rank", from = s.begins[key], to = s.ends && s.ends[key];
      if ((from === null || v >= from) && (to === null || v <= to)) { lines.push(`${s.kind} of ${s.table}: ${s.how}`); break; }
    }
    tell(lines.join("\n"), x + 12, y + 10);
  }

  let waiting = 0;
  new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { if (box.clientWidth !== width) draw(); }); }).observe(box);
  window.addEventListener("beforeprint", () => { document.querySelectorAll("details").forEach(d => { d.open = true; }); whole(); });
  choose(D.axis);
  box.dataset.drawn = String(Math.round(performance.now()));
})();
