// The raw series of the channels that matter, in their units, the highlighted times shaded, measured values as dots.

import { figureCard, moreButton } from "./cards";
import {
  bytes,
  C,
  D,
  endOf,
  hasSigned,
  highlightedAt,
  inputAt,
  maskAt,
  observedAt,
  signedAt,
  T,
  unitOf,
} from "./data";
import { figure, h, hideTip, redraw, say, showTip, svg, tip } from "./dom";
import { brief, finite, least, most, percent } from "./format";
import { describeCell, type Totals } from "./instance";
import { channelOrder, labelled, scaleOf } from "./scales";
import { TimeWindow } from "./window";

export function seriesCard(n: number, sums: Totals, sight: TimeWindow): HTMLElement {
  const rest = channelOrder(sums.byChannel, "importance").filter((c) => !sums.leading.includes(c));
  const place = h("div", { class: "series" });
  const draw = (all: boolean) =>
    place.replaceChildren(
      ...[...sums.leading, ...(all ? rest : [])].map((c) => sparkline(n, c, sums, sight)),
      timeAxis(sight),
    );
  draw(false);
  return figureCard(
    "The measurements themselves",
    "In the units of the data. " +
      (hasSigned()
        ? "Shaded orange where a value raises the answer, blue where it lowers it."
        : "Shaded where the mask highlights.") +
      (bytes("observed") ? " Dots and the solid line were measured; the dashed line was filled in." : ""),
    place,
    rest.length ? moreButton("Show all " + C + " channels", "Show the channels that matter", draw) : null,
  );
}

function sparkline(n: number, c: number, sums: Totals, sight: TimeWindow): HTMLElement {
  const values = Array.from({ length: T }, (_, t) => inputAt(n, t, c));
  const known = values.filter(finite);
  const [low, high] = known.length ? [least(known), most(known)] : [0, 1];
  const unit = unitOf(c) ? " " + unitOf(c) : "";
  const words = !known.length
    ? "never measured"
    : low === high
      ? "always " + brief(low) + unit
      : brief(low) + " to " + brief(high) + unit;
  let cross: ((t: number | null) => void) | null = null;
  const node = figure(
    {
      class: "spark",
      tabindex: "0",
      role: "img",
      "aria-label": D.channels[c] + ", " + words + "; " + percent(sums.byChannel[c]) + " of the mask",
    },
    (holder, width) => {
      cross = drawSpark(holder, width, { n, c, values, low, high, sight });
    },
  );
  sight.onchange(() => redraw(node));
  let at: number | null = null;
  const read = (t: number, x: number, y: number) => {
    at = t;
    cross?.(t);
    const [title, ...lines] = describeCell(n)(t, c);
    showTip(title, lines, x, y);
  };
  const clear = () => {
    hideTip();
    at = null;
    cross?.(null);
  };
  node.addEventListener("pointermove", (event) => {
    const box = node.getBoundingClientRect();
    const t = sight.from + Math.floor(((event.clientX - box.left) / box.width) * sight.span);
    if (t >= 0 && t < T && cross) read(t, event.clientX, event.clientY);
  });
  node.addEventListener("pointerleave", clear);
  node.addEventListener("blur", clear);
  node.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !cross) return;
    event.preventDefault();
    const t: number = at === null ? sight.from : Math.max(0, Math.min(T - 1, at + by));
    sight.include(t);
    const box = node.getBoundingClientRect();
    read(t, box.left + ((t - sight.from + 0.5) * box.width) / sight.span, box.top + box.height / 2);
    say(tip.textContent ?? "");
  });
  return h(
    "div",
    { class: "sparkrow" },
    h(
      "div",
      { class: "sparkname" },
      h("strong", { text: D.channels[c], title: D.channels[c] }),
      h("span", { class: "sub", text: words }),
    ),
    node,
  );
}

// The times under the series, as many as have room.
function timeAxis(sight: TimeWindow): HTMLElement {
  const axis = figure({ class: "sparkaxis", "aria-hidden": "true" }, (node, width) => {
    const across = width / sight.span;
    const longest = most(
      D.times.slice(sight.from, sight.to).map((label) => label.length),
      1,
    );
    const places = labelled(sight.span, width, 7 * Math.min(longest, 16) + 14);
    const picture = svg("svg", { width, height: 20, viewBox: "0 0 " + width + " 20" });
    for (const place of places) {
      const t = sight.from + place;
      const x = (t - sight.from + 0.5) * across;
      const anchor = x < 20 ? "start" : x > width - 20 ? "end" : "middle";
      picture.append(svg("text", { class: "tick", x, y: 14, "text-anchor": anchor, text: D.times[t] }));
    }
    node.replaceChildren(picture);
  });
  sight.onchange(() => redraw(axis));
  return h(
    "div",
    { class: "sparkrow" },
    h("div", { class: "sparkname" }, h("span", { class: "sub", text: D.unit })),
    axis,
  );
}

interface Spark {
  n: number;
  c: number;
  values: number[];
  low: number;
  high: number;
  sight: TimeWindow;
}

const FEW = 400; // steps that are drawn one by one

function drawSpark(node: HTMLElement, width: number, spark: Spark): (t: number | null) => void {
  const { n, c, values, low, high, sight } = spark;
  const height = 52;
  const across = width / sight.span;
  const y = scaleOf(low, high > low ? high : low + 1, height - 7, 7);
  const x = (t: number) => (t - sight.from + 0.5) * across;
  const picture = svg("svg", {
    width,
    height,
    viewBox: "0 0 " + width + " " + height,
    "aria-hidden": "true",
  });
  const bucket = Math.max(1, Math.floor(sight.span / FEW));
  for (let t = sight.from; t < sight.to; t += bucket)
    picture.append(...shade(spark, t, bucket, x, across, height));
  const known = bytes("observed") !== null;
  const at = (t: number) => x(t).toFixed(1) + " " + y(values[t]).toFixed(1);
  // A stretch that ends in a value that was filled in is no measurement, wherever it begins.
  let [solid, filled] = ["", ""];
  for (let t = sight.from + 1; t < sight.to; t++) {
    if (!finite(values[t - 1]) || !finite(values[t])) continue;
    const stretch = "M" + at(t - 1) + "L" + at(t);
    if (observedAt(n, t, c)) solid += stretch;
    else filled += stretch;
  }
  picture.append(svg("path", { class: "line main thin", d: solid }));
  if (filled) picture.append(svg("path", { class: "line main thin filled", d: filled }));
  if (sight.span <= 120)
    for (let t = sight.from; t < Math.min(sight.to, endOf(n)); t++)
      if (finite(values[t]) && (known ? observedAt(n, t, c) : highlightedAt(n, t, c)))
        picture.append(svg("circle", { class: "dot main", cx: x(t), cy: y(values[t]), r: 2.4 }));
  const line = svg("line", { class: "crossline", y1: 0, y2: height, visibility: "hidden" });
  picture.append(line);
  node.replaceChildren(picture);
  return (t) => {
    line.setAttribute("visibility", t === null ? "hidden" : "visible");
    for (const key of ["x1", "x2"]) line.setAttribute(key, String(x(t ?? 0)));
  };
}

// The strongest cell of a few steps, in the colour of its direction.
function shade(
  { n, c }: Spark,
  start: number,
  count: number,
  x: (t: number) => number,
  across: number,
  height: number,
): SVGElement[] {
  let [peak, sign] = [0, 0];
  for (let t = start; t < Math.min(start + count, endOf(n)); t++) {
    const m = maskAt(n, t, c);
    if (m <= peak) continue;
    peak = m;
    sign = hasSigned() ? Math.sign(signedAt(n, t, c)) : 0;
  }
  if (peak < 0.08) return [];
  const look = sign > 0 ? "shade raises" : sign < 0 ? "shade lowers" : "shade";
  return [
    svg("rect", {
      class: look,
      x: x(start) - across / 2,
      y: 0,
      width: across * count + 0.3,
      height,
      "fill-opacity": (0.5 * peak).toFixed(3),
    }),
  ];
}
