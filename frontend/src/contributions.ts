// Which channels raised the answer and which lowered it, at which hours, in the answer's units.

import { type Reason, riskOf } from "./answer";
import { figureCard, moreButton } from "./cards";
import { C, D, endOf, explained, hasSigned, highlightedAt, signedAt, spreadAt, T, withUnit } from "./data";
import { figure, h, hideTip, showTip, svg } from "./dom";
import { brief, chance, finite, least, most, numeral, percent, plural } from "./format";
import { ranges, scaleOf } from "./scales";

export interface Move {
  c: number;
  sum: number; // signed, in the answer's units
}

export interface Share extends Move {
  share: number; // of the mask
  spread: number; // of the sum, in its units
  when: string;
}

const NOTABLE = 0.05; // of all contributions
const FEW = 3; // channels that a sentence names, and a list at least

// Steps at which a channel's cells are in the mask, in words.
export function whenOf(n: number, c: number): string {
  const steps: number[] = [];
  for (let t = 0; t < endOf(n); t++) if (highlightedAt(n, t, c)) steps.push(t);
  if (!steps.length) return "";
  if (steps.length === endOf(n)) return "all " + D.unit + "s";
  const found = ranges(steps).map(([a, b]) => D.times[a] + (a === b ? "" : "–" + D.times[b]));
  const shown = found.slice(0, 3).join(", ") + (found.length > 3 ? ", …" : "");
  return D.unit + (steps.length > 1 ? "s " : " ") + shown;
}

export function contributionsOf(n: number, byChannel: number[]): Share[] {
  const found: Share[] = [];
  for (let c = 0; c < C; c++) {
    let sum = 0;
    for (let t = 0; t < Math.min(T, endOf(n)); t++) sum += signedAt(n, t, c);
    found.push({ c, sum, share: byChannel[c], spread: spreadAt(n, c) || 0, when: whenOf(n, c) });
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

function barRow(n: number, one: Share, span: Span): HTMLElement {
  const raises = one.sum >= 0;
  const words = [
    withUnit(one.c) +
      ": " +
      (raises ? "raises" : "lowers") +
      " by " +
      brief(Math.abs(one.sum)) +
      (one.spread > 0 ? " ± " + brief(+one.spread.toPrecision(2)) : ""),
    one.when,
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
      h("span", { class: "sub", text: one.when || "no " + D.unit + " stands out" }),
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

export function contributionsCard(n: number, byChannel: number[]): HTMLElement | null {
  const found = explained();
  if (!found || !hasSigned()) return null;
  const all = contributionsOf(n, byChannel);
  const [few, place] = [notable(all), h("div", {})];
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
  const [answer, reference] = [found.answer[n], found.reference[n]];
  const known = finite(answer) && finite(reference);
  const plain = (v: number) => numeral(v) + (found.unit ? " " + found.unit : "");
  // risks that would both be read as next to nothing are told as log-odds
  const apart = found.logit && known && chance(riskOf(answer)) !== chance(riskOf(reference));
  const read = apart ? (v: number) => chance(riskOf(v)) : plain;
  const sum = known
    ? "The bars lead from " +
      read(reference) +
      ", the model's answer to its baselines, to " +
      read(answer) +
      ", its answer here. They sum to " +
      amounts(roofOf(spanOf(all)))(answer - reference) +
      (found.unit ? " " + found.unit : "") +
      ". "
    : "";
  return figureCard(
    "What raises it, what lowers it",
    sum +
      (found.logit ? "“Without it”: the risk with that contribution taken off. " : "") +
      (found.spreads ? "Error bars: one standard deviation over the baselines." : ""),
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
  const row = (name: string, sum: number) =>
    h(
      "div",
      { class: "contribution", role: "listitem" },
      h("span", { class: "who2" }, h("strong", { text: name })),
      signedBar(sum, span),
      h("span", { class: "amount" }, h("b", { class: sum >= 0 ? "up" : "down", text: amount(sum) })),
    );
  return h(
    "div",
    { role: "list", "aria-label": "What moved it" },
    shown.map((one) => row(D.channels[one.c], one.sum)),
    elapsed ? row("Time alone", elapsed) : null,
    othersRow(all.length - shown.length, rest, span, unit),
  );
}

// Names of channels, at most three; they may have commas of their own.
export const names = (list: Move[]) =>
  list
    .slice(0, FEW)
    .map((one) => D.channels[one.c])
    .join("; ");

// What raised the answer and what lowered it, in a line each: the channels that matter most, with their steps.
export function reasonWords(n: number, byChannel: number[]): Reason[] {
  const found = explained();
  if (!found || !hasSigned()) return [];
  const all = notable(contributionsOf(n, byChannel));
  const line = (name: string, list: Share[]): Reason => [
    name,
    list
      .slice(0, FEW)
      .map((one, i) => [
        i ? "; " : "",
        h("strong", { text: D.channels[one.c] }),
        one.when ? " (" + one.when + ")" : "",
      ]),
    list.length ? "" : "no channel stands out",
  ];
  const [raised, lowered] = [all.filter((one) => one.sum > 0), all.filter((one) => one.sum < 0)];
  const lines = [line("Raised by", raised), line("Lowered by", lowered)];
  return lowers(n) ? lines.reverse() : lines;
}
