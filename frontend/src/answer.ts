// The answer first: where it stands among others, what raised and lowered it, since when.

import { D, explained, N, targetShown } from "./data";
import { type Child, figure, h, svg } from "./dom";
import { capital, chance, finite, least, most, numeral, plural, tickNumber, tickPercent } from "./format";
import { classBars, riskName, stepChart } from "./prediction";
import { niceTicks, scaleOf } from "./scales";
import type { Outputs } from "./types";

export const riskOf = (logit: number) => 1 / (1 + Math.exp(-logit));

const view = () => (targetShown() ? D.views[targetShown() - 1] : null);

const isRisk = () => D.before?.kind === "probability";

// Whether the model answers with one value, which then has a mean over the instances.
export const isSingle = () => D.before?.kind === "value" && !D.before.series && finite(D.population);

// Whether the first card has one number to show: neither classes nor an answer at every step.
const isNumber = () => isRisk() || (D.before?.kind === "value" && !D.before.series);

// The number that the page reads for an instance: of the target in sight, else of the prediction.
export function answerOf(n: number): number {
  const other = view();
  const found = explained();
  if (other) return other.predictions?.[n] ?? found?.answer[n] ?? NaN;
  // of two classes the one that was explained, which need not be the second
  if (isRisk() && found?.logit && finite(found.answer[n])) return riskOf(found.answer[n]);
  // of several horizons or outputs, the one that was explained
  if (D.before?.kind === "value" && found && !D.before.series && !isSingle()) return found.answer[n] ?? NaN;
  return D.before?.value?.[n] ?? NaN;
}

export const told = (v: number | null | undefined) => (isRisk() ? chance(v) : numeral(v));

// What is answered: "Risk of death", "The value at horizon 6".
function answerName(): string {
  const other = view();
  if (other && !D.compared) return capital(other.label);
  const asked = D.compared ? null : explained();
  if (isRisk()) return capital(asked?.logit && asked.target ? asked.target.replace(/^the /, "") : riskName());
  return capital(explained()?.target || "the prediction");
}

// The answer beside the threshold, the mean and what really happened.
export function answerWords(n: number, extent: string): string[] {
  const before = D.before;
  if (!before) return [];
  const value = answerOf(n);
  const words: string[] = [];
  const several = !isNumber();
  if (several) words.push("Predicted " + (before.text[n] || "–") + detail(before, n) + ".");
  // of an answer at every step, the one that was explained
  const asked = explained();
  const at = before.series && asked?.target.includes(" at ") ? asked.answer[n] : null;
  if (asked && finite(at))
    words.push(capital(asked.target) + ": " + (asked.logit ? chance(riskOf(at)) : numeral(at)) + ".");
  if (isRisk() && (!view() || D.compared)) {
    const places: string[] = [];
    if (finite(D.threshold))
      places.push(
        (value >= D.threshold ? "above" : "below") + " the threshold of " + tickPercent(D.threshold),
      );
    if (finite(D.population) && !view() && N > 1)
      places.push("the mean of " + plural(N, "instance") + " is " + chance(D.population));
    if (places.length) words.push(capital(places.join("; ")) + ".");
  } else if (before.kind === "value" && !view() && finite(D.population) && N > 1)
    words.push("The mean of " + plural(N, "instance") + " is " + numeral(D.population) + ".");
  const beside = otherModel(n);
  if (beside) words.push(capital(beside.name) + " says " + told(beside.value) + ".");
  const target = D.target?.text[n];
  if (target && !view()) words.push("Actually: " + target + ".");
  if (!extent) words.push("Its mask is empty: no measurement stands out.");
  return words;
}

// Where two models are compared: which of them is in sight.
const shownModel = () => D.compared?.labels[view() ? 1 : 0];

// Where two models are compared: the answer of the one that is not in sight.
function otherModel(n: number): { name: string; value: number } | null {
  if (!D.compared) return null;
  const value = view() ? D.before?.value?.[n] : D.views[0]?.predictions?.[n];
  return finite(value) ? { name: D.compared.labels[view() ? 0 : 1], value } : null;
}

const detail = (output: Outputs, n: number) =>
  output.kind === "classes" ? " (probability " + chance(output.value?.[n]) + ")" : "";

// A line of the first card: its name, then what it says.
export type Reason = [string, ...Child[]];

interface Mark {
  value: number;
  name: string;
  look: string;
}

// One line from least to greatest: this instance, the mean, the threshold, what really happened.
function scaleFigure(n: number): HTMLElement | null {
  const before = D.before;
  if (!before?.value || before.series || before.kind === "classes" || before.kind === "text") return null;
  const value = answerOf(n);
  if (!finite(value)) return null;
  const marks: Mark[] = [{ value, name: shownModel() ?? "this one", look: "before" }];
  const beside = otherModel(n);
  if (beside) marks.push({ value: beside.value, name: beside.name, look: "after" });
  if (finite(D.population) && !view() && N > 1)
    marks.push({ value: D.population, name: "mean", look: "mean" });
  if (isRisk() && finite(D.threshold))
    marks.push({ value: D.threshold, name: "threshold", look: "threshold" });
  const actual = view() || value !== before.value[n] ? null : D.target?.value?.[n];
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
        text: isRisk() ? tickPercent(v) : tickNumber(v),
      }),
    );
  const [own, after] = ["before", "after"].map((look) => shown.find((mark) => mark.look === look));
  if (own && after) picture.append(svg("line", { class: "travel", x1: own.at, x2: after.at, y1: y, y2: y }));
  for (const mark of shown.reverse()) {
    const { at } = mark;
    if (mark.look === "actual")
      picture.append(svg("path", { class: "actual", d: "M" + at + " " + (y + 4) + "l5 8h-10z" }));
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

// `reasons`: what raised it, what lowered it and since when, each with its name.
export function answerCard(n: number, extent: string, reasons: Reason[]): HTMLElement | null {
  if (!D.before) return null;
  const words = answerWords(n, extent);
  const parts: Child[] = [
    isNumber()
      ? h(
          "p",
          { class: "said" },
          h("strong", { text: told(answerOf(n)) }),
          h("span", { text: [answerName(), shownModel()].filter(Boolean).join(", ") }),
        )
      : null,
    words.length ? h("p", { class: "sentence", text: words.join(" ") }) : null,
    reasons.length
      ? h(
          "dl",
          { class: "reasons" },
          reasons.map(([name, ...text]) => h("div", {}, h("dt", { text: name }), h("dd", {}, text))),
        )
      : null,
    scaleFigure(n),
    view() ? null : classBars(n),
    view() ? null : stepChart(n),
  ];
  return h("section", { class: "card", "aria-label": "Prediction" }, ...parts);
}
