// Data, formatting and the few helpers that everything else is built from.
// Text from users reaches the page through textContent and setAttribute alone.

const D = JSON.parse(document.getElementById("report-data").textContent);
const [N, T, C] = D.shape;

const decoded = new Map();
function bytes(name) {
  if (!decoded.has(name)) {
    const holder = document.getElementById("blob-" + name);
    let array = null;
    if (holder) {
      const text = atob(holder.textContent);
      array = new Uint8Array(text.length);
      for (let i = 0; i < text.length; i++) array[i] = text.charCodeAt(i);
      holder.remove(); // the text is not needed twice
    }
    decoded.set(name, array);
  }
  return decoded.get(name);
}

const cellOf = (n, t, c) => (n * T + t) * C + c;
const maskAt = (n, t, c) => bytes("masks")[cellOf(n, t, c)] / 255;
const rankAt = (n, t, c) => bytes("ranks")[cellOf(n, t, c)];
const hasRanks = () => bytes("ranks") !== null;
const hasInputs = () => bytes("inputs") !== null;
const endOf = (n) => (D.lengths ? D.lengths[n] : T); // what follows is padding

function observedAt(n, t, c) {
  const bits = bytes("observed");
  if (!bits) return true;
  const i = cellOf(n, t, c);
  return (bits[i >> 3] & (128 >> (i & 7))) !== 0;
}

function inputAt(n, t, c) {
  if (t >= endOf(n)) return NaN;
  const raw = bytes("inputs");
  const i = 2 * cellOf(n, t, c);
  const step = raw[i] | (raw[i + 1] << 8);
  if (step === 65535) return NaN;
  const [low, high] = [D.ranges[0][c], D.ranges[1][c]];
  return low + (step / 65534) * (high - low);
}

// ---- text ----

// Extremes of lists that may be too long to spread into arguments.
const most = (list, start = -Infinity) => list.reduce((a, b) => (b > a ? b : a), start);
const least = (list, start = Infinity) => list.reduce((a, b) => (b < a ? b : a), start);

const finite = (v) => typeof v === "number" && Number.isFinite(v);

const minus = (text) => text.replace(/-/g, "−");

function number(v) {
  if (!finite(v)) return "–";
  const size = Math.abs(v);
  if (Number.isInteger(v) || (size >= 1000 && size < 1e6))
    return minus(Math.round(v).toLocaleString("en-US"));
  if (size < 0.001 || size >= 1e6) return minus(v.toExponential(1));
  return minus(v.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3));
}

function percent(v) {
  if (!finite(v)) return "–";
  const p = 100 * v;
  if (p > 0 && p < 0.005) return "< 0.01\u00a0%";
  const digits = p === 0 || p >= 9.95 ? 0 : p >= 0.95 ? 1 : 2;
  return p.toFixed(digits) + "\u00a0%"; // never parted from its number
}

// A probability is never said to be certain because it was rounded.
function chance(p) {
  return p < 0.0005 && p > 0 ? "< 0.001" : p >= 0.9995 && p < 1 ? "> 0.999" : finite(p) ? p.toFixed(3) : "–";
}

// Ticks need no trailing zeros, and have little room.
function tickNumber(v) {
  if (Math.abs(v) >= 1e5) return minus(v.toLocaleString("en-US", { notation: "compact" }));
  return Math.abs(v) >= 1000 || v === 0 ? number(v) : minus(String(+v.toPrecision(6)));
}
const tickPercent = (v) => String(+(100 * v).toPrecision(3)) + "\u00a0%";

// One number of digits for a column, so that its values can be compared at a glance.
function columnFormat(values, kind) {
  const size = most(values.filter(finite).map(Math.abs), 0);
  const whole = values.every((v) => !finite(v) || Number.isInteger(v));
  const digits = whole || size >= 1000 ? 0 : size >= 10 ? 1 : 3;
  return (v) => (kind === "number" && finite(v) ? minus(v.toFixed(digits)) : show(v, kind));
}

const show = (v, kind) =>
  kind === "flag" ? (v === null ? "–" : v ? "yes" : "no") : kind === "share" ? percent(v) : number(v);
const plural = (count, noun) => count.toLocaleString("en-US") + " " + noun + (count === 1 ? "" : "s");
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const atTime = (t) => D.unit + " " + D.times[t];

// ---- elements ----

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "text") node.textContent = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

let serial = 0;
const fresh = (stem) => stem + "-" + ++serial;

const live = document.getElementById("live");
const say = (text) => {
  live.textContent = text;
};

// ---- the one tooltip ----

const tip = document.getElementById("tip");

function showTip(title, lines, x, y) {
  tip.replaceChildren(
    h("strong", { text: title }),
    ...lines.filter(Boolean).map((line) => h("span", { text: line })),
  );
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const [width, height] = [document.documentElement.clientWidth, window.innerHeight];
  let [left, top] = [x + 14, y + 16];
  if (left + box.width > width - 6) left = Math.max(6, x - box.width - 14);
  if (top + box.height > height - 6) top = Math.max(6, y - box.height - 12);
  tip.style.left = left + "px";
  tip.style.top = top + "px";
}

function hideTip() {
  tip.hidden = true;
}

window.addEventListener("scroll", hideTip, true);

// ---- redrawing: when a figure's width, the theme or the medium changes ----

const figures = new Set();
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (!target.isConnected) {
      forget(target);
      continue;
    }
    const width = Math.floor(target.clientWidth);
    if (width > 0 && target.drawnWidth !== width) {
      target.drawnWidth = width;
      target.redraw(width);
    }
  }
});

function forget(node) {
  figures.delete(node);
  sizes.unobserve(node);
}

// A figure is an element with a function that draws it for a given width.
function figure(attributes, redraw) {
  const node = h("div", attributes);
  node.redraw = redraw.bind(null, node);
  figures.add(node);
  sizes.observe(node);
  return node;
}

function redraw(node) {
  const width = Math.floor(node.clientWidth);
  if (width > 0) {
    node.drawnWidth = width;
    node.redraw(width);
  }
}

function redrawAll() {
  for (const node of figures) {
    if (node.isConnected) redraw(node);
    else forget(node);
  }
}
