// Does the model still look at the same things? A reference window against the current one.

import { figureCard, moreButton, rowsTable } from "./cards";
import { atTime, C, D } from "./data";
import { figure, h, hideTip, showTip, svg } from "./dom";
import { capital, finite, most, numeral, percent, tickPercent } from "./format";
import { heatMap, legend } from "./heatmap";
import { chartKey, lineChart } from "./lines";
import { channelOrder, ranges, scaleOf } from "./scales";
import type { Compared, Drift, Pair } from "./types";

// Channels as two points on one line, the greatest change first.
function channelMoves(drift: Pair): HTMLElement {
  const {
    byChannel: [before, after],
    labels,
    movedChannels,
  } = drift;
  const order = before
    .map((_, i) => i)
    .sort((a, b) => Math.abs(after[b] - before[b]) - Math.abs(after[a] - before[a]));
  const roof = most([...before, ...after], 1e-9);
  const state = { all: C <= 16 };
  const place = h("div", {});
  const draw = () =>
    place.replaceChildren(
      h(
        "div",
        { class: "moves", role: "list" },
        (state.all ? order : order.slice(0, 12)).map((c) =>
          moveRow({ c, before: before[c], after: after[c], roof, moved: movedChannels.includes(c) }, labels),
        ),
      ),
    );
  draw();
  const more =
    C > 16
      ? moreButton("Show all " + C + " channels", "Show the greatest changes", (all) => {
          state.all = all;
          draw();
        })
      : null;
  return figureCard(
    "Importance by channel",
    "Share of the mask: hollow in " +
      labels[0] +
      ", full in " +
      labels[1] +
      ". Marked channels changed beyond chance.",
    place,
    more,
  );
}

// Percentage points; what rounds to nothing has no sign.
function points(change: number): string {
  const text = (100 * Math.abs(change)).toFixed(1);
  return (text === "0.0" ? "" : change > 0 ? "+" : "−") + text + " pts";
}

interface Move {
  c: number;
  before: number;
  after: number;
  roof: number;
  moved: boolean;
}

function moveRow({ c, before: a, after: b, roof, moved }: Move, labels: [string, string]): HTMLElement {
  const change = b - a;
  const words =
    D.channels[c] +
    ": " +
    labels[0] +
    " " +
    percent(a) +
    ", " +
    labels[1] +
    " " +
    percent(b) +
    (moved ? ", beyond chance" : "");
  const track = figure({ class: "track" }, (node, width) => {
    const x = scaleOf(0, roof, 8, width - 8, false);
    node.replaceChildren(
      svg(
        "svg",
        { width, height: 22, "aria-hidden": "true" },
        svg("line", { class: "rail", x1: 8, x2: width - 8, y1: 11, y2: 11 }),
        svg("line", { class: "travel" + (moved ? " moved" : ""), x1: x(a), x2: x(b), y1: 11, y2: 11 }),
        svg("circle", { class: "dot hollow", cx: x(a), cy: 11, r: 5 }),
        svg("circle", { class: "dot full" + (moved ? " moved" : ""), cx: x(b), cy: 11, r: 5 }),
      ),
    );
  });
  return h(
    "div",
    {
      class: "move" + (moved ? " moved" : ""),
      role: "listitem",
      "aria-label": words,
      onpointermove: (e) =>
        showTip(
          D.channels[c],
          [labels[0] + ": " + percent(a), labels[1] + ": " + percent(b)],
          e.clientX,
          e.clientY,
        ),
      onpointerleave: hideTip,
    },
    h("span", { class: "word", text: D.channels[c] }),
    track,
    h("span", { class: "change", text: points(change) }),
  );
}

function timeMoves(drift: Pair): HTMLElement {
  const {
    byTime: [before, after],
    labels,
    movedTimes,
  } = drift;
  const lines = [
    { name: labels[1], values: after, look: "main" },
    { name: labels[0], values: before, look: "chance" },
  ];
  const moved = movedTimes.length
    ? " Beyond chance: " +
      D.unit +
      "s " +
      ranges(movedTimes)
        .map(([a, b]) => D.times[a] + (a === b ? "" : " to " + D.times[b]))
        .join(", ") +
      "."
    : "";
  return figureCard(
    "Importance by " + D.unit,
    "Share of the mask at each " + D.unit + "." + moved,
    lineChart({
      label: "Importance by " + D.unit,
      x: D.times.map((_, t) => t),
      lines,
      xFormat: (t) => D.times[t],
      xName: (t) => capital(atTime(t)),
      yFormat: percent,
      yTick: tickPercent,
      xTitle: D.unit,
      shades: ranges(movedTimes),
    }),
    chartKey(lines),
  );
}

function driftMaps(drift: Pair): HTMLElement | null {
  const maps = drift.maps;
  if (!maps) return null;
  const roof = most(maps.flat(2), 0) || 1;
  const [before, after] = drift.byChannel;
  const rows = channelOrder(
    before.map((v, i) => v + after[i]),
    "importance",
  ).slice(0, 16);
  const one = (map: number[][], label: string, i: number) =>
    h(
      "div",
      {},
      h("h3", { text: label }),
      ...heatMap({
        label: "Mean masks, " + label,
        rows,
        top: drift.byTime[i],
        value: (t, c) => map[t][c] / roof,
        describe: (t, c) => [
          D.channels[c] + ", " + atTime(t),
          label + ": mean mask " + numeral(map[t][c]),
          drift.labels[1 - i] + ": " + numeral(maps[1 - i][t][c]),
        ],
        hint: "Point at a cell to compare both.",
      }),
    );
  return figureCard(
    "Side by side",
    "Mean masks of both, on one colour scale" + (C > 16 ? ", for the 16 most important channels." : "."),
    h(
      "div",
      { class: "pair" },
      maps.map((map, i) => one(map, drift.labels[i], i)),
    ),
    legend("0", numeral(roof)),
  );
}

function historyCard(drift: Drift): HTMLElement | null {
  const { labels, verdicts, lines } = drift.history;
  if (labels.length < 2) return null;
  const charts = Object.entries(lines).map(([name, values]) =>
    h(
      "div",
      {},
      h("h3", { text: name }),
      lineChart({
        label: name + " over all audits",
        x: labels.map((_, i) => i),
        height: 170,
        dots: true,
        tight: true,
        lines: [{ name, values, look: "main", dotLooks: verdicts.filter((_, i) => finite(values[i])) }],
        bands: name in drift.thresholds ? [{ y: drift.thresholds[name], text: "alarm level" }] : [],
        xFormat: (i) => labels[i],
        xName: (i) => labels[i] + ": " + (drift.states[verdicts[i]] || [verdicts[i]])[0].toLowerCase(),
        yFormat: numeral,
      }),
    ),
  );
  return figureCard(
    "All audits so far",
    "Each point is one window: full circles found no drift, triangles warn, diamonds found drift, hollow ones were inconclusive. " +
      "A move above the alarm level is drift; what chance explains is drawn as 0.",
    h("div", { class: "pair" }, charts),
  );
}

export function driftView(drift: Drift): HTMLElement {
  const [name, plain] = drift.states[drift.verdict];
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "verdict " + drift.verdict, role: "status" },
      h("p", { class: "figure", text: name }),
      h("p", { text: plain }),
      drift.told.map(([title, sentences]) => [
        title ? h("h3", { text: title }) : null,
        h(
          "ul",
          {},
          sentences.map((text) => h("li", { text })),
        ),
      ]),
    ),
    h("div", { class: "pair roomy" }, channelMoves(drift), timeMoves(drift)),
    driftMaps(drift),
    historyCard(drift),
    h(
      "div",
      { class: "pair" },
      rowsTable("What was measured", "Numbers behind the verdict.", drift.tests, numeral),
      rowsTable("Why it moved", "How much of the change each cause explains.", drift.causes, percent),
    ),
  );
}

// Two models on the same instances; the list of instances has what they say about each.
export function comparedView(compared: Compared): HTMLElement {
  const [first, second] = compared.labels;
  const moved = compared.movedChannels.map((c) => D.channels[c]);
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "headline" },
      h("p", {
        text: moved.length
          ? second + " looks differently from " + first + " at " + moved.slice(0, 5).join(", ") + "."
          : "No channel's share differs beyond chance between " + first + " and " + second + ".",
      }),
      h("p", {
        text: "Under Instances, sort by the difference of the answers or by the overlap of the masks; the choice “Explained” switches between both.",
      }),
    ),
    h("div", { class: "pair roomy" }, channelMoves(compared), timeMoves(compared)),
    driftMaps(compared),
    rowsTable("In numbers", null, compared.rows, numeral),
  );
}
