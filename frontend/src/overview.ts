// The first page: what the model looks at, which way it pushes, and whether that is better than chance.

import { card, choice, columnsOf, figureCard, MANY_CHANNELS, moreButton, titled } from "./cards";
import { atTime, C, D, entry, metric, N, T } from "./data";
import { h } from "./dom";
import { capital, finite, most, numeral, percent, plural, show, tickPercent } from "./format";
import { heatMap, legend } from "./heatmap";
import { histogram } from "./histogram";
import { areaChart, chartKey, type Line, lineChart } from "./lines";
import { channelOrder } from "./scales";
import type { Kind, Num, Paired, Summary } from "./types";
import { TimeWindow, windowControls } from "./window";

const TILES = [
  "area",
  "answer_shift",
  "certainty",
  "ce",
  "squared_error",
  "acc",
  "comprehensiveness",
  "sufficiency",
  "entropy",
  "information_normalized",
];

const CONTROLS: Record<string, string> = { random: "random cells", other: "another instance's mask" };

// "Better" is said only where a paired test over the instances says so.
export function testWords(
  paired: Paired,
  kind: Kind = "number",
): {
  good: boolean;
  untested: boolean;
  text: string;
  details: string[];
} {
  const judged = Object.entries(paired.controls).map(([name, [value, p]]) => ({
    name: CONTROLS[name] ?? name,
    value,
    p,
    won: finite(p) && p < 0.05,
  }));
  const won = judged.filter((control) => control.won).map((control) => control.name);
  const lost = judged.filter((control) => !control.won).map((control) => control.name);
  const untested = judged.length > 0 && judged.every((control) => !finite(control.p));
  const text = !judged.length
    ? ""
    : untested
      ? "too few instances to be compared with chance"
      : !lost.length
        ? "better than " + won.join(" and ")
        : "not shown to be better than " + lost.join(" or ");
  const read = (v: Num) =>
    kind === "number" && finite(v) && Math.abs(v) < 1 ? v.toFixed(3).replace("-", "−") : show(v, kind);
  const tested = (p: Num) =>
    finite(p) ? (p < 0.001 ? "p < 0.001" : "p = " + p.toFixed(3)) : "too few instances for a test";
  return {
    good: judged.length > 0 && !lost.length,
    untested,
    text,
    details: judged.map(({ name, value, p }) => name + " " + read(value) + ", " + tested(p)),
  };
}

function tile(e: Summary): HTMLElement {
  const paired = D.paired[e.name];
  const words = paired ? testWords(paired, e.kind) : null;
  // CE and ACC ask about the predicted class, which a risk that stays low keeps: no fault of a mask that moves the risk.
  const moves = D.paired.answer_shift && e.name !== "answer_shift" && testWords(D.paired.answer_shift).good;
  const unit = e.name === "answer_shift" && D.explained?.unit ? " " + D.explained.unit : "";
  const interval =
    paired && finite(paired.low) && finite(paired.high)
      ? "[" + numeral(paired.low) + ", " + numeral(paired.high) + "]"
      : "";
  const shift =
    paired && finite(paired.shift) && (interval || e.name === "ce")
      ? (e.name === "ce"
          ? "above the unperturbed predictions, as what follows: " + numeral(paired.shift) + " "
          : "95 % interval ") + interval
      : null;
  return h(
    "div",
    { class: "tile" },
    h("h2", { text: titled(e) }),
    h("p", { class: "figure", text: show(e.value, e.kind) + unit }),
    shift ? h("p", { class: "chance", text: shift }) : null,
    words
      ? words.details.map((text) => h("p", { class: "chance", text }))
      : finite(e.random)
        ? h("p", { class: "chance", text: "random cells: " + show(e.random, e.kind) })
        : null,
    words?.text
      ? h("span", {
          class: "badge " + (words.good ? "good" : moves || words.untested ? "" : "bad"),
          text: words.text,
        })
      : null,
    h("p", { class: "help", text: e.help }),
  );
}

function tiles(): HTMLElement | null {
  const shown = TILES.map(entry).filter((e): e is Summary => e !== undefined && finite(e.value));
  const kept = shown.some((e) => e.name === "certainty") ? shown.filter((e) => e.name !== "entropy") : shown;
  if (!kept.length) return null;
  const all = columnsOf("tiles", { "aria-label": "Summary", role: "group" }, kept.slice(0, 6).map(tile));
  const tested = Object.values(D.paired).find((paired) => Object.keys(paired.controls).length);
  return tested
    ? h(
        "div",
        { class: "tested" },
        all,
        h("p", {
          class: "note",
          text:
            "p: one-sided Wilcoxon test, paired over " +
            plural(tested.instances, "instance") +
            ", that the masks do better.",
        }),
      )
    : all;
}

export interface Go {
  toChannel: (c: number) => void;
}

function profileCard(go: Go): HTMLElement {
  const { byChannel, byTime, map } = D.profile;
  const roof = most(map.flat().filter(finite), 0) || 1;
  const place = h("div", {});
  const few = Math.min(MANY_CHANNELS, Math.max(5, byChannel.filter((share) => share >= 0.01).length));
  const state = { by: "importance", all: C <= 12 };
  const sight = new TimeWindow();
  const draw = () => {
    const leading = channelOrder(byChannel, "importance").slice(0, state.all ? C : few);
    const rows = state.by === "importance" ? leading : [...leading].sort((a, b) => a - b);
    place.replaceChildren(
      ...heatMap({
        label: "Mean importance of " + plural(C, "channel") + " over " + plural(T, "step"),
        rows,
        top: byTime,
        right: byChannel,
        value: (t, c) => (map[t][c] ?? 0) / roof,
        describe: (t, c) => [
          D.channels[c] + ", " + atTime(t),
          "mean mask here " + numeral(map[t][c]),
          D.channels[c] + ": " + percent(byChannel[c]) + " of all importance",
          capital(atTime(t)) + ": " + percent(byTime[t]),
          ...(D.lengths
            ? [plural(D.lengths.filter((end) => end > t).length, "instance") + " reach this " + D.unit]
            : []),
        ],
        hint: "Point at a cell to read it; click to list the instances that this channel leads.",
        onpick: (_, c) => go.toChannel(c),
        window: sight,
      }),
      legend("mean mask 0", numeral(roof)),
    );
  };
  draw();
  const more =
    C > 12 && few < C
      ? moreButton("Show all " + C + " channels", "Show the channels that matter", (all) => {
          state.all = all;
          draw();
        })
      : null;
  return figureCard(
    "Where the model looks",
    "Average mask over all instances. Bars on top: importance by " +
      D.unit +
      ". Bars at the side: importance by channel, as a share of the total.",
    choice(
      "Order of channels",
      [
        ["importance", "Most important first"],
        ["recorded", "As recorded"],
      ],
      state.by,
      (v) => {
        state.by = v;
        draw();
      },
    ),
    windowControls(sight, byTime),
    place,
    more,
  );
}

function curveCards(): (HTMLElement | null)[] {
  if (!D.curves) return [];
  const { areas } = D.curves;
  const own =
    metric("area")
      ?.values.filter(finite)
      .sort((a, b) => a - b) ?? [];
  const middle = own[Math.floor((own.length - 1) / 2)];
  return D.curves.lines.map((curve) => {
    const bounded = (values: Num[]) =>
      curve.name === "error" ? values.map((v) => (finite(v) ? Math.max(0, Math.min(1, v)) : null)) : values;
    const lines: Line[] = [
      {
        name: "masks",
        values: bounded(curve.values ?? []),
        look: "main",
        ...(curve.low && curve.high
          ? { band: [bounded(curve.low), bounded(curve.high)] as [Num[], Num[]] }
          : {}),
      },
      { name: "random cells", values: bounded(curve.random ?? []), look: "chance" },
    ].filter((line) => line.values.some(finite));
    const chart = lines.length
      ? areaChart({
          label: curve.label + " against the share of cells",
          areas,
          lines,
          kind: curve.kind,
          roof: curve.name === "error" ? 1 : 0,
          marks: finite(middle) ? [{ x: middle, text: "median mask" }] : [],
        })
      : null;
    return chart ? figureCard(titled(curve), curve.help, chart, chartKey(lines)) : null;
  });
}

// How sure the masks are: the mean coefficient of their highlighted cells; else their entropy.
function certaintyCard(): HTMLElement | null {
  const certainty = metric("certainty");
  if (certainty && certainty.values.some(finite))
    return figureCard(
      "How certain the masks are",
      "The mean probability, over the highlighted cells of a mask, that such a cell is salient. Near 100 %: clear masks; near 50 %: read them with doubt.",
      histogram({
        label: certainty.label,
        values: certainty.values,
        format: percent,
        tick: tickPercent,
        most: 1,
      }),
    );
  const entropy = metric("entropy") ?? metric("entropy_normalized");
  return entropy
    ? figureCard(
        "Entropy of the masks",
        entropy.help + " A pile at the left is what one hopes for.",
        histogram({ label: entropy.label, values: entropy.values, format: (v) => show(v, entropy.kind) }),
      )
    : null;
}

// Predicted against observed rates, where outcomes are known.
function calibrationCard(): HTMLElement | null {
  const rows = D.calibration.filter((row) => finite(row.predicted) && finite(row.observed));
  if (rows.length < 2) return null;
  const x = rows.map((row) => row.predicted as number);
  const column = (name: string) => rows.map((row) => row[name] ?? null);
  const lines: Line[] = [
    {
      name: "observed, with its 95 % interval",
      values: column("observed"),
      look: "main",
      band: [column("low"), column("high")],
    },
    { name: "perfectly calibrated", values: x, look: "chance plain" },
  ];
  const chart = lineChart({
    label: "Observed against predicted risk",
    x,
    lines,
    dots: true,
    xRange: [0, 1],
    xTicks: [0, 0.25, 0.5, 0.75, 1],
    xFormat: tickPercent,
    xName: (v) => "predicted " + percent(v),
    xTitle: "predicted risk",
    yFormat: (v) => percent(v),
    yTick: tickPercent,
    yRange: [0, 1],
  });
  return figureCard(
    "Is the risk itself right?",
    "Instances in bands of equal size: how many had the outcome, against what was predicted.",
    chart,
    chartKey(lines),
  );
}

const SHARES = ["area", "kept", "certainty", "observed", "share"];

function groupsCard(): HTMLElement | null {
  if (!D.groups.length) return null;
  const names = [...new Set(D.groups.flatMap((row) => Object.keys(row)))].filter((name) => name !== "group");
  const text = (name: string, value: string | Num | undefined) =>
    typeof value === "string"
      ? value
      : SHARES.includes(name)
        ? percent(value ?? null)
        : numeral(value ?? null);
  const table = h(
    "table",
    { class: "matrix" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["group", ...names].map((name) => h("th", { scope: "col", text: capital(name) })),
      ),
    ),
    h(
      "tbody",
      {},
      D.groups.map((row) =>
        h(
          "tr",
          {},
          h("th", { scope: "row", text: String(row.group) }),
          names.map((name) => h("td", { text: text(name, row[name]) })),
        ),
      ),
    ),
  );
  return card(
    "By predicted class and risk",
    "Averages hide: the same numbers for each group. Moved back: how far the answer returns to its reference without the highlighted cells, with its 95 % interval.",
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Numbers by group" }, table),
  );
}

export function overview(go: Go): HTMLElement {
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "headline" },
      D.headline.map((line) => h("p", { text: line })),
    ),
    D.warnings.map((text) =>
      h("p", { class: "warning", role: "note" }, h("strong", { text: "Note. " }), text),
    ),
    N ? tiles() : null,
    N && T && C ? profileCard(go) : null,
    columnsOf(
      "figures",
      {},
      [...curveCards(), certaintyCard(), calibrationCard()].filter((node) => node !== null),
    ),
    groupsCard(),
  );
}
