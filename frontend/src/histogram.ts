// Histograms as SVG, with the median marked.

import { drawMark, drawTicks, plotOf } from "./axes";
import { figure, h, hideTip, showTip, svg } from "./dom";
import { finite, most, plural, tickNumber } from "./format";
import { niceTicks } from "./scales";

export interface HistogramOptions {
  label: string;
  values: unknown[];
  format: (v: number) => string;
  tick?: (v: number) => string;
  height?: number;
  most?: number; // what no value exceeds
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
        ", median " +
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
  if (!values.length) {
    node.replaceChildren(h("p", { class: "quiet", text: "No values." }));
    return;
  }
  let [low, high] = [values[0], values[values.length - 1]];
  if (!(high > low)) {
    const pad = Math.abs(low) * 0.1 || 0.5;
    low -= pad;
    high = Math.min(options.most ?? Infinity, high + pad);
  }
  const bins = Math.max(6, Math.min(32, Math.ceil(1.6 * Math.sqrt(values.length))));
  const counts = new Array<number>(bins).fill(0);
  for (const v of values) counts[Math.min(bins - 1, Math.floor(((v - low) / (high - low)) * bins))]++;
  const { height } = options;
  const roof = most(counts);
  const plot = plotOf({ width, height, top: 22, x: [low, high], y: [0, roof], xTitle: options.label });
  drawTicks(plot, {
    x: niceTicks(low, high, Math.max(3, Math.floor(width / 80))),
    xFormat: options.tick ?? tickNumber,
    y: niceTicks(0, roof, 3).filter(Number.isInteger),
    yFormat: String,
  });
  const wide = (plot.right - plot.left) / bins;
  counts.forEach((count, i) => {
    const [from, to] = [i, i + 1].map((edge) => options.format(low + (edge * (high - low)) / bins));
    const bar = svg("rect", {
      class: "column",
      x: plot.left + i * wide + 0.5,
      width: Math.max(1, wide - 1),
      y: plot.y(count),
      height: plot.floor - plot.y(count),
    });
    bar.addEventListener("pointermove", (e) =>
      showTip(plural(count, "instance"), [options.label + " " + from + " to " + to], e.clientX, e.clientY),
    );
    bar.addEventListener("pointerleave", hideTip);
    plot.picture.append(bar);
  });
  drawMark({ ...plot, top: plot.top - 13 }, middle, "median " + options.format(middle));
  node.replaceChildren(plot.picture);
}
