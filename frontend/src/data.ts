// The page's data: one JSON value, and bytes that are decoded when they are needed.

import type { Explained, Metric, Report, Summary } from "./types";

export const D: Report = JSON.parse(document.getElementById("report-data")?.textContent ?? "null");
export const [N, T, C] = D.shape;

const decoded = new Map<string, Uint8Array | null>();
export function bytes(name: string): Uint8Array | null {
  const known = decoded.get(name);
  if (known !== undefined) return known;
  const holder = document.getElementById("blob-" + name);
  let array: Uint8Array | null = null;
  if (holder) {
    const text = atob(holder.textContent ?? "");
    array = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) array[i] = text.charCodeAt(i);
    holder.remove(); // the text is not needed twice
  }
  decoded.set(name, array);
  return array;
}

function need(name: string): Uint8Array {
  const found = bytes(name);
  if (!found) throw new Error("Expected the part " + name + " in this page, but it is not there.");
  return found;
}

// ---- which target is in sight: 0 is the one that was evaluated, the others are views of the same instances ----

let shown = 0;
export const targetShown = () => shown;
export const showTarget = (place: number) => {
  shown = place;
};
const named = (name: string) => (shown ? name + "-" + shown : name);
export const explained = (): Explained | null => (shown ? D.views[shown - 1].explained : D.explained);
export const leadingOf = (n: number) => (shown ? D.views[shown - 1].leading[n] : D.leading[n]);

export const cellOf = (n: number, t: number, c: number) => (n * T + t) * C + c;
export const maskAt = (n: number, t: number, c: number) => need(named("masks"))[cellOf(n, t, c)] / 255;
export const rankAt = (n: number, t: number, c: number) => need(named("ranks"))[cellOf(n, t, c)];
export const hasRanks = () => bytes(named("ranks")) !== null;
export const hasInputs = () => bytes("inputs") !== null;
export const endOf = (n: number) => (D.lengths ? D.lengths[n] : T); // what follows is padding
export const colours = () => need("colours");
export const masks = () => need(named("masks"));
export const hasSigned = () => bytes(named("signed")) !== null;

// A signed 16-bit word, the i-th of a part, as a share of the greatest value of its instance.
function decode(part: Uint8Array, i: number, size: number | undefined): number {
  const code = ((part[2 * i] | (part[2 * i + 1] << 8)) << 16) >> 16;
  return Math.sign(code) * (code / 32767) ** 2 * (size ?? 0);
}

// What a cell added to the answer, in its units.
export const signedAt = (n: number, t: number, c: number): number =>
  decode(need(named("signed")), cellOf(n, t, c), explained()?.sizes[n]);

// What a channel added to the answer between one time of the course and the next.
export function moveAt(n: number, k: number, c: number): number {
  const points = D.course?.steps.length ?? 0;
  return decode(need("moves"), (n * points + k) * C + c, D.course?.sizes[n]);
}

// Standard deviation of a channel's contribution over the baselines, in the answer's units.
export function spreadAt(n: number, c: number): number {
  const stored = bytes(named("spread"));
  return stored ? decode(stored, n * C + c, explained()?.spreads?.[n]) : NaN;
}

const bitAt = (bits: Uint8Array, i: number) => (bits[i >> 3] & (128 >> (i & 7))) !== 0;

export function observedAt(n: number, t: number, c: number): boolean {
  const bits = bytes("observed");
  return !bits || bitAt(bits, cellOf(n, t, c));
}

// Whether a cell is in the mask; pages that do not say take those that are rather salient than not.
export function highlightedAt(n: number, t: number, c: number): boolean {
  const bits = bytes(named("highlighted"));
  return bits ? bitAt(bits, cellOf(n, t, c)) : maskAt(n, t, c) >= 0.5;
}

export function inputAt(n: number, t: number, c: number): number {
  if (t >= endOf(n) || !D.ranges) return NaN;
  const raw = need("inputs");
  const i = 2 * cellOf(n, t, c);
  const step = raw[i] | (raw[i + 1] << 8);
  if (step === 65535) return NaN;
  const [low, high] = [D.ranges[0][c], D.ranges[1][c]];
  return low + (step / 65534) * (high - low);
}

export const entry = (name: string): Summary | undefined => D.summary.find((e) => e.name === name);
export const metric = (name: string): Metric | undefined => D.metrics.find((m) => m.name === name);
export const unitOf = (c: number) => D.units?.[c] ?? "";
export const withUnit = (c: number) => D.channels[c] + (unitOf(c) ? ", " + unitOf(c) : "");
export const capitalTime = (t: number) => D.unit.charAt(0).toUpperCase() + D.unit.slice(1) + " " + D.times[t];
export const atTime = (t: number) => D.unit + " " + D.times[t];
// Steps from one to another, by their times, which need not be one unit apart: "hours 0 to 47".
export const times = (from: number, to: number) =>
  from < to
    ? D.unit + "s " + D.times[from] + " to " + D.times[to]
    : to < 0
      ? "no " + D.unit + "s"
      : atTime(to);
