"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const tip = document.getElementById("tip");
const STOPS = ["preempted", "yielded", "blocked (sleeping)", "blocked (disk)", "exited", "still running at the end"];
const CAUSES = ["", "new", "woken", "preempted"];
const OTHER = 255;

// ---------------------------------------------------------------- numbers
// a number that the log's observer could not know is the word "unknown", and what is computed from it is NaN
const isKnown = n => typeof n === "number" && !Number.isNaN(n);
const fixed = (n, digits) => isKnown(n) ? n.toFixed(digits) : "unknown";
function time(ns, digits) {
  if (ns === null || ns === undefined) return "";
  if (!isKnown(ns)) return "unknown";
  if (ns === 0) return "0";
  const [scale, unit] = ns < 1e3 ? [1, "ns"] : ns < 999.5e3 ? [1e3, "µs"] : ns < 999.5e6 ? [1e6, "ms"] : [1e9, "s"];
  const v = ns / scale;
  if (scale === 1) return Math.round(v) + " ns";
  return v.toFixed(digits ?? (v < 9.995 ? 2 : v < 99.95 ? 1 : 0)) + " " + unit;
}
const count = n => !isKnown(n) ? "unknown" : String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
const percent = (a, b) => !isKnown(a) ? "unknown" : b ? (100 * a / b).toFixed(1) + " %" : "–";
const at = ns => (ns / 1e9).toFixed(6) + " s";

const change = ratio => !isKnown(ratio) ? "" : ratio >= 1000 ? "" : ratio >= 3 ? "× " + (ratio >= 10 ? Math.round(ratio) : ratio.toFixed(1)) : (ratio >= 1 ? "+" : "−") + Math.abs(100 * (ratio - 1)).toFixed(1) + " %";

// ---------------------------------------------------------------- elements
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== false) e.setAttribute(k, v);
  }
  e.append(...children.flat(9).filter(c => c !== null && c !== undefined && c !== false));
  return e;
}
function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function showTip(x, y, ...content) {
  tip.replaceChildren(...content.flat());
  tip.hidden = false;
  const r = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - r.width - 8)) + "px";
  tip.style.top = (y + 18 + r.height > innerHeight ? Math.max(4, y - r.height - 10) : y + 18) + "px";
}
const hideTip = () => { tip.hidden = true; };
const rows = pairs => el("table", {}, pairs.filter(Boolean).map(([k, v]) => el("tr", {}, el("td", {}, k), el("td", {}, v))));

// ---------------------------------------------------------------- colours: one per name, the same in all runs
const HUES = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#d4a72c", "#b07aa1", "#ff8fa3", "#9c755f", "#6b8e23", "#3aa6b9", "#c2577f"];
const colors = new Map();
{
  const total = new Map();
  for (const run of data.runs) for (const g of run.groups) if (!g[1]) total.set(g[0], (total.get(g[0]) || 0) + g[3]);
  [...total.entries()].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).forEach(([name], i) => {
    colors.set(name, i < HUES.length ? HUES[i] : `hsl(${(i * 137.5) % 360} ${45 + i % 3 * 12}% ${48 + i % 4 * 5}%)`);
  });
}
const groupColor = (run, g) => g === OTHER || !run.groups[g] ? "#9aa1ab" : run.groups[g][1] ? "#7d838c" : colors.get(run.groups[g][0]);
const label = run => [run.sched, run.workload, run.cpus + (run.cpus === 1 ? " CPU" : " CPUs")].filter(Boolean).join(" · ");
function shortLabels() {
  const parts = data.runs.map(r => ({ sched: r.sched, cpus: r.cpus + (r.cpus === 1 ? " CPU" : " CPUs"), workload: r.workload }));
  const keys = ["sched", "cpus", "workload"].filter(k => new Set(parts.map(p => p[k])).size > 1);
  const labels = parts.map(p => (keys.length ? keys : ["sched"]).map(k => p[k]).join(" · "));
  return labels.map((l, i) => labels.indexOf(l) !== labels.lastIndexOf(l) ? `${l} #${i + 1}` : l);
}
const labels = shortLabels();

// ---------------------------------------------------------------- unpacking
function bytes(base64) {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}
function unpackWindow(window, nrCpus) {
  const b = bytes(window.runs);
  let p = 0;
  const varint = () => {
    let value = 0, scale = 1, byte;
    do { byte = b[p++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
    return value;
  };
  const cpus = [];
  for (let cpu = 0; cpu < nrCpus; cpu++) {
    const n = varint();
    const c = { n, start: new Float64Array(n), end: new Float64Array(n), row: new Uint32Array(n), why: new Uint8Array(n), waited: new Float64Array(n) };
    let t = 0;
    for (let i = 0; i < n; i++) {
      t += varint(); c.start[i] = t;
      t += varint(); c.end[i] = t;
      c.row[i] = varint();
      c.why[i] = varint();
      c.waited[i] = c.why[i] >> 3 ? varint() : -1;
    }
    cpus.push(c);
  }
  return { start: window.start_ns, end: window.end_ns, cpus, n: cpus.reduce((s, c) => s + c.n, 0) };
}
function taskGroup(run, row) { return row < run.pids.length ? run.task_groups[row] : run.threads[row - run.pids.length][2]; }
function taskName(run, row) {
  if (row >= run.pids.length) return run.threads[row - run.pids.length][1];
  const g = run.task_groups[row];
  if (g !== OTHER) return run.groups[g][0];
  if (!run.rare) run.rare = new Map(run.rare_names);
  return run.rare.get(row) || "?";
}
function taskPid(run, row) { return row < run.pids.length ? run.pids[row] : run.threads[row - run.pids.length][0]; }

// ---------------------------------------------------------------- timeline
const GUTTER = 88, AXIS = 24, OVERVIEW = 40;
class Timeline {
  constructor(run) {
    this.run = run;
    this.duration = Math.max(1, run.duration_ns);
    this.bucket = run.timeline.bucket_ns;
    this.cells = bytes(run.timeline.cells);
    this.buckets = run.cpus ? this.cells.length / 7 / run.cpus : 0;
    this.unseen = run.unseen_cells ? bytes(run.unseen_cells) : null;
    this.windows = run.timeline.windows.map(w => unpackWindow(w, run.cpus));
    this.complete = run.timeline.nr_runs_kept >= run.runs_total;
    this.laneHeight = Math.max(run.cpus > 400 ? 1 : 2, Math.min(34, Math.floor(560 / Math.max(1, run.cpus))));
    this.lanes = this.laneHeight * run.cpus;
    this.t0 = 0; this.t1 = this.duration;
    this.marked = null; // {group} or {row}
    this.overview = el("canvas", { "aria-label": "use of all CPUs over the whole run" });
    this.canvas = el("canvas", { "aria-label": "what each CPU ran over time" });
    this.status = el("span");
    this.search = el("input", { type: "search", placeholder: "find a task: name or pid", oninput: () => this.find() });
    this.box = el("div", { class: "timeline", tabindex: 0 }, this.overview, this.canvas);
    this.legend = el("div", { class: "legend" });
    this.element = el("div", { class: "panel" },
      el("div", { class: "tools" },
        el("button", { onclick: () => this.zoom(.5) }, "zoom in"), el("button", { onclick: () => this.zoom(2) }, "out"),
        el("button", { onclick: () => this.show(0, this.duration) }, "all"), this.search, el("span", { class: "space" }), this.status),
      this.box, this.legend,
      el("p", { class: "sub", style: "margin:8px 0 0" }, "Drag to move, Ctrl+wheel or double-click to zoom (after a click the wheel alone), keys W A S D. Drag over the strip above to choose a part. Click a task or a name to mark it.",
        this.complete ? "" : ` Single runs are kept where the strip is underlined (${count(run.timeline.nr_runs_kept)} of ${count(run.runs_total)}); elsewhere the lanes show shares. The Perfetto file has them all.`));
    this.makeLegend();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }
  makeLegend() {
    const shown = this.run.groups.map((g, i) => [g, i]).filter(([g]) => g[3] > 0).slice(0, 24);
    for (const [g, i] of shown) {
      const button = el("button", { onclick: () => this.mark(this.marked?.group === i ? null : { group: i }), title: "mark all tasks of this name" },
        el("span", { class: "swatch", style: `background:${groupColor(this.run, i)}` }), g[1] ? g[0] + " (kernel)" : g[0]);
      button.dataset.group = i;
      this.legend.append(button);
    }
    if (this.run.nr_groups > shown.length) this.legend.append(el("button", {}, `and ${this.run.nr_groups - shown.length} more names`));
  }
  mark(what) {
    this.marked = what;
    for (const b of this.legend.children) b.classList.toggle("on", what?.group !== undefined && b.dataset.group == what.group);
    this.draw();
  }
  find() {
    const text = this.search.value.trim().toLowerCase();
    if (!text) return this.mark(null);
    const pid = this.run.pids.findIndex(p => String(p) === text);
    if (pid >= 0) return this.mark({ row: pid });
    const group = this.run.groups.findIndex(g => g[0].toLowerCase().startsWith(text));
    this.mark(group >= 0 ? { group } : null);
  }
  listen() {
    const x = e => e.clientX - this.canvas.getBoundingClientRect().left;
    let drag = null;
    this.canvas.addEventListener("pointerdown", e => {
      drag = { x: x(e), t0: this.t0, t1: this.t1, moved: false };
      this.canvas.setPointerCapture(e.pointerId);
    });
    this.canvas.addEventListener("pointermove", e => {
      if (drag) {
        const dx = x(e) - drag.x;
        if (Math.abs(dx) > 3) drag.moved = true;
        if (drag.moved) {
          const dt = -dx / (this.width - GUTTER) * (drag.t1 - drag.t0);
          this.show(drag.t0 + dt, drag.t1 + dt);
          return hideTip();
        }
      }
      this.hover(e);
    });
    this.canvas.addEventListener("pointerup", e => {
      if (drag && !drag.moved) {
        const hit = this.hit(x(e), e.clientY - this.canvas.getBoundingClientRect().top);
        this.mark(hit?.row === undefined || this.marked?.row === hit.row ? null : { row: hit.row });
      }
      drag = null;
    });
    this.canvas.addEventListener("pointerleave", hideTip);
    this.canvas.addEventListener("dblclick", e => this.zoom(.25, this.toTime(x(e))));
    this.canvas.addEventListener("wheel", e => {
      const active = document.activeElement === this.box;
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan(e.deltaX / (this.width - GUTTER));
      else if (e.ctrlKey || e.metaKey || active) this.zoom(Math.exp(e.deltaY * .0025), this.toTime(x(e)));
      else return;
      e.preventDefault();
    }, { passive: false });
    this.box.addEventListener("keydown", e => {
      const step = { w: () => this.zoom(.7), s: () => this.zoom(1 / .7), a: () => this.pan(-.15), d: () => this.pan(.15), "0": () => this.show(0, this.duration) }[e.key];
      if (step) { step(); e.preventDefault(); }
    });
    let from = null;
    const whole = e => Math.max(0, Math.min(1, (x(e) - GUTTER) / (this.width - GUTTER))) * this.duration;
    this.overview.addEventListener("pointerdown", e => { from = whole(e); this.overview.setPointerCapture(e.pointerId); });
    this.overview.addEventListener("pointermove", e => { if (from !== null && Math.abs(whole(e) - from) > this.duration / 300) this.show(Math.min(from, whole(e)), Math.max(from, whole(e))); });
    this.overview.addEventListener("pointerup", e => {
      if (from !== null && Math.abs(whole(e) - from) <= this.duration / 300) { const half = (this.t1 - this.t0) / 2; this.show(from - half, from + half); }
      from = null;
    });
  }
  show(t0, t1) {
    const span = Math.max(20, Math.min(this.duration, t1 - t0));
    this.t0 = Math.max(0, Math.min(this.duration - span, t0));
    this.t1 = this.t0 + span;
    this.draw();
  }
  zoom(factor, about = (this.t0 + this.t1) / 2) { this.show(about - (about - this.t0) * factor, about + (this.t1 - about) * factor); }
  pan(part) { const d = part * (this.t1 - this.t0); this.show(this.t0 + d, this.t1 + d); }
  toTime(x) { return this.t0 + (x - GUTTER) / (this.width - GUTTER) * (this.t1 - this.t0); }
  resize() {
    this.width = this.box.clientWidth;
    this.draw();
  }
  context(canvas, height) {
    const ratio = devicePixelRatio || 1;
    canvas.width = this.width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = height + "px";
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    return c;
  }
  draw() {
    if (!this.width || this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.paint(); });
  }
  paint() {
    const css = getComputedStyle(document.documentElement), v = name => css.getPropertyValue(name).trim();
    this.ink = v("--ink"); this.soft = v("--soft"); this.faint = v("--faint"); this.lane = v("--lane"); this.line = v("--line"); this.accent = v("--accent");
    this.paintOverview();
    const c = this.context(this.canvas, AXIS + this.lanes + 2), plot = this.width - GUTTER;
    const perPx = (this.t1 - this.t0) / plot;
    this.paintAxis(c, plot);
    const h = this.laneHeight, gap = h > 6 ? 2 : h > 3 ? 1 : 0;
    const every = Math.max(1, Math.ceil(13 / h));
    for (let cpu = 0; cpu < this.run.cpus; cpu++) {
      const y = AXIS + cpu * h;
      c.fillStyle = this.lane;
      c.fillRect(GUTTER, y, plot, h - gap);
      if (cpu % every === 0) {
        c.fillStyle = this.soft; c.textAlign = "right";
        const busy = this.run.per_cpu[cpu];
        c.fillText(`cpu${cpu}` + (h >= 13 ? (isKnown(busy[0]) ? `  ${Math.round(100 * busy[0] / this.duration)} %` : "  ?") : ""), GUTTER - 8, y + Math.max(6, (h - gap) / 2));
      }
    }
    c.save(); c.beginPath(); c.rect(GUTTER, AXIS, plot, this.lanes); c.clip();
    if (this.unseen) this.paintUnseen(c, perPx, h, gap);
    // exact runs where they are kept and wide enough to tell apart, shares elsewhere
    this.exact = this.windows.filter(w => w.end > this.t0 && w.start < this.t1 && (this.bucket / perPx >= 2 || w.n * (this.t1 - this.t0) / Math.max(1, w.end - w.start) < 20000));
    let t = this.t0;
    for (const w of this.exact) {
      if (w.start > t) this.paintCells(c, t, Math.min(w.start, this.t1), perPx, h, gap);
      this.paintRuns(c, w, perPx, h, gap);
      t = Math.max(t, w.end);
    }
    if (t < this.t1) this.paintCells(c, t, this.t1, perPx, h, gap);
    c.restore();
    const kind = this.exact.length === 0 ? `shares per ${time(Math.max(this.bucket, perPx))}` : this.exact.length === 1 && this.exact[0].start <= this.t0 && this.exact[0].end >= this.t1 ? "single runs" : "single runs where kept";
    this.status.textContent = `${at(this.t0)} to ${at(this.t1)}: ${time(this.t1 - this.t0)} · ${kind}`;
  }
  paintAxis(c, plot) {
    const span = this.t1 - this.t0, rough = span / Math.max(2, plot / 110);
    const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough);
    const unit = this.t1 >= 1e9 && step >= 1e5 ? [1e9, "s"] : this.t1 >= 1e6 && step >= 100 ? [1e6, "ms"] : this.t1 >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit[0]) - 1e-9));
    c.textAlign = "center";
    for (let n = Math.ceil(this.t0 / step); n * step <= this.t1; n++) {
      const x = GUTTER + (n * step - this.t0) / span * plot;
      c.fillStyle = this.line; c.fillRect(x, AXIS - 5, 1, this.lanes + 5);
      c.fillStyle = this.soft;
      if (x > GUTTER + 12 && x < this.width - 20) c.fillText((n * step / unit[0]).toFixed(digits) + " " + unit[1], x, 9);
    }
  }
  isMarked(group, row) {
    const m = this.marked;
    return !m || (m.group !== undefined ? m.group === group : m.row === row);
  }
  paintCells(c, t0, t1, perPx, h, gap) {
    const first = Math.max(0, Math.floor(t0 / this.bucket)), last = Math.min(this.buckets - 1, Math.ceil(t1 / this.bucket));
    const together = Math.max(1, Math.floor(perPx / this.bucket));
    const height = h - gap, toX = t => GUTTER + (t - this.t0) / perPx;
    const sums = new Float64Array(256), seen = [];
    for (let cpu = 0; cpu < this.run.cpus; cpu++) {
      const y = AXIS + cpu * h;
      for (let b = first - first % together; b <= last; b += together) {
        const end = Math.min(b + together, this.buckets);
        let busy = 0;
        for (let i = b; i < end; i++) {
          const at = (cpu * this.buckets + i) * 7;
          busy += this.cells[at];
          for (let k = 1; k < 7; k += 2) {
            const share = this.cells[at + k + 1];
            if (share) { if (!sums[this.cells[at + k]]) seen.push(this.cells[at + k]); sums[this.cells[at + k]] += share; }
          }
        }
        if (!busy) { for (const g of seen) sums[g] = 0; seen.length = 0; continue; }
        const x = Math.max(toX(t0), toX(b * this.bucket)), w = Math.min(toX(t1), toX(end * this.bucket)) - x, full = 255 * (end - b);
        let bottom = y + height;
        let rest = busy;
        seen.sort((p, q) => p - q);
        for (const g of seen) {
          const part = sums[g] / full * height;
          rest -= sums[g]; sums[g] = 0;
          c.globalAlpha = this.marked && !(this.marked.group === g || (this.marked.row !== undefined && taskGroup(this.run, this.marked.row) === g)) ? .18 : 1;
          c.fillStyle = groupColor(this.run, g);
          c.fillRect(x, bottom - part, w + .4, part);
          bottom -= part;
        }
        seen.length = 0;
        if (rest > 0) { c.globalAlpha = this.marked ? .18 : 1; c.fillStyle = "#9aa1ab"; c.fillRect(x, bottom - rest / full * height, w + .4, rest / full * height); }
        c.globalAlpha = 1;
      }
    }
  }
  paintUnseen(c, perPx, h, gap) { // what nobody saw: hatched, and runs stand before it
    const first = Math.max(0, Math.floor(this.t0 / this.bucket));
    const last = Math.min(this.buckets - 1, Math.ceil(this.t1 / this.bucket));
    c.strokeStyle = this.faint; c.lineWidth = 1;
    for (let cpu = 0; cpu < this.run.cpus; cpu++) for (let b = first; b <= last; b++) {
      const share = this.unseen[cpu * this.buckets + b];
      if (!share) continue;
      const x = GUTTER + (b * this.bucket - this.t0) / perPx, w = this.bucket / perPx, y = AXIS + cpu * h;
      c.globalAlpha = Math.max(.25, share / 255);
      c.save(); c.beginPath(); c.rect(x, y, Math.max(w, .8), h - gap); c.clip(); c.beginPath();
      for (let d = Math.floor(x / 5) * 5 - h; d < x + w + 5; d += 5) { c.moveTo(d, y + h); c.lineTo(d + h, y); }
      c.stroke(); c.restore();
    }
    c.globalAlpha = 1;
  }
  firstRun(runs, t) { // the first that ends after t
    let low = 0, high = runs.n;
    while (low < high) { const mid = (low + high) >> 1; if (runs.end[mid] <= t) low = mid + 1; else high = mid; }
    return low;
  }
  paintRuns(c, w, perPx, h, gap) {
    const t0 = Math.max(this.t0, w.start), t1 = Math.min(this.t1, w.end), height = h - gap;
    c.textAlign = "left";
    for (let cpu = 0; cpu < this.run.cpus; cpu++) {
      const runs = w.cpus[cpu], y = AXIS + cpu * h;
      let lastX = -1, lastGroup = -1;
      for (let i = this.firstRun(runs, t0); i < runs.n && runs.start[i] < t1; i++) {
        const row = runs.row[i], g = taskGroup(this.run, row);
        const x = GUTTER + (Math.max(runs.start[i], t0) - this.t0) / perPx, width = (Math.min(runs.end[i], t1) - Math.max(runs.start[i], t0)) / perPx;
        if (width < .5 && Math.floor(x) === lastX && g === lastGroup) continue;
        lastX = Math.floor(x); lastGroup = g;
        c.globalAlpha = (this.isMarked(g, row) ? 1 : .18) * (width < 1 ? Math.max(.35, width) : 1);
        c.fillStyle = groupColor(this.run, g);
        c.fillRect(x, y, Math.max(width > 3 ? width - .6 : width, .8), height);
        if (width > 34 && height >= 12) {
          c.globalAlpha = this.isMarked(g, row) ? 1 : .4;
          c.fillStyle = "#fff";
          const text = width > 90 ? `${taskName(this.run, row)} ${taskPid(this.run, row)}` : taskName(this.run, row);
          c.save(); c.beginPath(); c.rect(x, y, width - 3, height); c.clip();
          c.fillText(text, x + 5, y + height / 2 + .5); c.restore();
        }
      }
      c.globalAlpha = 1;
    }
  }
  paintOverview() {
    const c = this.context(this.overview, OVERVIEW), plot = this.width - GUTTER, height = OVERVIEW - 12;
    c.fillStyle = this.soft; c.textAlign = "right"; c.fillText("all CPUs", GUTTER - 8, height / 2);
    c.fillStyle = this.lane; c.fillRect(GUTTER, 0, plot, height);
    c.fillStyle = this.faint;
    for (let x = 0; x < plot; x++) {
      const b0 = Math.floor(x / plot * this.buckets), b1 = Math.max(b0 + 1, Math.floor((x + 1) / plot * this.buckets));
      let busy = 0;
      for (let cpu = 0; cpu < this.run.cpus; cpu++) for (let b = b0; b < b1; b++) busy += this.cells[(cpu * this.buckets + b) * 7];
      const part = busy / (255 * this.run.cpus * (b1 - b0)) * height;
      c.fillRect(GUTTER + x, height - part, 1.2, part);
    }
    const x = t => GUTTER + t / this.duration * plot;
    if (!this.complete) { c.fillStyle = this.accent; for (const w of this.windows) c.fillRect(x(w.start), height + 2, Math.max(2, x(w.end) - x(w.start)), 2); }
    if (this.t1 - this.t0 < this.duration) {
      c.strokeStyle = this.accent; c.lineWidth = 1.5;
      c.strokeRect(x(this.t0), 1, Math.max(3, x(this.t1) - x(this.t0)), height - 2);
    }
  }
  hit(x, y) {
    const cpu = Math.floor((y - AXIS) / this.laneHeight), t = this.toTime(x);
    if (cpu < 0 || cpu >= this.run.cpus || x < GUTTER || t < 0 || t > this.duration) return null;
    const window = (this.exact || []).find(w => w.start <= t && t < w.end);
    if (!window) {
      const b = Math.min(this.buckets - 1, Math.floor(t / this.bucket)), at = (cpu * this.buckets + b) * 7;
      return { cpu, t, bucket: b, cell: this.cells.subarray(at, at + 7) };
    }
    const runs = window.cpus[cpu], slack = 1.5 * (this.t1 - this.t0) / (this.width - GUTTER);
    let i = this.firstRun(runs, t);
    const distance = i => i < 0 || i >= runs.n ? Infinity : Math.max(0, runs.start[i] - t, t - runs.end[i]);
    if (distance(i - 1) < distance(i)) i--;
    if (distance(i) > slack) return { cpu, t };
    return { cpu, t, row: runs.row[i], runs, i };
  }
  hover(e) {
    const r = this.canvas.getBoundingClientRect(), hit = this.hit(e.clientX - r.left, e.clientY - r.top);
    this.canvas.style.cursor = hit?.row !== undefined ? "pointer" : "default";
    if (!hit) return hideTip();
    const run = this.run;
    if (hit.row !== undefined) {
      const { runs, i, row } = hit, why = runs.why[i] & 7, cause = runs.why[i] >> 3;
      const thread = row >= run.pids.length;
      showTip(e.clientX, e.clientY, el("b", {}, taskName(run, row)), ` ${thread ? "kernel thread " : "pid "}${taskPid(run, row)} on cpu${hit.cpu}`,
        rows([["from", at(runs.start[i])], ["for", time(runs.end[i] - runs.start[i])], ["then", STOPS[why]], cause ? ["before", `${CAUSES[cause]}, waited ${time(runs.waited[i])}`] : null]));
    } else if (hit.cell) {
      const groups = [1, 3, 5].filter(k => hit.cell[k + 1]).map(k => [hit.cell[k] === OTHER ? "others" : run.groups[hit.cell[k]][0], percent(hit.cell[k + 1], 255)]);
      showTip(e.clientX, e.clientY, el("b", {}, `cpu${hit.cpu}`), ` busy ${percent(hit.cell[0], 255)} of ${time(this.bucket)}`, rows([["from", at(hit.bucket * this.bucket)], ...groups]));
    } else showTip(e.clientX, e.clientY, el("b", {}, `cpu${hit.cpu}`), (this.unseen && this.unseen[hit.cpu * this.buckets + Math.min(this.buckets - 1, Math.floor(hit.t / this.bucket))] ? " idle, or nobody saw it, at " : " idle at ") + at(hit.t));
  }
  jump(start, end, row) {
    const around = Math.max((end - start) * .6, 20e3);
    this.mark({ row });
    this.show(start - around, end + around);
    this.element.scrollIntoView({ behavior: "smooth", block: "start" });
  }
}

// ---------------------------------------------------------------- tables
function table(columns, records, options = {}) {
  // column: [title, value(record) for sorting, text(record), {text, bar, tip}]
  const head = el("tr"), body = el("tbody");
  let sorted = options.sort ?? -1, up = false;
  const maxima = columns.map(([, value, , o]) => o?.bar ? Math.max(1e-9, ...records.map(value)) : 0);
  const fill = () => {
    let list = records;
    if (sorted >= 0) {
      const value = columns[sorted][1];
      list = [...records].sort((a, b) => { const [x, y] = [value(a), value(b)]; return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1); });
    }
    body.replaceChildren(...list.slice(0, options.limit ?? 2000).map(record => {
      const tr = el("tr", options.click ? { class: "link", onclick: () => options.click(record) } : {});
      columns.forEach(([, value, text, o], n) => {
        const td = el("td", { class: o?.text ? "text" : o?.bar ? "bar" : undefined }, text(record));
        if (o?.bar) td.style.background = `linear-gradient(to left, var(--${o.bar}) ${(100 * value(record) / maxima[n]).toFixed(1)}%, transparent 0)`;
        tr.append(td);
      });
      return tr;
    }));
    [...head.children].forEach((th, n) => { th.classList.toggle("sorted", n === sorted); th.classList.toggle("up", n === sorted && up); });
  };
  columns.forEach(([title, value, , o], n) => head.append(el("th", { class: o?.text ? "text" : "", title: o?.tip || "sort", onclick: () => { up = sorted === n ? !up : !!o?.text; sorted = n; fill(); } }, title)));
  fill();
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), body));
}
const D = { count: 0, sum: 1, mean: 2, p50: 3, p99: 4, p999: 5, max: 6 };
const ns = (title, get, o) => [title, get, r => time(get(r)), o];
const num = (title, get, o) => [title, get, r => count(get(r)), o];

function groupsTable(run) {
  const machine = run.duration_ns * run.cpus;
  const swatch = g => el("span", { class: "swatch", style: `background:${groupColor(run, run.groups.indexOf(g))};margin-right:8px` });
  return table([
    ["name", g => g[0], g => [swatch(g), g[1] ? g[0] + " (kernel)" : g[0]].flat(), { text: true }],
    num("tasks", g => g[2]), ns("CPU time", g => g[3], { bar: "bar" }), ["of the machine", g => g[3], g => percent(g[3], machine)],
    ns("run delay p50", g => g[4][D.p50]), ns("p99", g => g[4][D.p99], { bar: "bar2", tip: "99 % of the waits while runnable are at most this long" }), ns("max", g => g[4][D.max]), ns("sum", g => g[4][D.sum]),
    ns("wakeup p99", g => g[5][D.p99]), num("blocked", g => g[6], { tip: "switch-outs by blocking or exiting" }), num("preempted", g => g[7], { tip: "switch-outs while runnable" }), num("migrations", g => g[8]),
  ], run.groups, { sort: 2 });
}
function tasksTable(run, timeline) {
  return table([
    ["name", t => taskName(run, t[0]), t => taskName(run, t[0]), { text: true }], ["pid", t => taskPid(run, t[0]), t => taskPid(run, t[0])],
    ["nice", t => t[1], t => t[1]], ["policy", t => t[2], t => t[2], { text: true }], ns("CPU time", t => t[3], { bar: "bar" }),
    ns("run delay mean", t => t[4][D.mean]), ns("p50", t => t[4][D.p50]), ns("p99", t => t[4][D.p99], { bar: "bar2" }), ns("max", t => t[4][D.max]), ns("sum", t => t[4][D.sum]),
    ns("wakeup p99", t => t[5][D.p99]), ns("blocked", t => t[6]), num("wakeups", t => t[7]), num("voluntary", t => t[8], { tip: "switch-outs by blocking or exiting" }), num("involuntary", t => t[9], { tip: "switch-outs while runnable" }),
    num("migrations", t => t[10]), ["done", t => t[11], t => t[11] === "unknown" ? "unknown" : t[11] ? "yes" : "no"],
  ], run.tasks, { sort: 4, limit: 1500, click: t => timeline.jump(t[12] ?? 0, t[13] ?? run.duration_ns, t[0]) });
}
function waitsTable(run, timeline) {
  return table([
    ns("waited", w => w[4] - w[3], { bar: "bar2" }), ["task", w => taskName(run, w[0]), w => taskName(run, w[0]), { text: true }], ["pid", w => taskPid(run, w[0]), w => taskPid(run, w[0])],
    ["why", w => w[2], w => w[2], { text: true }], ["CPU", w => w[1], w => "cpu" + w[1] + (w[5] === w[1] ? "" : ", then cpu" + w[5]), { text: true }], ["from", w => w[3], w => at(w[3])],
    ["who had that CPU", w => w[7].length, w => w[7].slice(0, 3).map(([name, ns]) => `${name} ${time(ns)}`).join(", ") + (w[7].length > 3 ? ", ..." : ""), { text: true, tip: "on the CPU where the wait began, from its begin to its end" }],
    ...explained(run.waits, w => w[6]),
  ], run.waits, { click: w => timeline.jump(w[3], w[4], w[0]) });
}
// the command that explains a row: its end, the whole of it when pointed at; none where the scheduler cannot be asked
const explained = (records, command) => !records.some(command) ? [] :
  [["explain", r => command(r) ?? "", r => command(r) ? el("code", { title: command(r) }, command(r).replace(/^.* (?=--explain )/, "")) : "", { text: true, tip: "the command is shown when pointed at" }]];
function stretchesTable(run, timeline) {
  const names = s => s[3].slice(0, 3).map(([row, cpu]) => `${taskName(run, row)} (${taskPid(run, row)}) on cpu${cpu}`).join(", ") + (s[7] > 3 ? `, ${count(s[7] - 3)} more` : "");
  return table([
    ns("idle while work waits", s => s[1] - s[0], { bar: "bar2" }), ["from", s => s[0], s => at(s[0])], ["idle", s => s[2], s => s[2], { text: true }], ["waiting there", s => s[7], names, { text: true }],
    ["queues", s => s[6].join(" "), s => s[6].join(" "), { text: true, tip: "tasks on each CPU at the beginning, the running one included" }],
    ...explained(run.stretches, s => s[5]),
  ], run.stretches, { click: s => timeline.jump(s[0], s[1], s[4] ?? undefined) });
}
function cpusTable(run) {
  return table([
    ["CPU", c => c.n, c => "cpu" + c.n, { text: true }], ns("busy", c => c[0], { bar: "bar" }), ["", c => c[0], c => percent(c[0], run.duration_ns)], ns("kernel threads", c => c[1]), ns("idle", c => c[2]),
    num("switches", c => c[3]), ["mean queue", c => c[4], c => fixed(c[4] / Math.max(1, run.duration_ns), 2), { tip: "tasks that wait on the CPU's queue, on average over the time; the running one is not counted" }], num("longest queue", c => c[5]),
  ], run.per_cpu.map((c, n) => Object.assign([...c], { n })));
}

// ---------------------------------------------------------------- distribution of waits
const LINES = ["#2563eb", "#ea7317", "#16a34a", "#c026d3", "#0891b2", "#b45309", "#dc2626", "#64748b"];
function waitsChart(kind) {
  const W = 620, H = 270, L = 52, R = 14, T = 10, B = 34;
  const series = data.runs.map(run => {
    const bins = run[kind + "_bins"], total = bins.reduce((s, b) => s + b[1], 0);
    let above = total;
    const points = [];
    for (const [edge, n] of bins) { points.push([edge, above / Math.max(1, total)]); above -= n; points.push([edge, above / Math.max(1, total)]); }
    return { points, total };
  });
  const max = Math.max(1e4, ...data.runs.map(r => isKnown(r[kind][D.max]) ? r[kind][D.max] : 0)), low = 1e3, counts = Math.max(10, ...series.map(s => s.total));
  const floor = Math.max(1e-6, Math.min(1e-2, .5 / counts));
  const x = v => L + (Math.log10(Math.max(low, v)) - Math.log10(low)) / (Math.log10(max) - Math.log10(low)) * (W - L - R);
  const y = p => T + Math.log10(Math.max(p, floor)) / Math.log10(floor) * (H - T - B);
  const chart = svg("svg", { viewBox: `0 0 ${W} ${H}`, width: "100%", role: "img" });
  for (let d = 3; 10 ** d <= max * 1.001; d++) {
    chart.append(svg("line", { class: "grid", x1: x(10 ** d), x2: x(10 ** d), y1: T, y2: H - B }));
    const text = svg("text", { x: x(10 ** d), y: H - B + 15, "text-anchor": d === 3 ? "start" : "middle" }); text.textContent = d === 3 ? "≤ 1 µs" : time(10 ** d, 0); chart.append(text);
  }
  for (let p = 1; p >= floor; p /= 10) {
    chart.append(svg("line", { class: "grid", x1: L, x2: W - R, y1: y(p), y2: y(p) }));
    const text = svg("text", { x: L - 6, y: y(p) + 4, "text-anchor": "end" }); text.textContent = +(100 * p).toPrecision(1) + " %"; chart.append(text);
  }
  const axis = svg("text", { x: (L + W - R) / 2, y: H - 3, "text-anchor": "middle" }); axis.textContent = "waited longer than"; chart.append(axis);
  series.forEach(({ points }, n) => {
    if (!points.length) return;
    const d = points.filter(p => p[0] > 0 || p[1] > 0).map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join("");
    chart.append(svg("path", { d, fill: "none", stroke: LINES[n % LINES.length], "stroke-width": 2, "stroke-linejoin": "round" }));
    const dist = data.runs[n][kind];
    for (const [at, share] of [[dist[D.p50], .5], [dist[D.p99], .01]]) if (at >= low) {
      const dot = svg("circle", { cx: x(at), cy: y(share), r: 3.5, fill: LINES[n % LINES.length] });
      dot.append(svg("title")); dot.firstChild.textContent = `${labels[n]}: ${share === .5 ? "median" : "p99"} ${time(at)}`; chart.append(dot);
    }
  });
  return chart;
}
function waitsPanel(title, kind) {
  return el("div", { class: "panel" }, el("h3", { style: "margin-top:0" }, title), waitsChart(kind),
    el("div", { class: "legend" }, data.runs.map((run, n) => el("span", { style: "display:inline-flex;gap:6px;align-items:center;color:var(--soft);margin-right:14px;font-size:13px" },
      el("span", { class: "swatch", style: `background:${LINES[n % LINES.length]}` }), `${labels[n]}: median ${time(run[kind][D.p50])}, p99 ${time(run[kind][D.p99])}, max ${time(run[kind][D.max])}`))));
}

// ---------------------------------------------------------------- jobs: response times against deadlines
const JOB = { release: 0, response: 1, deadline: 2, ended: 3 };
function jobsTable(run, timeline, choose) {
  const worst = j => j.drawn.reduce((a, b) => b[JOB.response] > (a ? a[JOB.response] : -1) ? b : a, null);
  return table([
    ["task", j => taskName(run, j.row), j => taskName(run, j.row), { text: true }], ["pid", j => taskPid(run, j.row), j => taskPid(run, j.row)], num("jobs", j => j.jobs),
    ns("response p50", j => j.response[0]), ns("p99", j => j.response[1], { bar: "bar2" }), ns("max", j => j.response[2]),
    ["bound", j => j.bound ?? 0, j => j.bound === null ? "" : time(j.bound), { tip: "longest response time by theory, without overhead and throttling" }],
    ["deadline", j => j.deadline ?? 0, j => j.deadline === null ? (j.share ? "several" : "none") : time(j.deadline)],
    num("missed", j => j.misses), ["share", j => j.share ? j.share[1] : 0, j => j.share ? `${(100 * j.share[1]).toFixed(1)} % (${(100 * j.share[0]).toFixed(1)} to ${(100 * j.share[2]).toFixed(1)} %)` : "", { tip: "with its 95 % interval, jobs taken as independent" }],
    ["latest", j => j.tardiness, j => j.misses ? time(j.tardiness) : ""],
  ], run.jobs, { click: j => { choose(j); const w = worst(j); if (w) timeline.jump(w[JOB.release], w[JOB.release] + w[JOB.response], j.row); } });
}
function jobsChart(run, task, timeline) {
  const W = 1240, H = 250, L = 64, R = 14, T = 12, B = 34;
  const deadlines = task.drawn.map(j => j[JOB.deadline]).filter(d => d >= 0);
  const top = 1.06 * Math.max(1, task.bound ?? 0, ...task.drawn.map(j => j[JOB.response]), ...deadlines);
  const x = v => L + v / Math.max(1, run.duration_ns) * (W - L - R), y = v => H - B - v / top * (H - T - B);
  const chart = svg("svg", { viewBox: `0 0 ${W} ${H}`, width: "100%", role: "img" });
  const say = (px, py, words, anchor) => { const text = svg("text", { x: px, y: py, "text-anchor": anchor }); text.textContent = words; chart.append(text); };
  for (let n = 0; n <= 4; n++) { chart.append(svg("line", { class: "grid", x1: L, x2: W - R, y1: y(top * n / 4), y2: y(top * n / 4) })); say(L - 6, y(top * n / 4) + 4, n ? time(top * n / 4) : "0", "end"); }
  for (let n = 0; n <= 8; n++) say(x(run.duration_ns * n / 8), H - B + 15, n ? time(run.duration_ns * n / 8) : "0", n === 8 ? "end" : "middle");
  say((L + W - R) / 2, H - 3, "release of the job", "middle");
  const line = (v, colour, words) => { chart.append(svg("line", { x1: L, x2: W - R, y1: y(v), y2: y(v), stroke: colour, "stroke-width": 1.5, "stroke-dasharray": "6 4" })); say(W - R - 4, y(v) - 4, words, "end"); };
  if (task.bound !== null) line(task.bound, LINES[0], `bound by theory ${time(task.bound)}`);
  if (task.deadline !== null) line(task.deadline, "var(--bad)", `deadline ${time(task.deadline)}`);
  for (const job of task.drawn) {
    const [release, response, deadline, ended] = job, late = deadline >= 0 && response > deadline;
    const dot = svg("circle", { cx: x(release).toFixed(1), cy: y(response).toFixed(1), r: late ? 3.2 : 2, fill: late ? "#dc2626" : LINES[0], "fill-opacity": late ? .9 : .5, style: "cursor:pointer" });
    dot.append(svg("title")); dot.firstChild.textContent = `released at ${at(release)}, response ${time(response)}${ended ? "" : " and not ended"}${deadline >= 0 ? `, deadline ${time(deadline)}${late ? `, late by ${time(response - deadline)}` : ""}` : ""}`;
    dot.addEventListener("click", () => timeline.jump(release, release + response, task.row));
    chart.append(dot);
  }
  return chart;
}
function jobsPanel(run, timeline) {
  const place = el("div"), title = el("h3", { style: "margin-top:14px" });
  const choose = task => { title.textContent = `Response times of ${taskName(run, task.row)} (${taskPid(run, task.row)})`; place.replaceChildren(jobsChart(run, task, timeline)); };
  choose(run.jobs[0]);
  return [el("h3", {}, "Jobs: response times and deadlines"), el("p", {}, "A job runs from its release to the block that ends it. Click a task for its picture and its longest job, a dot for that job in the timeline. Red: missed its deadline."),
    el("div", { class: "panel" }, el("div", { class: "short" }, jobsTable(run, timeline, choose)), title, place)];
}

// ---------------------------------------------------------------- the page
function comparison() {
  const machine = r => r.duration_ns * r.cpus, second = r => Math.max(1e-9, r.duration_ns / 1e9);
  // lower: whether less is better; undefined: neither is
  const metrics = [
    ["simulated time", r => r.duration_ns, time], ["CPUs busy", r => 1 - r.idle_ns / Math.max(1, machine(r)), v => isKnown(v) ? (100 * v).toFixed(1) + " %" : "unknown"],
    ["CPU time of the tasks", r => r.task_ns, time],
    ["run delay: mean", r => r.run_delay[D.mean], time, true], ["run delay: median", r => r.run_delay[D.p50], time, true], ["run delay: p99", r => r.run_delay[D.p99], time, true], ["run delay: p99.9", r => r.run_delay[D.p999], time, true], ["run delay: max", r => r.run_delay[D.max], time, true],
    ["after a wakeup: p99", r => r.wakeup_latency[D.p99], time, true], ["after a wakeup: max", r => r.wakeup_latency[D.max], time, true],
    ["switches per second", r => r.switches / second(r), count], ["migrations per second", r => r.migrations / second(r), count],
    ["a CPU idle while work waits", r => r.idle_while_waiting[0], time, true], ["mean number of waiting tasks", r => r.waiting_task_ns / Math.max(1, r.duration_ns), v => fixed(v, 2)],
  ];
  // which is the best can only be said of runs on as many CPUs
  const like = data.runs[0].cpus, comparable = data.runs.filter(r => r.cpus === like), sameMachine = comparable.length === data.runs.length;
  const body = metrics.map(([name, get, text, lower]) => {
    const values = data.runs.map(get), compared = comparable.map(get), best = Math.min(...compared);
    return el("tr", {}, el("td", { class: "text" }, name), values.map((v, n) => el("td", { class: lower && data.runs[n].cpus === like && v === best && compared.some(o => o !== best) ? "best" : undefined },
      text(v), n && values[0] > 0 ? el("small", {}, change(v / values[0])) : null)));
  });
  const names = new Map();
  data.runs.forEach((r, n) => r.groups.filter(g => !g[1]).slice(0, 12).forEach(g => names.set(g[0], true)));
  const byName = [...names.keys()].slice(0, 14).map(name => el("tr", {}, el("td", { class: "text" }, el("span", { class: "swatch", style: `background:${colors.get(name)};margin-right:8px` }), name),
    data.runs.map(r => { const g = r.groups.find(g => g[0] === name && !g[1]); return [el("td", {}, g ? time(g[3]) : "–"), el("td", {}, g ? time(g[4][D.p99]) : "–")]; })));
  return [el("h2", { id: "comparison" }, "Side by side"), el("p", {}, "Percentages are against the first column." + (comparable.length < 2 ? "" : ` Green: the best${sameMachine ? "" : ` on ${like} CPUs`}, where less is better.`)),
    el("div", { class: "panel scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}), labels.map(l => el("th", {}, l)))), el("tbody", {}, body))),
    el("div", { class: "panel scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}), labels.map(l => el("th", { colspan: 2 }, l))), el("tr", {}, el("th", { class: "text" }, "by name"), labels.map(() => [el("th", {}, "CPU time"), el("th", {}, "delay p99")]))), el("tbody", {}, byName)))];
}
function tiles(run) {
  const machine = run.duration_ns * run.cpus, seconds = Math.max(1e-9, run.duration_ns / 1e9);
  const tile = (value, name, more) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name), el("small", {}, more));
  const waits = (what, name) => {
    const d = (run.known_tasks || run)[what];
    return tile(time(d[D.p99]), name, `median ${time(d[D.p50])}, max ${time(d[D.max])}${run.known_tasks ? `; ${run.known_tasks.text}` : ""}`);
  };
  return el("div", { class: "tiles" },
    tile(percent(machine - run.idle_ns, machine), "CPUs busy", `${time(run.task_ns)} of tasks' CPU time`),
    waits("run_delay", "run delay, p99"),
    waits("wakeup_latency", "wait after a wakeup, p99"),
    tile(count(run.switches / seconds), "switches per second", `${count(run.switches)} in all`),
    tile(count(run.migrations), "migrations", `${count(run.migrations / seconds)} per second; ${count(run.assignments[0] + run.assignments[1])} assignments to another CPU, ${count(run.assignments[1])} of them of the scheduler's own threads`),
    tile(time(run.idle_while_waiting[0]), "a CPU idle while work waits", !isKnown(run.idle_while_waiting[0]) ? "" : run.idle_while_waiting[0] ? `longest ${time(run.idle_while_waiting[1])}` : "never"));
}
function section(run, n) {
  const timeline = new Timeline(run);
  timelines.push(timeline);
  const list = (title, entries) => entries.length ? el("div", { class: "panel warn" }, el("h3", { style: "margin-top:0" }, title), el("div", { class: "facts" }, entries.map(e => el("div", {}, e)))) : null;
  const seconds = `${count(run.records)} records`;
  const facts = [run.end, run.hz && !run.sched_version.includes(`HZ=${run.hz}`) ? `HZ=${run.hz}` : "", run.sched_version, run.wall_ns ? `simulated in ${time(run.wall_ns)}, ${count(run.duration_ns / run.wall_ns)} times real time` : "", seconds].filter(Boolean).join(" · ");
  const commands = [...run.next, ...(run.command ? [["the same again", run.command]] : [])];
  return el("section", { id: "run" + n },
    data.runs.length > 1 ? [el("h2", {}, label(run)), el("p", {}, facts)] : el("p", {}, facts),
    list(run.changed_title, Object.entries(run.changed_experiment).map(([what, n]) => `${count(n)} × ${what}`)),
    run.params.length ? el("p", {}, "Parameters that differ from the default: ", el("code", {}, run.params.map(p => p.join("=")).join("  "))) : null,
    run.hidden ? el("div", { class: "panel warn" }, run.hidden,
      " What it could not see is unknown; hatched in the timeline: nobody saw what the CPU did.") : null,
    tiles(run), timeline.element,
    list("The scheduler warned", run.warnings), list("Left out or made up: check before trusting", Object.entries(run.dropped).map(([reason, n]) => `${count(n)} × ${reason}`)),
    data.runs.length === 1 ? el("div", { class: "two" }, waitsPanel("Waits while runnable (run delay)", "run_delay"), waitsPanel("Waits after a wakeup", "wakeup_latency")) : null,
    run.jobs && run.jobs.length ? jobsPanel(run, timeline) : null,
    el("h3", {}, "Tasks by name"), el("div", { class: "panel" }, groupsTable(run)),
    run.waits.length ? [el("h3", {}, run.hidden ? "Long waits, as far as they were seen" : "The longest waits"), el("p", {}, "Click a line to see it in the timeline."), el("div", { class: "panel short" }, waitsTable(run, timeline))] : null,
    run.stretches.length ? [el("h3", {}, "A CPU idle while work waits: " + (run.hidden ? "long times, as far as they were seen" : "the longest times")), el("p", {}, "A task waits, and a CPU that it may use is idle. Click a line to see it in the timeline."), el("div", { class: "panel short" }, stretchesTable(run, timeline))] : null,
    run.unknown ? el("p", {}, "Idle while work waits: " + run.unknown + ".") : null,
    el("details", {}, el("summary", {}, "Every task ", el("b", {}, run.tasks.length < run.pids.length ? `${count(run.tasks.length)} of ${count(run.pids.length)}` : count(run.pids.length))),
      run.tasks.length < run.pids.length ? el("p", {}, "Those with the most CPU time and the longest waits; the JSON output has them all.") : null, el("div", { class: "panel" }, tasksTable(run, timeline))),
    el("details", {}, el("summary", {}, "Every CPU"), el("div", { class: "panel" }, cpusTable(run))),
    run.notes.length ? el("details", { open: "" }, el("summary", {}, "Notes"), el("div", { class: "panel" }, run.notes.map(x => el("div", {}, x)))) : null,
    commands.length ? [el("h3", {}, "Next"), commands.map(([what, command]) => el("div", {}, el("span", { class: "sub" }, what), el("pre", {}, command)))] : null);
}
const timelines = [];
// report.html#run0:START-END (ns) shows that part of the first run's timeline
function follow() {
  const link = /^#run(\d+):(\d+)-(\d+)$/.exec(location.hash);
  if (link && timelines[link[1]]) {
    timelines[link[1]].show(+link[2], +link[3]);
    timelines[link[1]].element.scrollIntoView();
  }
}
document.title = data.title;
page.replaceChildren(el("h1", {}, data.title));
if (data.runs.length > 1) {
  page.append(el("nav", {}, el("a", { href: "#comparison" }, "side by side"), data.runs.map((r, n) => el("a", { href: "#run" + n }, labels[n]))), ...comparison().flat(),
    el("div", { class: "two" }, waitsPanel("Waits while runnable (run delay)", "run_delay"), waitsPanel("Waits after a wakeup", "wakeup_latency")));
} else if (data.runs.length) page.append(el("p", { class: "sub", style: "font-size:16px;color:var(--ink)" }, label(data.runs[0])));
data.runs.forEach((run, n) => page.append(section(run, n)));
page.append(el("p", { class: "sub", style: "margin-top:48px" }, `schedlab ${data.version}. Run delay: time runnable but not running. p99: 99 % of the waits are at most this long.`));
follow();
addEventListener("hashchange", follow);
})();
