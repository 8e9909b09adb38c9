// What was predicted, and what is predicted without the highlighted cells: in words and as a figure.

import { atTime, D } from "./data";
import { figure, h, svg } from "./dom";
import { capital, chance, finite, least, most, numeral, tickNumber } from "./format";
import { chartKey, type Line, lineChart } from "./lines";
import { niceTicks, scaleOf } from "./scales";
import type { Num, Outputs } from "./types";

export function spoken(output: Outputs | null, n: number): string | null {
  if (!output) return null;
  const detail =
    output.kind === "probability"
      ? " (" + riskName() + " " + chance(output.value?.[n]) + ")"
      : output.kind === "classes"
        ? " (probability " + chance(output.value?.[n]) + ")"
        : "";
  return (output.text[n] || "–") + detail;
}

export const className = (i: number) =>
  D.classes && D.classes[i] !== undefined ? D.classes[i] : "class " + i;
export const riskName = () => "probability of " + className(1);

export function sentence(n: number, extent: string): string {
  const [before, after, target] = [D.before, D.after, D.target].map((output) => spoken(output, n));
  const parts = [];
  if (before) parts.push("Predicted " + before + (target ? "; actually " + target : "") + ".");
  if (after) parts.push("With the highlighted " + extent + " averaged out over time: " + after + ".");
  return parts.join(" ");
}

// Two points on a line: the prediction with everything, and without the highlighted cells.
export function dumbbell(n: number): HTMLElement | null {
  const [before, after] = [D.before, D.after];
  if (!before || !before.value || before.series || before.kind === "classes") return null;
  const risk = before.kind === "probability";
  const told = risk ? chance : numeral;
  const values = [...before.value, ...(after?.value ?? []), ...(D.target?.value ?? [])].filter(finite);
  const [low, high] = before.kind === "value" ? [least(values), most(values)] : [0, 1];
  const a = before.value[n] ?? NaN,
    b = after?.value?.[n] ?? NaN,
    actual = D.target?.value?.[n] ?? NaN;
  return figure(
    {
      class: "chart dumbbell",
      role: "img",
      "aria-label": "With everything " + told(a) + ", without the highlighted cells " + told(b),
    },
    (node, width) => {
      const left = 14,
        right = 14,
        y = 44,
        height = 88;
      const x = scaleOf(low, high > low ? high : low + 1, left, width - right, false);
      const picture = svg("svg", {
        width,
        height,
        viewBox: "0 0 " + width + " " + height,
        "aria-hidden": "true",
      });
      picture.append(svg("line", { class: "rail", x1: left, x2: width - right, y1: y, y2: y }));
      for (const v of niceTicks(low, high, 4))
        picture.append(
          svg("text", {
            class: "tick",
            x: x(v),
            y: y + 38,
            "text-anchor": v === low ? "start" : v === high ? "end" : "middle",
            text: tickNumber(v),
          }),
        );
      if (risk)
        picture.append(svg("line", { class: "mark", x1: x(0.5), x2: x(0.5), y1: y - 10, y2: y + 22 }));
      if (finite(actual))
        picture.append(svg("path", { class: "actual", d: "M" + x(actual) + " " + (y + 9) + "l6 11h-12z" }));
      if (finite(b))
        picture.append(
          svg("line", { class: "travel", x1: x(a), x2: x(b), y1: y, y2: y }),
          svg("circle", { class: "dot after", cx: x(b), cy: y, r: 7 }),
        );
      if (finite(a)) picture.append(svg("circle", { class: "dot before", cx: x(a), cy: y, r: 7 }));
      const name = (v: number, text: string, shift: number) => {
        const side = x(v) < 80 ? "start" : x(v) > width - 80 ? "end" : "middle";
        picture.append(
          svg("text", { class: "markname", x: x(v), y: y - 15 - shift, "text-anchor": side, text }),
        );
      };
      const near = finite(b) && Math.abs(x(a) - x(b)) < 180;
      if (finite(a)) name(a, "with everything " + told(a), near ? 14 : 0);
      if (finite(b)) name(b, "without " + told(b), 0);
      node.replaceChildren(
        picture,
        ...(finite(actual) ? [h("p", { class: "note", text: "▲ actual value " + numeral(actual) })] : []),
      );
    },
  );
}

// Class probabilities before and after, the greatest first.
export function classBars(n: number): HTMLElement | null {
  if (D.before?.kind !== "classes" || !D.before.classes) return null;
  const before = D.before.classes[n],
    after = D.after?.classes?.[n] ?? null;
  const order = before
    .map((_, i) => i)
    .sort((a, b) => (before[b] ?? 0) - (before[a] ?? 0))
    .slice(0, 6);
  const bar = (share: Num, look: string) => {
    const node = h("i", { class: "fillbar " + look });
    node.style.width = 100 * (share ?? 0) + "%";
    return node;
  };
  return h(
    "table",
    { class: "classes" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Class", "With everything", ...(after ? ["Without"] : [])].map((text) =>
          h("th", { scope: "col", text }),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      order.map((i) =>
        h(
          "tr",
          {},
          h("th", { scope: "row", text: className(i) }),
          ([before, after] as (Num[] | null)[]).map((p, k) =>
            p ? h("td", {}, bar(p[i], k ? "after" : "before"), h("span", { text: chance(p[i]) })) : null,
          ),
        ),
      ),
    ),
  );
}

// A prediction at every step: both lines over time.
export function stepChart(n: number): HTMLElement[] | null {
  if (!D.before?.series) return null;
  const lines: Line[] = [{ name: "with everything", values: D.before.series[n], look: "main" }];
  if (D.after?.series)
    lines.push({ name: "without the highlighted cells", values: D.after.series[n], look: "chance" });
  if (D.target?.series) lines.push({ name: "actual", values: D.target.series[n], look: "other-1" });
  const x = D.times.map((_, t) => t);
  return [
    lineChart({
      label: "Prediction over time",
      x,
      lines,
      height: 170,
      xFormat: (t) => D.times[t],
      xName: (t) => capital(atTime(t)),
      yFormat: numeral,
      xTitle: D.unit,
    }),
    chartKey(lines),
  ];
}
