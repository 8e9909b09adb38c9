// A picture with axes: what histograms and line charts share.

import { svg } from "./dom";
import type { Scale } from "./scales";

export interface Box {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export function emptyPicture(box: Box) {
  return svg("svg", {
    width: box.width,
    height: box.height,
    viewBox: "0 0 " + box.width + " " + box.height,
    "aria-hidden": "true",
  });
}

export function yAxis(
  picture: Element,
  box: Box,
  y: Scale,
  ticks: number[],
  text: (v: number) => string,
): void {
  for (const v of ticks) {
    picture.append(
      svg("line", { class: "gridline", x1: box.left, x2: box.width - box.right, y1: y(v), y2: y(v) }),
      svg("text", { class: "tick", x: box.left - 7, y: y(v) + 4, "text-anchor": "end", text: text(v) }),
    );
  }
}

export function xAxis(
  picture: Element,
  box: Box,
  x: Scale,
  ticks: number[],
  text: (v: number) => string,
): void {
  for (const v of ticks) {
    picture.append(
      svg("text", {
        class: "tick",
        x: x(v),
        y: box.height - box.bottom + 17,
        "text-anchor": "middle",
        text: text(v),
      }),
    );
  }
}

export function xTitle(picture: Element, box: Box, text: string): void {
  const middle = (box.left + box.width - box.right) / 2;
  picture.append(svg("text", { class: "axis", x: middle, y: box.height - 5, "text-anchor": "middle", text }));
}
