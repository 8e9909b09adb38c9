// The columns of the list of instances, what they sort by, and which of them fit.

import { D, leadingOf, N } from "./data";
import { type Child, h } from "./dom";
import { chance, finite, numeral, show } from "./format";
import type { Outputs } from "./types";

// Wide enough for the longest of the texts, within reason.
const widthOf = (texts: string[], least: number, most: number) =>
  Math.max(
    least,
    Math.min(most, 10 + 7 * texts.reduce((longest, text) => Math.max(longest, text.length), 0)),
  );

export interface Column {
  key: string;
  label: string;
  help: string;
  width: number;
  right?: boolean;
  sort: (n: number) => string | number | boolean | null;
  cell: (n: number) => Child[];
}

export interface Filter {
  group: string;
  value: string;
  text: string;
  test: (n: number) => boolean;
  count: number;
}

type Offer = [string, string, string, (n: number) => boolean]; // group, value, text, test

function outputColumn(key: string, label: string, help: string, output: Outputs): Column {
  return {
    key,
    label,
    help,
    width: widthOf(output.text, 62, 110),
    sort: (n) => (output.value ? output.value[n] : output.text[n]),
    cell: (n) => {
      // beside "survival" stands the risk of death, which is no probability of survival
      const detail =
        output.kind === "probability"
          ? "risk " + chance(output.value?.[n])
          : output.kind === "classes"
            ? chance(output.value?.[n])
            : "";
      return [
        h("span", { class: "word", text: output.text[n] || "–" }),
        detail ? h("span", { class: "sub", text: detail }) : null,
      ];
    },
  };
}

export function columns(): Column[] {
  const list: Column[] = [
    {
      key: "id",
      label: "Instance",
      help: "The name of the instance.",
      width: widthOf(D.ids, 70, 150),
      sort: (n) => n,
      cell: (n) => [h("span", { class: "word", title: D.ids[n], text: D.ids[n] })],
    },
  ];
  if (D.before)
    list.push(outputColumn("before", "Prediction", "What the model predicts from everything.", D.before));
  if (D.target) list.push(outputColumn("target", "Actual", "What really happened.", D.target));
  const rank = [
    "leading",
    "after",
    "certainty",
    "flipped",
    "area",
    "ce",
    "squared_error",
    "entropy",
    "information",
    "correct",
  ];
  const rest: Column[] = [
    {
      key: "leading",
      label: "Led by",
      help: "The channel with the greatest share of the mask.",
      width: widthOf(D.channels, 82, 130),
      sort: (n) => D.channels[leadingOf(n)],
      cell: (n) => [
        h("span", { class: "word", title: D.channels[leadingOf(n)], text: D.channels[leadingOf(n)] || "–" }),
      ],
    },
  ];
  if (D.after)
    rest.push(
      outputColumn(
        "after",
        "Without",
        "What it predicts once the highlighted cells are averaged out.",
        D.after,
      ),
    );
  for (const m of D.metrics.filter((one) => !one.name.includes("/"))) {
    rest.push({
      key: "metric:" + m.name,
      label: m.symbol || m.label,
      help: m.help,
      width: m.kind === "flag" ? 56 : 64,
      right: m.kind !== "flag",
      sort: (n) => (m.kind === "flag" && m.values[n] !== null ? Number(m.values[n]) : m.values[n]),
      cell: (n) => [
        m.kind === "flag"
          ? h("span", {
              class: m.values[n] ? (m.name === "flipped" ? "pill" : "") : "sub",
              text: show(m.values[n], "flag"),
            })
          : h("span", { text: show(m.values[n], m.kind) }),
      ],
    });
  }
  const place = (column: Column) => [...rank, column.key].indexOf(column.key.replace("metric:", "")) >>> 0; // unknown ones last
  return [...list, ...rest.sort((a, b) => place(a) - place(b))];
}

export function fitting(all: Column[], width: number, sortKey: string): Column[] {
  let room = width - 98;
  const kept = all.filter((column) => (room -= column.width + 10) >= 0 || column.key === "id");
  const sorted = all.find((column) => column.key === sortKey);
  if (sorted && !kept.includes(sorted)) kept[kept.length - 1] = sorted; // what one sorts by must be seen
  return kept;
}

export function compare(a: unknown, b: unknown): number {
  const [noA, noB] = [
    a === null || a === undefined || Number.isNaN(a),
    b === null || b === undefined || Number.isNaN(b),
  ];
  if (noA || noB) return Number(noA) - Number(noB);
  return typeof a === "string"
    ? a.localeCompare(String(b), undefined, { numeric: true })
    : Number(a) - Number(b);
}

// What one may want to see alone: [group, value, text, test of an instance]. Only what divides the list is offered.
const MANY_NAMES = 12;

function outputFilters(key: string, group: string, word: string, output: Outputs | null): Offer[] {
  if (!output) return [];
  const found: Offer[] = [];
  const values = output.value ?? [];
  const names = [...new Set(output.text)].filter(Boolean);
  if (output.kind !== "value" && names.length <= MANY_NAMES)
    for (const name of names.sort((a, b) => compare(a, b)))
      found.push([group, key + ":" + name, word + " " + name, (n) => output.text[n] === name]);
  if (key === "before" && output.kind === "probability")
    found.push([
      group,
      "before~close",
      "Close call, 40 to 60 %",
      (n) => Math.abs((values[n] ?? NaN) - 0.5) <= 0.1,
    ]);
  if (output.kind === "value" && N >= 10) {
    const sorted = values.filter(finite).sort((a, b) => a - b);
    const [low, high] = [0.2, 0.8].map((share) => sorted[Math.floor(share * (sorted.length - 1))]);
    found.push(
      [group, key + "~high", word + " highest, from " + numeral(high), (n) => (values[n] ?? NaN) >= high],
      [group, key + "~low", word + " lowest, up to " + numeral(low), (n) => (values[n] ?? NaN) <= low],
    );
  }
  return found;
}

export function filters(): Filter[] {
  const found: Offer[] = [
    ...outputFilters("before", "Prediction", "Predicted", D.before),
    ...outputFilters("target", "Actual", "Actually", D.target),
  ];
  for (const m of D.metrics.filter((x) => x.kind === "flag" && !x.name.includes("/"))) {
    const group = ["flipped", "correct"].includes(m.name) ? "Outcome" : "Remarks on the fit";
    for (const [digit, word, wanted] of [
      ["1", "yes", true],
      ["0", "no", false],
    ] as const)
      found.push([group, m.name + "=" + digit, m.label + ": " + word, (n) => m.values[n] === wanted]);
  }
  return found
    .map(([group, value, text, test]) => {
      const count = D.ids.reduce((sum, _, n) => sum + (test(n) ? 1 : 0), 0);
      return { group, value, text: text + " (" + count.toLocaleString("en-US") + ")", test, count };
    })
    .filter((f) => f.count > 0 && f.count < N);
}

export function grouped(list: Filter[]): HTMLElement[] {
  const groups = [...new Set(list.map((f) => f.group))];
  return groups.map((label) =>
    h(
      "optgroup",
      { label },
      list.filter((f) => f.group === label).map(({ value, text }) => h("option", { value, text })),
    ),
  );
}

export function select(
  label: string,
  options: ([string, string] | Node)[],
  onchange: (value: string) => void,
): HTMLSelectElement {
  const box: HTMLSelectElement = h(
    "select",
    { "aria-label": label, onchange: () => onchange(box.value) },
    options.map((entry) => (Array.isArray(entry) ? h("option", { value: entry[0], text: entry[1] }) : entry)),
  );
  return box;
}
