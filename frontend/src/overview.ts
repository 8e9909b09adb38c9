// The first page: what the model looks at, and whether that is better than chance.

import { card, choice, columnsOf, MANY_CHANNELS, moreButton, titled } from "./cards";
import { atTime, C, D, entry, metric, N, T } from "./data";
import { h } from "./dom";
import { capital, finite, most, numeral, percent, plural, show } from "./format";
import { heatMap, legend } from "./heatmap";
import { histogram } from "./histogram";
import { areaChart, chartKey, type Line } from "./lines";
import { channelOrder } from "./scales";
import type { Summary } from "./types";

const TILES = [
  "area",
  "ce",
  "squared_error",
  "acc",
  "comprehensiveness",
  "sufficiency",
  "entropy",
  "information_normalized",
  "information",
];
function tile(e: Summary): HTMLElement {
  const chance = finite(e.random)
    ? h("p", { class: "chance", text: "random cells: " + show(e.random, e.kind) })
    : null;
  const wins =
    finite(e.random) &&
    finite(e.value) &&
    e.better &&
    (e.better === "higher" ? e.value > e.random : e.value < e.random);
  const verdict =
    finite(e.random) && e.better
      ? h("span", {
          class: "badge " + (wins ? "good" : "bad"),
          text: wins ? "beats chance" : "no better than chance",
        })
      : null;
  return h(
    "div",
    { class: "tile" },
    h("h3", { text: titled(e) }),
    h("p", { class: "figure", text: show(e.value, e.kind) }),
    chance,
    verdict,
    h("p", { class: "help", text: e.help }),
  );
}

function tiles(): HTMLElement | null {
  const shown = TILES.map(entry).filter((e): e is Summary => e !== undefined && finite(e.value));
  const kept = shown.some((e) => e.name === "information_normalized")
    ? shown.filter((e) => e.name !== "information")
    : shown;
  return kept.length
    ? columnsOf("tiles", { "aria-label": "Summary", role: "group" }, kept.slice(0, 6).map(tile))
    : null;
}

export interface Go {
  toChannel: (c: number) => void;
}

function profileCard(go: Go): HTMLElement {
  const { byChannel, byTime, map } = D.profile;
  const roof = most(map.flat(), 0) || 1;
  const place = h("div", {});
  const state = { by: "importance", all: C <= MANY_CHANNELS };
  const draw = () => {
    const order = channelOrder(byChannel, state.by);
    const rows = state.all ? order : order.slice(0, MANY_CHANNELS);
    place.replaceChildren(
      ...heatMap({
        label: "Mean importance of " + plural(C, "channel") + " over " + plural(T, D.unit),
        rows,
        top: byTime,
        right: byChannel,
        value: (t, c) => map[t][c] / roof,
        describe: (t, c) => [
          D.channels[c] + ", " + atTime(t),
          "mean mask here " + numeral(map[t][c]),
          D.channels[c] + ": " + percent(byChannel[c]) + " of all importance",
          capital(atTime(t)) + ": " + percent(byTime[t]),
        ],
        hint: "Point at a cell to read it; click to list the instances that this channel leads.",
        onpick: (_, c) => go.toChannel(c),
      }),
      legend("0", numeral(roof)),
    );
  };
  draw();
  const more =
    C > MANY_CHANNELS
      ? moreButton("Show all " + C + " channels", "Show the first " + MANY_CHANNELS, (all) => {
          state.all = all;
          draw();
        })
      : null;
  return card(
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
    place,
    more,
  );
}

function curveCards(): (HTMLElement | null)[] {
  if (!D.curves) return [];
  const { areas } = D.curves;
  return D.curves.lines.map((curve) => {
    const lines: Line[] = [
      { name: D.method, values: curve.values ?? [], look: "main" },
      { name: "random cells", values: curve.random ?? [], look: "chance" },
    ].filter((line) => line.values.some(finite));
    const chart = lines.length
      ? areaChart({
          label: curve.label + " against the share of cells",
          areas,
          lines,
          kind: curve.kind,
          roof: curve.name === "error" ? 1 : 0,
        })
      : null;
    return chart ? card(titled(curve), curve.help, chart, chartKey(lines)) : null;
  });
}

export function overview(go: Go): HTMLElement {
  const entropy = metric("entropy") || metric("entropy_normalized");
  const spread = entropy
    ? card(
        "Entropy of the masks",
        entropy.help + " A pile at the left is what one hopes for.",
        histogram({ label: entropy.label, values: entropy.values, format: (v) => show(v, entropy.kind) }),
      )
    : null;
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
      [...curveCards(), spread].filter((node) => node !== null),
    ),
  );
}
