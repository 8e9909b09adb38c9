// Colours and canvases shared by every figure.

import { C, cellOf, colours, endOf, masks, T } from "./data";
import { h, redrawAll } from "./dom";

export type Pen = CanvasRenderingContext2D;

const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;
export const isDark = () => darkQuery.matches && !printing;

export const styleOf = (name: string) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
export const font = () => getComputedStyle(document.body).fontFamily;

// Two tables of 256 colours: from paper to ink, and for dark pages from night to light. "Needed" always stands out most.
function colourIndex(share: number): number {
  return 3 * (Math.max(0, Math.min(255, Math.round(255 * share))) + (isDark() ? 256 : 0));
}

export function colour(share: number): string {
  const table = colours();
  const i = colourIndex(share);
  return "rgb(" + table[i] + "," + table[i + 1] + "," + table[i + 2] + ")";
}

function channelsOf(text: string): number[] {
  const hex = text.replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// From paper to the colour of what raises the answer (positive) or lowers it (negative).
export function signedColour(value: number): string {
  const table = colours();
  const zero = colourIndex(0);
  const end = channelsOf(styleOf(value >= 0 ? "raise" : "lower"));
  const share = Math.min(1, Math.abs(value)) ** 0.75;
  const mix = end.map((to, i) => Math.round(table[zero + i] + share * (to - table[zero + i])));
  return "rgb(" + mix.join(",") + ")";
}

darkQuery.addEventListener("change", redrawAll);

// Paper is light, whatever the screen is.
export function setPrinting(on: boolean): void {
  printing = on;
  redrawAll();
}

export function penOf(canvas: HTMLCanvasElement): Pen {
  const pen = canvas.getContext("2d");
  if (!pen) throw new Error("Expected a browser that draws on canvases.");
  return pen;
}

export function canvasFor(width: number, height: number): [HTMLCanvasElement, Pen] {
  const ratio = Math.max(window.devicePixelRatio || 1, printing ? 2 : 1);
  const canvas = h("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const pen = penOf(canvas);
  pen.scale(ratio, ratio);
  return [canvas, pen];
}

export function cut(pen: Pen, text: string, width: number): string {
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
export function stamp(canvas: HTMLCanvasElement, n: number): void {
  const pen = penOf(canvas);
  const { width, height } = canvas;
  const picture = pen.createImageData(width, height);
  const [cells, table, end] = [masks(), colours(), endOf(n)];
  for (let y = 0; y < height; y++) {
    const c0 = Math.floor((y * C) / height);
    const c1 = Math.max(c0 + 1, Math.floor(((y + 1) * C) / height));
    for (let x = 0; x < width; x++) {
      const t0 = Math.floor((x * T) / width);
      const t1 = Math.max(t0 + 1, Math.floor(((x + 1) * T) / width));
      if (t0 >= end) break; // the rest of the line stays transparent
      let peak = 0;
      for (let t = t0; t < t1; t++)
        for (let c = c0; c < c1; c++) peak = Math.max(peak, cells[cellOf(n, t, c)]);
      const i = colourIndex(peak / 255);
      const at = 4 * (y * width + x);
      picture.data.set([table[i], table[i + 1], table[i + 2], 255], at);
    }
  }
  pen.putImageData(picture, 0, 0);
}
