// Methods side by side, and how to read the page.

import { card, figureCard, rowsTable, titled } from "./cards";
import { C, D, N, T } from "./data";
import { type Child, h } from "./dom";
import { columnFormat, finite, least, most, numeral, show, tickNumber } from "./format";
import { areaChart, chartKey, type Line } from "./lines";
import type { Curves, Num, Words } from "./types";

export function comparison(): HTMLElement {
  const names = [...new Set(D.comparison.flatMap((m) => Object.keys(m.metrics)))].filter(
    (name) => !name.endsWith("/random"),
  );
  const wordOf = (name: string): Words =>
    D.comparison.map((m) => m.words[name] || m.words["dynamask/" + name]).find(Boolean) || {
      name,
      label: name,
      kind: "number",
      help: "",
      better: "",
      symbol: "",
    };
  const best = (name: string) => {
    const values = D.comparison.map((m) => m.metrics[name]).filter(finite),
      better = wordOf(name).better;
    return better && values.length > 1 ? (better === "higher" ? most(values) : least(values)) : NaN;
  };
  const formats = Object.fromEntries(
    names.map((name) => [
      name,
      columnFormat(
        D.comparison.map((m) => m.metrics[name]),
        wordOf(name).kind,
      ),
    ]),
  );
  const arrow = { higher: " ↑", lower: " ↓", "": "" };
  const table = h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Methods and their numbers" },
    h(
      "table",
      { class: "matrix" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col", text: "Method" }),
          names.map((name) =>
            h("th", {
              scope: "col",
              title: wordOf(name).help,
              text: (wordOf(name).symbol || wordOf(name).label) + arrow[wordOf(name).better || ""],
            }),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        D.comparison.map((m) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", text: m.method }),
            names.map((name) =>
              h("td", {
                class: finite(m.metrics[name]) && m.metrics[name] === best(name) ? "best" : "",
                text: formats[name](m.metrics[name]),
              }),
            ),
          ),
        ),
      ),
    ),
  );
  return h(
    "div",
    { class: "stack" },
    card(
      "Methods side by side",
      "An arrow says which way is better; the best value of each column is set in bold.",
      table,
    ),
    h("div", { class: "pair" }, comparedCurves()),
  );
}

// Methods may be measured at areas of their own: all of them share one axis, and a line skips what it does not know.
function comparedCurves(): Child[] {
  const owners = D.comparison.flatMap((m) => (m.curves ? [{ method: m.method, curves: m.curves }] : []));
  const names = [...new Set(owners.flatMap((m) => m.curves.lines.map((line) => line.name)))];
  const areas = [...new Set(owners.flatMap((m) => m.curves.areas))].sort((a, b) => a - b);
  return names.map((name) => {
    const found = owners.flatMap((m) => {
      const line = m.curves.lines.find((l) => l.name === name);
      return line?.values ? [{ ...m, line, values: line.values }] : [];
    });
    if (!found.length) return null;
    const spread = (m: { curves: Curves }, values: Num[]) =>
      areas.map((area) => values[m.curves.areas.indexOf(area)] ?? null);
    const lines = found.slice(0, 6).map((m, i): Line => ({
      name: m.method,
      values: spread(m, m.values),
      look: i ? "other-" + i : "main",
    }));
    const [first, words] = [found[0], found[0].line];
    if (words.random)
      lines.push({ name: "random cells", values: spread(first, words.random), look: "chance" });
    const chart = areaChart({ label: words.label + " of all methods", areas, lines, kind: words.kind });
    return chart ? figureCard(titled(words), words.help, chart, chartKey(lines)) : null;
  });
}

const READING = [
  [
    "A mask",
    "gives every measurement, at every " +
      D.unit +
      ", a number from 0 to 1: how much the model needs it for this one prediction. A strong colour says what the model used, not what caused the outcome.",
  ],
  [
    "Highlighted cells",
    "are the best cells of a mask, as many as its area says. “Without” them: each channel's highlighted cells stand at its average over time, which hides when and how far they moved.",
  ],
  [
    "Baselines",
    "stand in for a sequence in which nothing happens. Held level, each channel stays at its mean over time or at a neutral value; other sequences take their place if the model or the evaluation has a reference. What raises and lowers an answer is told from the model's answer to them, so that a level which lasts all along counts only beside other sequences.",
  ],
  [
    "Random cells",
    "are as many cells drawn by chance. An explanation is worth reading only if removing its cells changes more than removing random ones.",
  ],
  [
    D.unit.charAt(0).toUpperCase() + D.unit.slice(1) + "s",
    "beside a channel are those of its highlighted cells that push its way. “Mostly”: none of them does, and half of its push came about there.",
  ],
  ["Shares", "of importance add up to 100 % over the channels, and again over the " + D.unit + "s."],
  [
    "Keys",
    "The arrow keys move over the cells of a map, along a curve, and through the list of instances; Home and End jump to the ends; " +
      "Enter on the overview map lists the instances that a channel leads; Tab moves on.",
  ],
];

export function guide(): HTMLElement {
  const words = new Map(
    [...D.summary, ...D.metrics, ...(D.curves ? D.curves.lines : [])]
      .filter((e) => e.help)
      .map((e) => [e.label, e]),
  );
  const arrow = { higher: "Higher is better.", lower: "Lower is better.", "": "" };
  const means = new Map(D.summary.map((e) => [e.label, e]));
  const settings = {
    model: D.model,
    made: D.created,
    task: D.task,
    method: D.method,
    instances: N,
    channels: C,
    steps: T,
    ...D.settings,
  };
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "pair roomy" },
      card(
        "How to read this page",
        null,
        h(
          "dl",
          { class: "reading" },
          READING.map(([term, text]) => h("div", {}, h("dt", { text: term }), h("dd", { text }))),
        ),
      ),
      words.size
        ? card(
            "Every number, in one line",
            null,
            h(
              "dl",
              { class: "reading" },
              [...words.values()].map((e) =>
                h(
                  "div",
                  {},
                  h(
                    "dt",
                    {},
                    titled(e),
                    means.has(e.label)
                      ? h("span", { class: "sub", text: show(means.get(e.label)?.value, e.kind) })
                      : null,
                  ),
                  h("dd", { text: [e.help, arrow[e.better || ""]].join(" ").trim() }),
                ),
              ),
            ),
          )
        : null,
    ),
    D.notes.length
      ? card(
          "Notes",
          null,
          h(
            "ul",
            {},
            D.notes.map((text) => h("li", { text })),
          ),
        )
      : null,
    rowsTable("How it was made", null, settings, (v) => (Number.isInteger(v) ? numeral : tickNumber)(v)),
  );
}
