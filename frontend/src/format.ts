// Numbers and words as people read them. Nothing here knows the page.

import type { Kind, Num } from "./types";

type Value = Num | undefined | boolean;

// Extremes of lists that may be too long to spread into arguments.
export const most = (list: number[], start = -Infinity) => list.reduce((a, b) => (b > a ? b : a), start);
export const least = (list: number[], start = Infinity) => list.reduce((a, b) => (b < a ? b : a), start);

export const finite = (v: unknown): v is number => typeof v === "number" && Number.isFinite(v);

const minus = (text: string) => text.replace(/-/g, "−");

export function numeral(v: Value): string {
  if (!finite(v)) return "–";
  const size = Math.abs(v);
  if (Number.isInteger(v) || (size >= 1000 && size < 1e6))
    return minus(Math.round(v).toLocaleString("en-US"));
  if (size < 0.001 || size >= 1e6) return minus(v.toExponential(1));
  return minus(v.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3));
}

// A size that is only compared with a greater one: what rounds to nothing is nothing.
export function roughly(v: Value): string {
  if (!finite(v) || Math.abs(v) >= 0.001) return numeral(v);
  return Math.abs(v) < 0.0005 ? "0" : numeral(Math.sign(v) * 0.001);
}

// Three digits that count, no zeros behind them: how a measurement is written down.
export function brief(v: Value): string {
  if (!finite(v)) return "–";
  const size = Math.abs(v);
  return size >= 1e6 || (size > 0 && size < 1e-3)
    ? numeral(v)
    : minus(String(+v.toPrecision(size >= 100 ? 4 : 3)));
}

export function percent(v: Value): string {
  if (!finite(v)) return "–";
  const p = 100 * v;
  if (p > 0 && p < 0.005) return "< 0.01\u00a0%";
  const digits = p === 0 || p >= 9.95 ? 0 : p >= 0.95 ? 1 : 2;
  return p.toFixed(digits) + "\u00a0%"; // never parted from its number
}

// A probability, in percent with one digit behind the point; never said to be certain because it was rounded.
export function chance(p: Value): string {
  if (!finite(p)) return "–";
  const text =
    p < 0.0005 && p > 0 ? "<\u00a00.1" : p >= 0.9995 && p < 1 ? ">\u00a099.9" : (100 * p).toFixed(1);
  return text + "\u00a0%";
}

// Ticks need no trailing zeros, and have little room.
export function tickNumber(v: number): string {
  if (Math.abs(v) >= 1e5) return minus(v.toLocaleString("en-US", { notation: "compact" }));
  return Math.abs(v) >= 1000 || v === 0 ? numeral(v) : minus(String(+v.toPrecision(6)));
}
export const tickPercent = (v: number) => String(+(100 * v).toPrecision(3)) + "\u00a0%";

export function show(v: Value, kind: Kind): string {
  if (kind === "flag") return v === null || v === undefined ? "–" : v ? "yes" : "no";
  return kind === "share" ? percent(v) : numeral(v);
}

// One number of digits for a column, so that its values can be compared at a glance.
export function columnFormat(values: Value[], kind: Kind): (v: Value) => string {
  const size = most(values.filter(finite).map(Math.abs), 0);
  const whole = values.every((v) => !finite(v) || Number.isInteger(v));
  const digits = whole || size >= 1000 ? 0 : size >= 10 ? 1 : 3;
  return (v) => (kind === "number" && finite(v) ? minus(v.toFixed(digits)) : show(v, kind));
}

export const plural = (count: number, noun: string) =>
  count.toLocaleString("en-US") + " " + noun + (count === 1 ? "" : "s");
export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
