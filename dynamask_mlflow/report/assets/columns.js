// The columns of the list of instances, what they sort by, and which of them fit.

// Wide enough for the longest of the texts, within reason.
const widthOf = (texts, least, most) =>
  Math.max(
    least,
    Math.min(most, 10 + 7 * texts.reduce((longest, text) => Math.max(longest, text.length), 0)),
  );

function outputColumn(key, label, help, output) {
  return {
    key,
    label,
    help,
    width: widthOf(output.text, 62, 110),
    sort: (n) => (output.value ? output.value[n] : output.text[n]),
    cell: (n) => {
      const detail =
        output.kind === "probability" || output.kind === "classes" ? chance(output.value[n]) : "";
      return [
        h("span", { class: "word", text: output.text[n] || "–" }),
        detail ? h("span", { class: "sub", text: detail }) : null,
      ];
    },
  };
}

function columns() {
  const list = [
    {
      key: "id",
      label: "Instance",
      help: "The name of the instance.",
      width: widthOf(D.ids, 70, 150),
      sort: (n) => n,
      cell: (n) => [h("span", { class: "word", text: D.ids[n] })],
    },
  ];
  if (D.before)
    list.push(outputColumn("before", "Prediction", "What the model predicts from everything.", D.before));
  if (D.after)
    list.push(
      outputColumn(
        "after",
        "Without",
        "What it predicts once the highlighted cells are averaged out.",
        D.after,
      ),
    );
  if (D.target) list.push(outputColumn("target", "Actual", "What really happened.", D.target));
  const rank = ["flipped", "leading", "area", "ce", "squared_error", "entropy", "information", "correct"];
  const rest = [
    {
      key: "leading",
      label: "Led by",
      help: "The channel with the greatest share of the mask.",
      width: 82,
      sort: (n) => D.channels[D.leading[n]],
      cell: (n) => [h("span", { class: "word", text: D.channels[D.leading[n]] || "–" })],
    },
  ];
  for (const m of D.metrics) {
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
  const place = (column) => [...rank, column.key].indexOf(column.key.replace("metric:", "")) >>> 0; // unknown ones last
  return [...list, ...rest.sort((a, b) => place(a) - place(b))];
}

function fitting(all, width, sortKey) {
  let room = width - 98;
  const kept = all.filter((column) => (room -= column.width + 10) >= 0 || column.key === "id");
  const sorted = all.find((column) => column.key === sortKey);
  if (sorted && !kept.includes(sorted)) kept[kept.length - 1] = sorted; // what one sorts by must be seen
  return kept;
}

function compare(a, b) {
  const [noA, noB] = [
    a === null || a === undefined || Number.isNaN(a),
    b === null || b === undefined || Number.isNaN(b),
  ];
  if (noA || noB) return noA - noB;
  return typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
}

function filterOptions() {
  const options = [["", "All instances"]];
  for (const m of D.metrics.filter((x) => x.kind === "flag")) {
    options.push([m.name + "=1", m.label + ": yes"], [m.name + "=0", m.label + ": no"]);
  }
  return options;
}

function select(label, options, onchange) {
  const box = h(
    "select",
    { "aria-label": label, onchange: () => onchange(box.value) },
    options.map(([value, text]) => h("option", { value, text })),
  );
  return box;
}
