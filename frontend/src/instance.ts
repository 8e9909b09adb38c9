// One instance: what was predicted, what happens without the highlighted cells, the mask, and the series.

import { card, choice, MANY_CHANNELS } from "./cards";
import {
  atTime,
  bytes,
  C,
  D,
  endOf,
  hasInputs,
  hasRanks,
  inputAt,
  maskAt,
  metric,
  observedAt,
  rankAt,
  T,
} from "./data";
import { h } from "./dom";
import { finite, numeral, percent, plural, show } from "./format";
import { heatMap, legend } from "./heatmap";
import { areaChart } from "./lines";
import { classBars, dumbbell, sentence, stepChart } from "./prediction";
import { channelOrder } from "./scales";
import { seriesCard } from "./series";

export const SALIENT = 0.5;
export const FIRST_SERIES = 6;

export interface Totals {
  byChannel: number[];
  byTime: number[];
  extent: string;
}

export interface View {
  by: string; // order of the channels
  what: string; // mask or ranking
}

export interface Steps {
  by: (by: number) => void;
  list: () => void;
}

export function totals(n: number): Totals {
  const byChannel = new Array<number>(C).fill(0),
    byTime = new Array<number>(T).fill(0);
  let [sum, strong] = [0, 0];
  for (let t = 0; t < T; t++)
    for (let c = 0; c < C; c++) {
      const m = maskAt(n, t, c);
      byChannel[c] += m;
      byTime[t] += m;
      sum += m;
      if (m >= SALIENT) strong++;
    }
  const own = metric("area"); // what was removed is the best of the cells, as many as the area says
  const extent =
    own && finite(own.values[n]) ? percent(own.values[n]) + " of the cells" : plural(strong, "cell");
  const share = (list: number[]) => list.map((v) => (sum > 0 ? v / sum : 0));
  return { byChannel: share(byChannel), byTime: share(byTime), extent };
}

function errorChart(n: number): HTMLElement | null {
  if (!D.errors || !D.curves) return null;
  const own = metric("area");
  const chosen = own?.values[n];
  const marks = finite(chosen) ? [{ x: chosen, text: "chosen: " + percent(chosen) }] : [];
  const chart = areaChart({
    label: "Error against area of this instance",
    areas: D.curves.areas,
    lines: [{ name: "error", values: D.errors[n], look: "main" }],
    kind: "number",
    roof: 1,
    marks,
    height: 160,
  });
  return chart
    ? card(
        "How many cells are needed",
        "How far the mask is from its goal at each area: 1 is where it starts, 0 is perfect.",
        chart,
      )
    : null;
}

export function describeCell(n: number) {
  return (t: number, c: number): string[] => {
    const title = D.channels[c] + ", " + atTime(t);
    if (t >= endOf(n)) return [title, "after the end of this series"];
    return [
      title,
      "mask " + maskAt(n, t, c).toFixed(2) + (observedAt(n, t, c) ? "" : " (not measured, filled in)"),
      hasRanks() ? "among the top " + percent((rankAt(n, t, c) / 255) ** 2) + " of the cells" : null,
      hasInputs() && finite(inputAt(n, t, c)) ? "value " + numeral(inputAt(n, t, c)) : null,
    ].filter((line) => line !== null);
  };
}

function maskCard(n: number, sums: Totals, view: View): HTMLElement {
  const place = h("div", {});
  const output = h("output", {});
  const slider = h("input", {
    type: "range",
    min: "1",
    max: "100",
    step: "1",
    "aria-label": "Share of the cells to show",
  });
  const own = metric("area");
  const chosen = own?.values[n];
  const start = finite(chosen) ? chosen : 0.1;
  slider.value = String(Math.max(1, Math.round(100 * Math.sqrt(start))));
  const draw = () => {
    const order = channelOrder(sums.byChannel, view.by).slice(
      0,
      view.by === "importance" ? MANY_CHANNELS : C,
    );
    const limit = 255 * (Number(slider.value) / 100);
    const ranked = view.what === "rank" && hasRanks();
    output.textContent = percent((Number(slider.value) / 100) ** 2) + " of the cells";
    area.hidden = !ranked;
    place.replaceChildren(
      ...heatMap({
        label: "Mask of " + D.ids[n],
        rows: order,
        top: sums.byTime,
        right: sums.byChannel,
        value: ranked
          ? (t, c) => (rankAt(n, t, c) <= limit ? 1 - 0.45 * (rankAt(n, t, c) / Math.max(limit, 1)) : 0)
          : (t, c) => maskAt(n, t, c),
        end: endOf(n),
        missing: bytes("observed") ? (t, c) => !observedAt(n, t, c) : null,
        describe: describeCell(n),
      }),
      ranked ? legend("last to enter", "first to enter") : legend("0, ignored", "1, needed"),
    );
  };
  slider.addEventListener("input", draw);
  const area = h("label", { class: "slider" }, "Show the best ", slider, output);
  const controls = h(
    "div",
    { class: "controls" },
    choice(
      "Order of channels",
      [
        ["importance", "Most important first"],
        ["recorded", "As recorded"],
      ],
      view.by,
      (v) => {
        view.by = v;
        draw();
      },
    ),
    hasRanks()
      ? choice(
          "What to show",
          [
            ["mask", "Mask"],
            ["rank", "Choose an area"],
          ],
          view.what,
          (v) => {
            view.what = v;
            draw();
          },
        )
      : null,
  );
  draw();
  return card(
    "Mask",
    "The stronger the colour, the more likely that measurement moved this prediction." +
      (bytes("observed") ? " A thin line marks what was not measured but filled in." : "") +
      (endOf(n) < T ? " Hatched: after the end of this series." : ""),
    controls,
    area,
    place,
  );
}

function numbersOf(n: number): HTMLElement | null {
  const shown = D.metrics.filter((m) => m.name !== "correct");
  return shown.length
    ? card(
        "In numbers",
        null,
        h(
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
        ),
      )
    : null;
}

export function instanceView(n: number, view: View, steps: Steps): HTMLElement[] {
  const sums = totals(n);
  const correct = metric("correct"),
    flipped = metric("flipped");
  return [
    h(
      "header",
      { class: "who" },
      h(
        "div",
        {},
        h("h2", { tabindex: "-1", text: D.ids[n] }),
        correct && correct.values[n] !== null
          ? h("span", {
              class: "badge " + (correct.values[n] ? "good" : "bad"),
              text: correct.values[n] ? "prediction correct" : "prediction wrong",
            })
          : null,
        flipped
          ? h("span", {
              class: "badge " + (flipped.values[n] ? "strong" : ""),
              text: flipped.values[n] ? "flips without the mask" : "does not flip",
            })
          : null,
        endOf(n) < T ? h("span", { class: "badge", text: plural(endOf(n), D.unit) }) : null,
      ),
      h(
        "div",
        { class: "steps" },
        h("button", { type: "button", class: "narrow", text: "↑ List", onclick: steps.list }),
        h("button", { type: "button", text: "← Previous", onclick: () => steps.by(-1) }),
        h("button", { type: "button", text: "Next →", onclick: () => steps.by(1) }),
      ),
    ),
    D.before
      ? h(
          "section",
          { class: "card", "aria-label": "Prediction" },
          h("p", { class: "sentence", text: sentence(n, sums.extent) }),
          dumbbell(n),
          classBars(n),
          stepChart(n),
        )
      : null,
    maskCard(n, sums, view),
    hasInputs() ? seriesCard(n, sums) : null,
    errorChart(n),
    numbersOf(n),
  ].filter((node) => node !== null);
}
