// The map of one instance: direction, mask or the best cells of any area; channels that matter first.

import { choice, figureCard, MANY_CHANNELS } from "./cards";
import {
  bytes,
  C,
  D,
  endOf,
  explained,
  hasRanks,
  hasSigned,
  highlightedAt,
  maskAt,
  metric,
  observedAt,
  rankAt,
  signedAt,
  T,
} from "./data";
import { h } from "./dom";
import { brief, finite, percent } from "./format";
import { heatMap, type HeatOptions, legend } from "./heatmap";
import { describeCell, type Totals, type View } from "./instance";
import { channelOrder } from "./scales";
import { TimeWindow, windowControls } from "./window";

// The greatest size of a cell, which has the strongest colour.
function greatest(n: number): number {
  let found = 0;
  for (let t = 0; t < endOf(n); t++)
    for (let c = 0; c < C; c++) found = Math.max(found, Math.abs(signedAt(n, t, c)));
  return found;
}

const matching = (text: string) => {
  const wanted = text.trim().toLowerCase();
  return (c: number) => (D.channels[c] + " " + D.names[c]).toLowerCase().includes(wanted);
};

export function mapCard(
  n: number,
  sums: Totals,
  view: View,
  sight: TimeWindow,
  changed: () => void,
): HTMLElement {
  const [place, output] = [h("div", {}), h("output", {})];
  const slider = h("input", {
    type: "range",
    min: "1",
    max: "100",
    step: "1",
    "aria-label": "Share of the cells to show",
  });
  const own = metric("area")?.values[n];
  slider.value = String(Math.max(1, Math.round(100 * Math.sqrt(finite(own) ? own : 0.1))));
  const area = h("label", { class: "slider" }, "Show the best ", slider, output);
  const search = h("input", {
    type: "search",
    placeholder: "Find a channel",
    "aria-label": "Find a channel",
  });
  const state = { all: C <= 8, text: "" };
  const roof = hasSigned() ? greatest(n) : 1;
  const rowsOf = () => {
    if (state.text)
      return channelOrder(sums.byChannel, view.by).filter(matching(state.text)).slice(0, MANY_CHANNELS);
    if (!state.all) return view.by === "importance" ? sums.leading : [...sums.leading].sort((a, b) => a - b);
    return view.by === "importance"
      ? [...sums.leading, ...channelOrder(sums.byChannel, view.by).filter((c) => !sums.leading.includes(c))]
      : channelOrder(sums.byChannel, view.by);
  };
  const optionsOf = (what: string): Pick<HeatOptions, "value" | "signed"> => {
    if (what === "direction") return { signed: true, value: (t, c) => (roof ? signedAt(n, t, c) / roof : 0) };
    if (what !== "rank") return { value: (t, c) => maskAt(n, t, c) };
    const limit = 255 * (Number(slider.value) / 100);
    return {
      value: (t, c) => (rankAt(n, t, c) <= limit ? 1 - 0.45 * (rankAt(n, t, c) / Math.max(limit, 1)) : 0),
    };
  };
  const legendOf = (what: string) => {
    if (what === "rank") return legend("last to enter", "first to enter");
    if (what !== "direction") return legend("0, surely not salient", "1, surely salient", false, true);
    if (!roof) return legend("nothing lowers it", "nothing raises it", true);
    const unit = explained()?.unit;
    const most = brief(+roof.toPrecision(2)) + (unit ? " " + unit : "");
    return legend("lowers by " + most, "raises by " + most, true, true);
  };
  const draw = () => {
    const what =
      view.what === "rank" && !hasRanks()
        ? "mask"
        : view.what === "direction" && !hasSigned()
          ? "mask"
          : view.what;
    output.textContent = percent((Number(slider.value) / 100) ** 2) + " of the cells";
    area.hidden = what !== "rank";
    const rows = rowsOf();
    if (!rows.length) {
      place.replaceChildren(h("p", { class: "quiet", text: "No channel has this in its name." }));
      return;
    }
    place.replaceChildren(
      ...heatMap({
        ...optionsOf(what),
        label: (what === "direction" ? "What raised and lowered " : "Mask of ") + D.ids[n],
        rows,
        top: sums.byTime,
        right: what === "direction" ? undefined : sums.byChannel,
        end: endOf(n),
        outlined: what === "rank" ? undefined : (t, c) => highlightedAt(n, t, c),
        missing: bytes("observed") ? (t, c) => !observedAt(n, t, c) : null,
        describe: describeCell(n),
        window: sight,
      }),
      legendOf(what),
    );
  };
  slider.addEventListener("input", draw);
  search.addEventListener("input", () => {
    state.text = search.value;
    draw();
  });
  const more = h("button", {
    type: "button",
    class: "plain",
    "aria-expanded": String(state.all),
    onclick: () => {
      state.all = !state.all;
      tell();
      draw();
    },
  });
  const tell = () => {
    more.textContent = state.all ? "Show the channels that matter" : "Show all " + C + " channels";
    more.setAttribute("aria-expanded", String(state.all));
  };
  tell();
  const kinds: [string, string][] = [
    ...(hasSigned() ? ([["direction", "Direction"]] as [string, string][]) : []),
    ["mask", "Strength"],
    ...(hasRanks() ? ([["rank", "Choose an area"]] as [string, string][]) : []),
  ];
  const controls = h(
    "div",
    { class: "controls" },
    kinds.length > 1
      ? choice(
          "What to show",
          kinds,
          kinds.some(([key]) => key === view.what) ? view.what : kinds[0][0],
          (v) => {
            view.what = v;
            changed();
            draw();
          },
        )
      : null,
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
    C > 8 ? search : null,
  );
  draw();
  return figureCard(
    "Where and when",
    (hasSigned()
      ? "Direction: what each measurement did to the answer. Strength: the probability that it is salient, that the answer rests on it. Outlined: the highlighted cells, which are the mask."
      : "The stronger the colour, the more likely that measurement moved this prediction.") +
      " Bars on top: the mask by " +
      D.unit +
      "." +
      (bytes("observed") ? " A thin line marks what was not measured but filled in." : "") +
      (endOf(n) < T ? " Hatched: after the end of this series." : ""),
    controls,
    area,
    windowControls(sight, sums.byTime),
    place,
    C > 8 ? more : null,
  );
}
