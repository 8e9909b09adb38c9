// One instance: the answer, what raised and lowered it, where and when, the series, and whether to trust it.

import { answerCard } from "./answer";
import { card } from "./cards";
import {
  contributionsCard,
  contributionsOf,
  lowerWords,
  notable,
  reasonWords,
  startWords,
} from "./contributions";
import { changeWords, courseCard, sinceWords } from "./course";
import {
  atTime,
  C,
  D,
  endOf,
  explained,
  hasInputs,
  hasRanks,
  hasSigned,
  highlightedAt,
  inputAt,
  maskAt,
  metric,
  observedAt,
  rankAt,
  signedAt,
  T,
  targetShown,
  times,
  unitOf,
} from "./data";
import { h } from "./dom";
import { linkButton, type Place, saveMask } from "./export";
import { brief, finite, percent, plural, show } from "./format";
import { areaChart } from "./lines";
import { mapCard } from "./maskmap";
import { printInstance } from "./print";
import { seriesCard } from "./series";
import { trustCard, trustWords } from "./trust";
import { TimeWindow } from "./window";

export interface Totals {
  byChannel: number[];
  byTime: number[];
  extent: string; // of what is highlighted, "" if nothing is
  leading: number[]; // channels that matter, most important first
}

export interface View {
  by: string; // order of the channels
  what: string; // direction, mask or ranking
}

export interface Steps {
  by: (by: number) => void;
  list: () => void;
  place: () => Place;
  changed: () => void; // what is in sight has changed
}

export function totals(n: number): Totals {
  const byChannel = new Array<number>(C).fill(0);
  const byTime = new Array<number>(T).fill(0);
  let [sum, strong] = [0, 0];
  for (let t = 0; t < endOf(n); t++)
    for (let c = 0; c < C; c++) {
      const m = maskAt(n, t, c);
      byChannel[c] += m;
      byTime[t] += m;
      sum += m;
      if (highlightedAt(n, t, c)) strong++;
    }
  const own = targetShown() ? undefined : metric("area")?.values[n];
  const empty = finite(own) ? own === 0 : sum === 0;
  const extent = empty ? "" : finite(own) ? percent(own) + " of the cells" : plural(strong, "cell");
  const share = (list: number[]) => list.map((v) => (sum > 0 ? v / sum : 0));
  const shares = share(byChannel);
  const byMask = shares.map((_, c) => c).sort((a, b) => shares[b] - shares[a] || a - b);
  const kept = byMask.filter((c) => shares[c] >= 0.02);
  const bySign = hasSigned() ? notable(contributionsOf(n, shares)).map((one) => one.c) : [];
  const leading = [...new Set([...bySign, ...kept])].slice(0, 15);
  return {
    byChannel: shares,
    byTime: share(byTime),
    extent,
    leading: leading.length ? leading : byMask.slice(0, 5),
  };
}

export function describeCell(n: number) {
  return (t: number, c: number): string[] => {
    const title = D.channels[c] + ", " + atTime(t);
    if (t >= endOf(n)) return [title, "after the end of this series"];
    const signed = hasSigned() ? signedAt(n, t, c) : NaN;
    const unit = explained()?.unit;
    return [
      title,
      hasInputs() && finite(inputAt(n, t, c))
        ? brief(inputAt(n, t, c)) +
          (unitOf(c) ? " " + unitOf(c) : "") +
          (observedAt(n, t, c) ? "" : " (filled in, not measured)")
        : observedAt(n, t, c)
          ? null
          : "not measured, filled in",
      finite(signed) && signed !== 0
        ? (signed > 0 ? "raises by " : "lowers by ") + brief(Math.abs(signed)) + (unit ? " " + unit : "")
        : null,
      "salient with probability " + maskAt(n, t, c).toFixed(2),
      hasRanks() ? "among the top " + percent((rankAt(n, t, c) / 255) ** 2) + " of the cells" : null,
    ].filter((line) => line !== null);
  };
}

function errorChart(n: number): HTMLElement | null {
  if (!D.errors || !D.curves || targetShown()) return null;
  const chosen = metric("area")?.values[n];
  const marks = finite(chosen) ? [{ x: chosen, text: "chosen: " + percent(chosen) }] : [];
  const bounded = D.errors[n].map((v) => (finite(v) ? Math.max(0, Math.min(1, v)) : null));
  const chart = areaChart({
    label: "Error against area of this instance",
    areas: D.curves.areas,
    lines: [{ name: "error", values: bounded, look: "main" }],
    kind: "number",
    roof: 1,
    marks,
    height: 160,
  });
  const help = D.curves.lines.find((line) => line.name === "error")?.help ?? "";
  return chart
    ? h("div", {}, h("h3", { text: "Error of the best cells" }), h("p", { class: "note", text: help }), chart)
    : null;
}

function numbersOf(n: number): HTMLElement | null {
  const shown = D.metrics.filter((m) => m.name !== "correct" && !m.name.includes("/"));
  if (!shown.length) return null;
  const facts = h(
    "dl",
    { class: "facts" },
    shown.map((m) =>
      h(
        "div",
        {},
        h("dt", { text: m.label }),
        h("dd", { text: show(m.values[n], m.kind) }),
        h("dd", { class: "help", text: m.help }),
      ),
    ),
  );
  return card(
    "In numbers",
    null,
    h("details", {}, h("summary", { text: "All numbers of this instance" }), facts, errorChart(n)),
  );
}

function header(n: number, steps: Steps): HTMLElement {
  const correct = metric("correct")?.values[n];
  const badge = (look: string, text: string) => h("span", { class: "badge " + look, text });
  return h(
    "header",
    { class: "who" },
    h(
      "div",
      {},
      h("h2", { tabindex: "-1", text: D.ids[n] }),
      typeof correct === "boolean"
        ? badge(correct ? "good" : "bad", correct ? "prediction correct" : "prediction wrong")
        : null,
      endOf(n) < T ? badge("", times(0, endOf(n) - 1)) : null,
    ),
    h(
      "div",
      { class: "steps" },
      h("button", { type: "button", class: "narrow", text: "↑ List", onclick: steps.list }),
      h("button", { type: "button", text: "← Previous", onclick: () => steps.by(-1) }),
      h("button", { type: "button", text: "Next →", onclick: () => steps.by(1) }),
      linkButton(steps.place, D.ids[n]),
      h("button", { type: "button", text: "Mask as CSV", onclick: () => saveMask(n) }),
      h("button", {
        type: "button",
        text: "Print",
        title: "Print this instance alone",
        onclick: printInstance,
      }),
    ),
  );
}

// A button for each part of the page below, which stays in sight.
function jumps(parts: [string, HTMLElement][]): HTMLElement {
  return h(
    "nav",
    { class: "jumps", "aria-label": "Parts of this instance" },
    parts.map(([name, node]) =>
      h("button", {
        type: "button",
        text: name,
        onclick: () => {
          node.scrollIntoView({ block: "start" });
          const title = node.querySelector("h2");
          title?.setAttribute("tabindex", "-1");
          title?.focus({ preventScroll: true });
        },
      }),
    ),
  );
}

export function instanceView(n: number, view: View, steps: Steps): HTMLElement[] {
  const sums = totals(n);
  const sight = new TimeWindow();
  const first = answerCard(
    n,
    sums.extent,
    [
      startWords(n),
      ...reasonWords(n, sums.byChannel),
      lowerWords(n, sums.byChannel),
      sinceWords(n),
      changeWords(n),
      trustWords(n, sums.extent),
    ].filter((line) => line !== null),
  );
  const parts: [string, HTMLElement | null][] = [
    ["Why", contributionsCard(n, sums.byChannel)],
    ["What changed", courseCard(n)],
    ["Where and when", mapCard(n, sums, view, sight, steps.changed)],
    ["Measurements", hasInputs() ? seriesCard(n, sums, sight) : null],
    ["Trust", trustCard(n, sums.extent)],
    ["Numbers", targetShown() ? null : numbersOf(n)],
  ];
  const shown = parts.filter((part): part is [string, HTMLElement] => part[1] !== null);
  return [header(n, steps), jumps(shown), first, ...shown.map(([, node]) => node)].filter(
    (node) => node !== null,
  );
}
