// Colours and scales shared by every figure.

const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkQuery.matches && !printing;

const styleOf = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
const FONT = () => getComputedStyle(document.body).fontFamily;

// Two tables of 256 colours: from paper to ink, and for dark pages from night to light. "Needed" always stands out most.
function colourIndex(share) {
  return 3 * (Math.max(0, Math.min(255, Math.round(255 * share))) + (isDark() ? 256 : 0));
}

function colour(share) {
  const table = bytes("colours");
  const i = colourIndex(share);
  return "rgb(" + table[i] + "," + table[i + 1] + "," + table[i + 2] + ")";
}

darkQuery.addEventListener("change", redrawAll);
window.addEventListener("beforeprint", () => {
  printing = true;
  redrawAll();
});
window.addEventListener("afterprint", () => {
  printing = false;
  redrawAll();
});

// Round numbers that cover [low, high] in about `count` steps.
function niceTicks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((m) => m * power >= rough - 1e-12);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++)
    ticks.push(+(i * step).toPrecision(12));
  return ticks;
}

// Every k-th position such that labels keep `least` pixels of distance.
function labelled(count, room, least) {
  const wanted = Math.max(1, Math.ceil((least * count) / Math.max(room, 1)));
  const every = [1, 2, 3, 4, 6, 8, 12, 24, 50, 100, 200, 500].find((k) => k >= wanted) || wanted;
  const positions = [];
  for (let i = 0; i < count; i += every) positions.push(i);
  return positions;
}

// Areas are often spaced by ratios; then their axis is logarithmic.
function scaleOf(low, high, from, to, logarithmic) {
  const f = logarithmic ? Math.log : (v) => v;
  const span = f(high) - f(low) || 1;
  return (v) => from + ((f(v) - f(low)) / span) * (to - from);
}

function canvasFor(width, height) {
  const ratio = Math.max(window.devicePixelRatio || 1, printing ? 2 : 1);
  const canvas = h("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return [canvas, pen];
}

function cut(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low).trimEnd() + "…";
}

// A mask as small as a stamp: greatest value of the cells under each pixel, channels down, time across.
function stamp(canvas, n) {
  const pen = canvas.getContext("2d");
  const { width, height } = canvas;
  const picture = pen.createImageData(width, height);
  const masks = bytes("masks");
  const table = bytes("colours");
  const end = endOf(n);
  for (let y = 0; y < height; y++) {
    const c0 = Math.floor((y * C) / height);
    const c1 = Math.max(c0 + 1, Math.floor(((y + 1) * C) / height));
    for (let x = 0; x < width; x++) {
      const t0 = Math.floor((x * T) / width);
      const t1 = Math.max(t0 + 1, Math.floor(((x + 1) * T) / width));
      if (t0 >= end) break; // the rest of the line stays transparent
      let peak = 0;
      for (let t = t0; t < t1; t++)
        for (let c = c0; c < c1; c++) peak = Math.max(peak, masks[cellOf(n, t, c)]);
      const i = colourIndex(peak / 255);
      const at = 4 * (y * width + x);
      picture.data.set([table[i], table[i + 1], table[i + 2], 255], at);
    }
  }
  pen.putImageData(picture, 0, 0);
}
