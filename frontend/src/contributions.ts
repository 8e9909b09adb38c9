// Which channels raised the answer and which lowered it, at which hours, in the answer's units.

import { riskOf } from "./answer";
import { figureCard, moreButton } from "./cards";
import { C, D, endOf, explained, hasSigned, maskAt, signedAt, spreadAt, T, withUnit } from "./data";
import { figure, h, hideTip, showTip, svg } from "./dom";
import { chance, finite, most, numeral, percent } from "./format";
import { ranges, type Scale, scaleOf } from "./scales";

export interface Share {
  c: number;
  sum: number; // signed, in the answer's units
  share: number; // of the mask
  spread: number; // of that share
  when: string;
}

const NOTABLE = 0.02; // of all contributions
const SALIENT = 0.5;

// Steps at which a channel's cells are more likely salient than not, in words.
export function whenOf(n: number, c: number): string {
  const steps: number[] = [];
  for (let t = 0; t < endOf(n); t++) if (maskAt(n, t, c) >= SALIENT) steps.push(t);
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
    found.push({ c, sum, share: byChannel[c], spread: spreadAt(n, c), when: whenOf(n, c) });
  }
  return found.sort((a, b) => Math.abs(b.sum) - Math.abs(a.sum));
}

// Channels that matter: those that carry a notable part of all contributions.
export function notable(found: Share[]): Share[] {
  const total = found.reduce((sum, one) => sum + Math.abs(one.sum), 0);
  const kept = found.filter((one) => total > 0 && Math.abs(one.sum) >= NOTABLE * total);
  return kept.length ? kept.slice(0, 12) : found.slice(0, 1);
}

export const signed = (v: number) => (v > 0 ? "+" : "") + numeral(+v.toPrecision(3));

// What the answer would be without this contribution, where answers are log-odds.
function withoutIt(n: number, sum: number): string {
  const found = explained();
  const answer = found?.answer[n];
  if (!found?.logit || !finite(answer)) return "";
  return "≈ " + chance(riskOf(answer - sum)) + " without it";
}

// A bar from 0 to a contribution, and the line at 0.
function bar(x: Scale, sum: number): SVGElement[] {
  return [
    svg("line", { class: "axisline", x1: x(0), x2: x(0), y1: 0, y2: 22 }),
    svg("rect", {
      class: sum >= 0 ? "raises" : "lowers",
      x: Math.min(x(0), x(sum)),
      y: 4,
      width: Math.max(1, Math.abs(x(sum) - x(0))),
      height: 14,
    }),
  ];
}

function barRow(n: number, one: Share, roof: number): HTMLElement {
  const raises = one.sum >= 0;
  const share = percent(one.share) + (finite(one.spread) ? " ± " + percent(one.spread) : "") + " of the mask";
  const words = [
    withUnit(one.c) +
      ": " +
      (raises ? "raises" : "lowers") +
      " by " +
      numeral(+Math.abs(one.sum).toPrecision(3)),
    one.when,
    share,
    withoutIt(n, one.sum),
  ].filter(Boolean);
  const track = figure({ class: "track" }, (node, width) => {
    const x = scaleOf(-roof, roof, 4, width - 4);
    const half =
      finite(one.spread) && one.share > 0 ? Math.abs(one.sum) * Math.min(1, one.spread / one.share) : 0;
    const [a, b] = [x(Math.max(-roof, one.sum - half)), x(Math.min(roof, one.sum + half))];
    node.replaceChildren(
      svg(
        "svg",
        { width, height: 22, "aria-hidden": "true" },
        ...bar(x, one.sum),
        ...(half > 0 && b - a > 2
          ? [svg("path", { class: "whisker", d: "M" + a + " 11H" + b + "M" + a + " 7v8M" + b + " 7v8" })]
          : []),
      ),
    );
  });
  const row = h(
    "div",
    { class: "contribution", role: "listitem", tabindex: "0", "aria-label": words.join("; ") },
    h(
      "span",
      { class: "who2" },
      h("strong", { text: D.channels[one.c] }),
      h("span", { class: "sub", text: one.when || "no " + D.unit + " stands out" }),
    ),
    track,
    h(
      "span",
      { class: "amount" },
      h("b", { class: raises ? "up" : "down", text: signed(one.sum) }),
      h("span", { class: "sub", text: withoutIt(n, one.sum) }),
    ),
  );
  const tell = (x: number, y: number) => showTip(words[0], words.slice(1), x, y);
  row.addEventListener("pointermove", (event) => tell(event.clientX, event.clientY));
  row.addEventListener("pointerleave", hideTip);
  row.addEventListener("blur", hideTip);
  return row;
}

export function contributionsCard(n: number, byChannel: number[]): HTMLElement | null {
  const found = explained();
  if (!found || !hasSigned()) return null;
  const all = contributionsOf(n, byChannel);
  const roof = most(
    all.map(
      (one) =>
        Math.abs(one.sum) * (1 + Math.min(1, finite(one.spread) && one.share ? one.spread / one.share : 0)),
    ),
    1e-9,
  );
  const [few, place] = [notable(all), h("div", {})];
  const draw = (list: Share[]) => {
    const raising = list.filter((one) => one.sum > 0);
    const lowering = list.filter((one) => one.sum <= 0);
    const group = (title: string, look: string, part: Share[]) =>
      part.length
        ? [
            h("h3", { class: look, text: title }),
            h(
              "div",
              { role: "list", "aria-label": title },
              part.map((one) => barRow(n, one, roof)),
            ),
          ]
        : [];
    place.replaceChildren(...group("▲ raises it", "up", raising), ...group("▼ lowers it", "down", lowering));
  };
  draw(few);
  const [answer, reference] = [found.answer[n], found.reference[n]];
  const known = finite(answer) && finite(reference);
  const read = found.logit ? (v: number) => chance(riskOf(v)) : numeral;
  const sum = known
    ? "The model says " +
      read(reference) +
      " to baselines in place of this input (the reference) and " +
      read(answer) +
      " to the input itself; the contributions of all cells sum to the difference, " +
      signed(answer - reference) +
      " " +
      (found.unit || "units") +
      ". "
    : "";
  return figureCard(
    "What raises it, what lowers it",
    sum +
      (found.logit ? "“≈ … without it”: the risk if that channel's contribution were taken off. " : "") +
      "Whiskers: how far a channel's part moves under other baselines.",
    place,
    few.length < C
      ? moreButton("Show all " + C + " channels", "Show the channels that matter", (open) =>
          draw(open ? all : few),
        )
      : null,
  );
}

// Plain bars of signed sums, for the change between two times.
export function barList(moves: { c: number; sum: number }[], unit: string): HTMLElement[] {
  const roof = most(
    moves.map((one) => Math.abs(one.sum)),
    1e-9,
  );
  return [
    h(
      "div",
      { role: "list", "aria-label": "What moved it" },
      moves.map((one) => {
        const track = figure({ class: "track" }, (node, width) => {
          const x = scaleOf(-roof, roof, 4, width - 4);
          node.replaceChildren(svg("svg", { width, height: 22, "aria-hidden": "true" }, ...bar(x, one.sum)));
        });
        const look = one.sum >= 0 ? "up" : "down";
        return h(
          "div",
          { class: "contribution", role: "listitem" },
          h("span", { class: "who2" }, h("strong", { text: D.channels[one.c] })),
          track,
          h(
            "span",
            { class: "amount" },
            h("b", { class: look, text: signed(one.sum) + (unit ? " " + unit : "") }),
          ),
        );
      }),
    ),
  ];
}
