// Heat map: channels down, time across, totals along both edges, one cursor for mouse and keyboard.

import { D, T } from "./data";
import { figure, h, hideTip, redraw, showTip } from "./dom";
import { most } from "./format";
import { cellAt, drawCursor, drawHeatMap, type Geometry } from "./heatdraw";
import { canvasFor, colour, signedColour } from "./marks";
import { TimeWindow } from "./window";

export type Cell = [number, number]; // step, channel

export interface HeatOptions {
  label: string; // for screen readers
  rows: number[]; // positions of channels, top to bottom
  value: (t: number, c: number) => number; // in [0, 1], or in [-1, 1] if `signed`
  describe: (t: number, c: number) => string[]; // a title, then lines
  signed?: boolean;
  missing?: ((t: number, c: number) => boolean) | null;
  outlined?: (t: number, c: number) => boolean; // cells of the mask
  end?: number; // the first step of padding
  top?: number[]; // totals by time
  right?: number[]; // totals by channel
  rightText?: (c: number) => string;
  window?: TimeWindow;
  hint?: string;
  onpick?: (t: number, c: number) => void;
}

export interface HeatState {
  cell: Cell | null;
  geometry: Geometry | null;
  overlay: HTMLCanvasElement | null;
}

export function heatMap(options: HeatOptions): HTMLElement[] {
  const state: HeatState = { cell: null, geometry: null, overlay: null };
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const node = figure(
    {
      class: "heat",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "heat map",
      "aria-label": options.label + ". Use the arrow keys to move over the cells.",
    },
    (holder, width) => drawHeatMap(holder, width, options, state),
  );
  const tell = (cell: Cell, x: number, y: number) => {
    state.cell = cell;
    drawCursor(state);
    const [title, ...lines] = options.describe(...cell);
    readout.textContent = [title, ...lines].join(" · ");
    showTip(title, lines, x, y);
  };
  const clear = () => {
    state.cell = null;
    hideTip();
    drawCursor(state);
  };
  const at = (event: MouseEvent) => cellAt(node, options, state.geometry, event);
  const point = (event: PointerEvent) => {
    const place = at(event);
    if (!place) clear();
    else if (place.cell) tell(place.cell, event.clientX, event.clientY);
    else {
      clear();
      showTip(D.channels[place.channel], [], event.clientX, event.clientY); // a name that was cut, whole
    }
  };
  node.addEventListener("pointermove", point);
  node.addEventListener("pointerdown", point);
  node.addEventListener("pointerleave", clear);
  node.addEventListener("blur", clear);
  const pick = options.onpick;
  if (pick)
    node.addEventListener("click", (event) => {
      const cell = at(event)?.cell;
      if (cell) pick(...cell);
    });
  const sight = options.window;
  if (sight) {
    sight.onchange(() => redraw(node));
    node.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // without a key the wheel scrolls the page
        event.preventDefault();
        sight.zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event)?.cell?.[0]);
      },
      { passive: false },
    );
  }
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hideTip();
    if (event.key === "Enter" && state.cell && pick) return pick(...state.cell);
    const factor = { "+": 0.5, "=": 0.5, "-": 2, _: 2, "0": Infinity }[event.key];
    if (factor && sight) {
      event.preventDefault();
      return sight.zoom(factor, state.cell?.[0]);
    }
    const moved = moveCell(event.key, state.cell, options);
    if (!moved || !state.geometry) return;
    event.preventDefault();
    sight?.include(moved[0]);
    const g = state.geometry;
    const box = node.getBoundingClientRect();
    tell(
      moved,
      box.left + g.left + (moved[0] - g.from + 0.5) * g.across,
      box.top + g.top + ((g.place.get(moved[1]) ?? 0) + 1) * g.down,
    );
  });
  readout.textContent = options.hint ?? "Point at a cell, or focus the map and use the arrow keys.";
  return [node, readout];
}

export function moveCell(key: string, cell: Cell | null, options: HeatOptions): Cell | null {
  const steps: Record<string, Cell> = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
  };
  const jump = { Home: 0, End: T - 1 }[key];
  const step = steps[key];
  if (!step && jump === undefined) return null;
  if (!cell) return [options.window?.from ?? 0, options.rows[0]];
  if (jump !== undefined) return [jump, cell[1]];
  const { rows } = options;
  const row = Math.max(0, Math.min(rows.length - 1, rows.indexOf(cell[1]) + step[1]));
  return [Math.max(0, Math.min(T - 1, cell[0] + step[0])), rows[row]];
}

// The key to the colours, drawn once for each map.
export function legend(low: string, high: string, signed = false, outlined = false): HTMLElement {
  const strip = figure(
    { class: "strip", role: "img", "aria-label": "Colour scale from " + low + " to " + high },
    (node) => {
      const [canvas, pen] = canvasFor(120, 10);
      for (let i = 0; i < 120; i++) {
        pen.fillStyle = signed ? signedColour((2 * i) / 119 - 1) : colour(i / 119);
        pen.fillRect(i, 0, 1.5, 10);
      }
      node.replaceChildren(canvas);
    },
  );
  const box = outlined
    ? h("span", { class: "outlined" }, h("i", { "aria-hidden": "true" }), "in the mask")
    : null;
  return h("div", { class: "legend" }, box, h("span", { text: low }), strip, h("span", { text: high }));
}

// Signed values as shares of the greatest of them.
export const scaledBy = (values: number[]) => most(values.map(Math.abs), 0) || 1;
