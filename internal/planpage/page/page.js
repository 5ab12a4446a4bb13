"use strict";
// Draws the plans in #data. Names in models are hostile: text gets into the page through textContent and the canvas alone.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page"), tip = document.getElementById("tip");

// make is an element with properties, attributes (those with a dash, and role), and children.
function make(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k.includes("-") || k === "role" || k === "for") e.setAttribute(k, v); else if (k === "style") Object.assign(e.style, v); else e[k] = v;
  }
  e.append(...children.filter(c => c !== null && c !== undefined).map(c => c instanceof Node ? c : String(c)));
  return e;
}

// bytes writes a size as the command does.
function bytes(n) {
  if (Math.abs(n) < 1024) return n + " B";
  let unit = 0, v = n / 1024;
  while (Math.abs(v) >= 1024 && unit < 4) { v /= 1024; unit++; }
  return v.toFixed(Math.abs(v) < 10 ? 2 : 1) + " " + ["KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}
const many = (n, what) => n + " " + what + (n === 1 ? "" : "s");
const exactly = n => n.toLocaleString("en") + " B";
const percent = (n, of) => of > 0 ? (100 * n / of).toFixed(1) + " %" : "–";
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clamp = (v, lo, hi) => Math.max(lo, Math.min(hi, v));
const title = b => b.tensor || b.name;
const typed = b => b.dtype ? b.dtype + "[" + b.shape.join(", ") + "]" : "bytes";

// stepText names a step in words.
function stepText(plan, i) {
  const s = plan.steps[i];
  if (!s) return "step " + i;
  if (s.kind === "time") return s.name;
  const words = {host: "host ", copy: "copy ", bind: "bind ", if: "if ", loop: "loop ", end: "end of loop "};
  const what = s.nodes || (words[s.kind] || "") + (s.name || "");
  return "step " + i + ": " + (s.nodes && words[s.kind] && s.kind !== "host" ? words[s.kind] : "") + what;
}

// stepNumber is a step's own number: of several that are drawn as one, the first's.
const stepNumber = (plan, i) => plan.steps[i].kind === "time" ? plan.steps[i].name.match(/\d+/)[0] : String(i);

// ways to colour: each gives a buffer's class, and the classes' order is that of their first use.
const sizes = [[1 << 12, "to 4 KiB"], [1 << 16, "to 64 KiB"], [1 << 20, "to 1 MiB"], [1 << 24, "to 16 MiB"], [1 << 28, "to 256 MiB"], [Infinity, "over 256 MiB"]];
const ways = {
  role: (b, p) => p.storages[b.storage].kind === "outputs" ? "result" : p.storages[b.storage].kind === "spill" ? "in a file" : b.paged ? "weight from its file" : b.over ? "computed in place" : b.tensor || !b.dtype ? "intermediate" : "the compiler's own",
  "element type": b => b.dtype,
  size: b => sizes.find(s => b.bytes <= s[0])[1],
  lifetime: b => { const n = b.last - b.first + 1; return n <= 1 ? "1 step" : n <= 4 ? "2–4 steps" : n <= 16 ? "5–16 steps" : n <= 64 ? "17–64 steps" : "over 64 steps"; },
};
// most is up to how many classes have a colour of their own. What comes after them is "other".
const most = 8;
const fixed = {role: ["intermediate", "computed in place", "result", "the compiler's own", "in a file", "weight from its file"], size: sizes.map(s => s[1]), lifetime: ["1 step", "2–4 steps", "5–16 steps", "17–64 steps", "over 64 steps"]};

// ordered ways have a ramp of one hue, for their classes go from little to much.
const ordered = {size: true, lifetime: true};

const shared = {way: data.plans.every(e => e.table) ? "size" : "role", search: "", saved: new Map()};

// Chart draws one plan: the map of addresses by steps above, the curve of live bytes below, on one axis of steps.
class Chart {
  constructor(entry, scale) {
    this.entry = entry; this.plan = entry.plan; this.scale = scale;
    this.chosen = -1; this.hover = -1;
    this.step = Math.max(0, this.plan.peak_step);
    this.place();
    this.map = make("canvas", {className: "map", tabIndex: 0, role: "application", "aria-label": "Buffers of " + entry.name + " by address and step. " + this.summary() + " Arrow keys go from buffer to buffer, plus and minus zoom, 0 shows all, p goes to the peak. The tables below hold the same."});
    this.live = make("canvas", {className: "live", role: "img", "aria-label": "Bytes alive in the arena at each step. " + this.summary()});
    this.said = make("p", {className: "said soft", "aria-live": "polite"});
    this.body = make("div", null, this.map, this.live, this.said);
    this.view = null;
    this.listen();
  }
  // summary says in words what the picture shows.
  summary() {
    const p = this.plan, peak = p.steps[p.peak_step];
    return many(p.buffers.filter(b => b.bytes > 0).length, "buffer") + " in " + many(p.steps.length, "step") + "; the arena takes " + bytes(p.arena_bytes) +
      (peak ? ", the peak is at " + stepText(p, p.peak_step) + " with " + bytes(peak.live) + " alive." : ".");
  }
  // place stacks the storages: the arena's at the bottom, then results, then files.
  place() {
    const p = this.plan, rank = {arena: 0, outputs: 1, spill: 2};
    this.order = p.storages.map((s, i) => i).filter(i => p.storages[i].bytes > 0).sort((a, b) => rank[p.storages[a].kind] - rank[p.storages[b].kind] || a - b);
    this.base = []; this.height = 0; this.stacked = 0;
    for (const i of this.order) {
      if (this.stacked && (p.storages[i].kind !== "arena")) this.stacked += this.scale.gap;
      this.base[i] = this.stacked;
      this.stacked += p.storages[i].bytes;
    }
    p.buffers.forEach((b, i) => { b.at = (this.base[b.storage] || 0) + b.offset; b.index = i; b.alone = b.last + 1; });
    const paged = new Set((this.entry.savings || []).filter(s => s.kind === "page").map(s => s.tensor));
    for (const b of p.buffers) b.paged = b.tensor && paged.has(b.tensor);
    for (const b of p.buffers) for (const i of b.over || []) p.buffers[i].alone = Math.min(p.buffers[i].alone, Math.max(b.first, p.buffers[i].first)); // until another takes its place
  }
  all() { return {x0: 0, x1: this.scale.steps, y0: 0, y1: this.scale.bytes}; }
  reset() { this.view = this.all(); this.draw(); }
  listen() {
    const c = this.map;
    let drag = null;
    const at = e => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    c.addEventListener("wheel", e => {
      e.preventDefault();
      const [x, y] = at(e), f = Math.exp(clamp(e.deltaY, -100, 100) * 0.002);
      this.zoom(e.altKey ? 1 : f, e.shiftKey ? 1 : f, this.toStep(x), this.toByte(y));
    }, {passive: false});
    c.addEventListener("pointerdown", e => { drag = {x: e.clientX, y: e.clientY, view: {...this.view}, moved: false}; c.setPointerCapture(e.pointerId); c.focus(); });
    c.addEventListener("pointermove", e => {
      const [x, y] = at(e);
      if (drag) {
        const dx = e.clientX - drag.x, dy = e.clientY - drag.y, v = drag.view;
        if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
        if (drag.moved) this.pan({...v}, -dx / this.plot.w * (v.x1 - v.x0), dy / this.plot.h * (v.y1 - v.y0));
        return;
      }
      const hit = this.at(x, y);
      if (hit !== this.hover) { this.hover = hit; this.draw(); }
      showTip(hit < 0 ? null : this.describe(this.plan.buffers[hit]), e.clientX, e.clientY);
    });
    c.addEventListener("pointerup", e => {
      const [x, y] = at(e);
      if (drag && !drag.moved) { this.choose(this.at(x, y)); this.atStep(Math.floor(this.toStep(x))); }
      drag = null;
    });
    c.addEventListener("pointerleave", () => { this.hover = -1; showTip(null); this.draw(); });
    c.addEventListener("dblclick", e => { const hit = this.at(...at(e)); if (hit >= 0) this.fit(hit); else this.reset(); });
    this.live.addEventListener("pointermove", e => {
      const r = this.live.getBoundingClientRect(), s = Math.floor(this.toStep(e.clientX - r.left));
      const here = this.plan.steps[s];
      showTip(here ? [stepText(this.plan, s), "alive: " + bytes(here.live) + " (" + exactly(here.live) + ")", "of the lower bound: " + percent(here.live, this.plan.lower_bound_bytes)] : null, e.clientX, e.clientY);
    });
    this.live.addEventListener("pointerleave", () => showTip(null));
    this.live.addEventListener("click", e => this.atStep(Math.floor(this.toStep(e.clientX - this.live.getBoundingClientRect().left))));
    c.addEventListener("keydown", e => {
      const keys = {"+": () => this.zoom(0.8, 0.8), "=": () => this.zoom(0.8, 0.8), "-": () => this.zoom(1.25, 1.25), "0": () => this.reset(),
        ArrowRight: () => this.go(1, 0, e), ArrowLeft: () => this.go(-1, 0, e), ArrowUp: () => this.go(0, 1, e), ArrowDown: () => this.go(0, -1, e),
        Enter: () => this.chosen >= 0 && this.fit(this.chosen), Escape: () => { this.choose(-1); showTip(null); }, p: () => this.atStep(Math.max(0, this.plan.peak_step))};
      if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
  }
  // go moves the choice to the neighbour in time (dx) or address (dy); with shift it moves the view.
  go(dx, dy, e) {
    const v = this.view;
    if (e.shiftKey) return this.pan({...v}, dx * 0.1 * (v.x1 - v.x0), dy * 0.1 * (v.y1 - v.y0));
    const list = this.plan.buffers.filter(b => b.bytes > 0);
    if (!list.length) return;
    const from = this.plan.buffers[this.chosen];
    if (!from) return this.choose((list.find(b => b.first <= this.step && this.step <= b.last) || list[0]).index, true);
    let near;
    if (dx) {
      list.sort((a, b) => a.first - b.first || a.at - b.at);
      near = list[clamp(list.indexOf(from) + dx, 0, list.length - 1)];
    } else {
      const meets = list.filter(b => b.first <= from.last && from.first <= b.last && (dy > 0 ? b.at > from.at : b.at < from.at));
      near = meets.sort((a, b) => dy * (a.at - b.at))[0] || from;
    }
    this.choose(near.index, true);
  }
  choose(i, show) {
    this.chosen = i;
    const b = this.plan.buffers[i];
    this.said.textContent = b ? this.describe(b).join(" · ") : "";
    if (b && show) {
      const v = this.view, w = v.x1 - v.x0, h = v.y1 - v.y0;
      if (b.last + 1 < v.x0 || b.first > v.x1) this.view.x0 = clamp(b.first - w / 2, 0, Math.max(0, this.scale.steps - w)), this.view.x1 = this.view.x0 + w;
      if (b.at + b.bytes < v.y0 || b.at > v.y1) this.view.y0 = clamp(b.at - h / 2, 0, Math.max(0, this.scale.bytes - h)), this.view.y1 = this.view.y0 + h;
    }
    this.draw();
  }
  atStep(s) { this.step = clamp(s, 0, Math.max(0, this.plan.steps.length - 1)); this.why(); this.draw(); }
  fit(i) {
    const b = this.plan.buffers[i], mx = Math.max(1, (b.last - b.first + 1) * 0.6), my = b.bytes * 1.2;
    this.pan({x0: b.first - mx, x1: b.last + 1 + mx, y0: b.at - my, y1: b.at + b.bytes + my}, 0, 0);
  }
  zoom(fx, fy, x, y) {
    const v = this.view;
    if (x === undefined) {
      const b = this.plan.buffers[this.chosen];
      x = b ? (b.first + b.last + 1) / 2 : (v.x0 + v.x1) / 2; y = b ? b.at + b.bytes / 2 : (v.y0 + v.y1) / 2;
    }
    this.pan({x0: x - (x - v.x0) * fx, x1: x + (v.x1 - x) * fx, y0: y - (y - v.y0) * fy, y1: y + (v.y1 - y) * fy}, 0, 0);
  }
  // pan shows a view moved by so much, within all there is.
  pan(v, dx, dy) {
    const a = this.all(), w = clamp(v.x1 - v.x0, Math.min(2, a.x1), a.x1), h = clamp(v.y1 - v.y0, Math.min(64, a.y1), a.y1);
    const x0 = clamp((v.x0 + v.x1 - w) / 2 + dx, 0, a.x1 - w), y0 = clamp((v.y0 + v.y1 - h) / 2 + dy, 0, a.y1 - h);
    this.view = {x0, x1: x0 + w, y0, y1: y0 + h};
    this.draw();
  }
  toStep(x) { return this.view.x0 + (x - this.plot.x) / this.plot.w * (this.view.x1 - this.view.x0); }
  toByte(y) { return this.view.y1 - (y - this.plot.y) / this.plot.h * (this.view.y1 - this.view.y0); }
  X(s) { return this.plot.x + (s - this.view.x0) / (this.view.x1 - this.view.x0) * this.plot.w; }
  Y(b) { return this.plot.y + (this.view.y1 - b) / (this.view.y1 - this.view.y0) * this.plot.h; }
  // at is the topmost buffer at a place: what is computed in another's place is above it.
  at(x, y) {
    const s = this.toStep(x), a = this.toByte(y);
    for (let i = this.plan.buffers.length - 1; i >= 0; i--) {
      const b = this.plan.buffers[i];
      if (b.bytes > 0 && s >= b.first && s < b.last + 1 && a >= b.at && a < b.at + b.bytes) return i;
    }
    return -1;
  }
  describe(b) {
    const p = this.plan, lines = [title(b), typed(b) + ", " + bytes(b.bytes) + " (" + exactly(b.bytes) + ")",
      "at byte " + b.offset.toLocaleString("en") + " of " + p.storages[b.storage].name + ", to " + (b.offset + b.bytes).toLocaleString("en"),
      "from " + stepText(p, b.first), "to " + stepText(p, b.last)];
    if (b.over) lines.push("computed in place of " + b.over.map(i => title(p.buffers[i])).join(", "));
    if (b.parts) lines.push("holds " + b.parts.slice(0, 6).join(", ") + (b.parts.length > 6 ? " and " + (b.parts.length - 6) + " more" : ""));
    if (this.entry.savings) for (const s of this.entry.savings) if (s.tensor === b.tensor) lines.push("budget: " + s.text);
    if (p.actual) lines.push(b.reached < 0 ? "in the watched run: not used" : "in the watched run: reached to byte " + b.reached.toLocaleString("en") + (b.reached === b.bytes ? ", its last" : " of " + b.bytes.toLocaleString("en")));
    return lines;
  }
  size(c) {
    const r = c.getBoundingClientRect(), d = window.devicePixelRatio || 1, w = Math.max(1, Math.round(r.width * d)), h = Math.max(1, Math.round(r.height * d));
    if (c.width !== w || c.height !== h) { c.width = w; c.height = h; }
    const g = c.getContext("2d");
    g.setTransform(d, 0, 0, d, 0, 0);
    g.clearRect(0, 0, r.width, r.height);
    g.font = "11px system-ui, sans-serif"; g.textBaseline = "middle";
    return [g, r.width, r.height];
  }
  draw() {
    if (!this.view) this.view = this.all();
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.paint(); });
  }
  paint() {
    const [g, w, h] = this.size(this.map), p = this.plan, v = this.view;
    this.plot = {x: 74, y: 20, w: Math.max(10, w - 82), h: Math.max(10, h - 28)};
    const c = {ink: color("--ink"), soft: color("--soft"), grid: color("--grid"), card: color("--card"), bound: color("--bound"), peak: color("--peak"), select: color("--select")};
    const fill = palette(this.scale.classes), inks = new Map([...fill].map(([k, v]) => [k, inkOn(v)])), classOf = b => nameOfClass(ways[shared.way](b, p));
    this.text = new Text(g, {x: this.plot.x, y: 0, w: this.plot.w, h});
    g.textAlign = "right";
    for (const t of ticks(v.y0, v.y1, Math.max(2, this.plot.h / 44), true)) {
      g.fillStyle = c.grid; g.fillRect(this.plot.x, Math.round(this.Y(t)), this.plot.w, 1);
      g.fillStyle = c.soft; g.fillText(bytes(t), this.plot.x - 6, this.Y(t));
    }
    g.save(); g.beginPath(); g.rect(this.plot.x, 0, this.plot.w, h); g.clip();
    const seen = p.buffers.filter(b => b.bytes > 0 && b.last + 1 >= v.x0 && b.first <= v.x1 && b.at + b.bytes >= v.y0 && b.at <= v.y1);
    g.save(); g.beginPath(); g.rect(this.plot.x, this.plot.y, this.plot.w, this.plot.h); g.clip();
    for (const b of seen) this.rectangle(g, b, fill.get(classOf(b)), c.card);
    g.restore();
    for (const b of seen) if (!shared.search || matches(b)) this.name(b, inks.get(classOf(b)));
    for (const i of this.order) { // what each storage is, where it ends
      const s = p.storages[i], y = this.Y(this.base[i] + s.bytes), low = this.Y(this.base[i]);
      if (y < this.plot.y - 1 || y > this.plot.y + this.plot.h) continue;
      this.text.beside(s.name + " " + bytes(s.bytes) + (s.kind === "spill" ? ", a file" : ""), this.plot.x + 5, low - y < 18 ? [y - 9, y + 10] : [y + 10, y - 9], c.soft, c.card);
    }
    const peakX = this.X(p.peak_step + 0.5), boundY = this.Y(p.lower_bound_bytes);
    if (p.peak_step >= 0 && this.within(peakX)) this.text.beside("peak", peakX + 5, [10, 24], c.peak, c.card, peakX - 5);
    if (p.arena_bytes > 0 && boundY >= this.plot.y) {
      const text = "lower bound " + bytes(p.lower_bound_bytes), end = this.plot.x + this.plot.w - 6;
      for (const x of [end, end - this.plot.w / 3, end - this.plot.w / 2]) if (this.text.beside(text, x - g.measureText(text).width, [boundY + 10, boundY - 9], c.bound, c.card)) break;
    }
    this.savings(g, c);
    // Lines are drawn last, and leave out what is written.
    for (const i of this.order) this.text.across(this.Y(this.base[i] + p.storages[i].bytes), this.plot, c.soft, 1, []);
    if (p.arena_bytes > 0) this.text.across(boundY, this.plot, c.bound, 1.5, [7, 4]);
    if (p.peak_step >= 0) this.text.down(peakX, this.plot, c.peak, 1.5, []);
    if (this.step !== p.peak_step && this.step < p.steps.length) this.text.down(this.X(this.step + 0.5), this.plot, c.soft, 1.5, [2, 3]);
    for (const a of (p.actual && p.actual.outside) || []) { g.strokeStyle = color("--bad"); g.lineWidth = 2; const at = (this.base[a.storage] || 0) + a.offset; g.strokeRect(this.X(a.step), this.Y(at + a.bytes), Math.max(2, this.X(a.step + 1) - this.X(a.step)), Math.max(2, this.Y(at) - this.Y(at + a.bytes))); }
    for (const [i, wide] of [[this.chosen, 2.5], [this.hover, 1.5]]) {
      const b = p.buffers[i];
      if (b) { const [x, y, bw, bh] = this.box(b, 2); g.strokeStyle = c.select; g.lineWidth = wide; g.strokeRect(x, y, bw, bh); }
    }
    g.restore();
    Object.assign(this.map.dataset, {inks: [...fill].map(([k, v]) => v + " " + inks.get(k)).join(","), drawn: seen.length, x0: v.x0, x1: v.x1, y0: v.y0, y1: v.y1, chosen: this.chosen, written: JSON.stringify(this.text.written), lines: JSON.stringify(this.text.lines)});
    this.paintLive(c);
  }
  within(x) { return x >= this.plot.x && x <= this.plot.x + this.plot.w; }
  // box is a buffer's rectangle on the canvas, at least so many pixels wide and high.
  box(b, least) {
    const x = this.X(b.first), y = this.Y(b.at + b.bytes);
    return [x, y, Math.max(least, this.X(b.last + 1) - x), Math.max(least, this.Y(b.at) - y)];
  }
  // rectangle draws a buffer. The steps at which it and one whose place it takes are both alive are hatched.
  rectangle(g, b, fill, paper) {
    const [x, y, bw, bh] = this.box(b, 1), found = !shared.search || matches(b);
    g.globalAlpha = found ? 1 : 0.13;
    g.fillStyle = fill; g.fillRect(x, y, bw, bh);
    if (bw > 3 && bh > 3) { g.strokeStyle = paper; g.lineWidth = 1; g.strokeRect(x + 0.5, y + 0.5, bw - 1, bh - 1); }
    for (const i of b.over || []) {
      const o = this.plan.buffers[i], x0 = Math.max(x, this.X(o.first)), x1 = Math.min(x + bw, this.X(o.last + 1)), y0 = Math.max(y, this.Y(o.at + o.bytes)), y1 = Math.min(y + bh, this.Y(o.at));
      if (o.storage !== b.storage || x1 - x0 < 3 || y1 - y0 < 3) continue;
      g.save(); g.beginPath(); g.rect(x0, y0, x1 - x0, y1 - y0); g.clip();
      g.strokeStyle = paper; g.lineWidth = 1.2; g.beginPath();
      for (let at = -(y1 - y0); at < x1 - x0; at += 7) { g.moveTo(x0 + at, y1); g.lineTo(x0 + at + y1 - y0, y0); }
      g.stroke(); g.restore();
    }
    g.globalAlpha = 1;
  }
  // name writes a buffer's name into what is seen of its rectangle beside the peak's line, upwards if that is narrow and tall.
  name(b, ink) {
    const q = this.plot, p = this.plan, [x, y, bw, bh] = this.box(b, 1), top = Math.max(y, q.y), bottom = Math.min(y + bh, q.y + q.h);
    let left = Math.max(x, q.x), right = Math.min(x + bw, this.X(b.alone), q.x + q.w);
    for (const i of b.over || []) if (p.buffers[i].last < b.last) left = Math.max(left, this.X(p.buffers[i].last + 1)); // the hatched part
    for (const s of [p.peak_step, this.step]) {
      const at = this.X(s + 0.5);
      if (s >= 0 && at > left && at < right) { if (at - left >= right - at) right = at - 2; else left = at + 2; }
    }
    const text = title(b), need = this.text.width(text), wide = right - left - 7, tall = bottom - top - 7;
    if (tall > 6 && wide > 30 && (need <= wide || wide >= tall)) this.text.into(text, left + 4, (top + bottom) / 2, wide, ink);
    else if (tall > 30 && right - left > 12) this.text.upwards(text, left + Math.min((right - left) / 2, 11), bottom - 4, tall, ink);
  }
  // savings draws what the budget changed: a dashed line while a saved tensor is away, between two of its rectangles.
  savings(g, c) {
    const away = [];
    for (const s of this.entry.savings || []) {
      const list = this.plan.buffers.filter(b => b.tensor && b.tensor === s.tensor).sort((a, b) => a.first - b.first), middle = b => this.Y(b.at + b.bytes / 2);
      for (let i = 1; i < list.length; i++) away.push([s.kind, this.X(list[i - 1].last + 1), middle(list[i - 1]), this.X(list[i].first), middle(list[i])]);
    }
    for (const [kind, , , x, y] of away) this.text.beside(kind, x - 40, [y, y - 14, y + 14], c.ink, c.card);
    g.strokeStyle = c.ink; g.setLineDash([3, 3]); g.lineWidth = 1;
    for (const [, ...ends] of away) line(g, ...ends);
    g.setLineDash([]);
  }
  paintLive(c) {
    const [g, , h] = this.size(this.live), p = this.plan, v = this.view, bottom = h - 20, head = 18, top = Math.max(this.scale.live, 1);
    const Y = b => bottom - b / top * (bottom - head), text = new Text(g, {x: this.plot.x, y: 0, w: this.plot.w, h}), area = {x: this.plot.x, y: 0, w: this.plot.w, h: bottom};
    g.textAlign = "right"; g.fillStyle = c.soft;
    for (const t of ticks(0, top, 2, true)) { g.fillStyle = c.grid; g.fillRect(this.plot.x, Y(t), this.plot.w, 1); g.fillStyle = c.soft; g.fillText(bytes(t), this.plot.x - 6, Math.min(Y(t), bottom - 4)); }
    g.save(); g.beginPath(); g.rect(this.plot.x, 0, this.plot.w, h); g.clip();
    g.beginPath(); g.moveTo(this.X(Math.floor(v.x0)), bottom);
    const first = Math.max(0, Math.floor(v.x0)), last = Math.min(p.steps.length, Math.ceil(v.x1));
    for (let s = first; s < last; s++) { g.lineTo(this.X(s), Y(p.steps[s].live)); g.lineTo(this.X(s + 1), Y(p.steps[s].live)); }
    g.lineTo(this.X(last), bottom); g.closePath();
    g.fillStyle = color("--arena"); g.fill();
    const x = this.X(p.peak_step + 0.5);
    if (p.peak_step >= 0 && this.within(x) && !text.beside("peak: step " + stepNumber(p, p.peak_step) + ", " + bytes(p.steps[p.peak_step].live) + " alive", x + 5, [8], c.peak, c.card, x - 5)) text.beside("peak", x + 5, [8], c.peak, c.card, x - 5);
    text.across(Y(p.lower_bound_bytes), area, c.bound, 1.5, [7, 4]);
    if (p.peak_step >= 0) text.down(x, area, c.peak, 1.5, []);
    g.restore();
    g.textAlign = "center"; g.fillStyle = c.soft;
    for (const t of ticks(v.x0, v.x1, Math.max(2, this.plot.w / 90))) if (t < p.steps.length) {
      const number = stepNumber(p, t), half = g.measureText(number).width / 2;
      g.fillText(number, clamp(this.X(t + 0.5), this.plot.x + half, this.plot.x + this.plot.w - half), h - 9);
    }
    g.textAlign = "right"; g.fillText("step", this.plot.x - 6, h - 9);
    Object.assign(this.live.dataset, {written: JSON.stringify(text.written), lines: JSON.stringify(text.lines)});
  }
  why() {
    const p = this.plan, s = this.step, step = p.steps[s], into = this.panel;
    if (!into) return;
    into.replaceChildren();
    if (!step) { into.append(make("p", null, "The run has no steps.")); return; }
    const alive = p.buffers.filter(b => b.first <= s && s <= b.last && b.bytes > 0 && p.storages[b.storage].kind === "arena").sort((a, b) => b.bytes - a.bytes);
    const sum = alive.reduce((n, b) => n + b.bytes, 0), body = make("tbody");
    for (const b of alive) {
      const name = make("td", {className: "name"}, title(b), b.over ? make("span", {className: "soft"}, " in place of " + b.over.map(i => title(p.buffers[i])).join(", ")) : null);
      const row = make("tr", {className: "hit", tabIndex: 0}, name, make("td", {className: "number", title: exactly(b.bytes)}, bytes(b.bytes)),
        make("td", {className: "number"}, make("span", {className: "share", style: {background: colorOf(nameOfClass(ways[shared.way](b, p))), width: clamp(60 * b.bytes / Math.max(1, step.live), 0, 60) + "px"}}), percent(b.bytes, step.live)));
      row.onclick = () => this.choose(b.index, true);
      row.onkeydown = e => { if (e.key === "Enter") this.choose(b.index, true); };
      body.append(row);
    }
    into.append(make("h2", null, s === p.peak_step ? "Why this peak" : "Why this much"),
      make("p", null, folded(stepText(p, s), ""), make("br"), bytes(step.live) + " alive in the arena (" + exactly(step.live) + ")",
        s === p.peak_step ? ": the lower bound" + (step.live < p.lower_bound_bytes ? " less " + bytes(p.lower_bound_bytes - step.live) + " that alignment takes" : "") + "." : ", " + percent(step.live, p.lower_bound_bytes) + " of the lower bound."),
      alive.length ? make("div", {className: "scroll"}, make("table", {className: "alive"}, make("thead", null, make("tr", null, make("th", null, "alive"), make("th", {className: "number"}, "bytes"), make("th", {className: "number"}, "share"))), body)) : make("p", {className: "soft"}, "Nothing of the arena is alive."));
    if (sum > step.live) into.append(make("p", {className: "soft"}, bytes(sum - step.live) + " of these lie in one another's place, and count once."));
    if (s !== p.peak_step && p.peak_step >= 0) { const b = make("button", {type: "button"}, "show the peak"); b.onclick = () => this.atStep(p.peak_step); into.append(b); }
  }
}

function line(g, x0, y0, x1, y1) { g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke(); }
// Text writes onto a canvas what covers nothing that is written there, and draws lines around it.
class Text {
  constructor(g, area) { this.g = g; this.area = area; this.written = []; this.lines = []; }
  width(text) { return this.g.measureText(text).width; }
  // free takes a place, if nothing is written there and it lies within the area.
  free(x, y, w, h) {
    const a = this.area;
    if (x < a.x || y < a.y || x + w > a.x + a.w || y + h > a.y + a.h || this.written.some(([p, q, r, s]) => p < x + w && x < p + r && q < y + h && y < q + s)) return false;
    this.written.push([x, y, w, h]);
    return true;
  }
  into(text, x, y, room, ink) {
    const short = fitted(this.g, text, room);
    if (!short || !this.free(x - 1, y - 7, this.width(short) + 2, 14)) return;
    this.g.textAlign = "left"; this.g.fillStyle = ink; this.g.fillText(short, x, y);
  }
  upwards(text, x, y, room, ink) {
    const g = this.g, short = fitted(g, text, room), long = this.width(short);
    if (!short || !this.free(x - 6, y - long, 12, long)) return;
    g.save(); g.translate(x, y); g.rotate(-Math.PI / 2); g.textAlign = "left"; g.fillStyle = ink; g.fillText(short, 0, 0); g.restore();
  }
  // beside writes a label at the first of the heights that is free, from x on, or up to end.
  beside(text, x, heights, ink, paper, end) {
    const w = this.width(text);
    for (const left of end === undefined ? [x] : [x, end - w]) for (const y of heights) {
      if (!this.free(left - 3, y - 7, w + 6, 14)) continue;
      this.g.globalAlpha = 0.85; this.g.fillStyle = paper; this.g.fillRect(left - 3, y - 7, w + 6, 14);
      this.g.globalAlpha = 1; this.g.textAlign = "left"; this.g.fillStyle = ink; this.g.fillText(text, left, y);
      return true;
    }
    return false;
  }
  across(y, plot, ink, wide, dash) { if (y >= plot.y - 1 && y <= plot.y + plot.h) this.around(plot.x, plot.x + plot.w, this.written.filter(r => r[1] < y + 1 && y - 1 < r[1] + r[3]).map(r => [r[0], r[0] + r[2]]), (a, b) => [a, y, b, y], ink, wide, dash); }
  down(x, plot, ink, wide, dash) { if (x >= plot.x && x <= plot.x + plot.w) this.around(plot.y, plot.y + plot.h, this.written.filter(r => r[0] < x + 1 && x - 1 < r[0] + r[2]).map(r => [r[1], r[1] + r[3]]), (a, b) => [x, a, x, b], ink, wide, dash); }
  // around draws a line from a to b without the spans that are taken.
  around(a, b, taken, ends, ink, wide, dash) {
    const g = this.g;
    g.strokeStyle = ink; g.lineWidth = wide; g.setLineDash(dash);
    for (const [from, to] of taken.sort((p, q) => p[0] - q[0]).concat([[b, b]])) {
      if (from > a) { const l = ends(a, from); this.lines.push(l); line(g, ...l); }
      a = Math.max(a, to);
    }
    g.setLineDash([]);
  }
}
function fitted(g, text, room) {
  if (g.measureText(text).width <= room) return text;
  let n = Math.min(text.length, Math.ceil(room / 3));
  while (n > 1 && g.measureText(text.slice(0, n) + "…").width > room) n = Math.floor(n * 0.85);
  return n > 1 ? text.slice(0, n) + "…" : "";
}
// ticks are round numbers between lo and hi, about so many; in bytes they are powers of two times 1, or 5 of them.
function ticks(lo, hi, count, inBytes) {
  const raw = Math.max((hi - lo) / count, 1), unit = Math.pow(inBytes ? 2 : 10, Math.floor(Math.log(raw) / Math.log(inBytes ? 2 : 10)));
  let by = unit;
  for (const f of inBytes ? [1, 2] : [1, 2, 5, 10]) if (unit * f <= raw || f === 1) by = unit * f;
  if (by < raw) by *= 2;
  by = Math.max(1, by);
  const list = [];
  for (let t = Math.ceil(lo / by) * by; t <= hi && list.length < 100; t += by) list.push(t);
  return list;
}
// colorOf is the colour of a class, as CSS says it.
function colorOf(name) { return "var(" + variable(name) + ")"; }
function variable(name) { const i = scale.classes.indexOf(name); return i < 0 || i >= most ? "--other" : (ordered[shared.way] ? "--o" : "--c") + i; }
function nameOfClass(name) { const i = scale.classes.indexOf(name); return i >= 0 && i < most ? name : "other"; }
function palette(classes) { return new Map(classes.slice(0, most).concat(["other"]).map(c => [c, color(variable(c))])); }
// inkOn is what is easier to read on a colour, #rrggbb: dark or white.
function inkOn(hex) {
  const v = parseInt(hex.slice(1), 16), bright = [v >> 16 & 255, v >> 8 & 255, v & 255].reduce((sum, c, i) => sum + [0.2126, 0.7152, 0.0722][i] * Math.pow(c / 255, 2.2), 0);
  return bright > 0.2 ? "#16171a" : "#ffffff";
}
function matches(b) { const q = shared.search; return title(b).toLowerCase().includes(q) || b.name.toLowerCase().includes(q) || (b.parts || []).some(n => n.toLowerCase().includes(q)); }
function showTip(lines, x, y) {
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(make("b", null, lines[0]), ...lines.slice(1).map(l => make("div", null, l)));
  const r = tip.getBoundingClientRect();
  tip.style.left = clamp(x + 16, 4, Math.max(4, innerWidth - r.width - 8)) + "px";
  tip.style.top = clamp(y + r.height + 28 > innerHeight ? y - r.height - 12 : y + 18, 4, Math.max(4, innerHeight - r.height - 8)) + "px";
}

// folded is a formula, a long one behind its beginning.
function folded(text, className = "mono") {
  return text.length < 140 ? make("span", {className}, text) : make("details", {className}, make("summary", null, text.slice(0, 60) + "…"), text);
}

// terms are the sum's: name, bytes, formula.
function terms(entry) {
  const p = entry.plan, f = entry.formulas;
  const list = [["weights", p.weights_bytes, ""], ["code", p.code_bytes, ""], ["arena", p.calls * p.arena_bytes, f.arena], ["outputs", p.calls * p.outputs_bytes, f.outputs], ["scratch", p.calls * p.workers * p.scratch_bytes, f.scratch]];
  return entry.table ? list.filter(t => t[0] === "arena") : list;
}
const dot = paper => make("span", {className: "dot", style: {background: paper}});

const sizesOf = plan => Object.entries(plan.dims).map(([k, v]) => k + " = " + v);

// sum is the peak as one bar of its terms.
function sum(entry) {
  const p = entry.plan, sizes = sizesOf(p), dims = sizes.slice(0, 3).join(", ") + (sizes.length > 3 ? " and " + many(sizes.length - 3, "more size") : ""), list = terms(entry);
  const bar = make("div", {className: "sum", role: "img", "aria-label": list.map(t => t[0] + " " + bytes(t[1])).join(", ")});
  for (const [name, n] of list) if (n > 0) bar.append(make("span", {title: name + " " + bytes(n), style: {flexGrow: String(n), background: "var(--" + name + ")"}}));
  return make("section", {className: "card head"},
    make("div", {className: "row"}, make("span", {className: "big", title: exactly(p.peak_bytes)}, bytes(p.peak_bytes)), make("span", null, "peak" + (data.plans.length > 1 ? " of " + entry.name : "") + ", " + exactly(p.peak_bytes) + (dims ? ", at " + dims : "")),
      make("span", {className: "legend"}, ...list.map(([name, n]) => make("span", null, dot("var(--" + name + ")"), name + " " + bytes(n))))), bar);
}

// certificate is the card with the whole sum.
function certificate(entry) {
  const p = entry.plan;
  const each = {arena: p.arena_bytes, outputs: p.outputs_bytes, scratch: p.scratch_bytes}, times = {arena: p.calls, outputs: p.calls, scratch: p.calls * p.workers};
  const body = make("tbody");
  for (const [name, n, formula] of terms(entry)) {
    const how = times[name] > 1 ? bytes(each[name]) + " × " + (name === "scratch" ? many(p.calls, "call") + " × " + many(p.workers, "worker") : many(p.calls, "call")) : "";
    body.append(make("tr", null, make("td", null, dot("var(--" + name + ")"), name), make("td", {className: "number", title: exactly(n)}, bytes(n)), make("td", {className: "number"}, percent(n, p.peak_bytes)),
      make("td", {className: "soft mono"}, how, how ? make("br") : null, formula && /[a-z]/i.test(formula) ? folded(formula) : null)));
  }
  const gap = p.arena_bytes - p.least_bytes, refuted = p.least_bytes > p.lower_bound_bytes;
  const card = make("section", {className: "card certificate"}, make("h2", null, "The certificate" + (data.plans.length > 1 ? " of " + entry.name : "")),
    sizesOf(p).length > 3 ? make("p", {className: "soft"}, "At ", folded(sizesOf(p).join(", "), "")) : null,
    make("table", null, body),
    entry.table ? null : make("p", {className: "soft"}, "peak = weights + code + calls × (arena + outputs + workers × scratch)", entry.formulas.peak && /[a-z]/i.test(entry.formulas.peak) ? folded(" = " + entry.formulas.peak) : null),
    make("p", null, "Lower bound of the arena: " + bytes(p.lower_bound_bytes) + (refuted ? ", and a search refuted all below " + bytes(p.least_bytes) : "") + ". ", gap === 0 ? make("span", {className: "good"}, entry.table ? "The plan reaches it: no plan of these buffers is smaller." : p.proven ? "The plan reaches it, for every size: no plan of this arena is smaller." : "The plan reaches it here: no plan of this arena is smaller.") : "The plan is " + percent(gap, p.least_bytes) + " (" + bytes(gap) + ") above it."));
  for (const n of entry.notes || []) card.append(make("p", {className: "soft"}, n));
  return card;
}

// actual says whether the watched run did what was planned.
function actual(entry) {
  const p = entry.plan, a = p.actual;
  if (!a) return null;
  const outside = (a.outside || []).length, short = (a.short || []).length, ok = outside + short === 0;
  const card = make("section", {className: "card actual"}, make("h2", null, "Plan against actual"),
    make("p", {className: ok ? "good" : "bad"}, ok ? "Equal: " + a.ranges.toLocaleString("en") + " operand ranges that launches received lie in the buffers alive at their steps, and each buffer was reached to its last byte." : outside + " operand ranges lie outside the buffers alive at their steps (marked); " + short + " buffers were not reached to their last byte."));
  if (a.unused) card.append(make("p", {className: "soft"}, a.unused + " buffers belong to branches or loops that this run did not enter."));
  const body = make("tbody");
  for (const [name, plan, real] of [["weights", p.weights_bytes, a.weights_bytes], ["arena", p.arena_bytes, a.arena_bytes], ["outputs", p.outputs_bytes, a.outputs_bytes], ["scratch of a worker", p.scratch_bytes, a.scratch_bytes]])
    body.append(make("tr", null, make("td", null, name), make("td", {className: "number"}, exactly(plan)), make("td", {className: "number"}, exactly(real)), make("td", {className: plan === real ? "good" : "soft"}, plan === real ? "equal" : exactly(real - plan))));
  card.append(make("table", null, make("thead", null, make("tr", null, make("th", null, ""), make("th", {className: "number"}, "planned"), make("th", {className: "number"}, "received"), make("th", null, ""))), body));
  return card;
}

function savings(entry) {
  if (!(entry.savings || []).length) return null;
  return make("section", {className: "card savings"}, make("h2", null, "What the budget changed"), make("ol", null, ...entry.savings.map(s => make("li", null, s.text))));
}

// conditions is what a run's sizes must keep to.
function conditions(entry) {
  const list = entry.requires || [];
  if (!list.length) return null;
  return make("section", {className: "card conditions"}, make("h2", null, "What a run must keep to"),
    make("p", {className: "soft"}, "Checked when it begins, before any kernel; what the data decide, when they have."),
    make("div", {className: "scroll"}, make("table", null, make("tbody", null, ...list.map(r => make("tr", null, make("td", {className: "mono"}, r.condition), make("td", {className: "soft"}, "from " + r.from)))))));
}

// buffers is the table of all, sorted by a click on a column's head.
function buffers(chart) {
  const p = chart.plan, columns = [["tensor", b => title(b)], ["type", b => typed(b)], ["bytes", b => b.bytes, 1], ["offset", b => b.offset, 1], ["in", b => p.storages[b.storage].name], ["first step", b => b.first, 1], ["last step", b => b.last, 1]];
  const body = make("tbody"), head = make("tr"), listed = 2000;
  let by = 2, up = false;
  const fill = () => {
    body.replaceChildren();
    const f = columns[by][1], list = p.buffers.filter(b => !shared.search || matches(b)).sort((a, b) => (f(a) < f(b) ? -1 : f(a) > f(b) ? 1 : a.index - b.index) * (up ? 1 : -1));
    for (const b of list.slice(0, listed)) {
      const row = make("tr", {className: "hit", tabIndex: 0}, ...columns.map(([, get, n]) => make("td", {className: n ? "number" : "name"}, n ? get(b).toLocaleString("en") : get(b))));
      row.onclick = () => { chart.choose(b.index, true); chart.map.scrollIntoView({block: "nearest"}); };
      row.onkeydown = e => { if (e.key === "Enter") row.onclick(); };
      body.append(row);
    }
    count.textContent = list.length + (shared.search ? " of " + p.buffers.length : "") + " buffers" + (list.length > listed ? ", the first " + listed + " listed" : "");
  };
  columns.forEach(([name, , n], i) => {
    const b = make("button", {type: "button"}, name);
    b.onclick = () => { up = by === i ? !up : !n; by = i; fill(); };
    head.append(make("th", {className: n ? "number" : ""}, b));
  });
  const count = make("summary"), box = make("details", {className: "card buffers"}, count, make("div", {className: "scroll"}, make("table", null, make("thead", null, head), body)));
  fill();
  return [box, fill];
}

// difference is the table of what differs between two plans.
function difference(d) {
  const sign = n => n === 0 ? "0" : (n > 0 ? "+" : "−") + bytes(Math.abs(n)), terms = make("tbody"), rows = make("tbody");
  for (const t of d.terms) terms.append(make("tr", null, make("td", null, t.term), make("td", {className: "number", title: exactly(t.first)}, bytes(t.first)), make("td", {className: "number", title: exactly(t.second)}, bytes(t.second)), make("td", {className: "number " + (t.second > t.first ? "bad" : t.second < t.first ? "good" : "soft")}, sign(t.second - t.first))));
  const where = b => b ? bytes(b.bytes) + " at " + b.offset.toLocaleString("en") + ", steps " + b.first + "–" + b.last : "–";
  for (const t of d.tensors.slice(0, 2000)) {
    const row = make("tr", {className: "hit"}, make("td", {className: "name"}, t.tensor), make("td", null, t.what.join(", ")), make("td", null, where(t.first)), make("td", null, where(t.second)));
    row.onclick = () => charts.forEach((c, k) => { const b = k ? t.second : t.first; c.choose(b ? b.buffer : -1, true); });
    rows.append(row);
  }
  const names = data.plans.map(p => p.name);
  return make("section", {className: "card difference"}, make("h2", null, "Differences"),
    make("table", null, make("thead", null, make("tr", null, make("th", null, ""), make("th", {className: "number"}, names[0]), make("th", {className: "number"}, names[1]), make("th", {className: "number"}, "difference"))), terms),
    make("p", {className: "soft"}, d.tensors.length + " tensors differ, " + d.same + " lie in the same place at the same size for as long; they are matched by the model's names."),
    d.tensors.length ? make("div", {className: "scroll"}, make("table", {className: "tensors"}, make("thead", null, make("tr", null, make("th", null, "tensor"), make("th", null, "what"), make("th", null, names[0]), make("th", null, names[1]))), rows)) : null);
}

// The scale is common to all plans on the page.
const scale = {gap: 0, steps: 1, bytes: 1, live: 1, classes: []};
scale.gap = Math.max(...data.plans.map(e => e.plan.storages.reduce((n, s) => n + s.bytes, 0)), 1) * 0.02;
const charts = data.plans.map(e => new Chart(e, scale));
for (const c of charts) {
  scale.steps = Math.max(scale.steps, c.plan.steps.length);
  scale.bytes = Math.max(scale.bytes, c.stacked);
  scale.live = Math.max(scale.live, c.plan.lower_bound_bytes, ...[0].concat(c.plan.steps.map(s => s.live)));
}
scale.bytes *= 1.05;

const legend = make("div", {className: "legend", role: "group", "aria-label": "what colours and lines mean"});
const stroke = (name, text) => make("span", null, make("span", {className: "stroke " + name}), text);
function classify() {
  const seen = new Set();
  for (const c of charts) for (const b of c.plan.buffers) if (b.bytes > 0) seen.add(ways[shared.way](b, c.plan));
  scale.classes = (fixed[shared.way] || []).concat([...seen].filter(s => !(fixed[shared.way] || []).includes(s)));
  const named = scale.classes.slice(0, most).filter(s => seen.has(s)), entries = named.map(s => make("span", null, dot(colorOf(s)), s));
  if (scale.classes.slice(most).some(s => seen.has(s))) entries.push(make("span", null, dot("var(--other)"), "other"));
  if (charts.some(c => c.plan.buffers.some(b => b.over))) entries.push(stroke("hatched", "one takes another's place"));
  legend.replaceChildren(...entries, stroke("peak", "peak"), stroke("bound", "lower bound"));
  charts.forEach(c => c.why());
}
const tables = charts.map(buffers), redraw = () => charts.forEach(c => c.draw());
const search = make("input", {type: "search", placeholder: "find a tensor (/)", "aria-label": "find a tensor by name"});
search.oninput = () => { shared.search = search.value.trim().toLowerCase(); tables.forEach(t => t[1]()); redraw(); };
search.onkeydown = e => {
  if (e.key !== "Enter" || !shared.search) return;
  for (const c of charts) { const b = c.plan.buffers.find(b => b.index > c.chosen && matches(b)) || c.plan.buffers.find(matches); if (b) c.choose(b.index, true); }
};
const way = make("select", {"aria-label": "colour by"}, ...Object.keys(ways).map(w => make("option", {value: w, selected: w === shared.way}, "colour by " + w)));
way.onchange = () => { shared.way = way.value; classify(); redraw(); };
const button = (text, name, f) => { const b = make("button", {type: "button", title: name, "aria-label": name}, text); b.onclick = f; return b; };
const help = make("details", {className: "help soft"}, make("summary", null, "keys"), make("p", null, "Address in bytes, upwards, by step. Wheel or ", make("kbd", null, "+"), " ", make("kbd", null, "−"), " zoom (shift: steps only, alt: bytes only), drag or shift and arrows move, click chooses, double click fits, ", make("kbd", null, "0"), " shows all; arrows go from buffer to buffer, ", make("kbd", null, "p"), " to the peak, ", make("kbd", null, "/"), " finds, ", make("kbd", null, "t"), " changes between dark and light."));
const tools = make("div", {className: "row tools"}, search, way, button("+", "zoom in", () => charts.forEach(c => c.zoom(0.7, 0.7))), button("−", "zoom out", () => charts.forEach(c => c.zoom(1 / 0.7, 1 / 0.7))), button("all", "show all", () => charts.forEach(c => c.reset())), help, legend);

for (const c of charts) c.panel = make("section", {className: "card why", "aria-label": "what is alive at the step"});
const beside = charts.map(c => [certificate(c.entry), actual(c.entry), conditions(c.entry), savings(c.entry)].filter(Boolean));
const heads = data.plans.map(sum), pictures = charts.map(c => make("section", {className: "card picture"}, charts.length > 1 ? make("h2", null, c.entry.name) : tools, c.body));
if (charts.length > 1) page.append(make("div", {className: "two"}, ...heads), make("section", {className: "card"}, tools), make("div", {className: "two"}, ...pictures));
else page.append(heads[0], make("div", {className: "first"}, pictures[0], charts[0].panel));
if (data.diff) page.append(difference(data.diff));
for (const [i, c] of charts.entries()) {
  if (charts.length > 1) page.append(make("h2", null, c.entry.name), make("div", {className: "columns"}, c.panel, make("div", null, ...beside[i])));
  else page.append(...beside[i]);
  page.append(tables[i][0]);
}
classify();
redraw();
new ResizeObserver(redraw).observe(page);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.getElementById("theme").onclick = () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  redraw();
};
document.addEventListener("keydown", e => {
  if (/^(INPUT|SELECT)$/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "/") { e.preventDefault(); search.focus(); }
  if (e.key === "t") document.getElementById("theme").onclick();
});
})();
