// What was predicted, and what is predicted without the highlighted cells: in words and as a figure.

import { atTime, D } from "./data";
import { h } from "./dom";
import { capital, chance, numeral, tickNumber, tickPercent } from "./format";
import { chartKey, type Line, lineChart } from "./lines";
import type { Num } from "./types";

export const className = (i: number) =>
  D.classes && D.classes[i] !== undefined ? D.classes[i] : "class " + i;
export const riskName = () => "risk of " + className(1);

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
      yFormat: D.task === "classification" ? chance : numeral,
      yTick: D.task === "classification" ? tickPercent : tickNumber,
      xTitle: D.unit,
    }),
    chartKey(lines),
  ];
}
