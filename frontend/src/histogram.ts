// Histograms as SVG, with the median marked.

import { emptyPicture, xAxis, xTitle, yAxis } from "./axes";
import { figure, h, hideTip, showTip, svg } from "./dom";
import { finite, most, plural, tickNumber } from "./format";
import { niceTicks, scaleOf } from "./scales";

export interface HistogramOptions {
  label: string;
  values: unknown[];
  format: (v: number) => string;
  height?: number;
}

export function histogram(options: HistogramOptions): HTMLElement {
  const values = options.values.filter(finite).sort((a, b) => a - b);
  const middle = values.length ? values[Math.floor((values.length - 1) / 2)] : NaN;
  const words =
    options.label +
    ": " +
    (values.length
      ? "from " +
        options.format(values[0]) +
        " to " +
        options.format(values[values.length - 1]) +
        ", half below " +
        options.format(middle)
      : "no values");
  return figure({ class: "chart", role: "img", "aria-label": words }, (node, width) =>
    drawHistogram(node, width, options, values, middle),
  );
}

function drawHistogram(
  node: HTMLElement,
  width: number,
  options: HistogramOptions,
  values: number[],
  middle: number,
): void {
  const height = options.height || 190,
    left = 44,
    right = 12,
    top = 22,
    bottom = 40;
  if (!values.length) {
    node.replaceChildren(h("p", { class: "quiet", text: "No values." }));
    return;
  }
  let [low, high] = [values[0], values[values.length - 1]];
  if (!(high > low)) {
    const pad = Math.abs(low) * 0.1 || 0.5;
    low -= pad;
    high += pad;
  }
  const bins = Math.max(6, Math.min(32, Math.ceil(1.6 * Math.sqrt(values.length))));
  const counts = new Array<number>(bins).fill(0);
  for (const v of values) counts[Math.min(bins - 1, Math.floor(((v - low) / (high - low)) * bins))]++;
  const x = scaleOf(low, high, left, width - right, false);
  const ticks = niceTicks(0, most(counts), 3).filter(Number.isInteger);
  const y = scaleOf(0, most(counts), height - bottom, top, false);
  const box = { width, height, left, right, top, bottom };
  const picture = emptyPicture(box);
  yAxis(picture, box, y, ticks, String);
  const wide = (width - right - left) / bins;
  counts.forEach((count, i) => {
    const range =
      options.format(low + (i * (high - low)) / bins) +
      " to " +
      options.format(low + ((i + 1) * (high - low)) / bins);
    const bar = svg("rect", {
      class: "column",
      x: left + i * wide + 0.5,
      width: Math.max(1, wide - 1),
      y: y(count),
      height: height - bottom - y(count),
    });
    bar.addEventListener("pointermove", (e) =>
      showTip(plural(count, "instance"), [options.label + " " + range], e.clientX, e.clientY),
    );
    bar.addEventListener("pointerleave", hideTip);
    picture.append(bar);
  });
  const flip = x(middle) > width - 110;
  picture.append(
    svg("line", { class: "mark", x1: x(middle), x2: x(middle), y1: top - 8, y2: height - bottom }),
    svg("text", {
      class: "markname",
      x: x(middle) + (flip ? -5 : 5),
      y: top - 4,
      "text-anchor": flip ? "end" : "start",
      text: "half below " + options.format(middle),
    }),
  );
  xAxis(picture, box, x, niceTicks(low, high, Math.max(3, Math.floor(width / 80))), tickNumber);
  xTitle(picture, box, options.label);
  node.replaceChildren(picture);
}
