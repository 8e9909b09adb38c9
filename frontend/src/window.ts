// Which steps are in sight. Maps and series of one instance share a window, so they zoom and pan together.

import { D, T } from "./data";
import { figure, h, redraw } from "./dom";
import { most } from "./format";
import { canvasFor, styleOf } from "./marks";

const LONG = 120; // steps that need no zoom
const FEWEST = 12;

export class TimeWindow {
  from = 0;
  to = T; // exclusive
  private readonly listeners = new Set<() => void>();

  get span(): number {
    return this.to - this.from;
  }

  get whole(): boolean {
    return this.span >= T;
  }

  onchange(listener: () => void): void {
    this.listeners.add(listener);
  }

  set(from: number, span: number): void {
    const wide = Math.max(Math.min(FEWEST, T), Math.min(T, Math.round(span)));
    const start = Math.max(0, Math.min(T - wide, Math.round(from)));
    if (start === this.from && start + wide === this.to) return;
    this.from = start;
    this.to = start + wide;
    for (const listener of this.listeners) listener();
  }

  // Zoom by a factor around a step, which keeps its place.
  zoom(factor: number, around = (this.from + this.to) / 2): void {
    const span = Math.max(Math.min(FEWEST, T), Math.min(T, this.span * factor));
    this.set(around - ((around - this.from) / this.span) * span, span);
  }

  pan(steps: number): void {
    this.set(this.from + steps, this.span);
  }

  include(t: number): void {
    if (t < this.from) this.set(t, this.span);
    else if (t >= this.to) this.set(t - this.span + 1, this.span);
  }
}

export const isLong = () => T > LONG;

// Buttons and a minimap of the whole length, for sequences too long to be seen at once.
export function windowControls(window: TimeWindow, totals: number[]): HTMLElement | null {
  if (!isLong()) return null;
  const words = h("output", { class: "sub" });
  const mini = figure({ class: "minimap", "aria-hidden": "true" }, (node, width) => {
    const height = 34;
    const [canvas, pen] = canvasFor(width, height);
    const roof = most(totals, 1e-12);
    pen.fillStyle = styleOf("bar");
    for (let x = 0; x < width; x++) {
      const [t0, t1] = [Math.floor((x * T) / width), Math.max(1, Math.floor(((x + 1) * T) / width))];
      let peak = 0;
      for (let t = t0; t < Math.max(t1, t0 + 1); t++) peak = Math.max(peak, totals[t] ?? 0);
      if (peak > 0)
        pen.fillRect(x, height - 2 - (peak / roof) * (height - 6), 1, (peak / roof) * (height - 6));
    }
    const [left, right] = [(window.from / T) * width, (window.to / T) * width];
    pen.fillStyle = styleOf("veil");
    pen.fillRect(0, 0, left, height);
    pen.fillRect(right, 0, width - right, height);
    pen.strokeStyle = styleOf("focus");
    pen.lineWidth = 2;
    pen.strokeRect(left + 1, 1, Math.max(4, right - left - 2), height - 2);
    node.replaceChildren(canvas);
  });
  const centre = (event: PointerEvent) => {
    const box = mini.getBoundingClientRect();
    window.set(((event.clientX - box.left) / box.width) * T - window.span / 2, window.span);
  };
  mini.addEventListener("pointerdown", (event) => {
    if (window.whole) window.zoom(0.2);
    mini.setPointerCapture(event.pointerId);
    centre(event);
  });
  mini.addEventListener("pointermove", (event) => {
    if (event.buttons) centre(event);
  });
  const button = (text: string, label: string, act: () => void) =>
    h("button", { type: "button", "aria-label": label, title: label, text, onclick: act });
  const tell = () => {
    words.textContent = D.unit + "s " + D.times[window.from] + " to " + D.times[window.to - 1];
    redraw(mini);
  };
  window.onchange(tell);
  tell();
  return h(
    "div",
    { class: "zoom", role: "group", "aria-label": "Part of the time in sight" },
    h(
      "div",
      { class: "zoombuttons" },
      button("+", "Zoom in", () => window.zoom(0.5)),
      button("−", "Zoom out", () => window.zoom(2)),
      button("←", "Earlier", () => window.pan(-window.span / 2)),
      button("→", "Later", () => window.pan(window.span / 2)),
      button("All", "The whole length", () => window.set(0, T)),
      words,
    ),
    mini,
  );
}
