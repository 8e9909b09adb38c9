// The drawing of a heat map on its canvas.

import { D, T } from "./data";
import { most, percent } from "./format";
import type { Cell, HeatOptions, HeatState } from "./heatmap";
import { canvasFor, colour, cut, font, type Pen, penOf, signedColour, styleOf } from "./marks";
import { labelled } from "./scales";

export interface Geometry {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  down: number; // height of a row
  across: number; // width of a step
  from: number; // first step in sight
  steps: number; // steps in sight
  place: Map<number, number>; // channel -> row
  plotWidth: number;
  plotHeight: number;
}

function geometry(width: number, options: HeatOptions): Geometry {
  const rows = options.rows.length;
  const probe = penOf(document.createElement("canvas"));
  probe.font = "12px " + font();
  const widest = most(
    [D.unit, ...options.rows.map((c) => D.channels[c])].map((text) => probe.measureText(text).width),
    20,
  );
  const left = Math.ceil(Math.min(widest + 12, (width < 480 ? 0.3 : 0.34) * width));
  const right = options.right ? Math.round(Math.max(84, Math.min(150, 0.16 * width))) : 4;
  const top = options.top ? 46 : 4;
  const down =
    rows > 60 ? Math.max(4, 900 / rows) : Math.max(14, Math.min(24, Math.round(480 / Math.max(rows, 1))));
  const from = options.window?.from ?? 0;
  const steps = options.window?.span ?? T;
  const across = (width - left - right) / steps;
  const place = new Map(options.rows.map((c, i) => [c, i]));
  const [plotWidth, plotHeight] = [steps * across, rows * down];
  const height = top + plotHeight + 26;
  return { width, height, left, right, top, down, across, from, steps, place, plotWidth, plotHeight };
}

// The cell under the pointer; left of the plot only its channel.
export function cellAt(
  node: HTMLElement,
  options: HeatOptions,
  g: Geometry | null,
  event: MouseEvent,
): { channel: number; cell: Cell | null } | null {
  if (!g) return null;
  const box = node.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - g.left) / g.across);
  const row = Math.floor((event.clientY - box.top - g.top) / g.down);
  if (row < 0 || row >= options.rows.length || column >= g.steps) return null;
  const channel = options.rows[row];
  return { channel, cell: column < 0 ? null : [g.from + column, channel] };
}

export function drawHeatMap(node: HTMLElement, width: number, options: HeatOptions, state: HeatState): void {
  const g = geometry(width, options);
  state.geometry = g;
  const [canvas, pen] = canvasFor(width, g.height);
  const [overlay] = canvasFor(width, g.height);
  overlay.className = "overlay";
  state.overlay = overlay;
  node.replaceChildren(canvas, overlay);
  node.style.height = g.height + "px";
  node.dataset.rows = String(options.rows.length);
  node.dataset.plot = JSON.stringify({
    left: g.left,
    top: g.top,
    across: g.across,
    down: g.down,
    from: g.from,
  });
  paintCells(pen, g, options);
  if (options.outlined) paintOutlines(pen, g, options, options.outlined);
  const end = options.end ?? T;
  if (end < g.from + g.steps) paintPadding(pen, g, Math.max(0, end - g.from));
  paintLabels(pen, g, options);
  if (options.top) drawTopBars(pen, g, options.top);
  if (options.right) drawRightBars(pen, g, options, options.right);
  drawCursor(state);
}

function paintLabels(pen: Pen, g: Geometry, options: HeatOptions): void {
  pen.font = "12px " + font();
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  pen.fillStyle = styleOf("ink");
  for (const i of labelled(options.rows.length, g.plotHeight, 13)) {
    pen.fillText(cut(pen, D.channels[options.rows[i]], g.left - 10), g.left - 8, g.top + (i + 0.5) * g.down);
  }
  pen.textAlign = "center";
  pen.textBaseline = "top";
  pen.fillStyle = styleOf("ink-2");
  const ends = [g.from, g.from + g.steps - 1].map((t) => Math.min(90, pen.measureText(D.times[t]).width));
  for (const i of labelled(g.steps, g.plotWidth, Math.max(14, ...ends) + 12)) {
    const x = g.left + (i + 0.5) * g.across;
    pen.fillText(cut(pen, D.times[g.from + i], 90), x, g.top + g.plotHeight + 7);
  }
  pen.textAlign = "right";
  pen.fillText(cut(pen, D.unit, g.left - 10), g.left - 8, g.top + g.plotHeight + 7);
}

function paintCells(pen: Pen, g: Geometry, options: HeatOptions): void {
  const gap = g.across >= 7 && g.down >= 7 ? 1 : 0;
  const hole = styleOf("hole");
  const paint = options.signed ? signedColour : colour;
  const end = Math.min(options.end ?? T, g.from + g.steps) - g.from;
  const columns = Math.min(g.steps, Math.max(1, Math.floor(g.plotWidth)));
  pen.fillStyle = colour(0);
  if (!gap) pen.fillRect(g.left, g.top, Math.max(0, end) * g.across, g.plotHeight);
  options.rows.forEach((c, row) => {
    const y = g.top + row * g.down;
    for (let k = 0; k < columns; k++) {
      const [t0, t1] = [Math.floor((k * g.steps) / columns), Math.floor(((k + 1) * g.steps) / columns)];
      if (t0 >= end) break;
      let [peak, absent] = [0, true];
      for (let t = g.from + t0; t < g.from + t1; t++) {
        const value = options.value(t, c);
        if (Math.abs(value) > Math.abs(peak)) peak = value;
        if (!options.missing || !options.missing(t, c)) absent = false;
      }
      if (!gap && peak === 0 && !absent) continue;
      const [x, wide] = [g.left + t0 * g.across, (t1 - t0) * g.across];
      if (absent && Math.abs(peak) < 0.02) {
        pen.fillStyle = hole;
        pen.fillRect(x, y + g.down / 2 - 0.5, Math.max(1, wide - gap), 1);
        continue;
      }
      pen.fillStyle = paint(peak);
      pen.fillRect(x, y, gap ? wide - 1 : Math.max(wide, 1) + 0.4, gap ? g.down - 1 : g.down + 0.2);
      if (options.signed && gap && Math.abs(peak) > 0.3) signMark(pen, x + wide / 2, y + g.down / 2, peak);
    }
  });
}

// A frame around each run of cells of the mask; a line under it where cells are too narrow for a frame.
function paintOutlines(
  pen: Pen,
  g: Geometry,
  options: HeatOptions,
  outlined: (t: number, c: number) => boolean,
): void {
  if (g.down < 7) return;
  pen.strokeStyle = pen.fillStyle = styleOf("ink");
  pen.lineWidth = 1.5;
  const end = Math.min(options.end ?? T, g.from + g.steps);
  options.rows.forEach((c, row) => {
    for (let t = g.from; t < end; t++) {
      if (!outlined(t, c)) continue;
      const start = t;
      while (t + 1 < end && outlined(t + 1, c)) t++;
      const [x, y] = [g.left + (start - g.from) * g.across, g.top + row * g.down];
      const wide = (t + 1 - start) * g.across;
      if (g.across < 4) pen.fillRect(x, y + g.down - 3, Math.max(1, wide), 2);
      else pen.strokeRect(x + 0.25, y + 0.25, wide - 1.5, g.down - 1.5);
    }
  });
}

// A sign in the strong cells: colours alone would be lost on a grey printer.
function signMark(pen: Pen, x: number, y: number, value: number): void {
  pen.fillStyle = styleOf("on-sign");
  pen.fillRect(x - 3, y - 1, 5, 1.5);
  if (value > 0) pen.fillRect(x - 1.25, y - 2.75, 1.5, 5);
}

// Hatched: steps that this instance does not have.
function paintPadding(pen: Pen, g: Geometry, end: number): void {
  const [x, wide] = [g.left + end * g.across, g.plotWidth - end * g.across];
  pen.save();
  pen.beginPath();
  pen.rect(x, g.top, wide, g.plotHeight);
  pen.clip();
  pen.strokeStyle = styleOf("hole");
  pen.lineWidth = 1;
  pen.globalAlpha = 0.7;
  pen.beginPath();
  for (let at = x - g.plotHeight; at < x + wide; at += 9) {
    pen.moveTo(at, g.top + g.plotHeight);
    pen.lineTo(at + g.plotHeight, g.top);
  }
  pen.stroke();
  pen.restore();
}

function drawTopBars(pen: Pen, g: Geometry, totals: number[]): void {
  const [base, tall] = [g.top - 6, g.top - 14];
  const roof = most(totals, 1e-12);
  pen.fillStyle = styleOf("bar");
  for (let i = 0; i < g.steps; i++) {
    const height = ((totals[g.from + i] ?? 0) / roof) * tall;
    const wide = Math.max(0.6, g.across - (g.across >= 5 ? 1 : 0));
    pen.fillRect(g.left + i * g.across, base - height, wide, height);
  }
}

function drawRightBars(pen: Pen, g: Geometry, options: HeatOptions, totals: number[]): void {
  const shown = options.rows.map((c) => totals[c]);
  const roof = most(totals.map(Math.abs), 1e-12);
  const x = g.left + g.plotWidth + 8;
  const room = g.right - 8 - 46;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.font = "11px " + font();
  const named = new Set(labelled(shown.length, g.plotHeight, 12));
  shown.forEach((v, row) => {
    const c = options.rows[row];
    const y = g.top + row * g.down;
    const wide = (Math.abs(v) / roof) * room;
    pen.fillStyle = options.signed ? styleOf(v >= 0 ? "raise" : "lower") : styleOf("bar");
    pen.fillRect(x, y + 0.15 * g.down, wide, Math.max(1, 0.7 * g.down - 1));
    if (!named.has(row) || v === 0) return; // a column of zeros says nothing
    pen.fillStyle = styleOf("ink-2");
    pen.fillText(options.rightText ? options.rightText(c) : percent(v), x + wide + 5, y + 0.5 * g.down);
  });
}

export function drawCursor(state: HeatState): void {
  const { overlay, geometry: g, cell } = state;
  if (!overlay || !g) return;
  const pen = penOf(overlay);
  pen.clearRect(0, 0, g.width, g.height);
  if (!cell) return;
  const row = g.place.get(cell[1]);
  const column = cell[0] - g.from;
  if (row === undefined || column < 0 || column >= g.steps) return;
  const [x, y] = [g.left + column * g.across, g.top + row * g.down];
  pen.fillStyle = styleOf("veil");
  pen.fillRect(g.left, y, g.plotWidth, g.down - 1);
  pen.fillRect(x, g.top, Math.max(1, g.across - 1), g.plotHeight);
  pen.strokeStyle = styleOf("focus");
  pen.lineWidth = 2;
  pen.strokeRect(x - 1, y - 1, Math.max(3, g.across + 1), g.down + 1);
}
