// Line charts as SVG: crisp in print, read by a crosshair that mouse and arrow keys share.

import { drawMark, drawTicks, plotOf } from "./axes";
import { figure, h, hideTip, say, showTip, svg, tip } from "./dom";
import { finite, least, most, percent, show, tickNumber, tickPercent } from "./format";
import { niceTicks, type Scale } from "./scales";
import type { Kind, Num } from "./types";

export interface Line {
  name: string;
  values: Num[];
  look: string; // "main", "chance" or "other-k"
  band?: [Num[], Num[]]; // below and above, as an interval
  dotLooks?: string[];
}

export interface LineOptions {
  label: string;
  x: number[];
  lines: Line[];
  xFormat: (v: number) => string;
  xName: (v: number) => string;
  yFormat: (v: Num) => string;
  yTick?: (v: number) => string;
  xTicks?: number[];
  xTitle?: string;
  height?: number;
  log?: boolean; // x axis
  xRange?: [number, number]; // all of `x` by default
  yRange?: [number, number] | null;
  roof?: number; // the axis reaches at least so far
  tight?: boolean;
  dots?: boolean;
  marks?: { x: number; text: string }[];
  bands?: { y: number; text: string }[];
  shades?: [number, number][];
}

interface Drawn {
  x: Scale;
  cross: (index: number | null) => void;
}

export function lineChart(options: LineOptions): HTMLElement {
  let drawn: Drawn | null = null;
  const node = figure(
    { class: "chart", tabindex: "0", role: "img", "aria-label": chartWords(options) },
    (holder, width) => {
      drawn = drawLines(holder, width, options);
    },
  );
  const read = (known: Drawn, index: number, x: number, y: number) => {
    const lines = options.lines
      .filter((l: Line) => finite(l.values[index]))
      .map((l) => l.name + ": " + options.yFormat(l.values[index]));
    known.cross(index);
    showTip(options.xName(options.x[index]), lines, x, y);
  };
  let at: number | null = null;
  const nearest = (known: Drawn, event: PointerEvent) => {
    const place = event.clientX - node.getBoundingClientRect().left;
    return options.x.reduce(
      (best, v, i) => (Math.abs(known.x(v) - place) < Math.abs(known.x(options.x[best]) - place) ? i : best),
      0,
    );
  };
  node.addEventListener("pointermove", (event) => {
    if (!drawn) return;
    at = nearest(drawn, event);
    read(drawn, at, event.clientX, event.clientY);
  });
  const leave = () => {
    hideTip();
    at = null;
    drawn?.cross(null);
  };
  node.addEventListener("pointerleave", leave);
  node.addEventListener("blur", leave);
  node.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !drawn) return;
    event.preventDefault();
    at = at === null ? 0 : Math.max(0, Math.min(options.x.length - 1, at + step));
    const box = node.getBoundingClientRect();
    read(drawn, at, box.left + drawn.x(options.x[at]), box.top + box.height / 3);
    say(tip.textContent ?? "");
  });
  return node;
}

// Lines may be measured at different places of one axis: only where any of them is known is there anything to draw.
export function measured(x: number[], lines: Line[]): { x: number[]; lines: Line[] } {
  const known = x.map((_, i) => i).filter((i) => lines.some((line) => finite(line.values[i])));
  return {
    x: known.map((i) => x[i]),
    lines: lines.map((line) => ({
      ...line,
      values: known.map((i) => line.values[i]),
      ...(line.band ? { band: line.band.map((side) => known.map((i) => side[i])) as [Num[], Num[]] } : {}),
    })),
  };
}

const isWide = (areas: number[]) =>
  areas.length > 2 && areas[0] > 0 && areas[areas.length - 1] / areas[0] > 25;

const ROUND = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];

function areaTicks(x: number[], log: boolean): number[] {
  const [low, high] = [x[0], x[x.length - 1]];
  const round = log ? ROUND.filter((v) => v >= low && v <= high) : niceTicks(low, high, 5);
  return round.length > 1 ? round : x;
}

export interface AreaOptions {
  label: string;
  areas: number[];
  lines: Line[];
  kind: Kind;
  height?: number;
  roof?: number;
  marks?: { x: number; text: string }[];
}

export function areaChart(options: AreaOptions): HTMLElement | null {
  const { x, lines } = measured(options.areas, options.lines);
  if (!x.length) return null;
  const log = isWide(x),
    share = options.kind === "share";
  return lineChart({
    label: options.label,
    x,
    lines,
    log,
    height: options.height,
    marks: (options.marks || []).filter((mark) => mark.x >= x[0] && mark.x <= x[x.length - 1]),
    xTicks: areaTicks(x, log),
    xFormat: tickPercent,
    xName: (v) => percent(v) + " of the cells",
    xTitle: "share of cells in the mask" + (log ? " (log scale)" : ""),
    yFormat: (v) => show(v, options.kind),
    yTick: share ? tickPercent : tickNumber,
    yRange: share ? [0, 1] : null,
    roof: options.roof,
  });
}

function chartWords(options: LineOptions): string {
  const ends = options.lines.map((line) => {
    const known = options.x.map((_, i) => i).filter((i) => finite(line.values[i]));
    if (!known.length) return "";
    const [a, b] = [known[0], known[known.length - 1]];
    return line.name + " from " + options.yFormat(line.values[a]) + " to " + options.yFormat(line.values[b]);
  });
  return (
    options.label +
    ": " +
    ends.filter(Boolean).join("; ") +
    ". Use the left and right arrow keys to read points."
  );
}

function yExtent(options: LineOptions): [number, number] {
  const all = options.lines
    .flatMap((l) => [...l.values, ...(l.band ? l.band.flat() : [])])
    .concat((options.bands || []).map((b) => b.y))
    .filter(finite);
  let [low, high] = options.yRange || [least(all, 0), most(all, options.roof || 0)];
  const floor = least(all);
  if (options.tight && floor > 0.5 * high) low = floor - 0.5 * (high - floor);
  if (!(high > low)) high = low + 1;
  return [low, high];
}

function drawLines(node: HTMLElement, width: number, options: LineOptions): Drawn {
  const [low, high] = yExtent(options);
  const ticks = niceTicks(low, high, 4);
  const plot = plotOf({
    width,
    height: options.height,
    x: options.xRange ?? [options.x[0], options.x[options.x.length - 1]],
    y: [low, Math.max(high, ticks[ticks.length - 1])],
    log: options.log,
    xTitle: options.xTitle || "",
  });
  const { picture, x, y, left, right, top, floor } = plot;
  for (const [a, b] of options.shades || []) {
    const half = (x(options.x[1]) - x(options.x[0])) / 2;
    picture.append(
      svg("rect", {
        class: "zone",
        x: x(a) - half,
        width: x(b) - x(a) + 2 * half,
        y: top,
        height: floor - top,
      }),
    );
  }
  drawTicks(plot, {
    x: pickTicks(options, x),
    xFormat: options.xFormat,
    y: ticks,
    yFormat: options.yTick || tickNumber,
  });
  for (const band of options.bands || [])
    picture.append(svg("line", { class: "band", x1: left, x2: right, y1: y(band.y), y2: y(band.y) }));
  for (const line of [...options.lines].reverse()) picture.append(...drawLine(line, options, x, y));
  // names stand above the lines, which would strike them through
  for (const band of options.bands || [])
    picture.append(svg("text", { class: "bandname", x: left + 4, y: y(band.y) - 5, text: band.text }));
  for (const mark of options.marks || []) drawMark(plot, mark.x, mark.text);
  const cross = svg("g", { class: "cross", visibility: "hidden" });
  picture.append(cross);
  const setCross = (index: number | null) => {
    cross.setAttribute("visibility", index === null ? "hidden" : "visible");
    if (index === null) return;
    const place = x(options.x[index]);
    cross.replaceChildren(
      svg("line", { x1: place, x2: place, y1: top, y2: floor }),
      ...options.lines
        .filter((l) => finite(l.values[index]))
        .map((l) => svg("circle", { class: "dot " + l.look, cx: place, cy: y(l.values[index] ?? 0), r: 4 })),
    );
  };
  node.replaceChildren(picture);
  return { x, cross: setCross };
}

function drawLine(line: Line, options: LineOptions, x: Scale, y: Scale): SVGElement[] {
  const points = options.x
    .map((v, i): [number, Num] => [v, line.values[i]])
    .filter((point): point is [number, number] => finite(point[1]));
  if (!points.length) return [];
  const path = points.map(([a, b], i) => (i ? "L" : "M") + x(a).toFixed(1) + " " + y(b).toFixed(1)).join("");
  const dots =
    options.dots || points.length < 3
      ? points.map(([a, b], i) => pointMark(line.look, (line.dotLooks || [])[i] || "", x(a), y(b)))
      : [];
  return [...drawBand(line, options, x, y), svg("path", { class: "line " + line.look, d: path }), ...dots];
}

// The interval around a line.
function drawBand(line: Line, options: LineOptions, x: Scale, y: Scale): SVGElement[] {
  if (!line.band) return [];
  const [low, high] = line.band.map((side) =>
    options.x
      .map((v, i): [number, Num] => [v, side[i]])
      .filter((point): point is [number, number] => finite(point[1]))
      .map(([a, b]) => x(a).toFixed(1) + " " + y(b).toFixed(1)),
  );
  if (!low.length) return [];
  return [
    svg("path", {
      class: "interval " + line.look,
      d: "M" + low.join("L") + "L" + high.reverse().join("L") + "Z",
    }),
  ];
}

// Verdicts differ in shape as well as in colour.
function pointMark(look: string, verdict: string, x: number, y: number): SVGElement {
  if (verdict === "warning")
    return svg("path", { class: "dot warning", d: "M" + x + " " + (y - 6) + "l6 10l-12 0z" });
  return verdict === "drift"
    ? svg("path", { class: "dot drift", d: "M" + x + " " + (y - 6) + "l6 6l-6 6l-6-6z" })
    : svg("circle", { class: "dot " + look + " " + verdict, cx: x, cy: y, r: 4 });
}

function pickTicks(options: LineOptions, x: Scale): number[] {
  const kept: number[] = [];
  (options.xTicks || options.x).forEach((v) => {
    const place = x(v);
    const room = Math.max(options.xFormat(v).length * 7, 20) + 8;
    if (!kept.length || place - x(kept[kept.length - 1]) >= room) kept.push(v);
  });
  return kept;
}

// The key under a chart, in words: a stroke and a name for each line.
export function chartKey(lines: Line[]): HTMLElement {
  return h(
    "div",
    { class: "key" },
    lines.map((line) =>
      h(
        "span",
        {},
        svg(
          "svg",
          { width: 26, height: 8, "aria-hidden": "true" },
          svg("line", { class: "line " + line.look, x1: 1, x2: 25, y1: 4, y2: 4 }),
        ),
        line.name,
      ),
    ),
  );
}
