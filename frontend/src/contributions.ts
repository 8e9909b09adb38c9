// Which channels raised the answer and which lowered it, at which hours, in the answer's units.

import { type Reason, riskOf } from "./answer";
import { card, figureCard, moreButton } from "./cards";
import {
  C,
  D,
  endOf,
  explained,
  hasSigned,
  highlightedAt,
  metric,
  N,
  signedAt,
  spreadAt,
  T,
  targetShown,
  withUnit,
} from "./data";
import { figure, h, hideTip, showTip, svg } from "./dom";
import { brief, chance, finite, least, most, numeral, percent, plural } from "./format";
import { ranges, scaleOf } from "./scales";

export interface Move {
  c: number;
  sum: number; // signed, in the answer's units
  when: string; // where most of it came about
}

// `when`: highlighted steps that push this way; else those that hold most of it.
export interface Share extends Move {
  share: number; // of the mask
  spread: number; // of the sum, in its units
  against: string; // its highlighted steps that push the other way
}

const NOTABLE = 0.05; // of all contributions
const FEW = 3; // channels that a sentence names, and a list at least; stretches of time that are named

// Steps in words: "hours 3–7, 12"; of many stretches the three longest.
export function stepsInWords(steps: number[]): string {
  const found = ranges(steps);
  const longest = [...found].sort((a, b) => b[1] - b[0] - (a[1] - a[0])).slice(0, FEW);
  const shown = found
    .filter((one) => longest.includes(one))
    .map(([a, b]) => D.times[a] + (a === b ? "" : "–" + D.times[b]));
  return D.unit + (steps.length > 1 ? "s " : " ") + shown.join(", ") + (found.length > FEW ? ", …" : "");
}

// Steps at which a channel's cells are in the mask, in words; with a sign, only those that push that way.
export function whenOf(n: number, c: number, sign = 0): string {
  const steps: number[] = [];
  for (let t = 0; t < endOf(n); t++)
    if (highlightedAt(n, t, c) && (!sign || sign * signedAt(n, t, c) > 0)) steps.push(t);
  if (!steps.length) return "";
  return steps.length === endOf(n) ? "all " + D.unit + "s" : stepsInWords(steps);
}

const SHORT = 1 / 3; // of the steps: a longer stretch is no answer to "when"

// The shortest stretch that holds half of what pushes a sum its way, in words; "" where that is not short.
export function mostlyOf(values: number[], name = stepsInWords): string {
  const all = values.reduce((sum, v) => sum + v, 0);
  const pushing = values.map((v) => Math.max(0, Math.sign(all) * v));
  const half = 0.5 * pushing.reduce((sum, v) => sum + v, 0);
  if (!(half > 0)) return "";
  let [best, from, held] = [[0, values.length], 0, 0];
  for (let to = 0; to < values.length; to++) {
    held += pushing[to];
    while (held - pushing[from] >= half) held -= pushing[from++];
    if (held >= half && to + 1 - from < best[1] - best[0]) best = [from, to + 1];
  }
  const [start, end] = best;
  if (end - start > SHORT * values.length) return "";
  return "mostly " + name(Array.from({ length: end - start }, (_, i) => start + i));
}

export function contributionsOf(n: number, byChannel: number[]): Share[] {
  const found: Share[] = [];
  for (let c = 0; c < C; c++) {
    const cells = Array.from({ length: Math.min(T, endOf(n)) }, (_, t) => signedAt(n, t, c));
    const sum = cells.reduce((all, v) => all + v, 0);
    const own = whenOf(n, c, sum < 0 ? -1 : 1);
    found.push({
      c,
      sum,
      share: byChannel[c],
      spread: spreadAt(n, c) || 0,
      when: own || mostlyOf(cells) || "spread over the " + D.unit + "s",
      against: whenOf(n, c, sum < 0 ? 1 : -1),
    });
  }
  return found.sort((a, b) => Math.abs(b.sum) - Math.abs(a.sum));
}

// Channels that matter: those that carry a notable part of all contributions; the greatest, where many share them.
export function notable(found: Share[]): Share[] {
  const size = (list: Share[]) => list.reduce((sum, one) => sum + Math.abs(one.sum), 0);
  const all = size(found);
  const kept = found.filter((one) => one.sum && Math.abs(one.sum) >= NOTABLE * all);
  return size(kept) >= 0.5 * all && kept.length ? kept.slice(0, 12) : found.slice(0, FEW);
}

export const signed = (v: number) => (v > 0 ? "+" : "") + brief(v);

// The same with one number of digits, so that amounts in a list can be compared at a glance.
function amounts(roof: number): (v: number) => string {
  if (roof < 0.01 || roof >= 1000) return signed;
  const digits = roof < 1 ? 3 : roof < 100 ? 2 : 0;
  return (v) => (+v.toFixed(digits) > 0 ? "+" : "") + v.toFixed(digits).replace("-", "−");
}

// What the answer would be without this contribution, where answers are log-odds.
function withoutIt(n: number, sum: number): string {
  const found = explained();
  const answer = found?.answer[n];
  if (!found?.logit || !finite(answer)) return "";
  const left = chance(riskOf(answer - sum));
  return (/^[<>]/.test(left) ? "" : "≈ ") + left + " without it";
}

// What bars are drawn between: zero, the lowest and the highest of the sums with their error bars.
type Span = [number, number];

function spanOf(list: { sum: number; spread?: number }[]): Span {
  const low = least(
    list.map((one) => one.sum - (one.spread ?? 0)),
    0,
  );
  const high = most(
    list.map((one) => one.sum + (one.spread ?? 0)),
    0,
  );
  return high > low ? [low, high] : [0, 1e-9];
}

const roofOf = ([low, high]: Span) => Math.max(-low, high);

// A bar from zero to a signed sum, with its error bar.
function signedBar(sum: number, [low, high]: Span, spread = 0): HTMLElement {
  return figure({ class: "track" }, (node, width) => {
    const x = scaleOf(low, high, 4, width - 4);
    const [from, to] = [Math.min(x(0), x(sum)), Math.max(x(0), x(sum))];
    const [a, b] = [x(sum - spread), x(sum + spread)];
    node.replaceChildren(
      svg(
        "svg",
        { width, height: 22, "aria-hidden": "true" },
        svg("line", { class: "axisline", x1: x(0), x2: x(0), y1: 0, y2: 22 }),
        svg("rect", {
          class: sum >= 0 ? "raises" : "lowers",
          x: from,
          y: 4,
          width: Math.max(1, to - from),
          height: 14,
        }),
        b - a > 2
          ? svg("path", { class: "whisker", d: "M" + a + " 11H" + b + "M" + a + " 7v8M" + b + " 7v8" })
          : null,
      ),
    );
  });
}

// What the channels that are not listed add up to, so that the bars on the page sum to the whole.
function othersRow(count: number, sum: number, span: Span, unit = ""): HTMLElement[] {
  if (!count) return [];
  const name = plural(count, "other channel");
  return [
    h(
      "div",
      { class: "contribution others", role: "listitem" },
      h("span", { class: "who2", text: name }),
      signedBar(sum, span),
      h("span", { class: "amount", text: amounts(roofOf(span))(sum) + (unit ? " " + unit : "") }),
    ),
  ];
}

const total = (list: { sum: number }[]) => list.reduce((sum, one) => sum + one.sum, 0);

// Hours at which a channel did the opposite of what it does on the whole.
const againstWords = (one: Share) =>
  one.against ? (one.sum < 0 ? "raises" : "lowers") + " at " + one.against : "";

function barRow(n: number, one: Share, span: Span): HTMLElement {
  const raises = one.sum >= 0;
  const words = [
    withUnit(one.c) +
      ": " +
      (raises ? "raises" : "lowers") +
      " by " +
      brief(Math.abs(one.sum)) +
      (one.spread > 0 ? " ± " + brief(+one.spread.toPrecision(2)) : ""),
    one.when + (one.when.startsWith("mostly") ? ", not in the mask" : ""),
    againstWords(one),
    percent(one.share) + " of the mask",
    withoutIt(n, one.sum),
  ].filter(Boolean);
  const row = h(
    "div",
    { class: "contribution", role: "listitem", tabindex: "0", "aria-label": words.join("; ") },
    h(
      "span",
      { class: "who2" },
      h("strong", { text: D.channels[one.c] }),
      h("span", { class: "sub", text: [one.when, againstWords(one)].filter(Boolean).join("; ") }),
    ),
    signedBar(one.sum, span, one.spread),
    h(
      "span",
      { class: "amount" },
      h("b", { class: raises ? "up" : "down", text: amounts(roofOf(span))(one.sum) }),
      h("span", { class: "sub", text: withoutIt(n, one.sum) }),
    ),
  );
  const tell = (x: number, y: number) => showTip(words[0], words.slice(1), x, y);
  row.addEventListener("pointermove", (event) => tell(event.clientX, event.clientY));
  row.addEventListener("pointerleave", hideTip);
  row.addEventListener("blur", hideTip);
  return row;
}

// Whether the answer lies below that to the baselines: then what lowered it comes first.
function lowers(n: number): boolean {
  const found = explained();
  return (found?.answer[n] ?? 0) < (found?.reference[n] ?? 0);
}

// Between what the bars lead, as a reader sees it.
function startOf(n: number): { from: string; to: string; change: number; against: string } | null {
  const found = explained();
  const [answer, reference] = [found?.answer[n], found?.reference[n]];
  if (!found || !finite(answer) || !finite(reference)) return null;
  const plain = (v: number) => numeral(v) + (found.unit ? " " + found.unit : "");
  // risks that would both be read as next to nothing are told as log-odds
  const apart = found.logit && chance(riskOf(answer)) !== chance(riskOf(reference));
  const read = apart ? (v: number) => chance(riskOf(v)) : plain;
  const noise = metric("noise_baseline")?.values[n] === true;
  const against = noise || !found.against ? "to its baselines" : found.against;
  return { from: read(reference), to: read(answer), change: answer - reference, against };
}

// What the bars cannot say: without other sequences to compare with, how this one differs from them all along.
function distanceWords(n: number, from: string): string {
  const found = explained();
  const [answer, reference] = [found?.answer[n], found?.reference[n]];
  const mean = D.population;
  if (!found?.logit || !found.level || targetShown() || !finite(mean) || N < 2) return "";
  if (!finite(answer) || !finite(reference) || mean <= 0 || mean >= 1) return "";
  const average = Math.log(mean / (1 - mean));
  if (Math.abs(average - reference) <= Math.abs(answer - reference)) return "";
  return (
    "Why it starts at " +
    from +
    " and not at the mean of " +
    chance(mean) +
    " is not in the bars: that is about levels that stand all along, not about single " +
    D.unit +
    "s. "
  );
}

// Where the bars start, for the first card.
export function startWords(n: number): Reason | null {
  const start = explained()?.logit || D.task === "regression" ? startOf(n) : null;
  return start?.change && hasSigned()
    ? ["Starting from", start.from + ", the model's answer " + start.against]
    : null;
}

const NOTHING = "No measurement raised or lowered this answer: it is that of its baselines.";

export function contributionsCard(n: number, byChannel: number[]): HTMLElement | null {
  const found = explained();
  if (!found || !hasSigned()) return null;
  const all = contributionsOf(n, byChannel);
  const few = notable(all).filter((one) => one.sum);
  if (!few.length)
    return card("What raises it, what lowers it", null, h("p", { class: "quiet", text: NOTHING }));
  const place = h("div", {});
  const draw = (list: Share[]) => {
    const rest = total(all) - total(list);
    const span = spanOf([...list, { sum: rest }]);
    const raising = list.filter((one) => one.sum > 0);
    const lowering = list.filter((one) => one.sum <= 0);
    const group = (title: string, look: string, part: Share[]) =>
      part.length
        ? [
            h("h3", { class: look, text: title }),
            h(
              "div",
              { role: "list", "aria-label": title },
              part.map((one) => barRow(n, one, span)),
            ),
          ]
        : [];
    const others = othersRow(all.length - list.length, rest, span);
    const groups = [group("▲ raises it", "up", raising), group("▼ lowers it", "down", lowering)];
    place.replaceChildren(
      ...(lowers(n) ? groups.reverse() : groups).flat(),
      ...(others.length ? [h("div", { role: "list", "aria-label": "The others" }, others)] : []),
    );
  };
  draw(few);
  const start = startOf(n);
  const sum = start
    ? "The bars lead from " +
      start.from +
      ", the model's answer " +
      start.against +
      ", to " +
      start.to +
      ", its answer here. They sum to " +
      amounts(roofOf(spanOf(all)))(start.change) +
      (found.unit ? " " + found.unit : "") +
      ". "
    : "";
  return figureCard(
    "What raises it, what lowers it",
    sum +
      (start ? distanceWords(n, start.from) : "") +
      (found.logit ? "“Without it”: the risk with that contribution taken off. " : "") +
      (all.some((one) => one.spread > 0) ? "Error bars: one standard deviation over the baselines." : ""),
    place,
    few.length < C
      ? moreButton("Show all " + C + " channels", "Show the channels that matter", (open) =>
          draw(open ? all : few),
        )
      : null,
  );
}

// Bars of some of the channels' signed sums, and of what the others and time alone add: the change between two times.
export function barList(shown: Move[], all: Move[], elapsed: number, unit: string): HTMLElement {
  const rest = total(all) - total(shown);
  const span = spanOf([...shown, { sum: rest }, { sum: elapsed }]);
  const amount = (sum: number) => amounts(roofOf(span))(sum) + (unit ? " " + unit : "");
  const row = (name: string, sum: number, when: string) =>
    h(
      "div",
      { class: "contribution", role: "listitem" },
      h("span", { class: "who2" }, h("strong", { text: name }), h("span", { class: "sub", text: when })),
      signedBar(sum, span),
      h("span", { class: "amount" }, h("b", { class: sum >= 0 ? "up" : "down", text: amount(sum) })),
    );
  return h(
    "div",
    { role: "list", "aria-label": "What moved it" },
    shown.map((one) => row(D.channels[one.c], one.sum, one.when)),
    elapsed ? row("Time alone", elapsed, "no new measurement") : null,
    othersRow(all.length - shown.length, rest, span, unit),
  );
}

// Names of channels, at most three; they may have commas of their own.
export const names = (list: Move[]) =>
  list
    .slice(0, FEW)
    .map((one) => D.channels[one.c])
    .join("; ");

// What the model would say without the channel that raises a risk most.
export function lowerWords(n: number, byChannel: number[]): Reason | null {
  if (!hasSigned()) return null;
  const [most] = notable(contributionsOf(n, byChannel)).filter((one) => one.sum > 0);
  const left = most ? withoutIt(n, most.sum).replace(" without it", "") : "";
  return left
    ? ["Would lower it", "leaving out " + D.channels[most.c] + ": the model would say " + left]
    : null;
}

// What raised the answer and what lowered it, in a line each: the channels that matter most, with their steps.
export function reasonWords(n: number, byChannel: number[]): Reason[] {
  const found = explained();
  if (!found || !hasSigned()) return [];
  const all = notable(contributionsOf(n, byChannel));
  const line = (name: string, list: Share[]): Reason => [
    name,
    list
      .slice(0, FEW)
      .map((one, i) => [i ? "; " : "", h("strong", { text: D.channels[one.c] }), " (" + one.when + ")"]),
    list.length ? "" : "no channel stands out",
  ];
  const [raised, lowered] = [all.filter((one) => one.sum > 0), all.filter((one) => one.sum < 0)];
  const lines = [line("Raised by", raised), line("Lowered by", lowered)];
  return lowers(n) ? lines.reverse() : lines;
}
