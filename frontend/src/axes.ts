// The frame that charts share: the plot with its scales, grid lines, ticks and the title of the x axis.

import { svg } from "./dom";
import { type Scale, scaleOf } from "./scales";

const [LEFT, RIGHT, BOTTOM, HEIGHT] = [44, 12, 40, 190];

export interface Axes {
  x: [number, number];
  y: [number, number];
  width: number;
  height?: number;
  top?: number; // room above the plot
  log?: boolean; // x axis
  xTitle: string;
}

export interface Plot {
  picture: SVGSVGElement;
  x: Scale;
  y: Scale;
  left: number;
  right: number;
  top: number;
  floor: number; // where the x axis lies
}

export function plotOf(axes: Axes): Plot {
  const { width, height = HEIGHT, top = 12 } = axes;
  const [left, right, floor] = [LEFT, width - RIGHT, height - BOTTOM];
  const picture = svg(
    "svg",
    { width, height, viewBox: "0 0 " + width + " " + height, "aria-hidden": "true" },
    svg("text", {
      class: "axis",
      x: (left + right) / 2,
      y: height - 5,
      "text-anchor": "middle",
      text: axes.xTitle,
    }),
  );
  return {
    picture,
    x: scaleOf(...axes.x, left, right, axes.log),
    y: scaleOf(...axes.y, floor, top),
    left,
    right,
    top,
    floor,
  };
}

export function drawTicks(
  { picture, x, y, left, right, floor }: Plot,
  ticks: { x: number[]; xFormat: (v: number) => string; y: number[]; yFormat: (v: number) => string },
): void {
  for (const v of ticks.y)
    picture.append(
      svg("line", { class: "gridline", x1: left, x2: right, y1: y(v), y2: y(v) }),
      svg("text", {
        class: "tick",
        x: left - 7,
        y: y(v) + 4,
        "text-anchor": "end",
        text: ticks.yFormat(v),
      }),
    );
  for (const v of ticks.x)
    picture.append(
      svg("text", {
        class: "tick",
        x: x(v),
        y: floor + 17,
        "text-anchor": "middle",
        text: ticks.xFormat(v),
      }),
    );
}

// A place of the x axis with its name, which stands on the side where there is room.
export function drawMark({ picture, x, left, right, top, floor }: Plot, at: number, text: string): void {
  const place = x(at);
  const flip = place > (left + right) / 2;
  picture.append(
    svg("line", { class: "mark", x1: place, x2: place, y1: top, y2: floor }),
    svg("text", {
      class: "markname",
      x: place + (flip ? -5 : 5),
      y: top + 9,
      "text-anchor": flip ? "end" : "start",
      text,
    }),
  );
}
