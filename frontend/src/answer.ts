// The answer first: where it stands among others, what it would be without the highlighted cells.

import { D, explained, metric, N, targetShown } from "./data";
import { type Child, figure, h, svg } from "./dom";
import { capital, chance, finite, least, most, numeral, percent, plural, tickNumber } from "./format";
import { classBars, riskName, stepChart } from "./prediction";
import { niceTicks, scaleOf } from "./scales";
import type { Outputs } from "./types";

export const riskOf = (logit: number) => 1 / (1 + Math.exp(-logit));

const view = () => (targetShown() ? D.views[targetShown() - 1] : null);

// The number that the page reads for an instance: of the target in sight, else of the prediction.
export function answerOf(n: number): number {
  const other = view();
  if (other) return other.predictions?.[n] ?? explained()?.answer[n] ?? NaN;
  return D.before?.value?.[n] ?? NaN;
}

const isRisk = () => D.before?.kind === "probability";
export const told = (v: number | null | undefined) => (isRisk() ? chance(v) : numeral(v));

function times(value: number, mean: number): string {
  const ratio = value / mean;
  if (ratio >= 1.15) return ratio.toFixed(1) + " times the mean";
  if (ratio <= 0.87) return percent(ratio) + " of the mean";
  return "about the mean";
}

export function answerWords(n: number, extent: string): string[] {
  const before = D.before;
  if (!before) return [];
  const value = answerOf(n);
  const words: string[] = [];
  const beside = otherModel(n);
  const other = view();
  if (other && finite(value)) words.push(other.label + ": " + told(value) + ".");
  else if (isRisk() && finite(value)) {
    let first = capitalRisk() + " is " + chance(value);
    if (finite(D.threshold))
      first += value >= D.threshold ? ", above the threshold of " : ", below the threshold of ";
    if (finite(D.threshold)) first += tickNumber(D.threshold);
    if (finite(D.population) && D.population > 0)
      first +=
        ", " +
        times(value, D.population) +
        " of " +
        plural(N, "instance") +
        " (" +
        chance(D.population) +
        ")";
    words.push(first + ".");
  } else if (before.kind === "value" && finite(value)) {
    const name = explained()?.target || "the prediction";
    const place = finite(D.population) ? "; the mean of all is " + numeral(D.population) : "";
    words.push(name.charAt(0).toUpperCase() + name.slice(1) + " is " + numeral(value) + place + ".");
  } else words.push("Predicted " + (before.text[n] || "–") + detail(before, n) + ".");
  if (beside) words.push(capital(beside.name) + " says " + told(beside.value) + ".");
  const target = D.target?.text[n];
  if (target && !view()) words.push("Actually: " + target + ".");
  const after = D.after?.value?.[n];
  if (!extent) words.push("Its mask is empty: no measurement stands out.");
  else if (!view() && D.after && finite(after))
    words.push(
      "Without the highlighted " +
        extent +
        ", each at its average over time, it would be " +
        told(after) +
        ".",
    );
  else if (!view() && D.after?.text[n])
    words.push("Without the highlighted " + extent + ": " + D.after.text[n] + ".");
  return words;
}

// Where two models are compared: the answer of the one that is not in sight.
function otherModel(n: number): { name: string; value: number } | null {
  if (!D.compared) return null;
  const value = view() ? D.before?.value?.[n] : D.views[0]?.predictions?.[n];
  return finite(value) ? { name: D.compared.labels[view() ? 0 : 1], value } : null;
}

const capitalRisk = () => {
  const name = riskName();
  return "The " + name;
};

const detail = (output: Outputs, n: number) =>
  output.kind === "classes" ? " (probability " + chance(output.value?.[n]) + ")" : "";

interface Mark {
  value: number;
  name: string;
  look: string;
}

// One line from least to greatest: this instance, the same without its highlighted cells, the mean, the threshold.
function scaleFigure(n: number): HTMLElement | null {
  const before = D.before;
  if (!before?.value || before.series || before.kind === "classes" || before.kind === "text") return null;
  const value = answerOf(n);
  if (!finite(value)) return null;
  const marks: Mark[] = [{ value, name: "this one", look: "before" }];
  const after = view() ? null : D.after?.value?.[n];
  if (finite(after)) marks.push({ value: after, name: "without the mask", look: "after" });
  const beside = otherModel(n);
  if (beside) marks.push({ value: beside.value, name: beside.name, look: "after" });
  if (finite(D.population) && !view()) marks.push({ value: D.population, name: "mean", look: "mean" });
  if (isRisk() && finite(D.threshold))
    marks.push({ value: D.threshold, name: "threshold", look: "threshold" });
  const actual = view() ? null : D.target?.value?.[n];
  if (finite(actual)) marks.push({ value: actual, name: "actual", look: "actual" });
  const all = [...marks.map((m) => m.value), ...(view()?.predictions ?? before.value).filter(finite)];
  const [low, high] = isRisk() ? [0, 1] : [least(all), most(all)];
  const label = marks.map((m) => m.name + " " + told(m.value)).join(", ");
  return figure({ class: "chart answer", role: "img", "aria-label": label }, (node, width) =>
    drawScale(node, width, marks, [low, high > low ? high : low + 1]),
  );
}

interface Placed extends Mark {
  text: string;
  at: number;
  start: number; // of the text
  wide: number;
  below: boolean; // what the answer is compared with stands below the line
  level: number; // above the line, from 0
}

// Where the names stand, so that none covers another.
function placed(marks: Mark[], x: (v: number) => number, width: number): Placed[] {
  const shown = marks.map((mark): Placed => {
    const text = mark.name + " " + told(mark.value);
    const [at, wide] = [x(mark.value), 6.3 * text.length];
    const start = Math.max(0, Math.min(width - wide, at - wide / 2));
    return { ...mark, text, at, start, wide, level: 0, below: !["before", "after"].includes(mark.look) };
  });
  // Below the line, names that would meet make way to both sides.
  const under = shown.filter((mark) => mark.below).sort((a, b) => a.at - b.at);
  under.slice(1).forEach((right, i) => {
    const left = under[i];
    if (left.start + left.wide + 8 <= right.start) return;
    left.start = Math.max(0, Math.min(left.start, left.at - left.wide + 4));
    right.start = Math.min(
      width - right.wide,
      Math.max(right.start, right.at - 4, left.start + left.wide + 8),
    );
  });
  // Above it, a name that would cover another goes up.
  const over = shown.filter((mark) => !mark.below).reverse();
  over.forEach((mark, i) => {
    const meets = (other: Placed) =>
      mark.start < other.start + other.wide + 8 && mark.start + mark.wide > other.start - 8;
    while (over.slice(0, i).some((other) => other.level === mark.level && meets(other))) mark.level++;
  });
  return shown;
}

function drawScale(node: HTMLElement, width: number, marks: Mark[], [low, high]: [number, number]): void {
  const side = 14;
  const x = scaleOf(low, high, side, width - side);
  const shown = placed(marks, x, width);
  const y = 38 + 16 * most(shown.map((mark) => mark.level));
  const height = y + 48;
  const picture = svg("svg", {
    width,
    height,
    viewBox: "0 0 " + width + " " + height,
    "aria-hidden": "true",
  });
  picture.append(svg("line", { class: "rail", x1: side, x2: width - side, y1: y, y2: y }));
  for (const v of niceTicks(low, high, 5))
    picture.append(
      svg("text", {
        class: "tick",
        x: x(v),
        y: y + 42,
        "text-anchor": x(v) < 30 ? "start" : x(v) > width - 30 ? "end" : "middle",
        text: tickNumber(v),
      }),
    );
  const [own, after] = ["before", "after"].map((look) => shown.find((mark) => mark.look === look));
  if (own && after) picture.append(svg("line", { class: "travel", x1: own.at, x2: after.at, y1: y, y2: y }));
  for (const mark of shown.reverse()) {
    const { at } = mark;
    if (mark.look === "actual")
      picture.append(svg("path", { class: "actual", d: "M" + at + " " + (y + 9) + "l6 11h-12z" }));
    else if (mark.below)
      picture.append(svg("line", { class: "reference", x1: at, x2: at, y1: y - 9, y2: y + 9 }));
    else picture.append(svg("circle", { class: "dot " + mark.look, cx: at, cy: y, r: 7 }));
    picture.append(
      svg("text", {
        class: "markname " + mark.look,
        x: mark.start + mark.wide / 2,
        y: mark.below ? y + 24 : y - 16 - 16 * mark.level,
        "text-anchor": "middle",
        text: mark.text,
      }),
    );
  }
  node.replaceChildren(picture);
}

export function answerCard(n: number, extent: string): HTMLElement | null {
  if (!D.before) return null;
  const flipped = metric("flipped")?.values[n];
  const parts: Child[] = [
    h("p", { class: "sentence", text: answerWords(n, extent).join(" ") }),
    flipped === true
      ? h("p", { class: "note", text: "Without them the predicted class is another one." })
      : null,
    scaleFigure(n),
    view() ? null : classBars(n),
    view() ? null : stepChart(n),
  ];
  return h("section", { class: "card", "aria-label": "Prediction" }, ...parts);
}
