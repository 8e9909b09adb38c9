// The first page: what the model looks at, and whether that is better than chance.

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
const MANY_CHANNELS = 40;

const entry = (name) => D.summary.find((e) => e.name === name);
const metric = (name) => D.metrics.find((m) => m.name === name);

function card(title, note, ...content) {
  const id = fresh("card");
  return h(
    "section",
    { class: "card", "aria-labelledby": id },
    h("header", {}, h("h2", { id, text: title }), note ? h("p", { class: "note", text: note }) : null),
    ...content,
  );
}

const titled = (e) => (e.symbol ? e.label + " (" + e.symbol + ")" : e.label);

function tile(e) {
  const chance = finite(e.random)
    ? h("p", { class: "chance", text: "random cells: " + show(e.random, e.kind) })
    : null;
  const wins =
    finite(e.random) && e.better && (e.better === "higher" ? e.value > e.random : e.value < e.random);
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

// As many columns as there are children where there is room, else a number that leaves no ragged end.
function columnsOf(look, attributes, children) {
  const node = h("div", { class: look, ...attributes }, children);
  node.style.setProperty("--all", children.length);
  node.style.setProperty(
    "--some",
    children.length === 3 || children.length > 4 ? 3 : Math.min(2, children.length),
  );
  return node;
}

function tiles() {
  const shown = TILES.map(entry).filter((e) => e && finite(e.value));
  const kept = shown.some((e) => e.name === "information_normalized")
    ? shown.filter((e) => e.name !== "information")
    : shown;
  return kept.length
    ? columnsOf("tiles", { "aria-label": "Summary", role: "group" }, kept.slice(0, 6).map(tile))
    : null;
}

// Two or three exclusive choices, as a radio group.
function choice(label, options, chosen, onchange) {
  const group = h("div", { class: "choice", role: "radiogroup", "aria-label": label });
  const name = fresh("choice");
  for (const [value, text] of options) {
    const input = h("input", {
      type: "radio",
      name,
      id: fresh("radio"),
      value,
      onchange: () => onchange(value),
    });
    input.checked = value === chosen;
    group.append(input, h("label", { for: input.id, text }));
  }
  return group;
}

function channelOrder(totals, by) {
  const all = totals.map((_, i) => i);
  return by === "importance" ? all.sort((a, b) => totals[b] - totals[a] || a - b) : all;
}

function profileCard(go) {
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
          "mean mask here " + number(map[t][c]),
          D.channels[c] + ": " + percent(byChannel[c]) + " of all importance",
          capital(atTime(t)) + ": " + percent(byTime[t]),
        ],
        hint: "Point at a cell to read it; click to list the instances that this channel leads.",
        onpick: (t, c) => go.toChannel(c),
      }),
      legend("0", number(roof)),
    );
  };
  draw();
  const more =
    C > MANY_CHANNELS
      ? h("button", {
          class: "plain",
          type: "button",
          "aria-expanded": "false",
          text: "Show all " + C + " channels",
          onclick: (event) => {
            state.all = !state.all;
            event.target.textContent = state.all
              ? "Show the first " + MANY_CHANNELS
              : "Show all " + C + " channels";
            event.target.setAttribute("aria-expanded", String(state.all));
            draw();
          },
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

function curveCards() {
  if (!D.curves) return [];
  return D.curves.lines.map((curve) => {
    const lines = [
      { name: D.method, values: curve.values, look: "main" },
      { name: "random cells", values: curve.random, look: "chance" },
    ].filter((line) => line.values && line.values.some(finite));
    const chart = lines.length
      ? areaChart({
          label: curve.label + " against the share of cells",
          areas: D.curves.areas,
          lines,
          kind: curve.kind,
          roof: curve.name === "error" ? 1 : 0,
        })
      : null;
    return chart ? card(titled(curve), curve.help, chart, chartKey(lines)) : null;
  });
}

function overview(go) {
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
    columnsOf("figures", {}, [...curveCards(), spread].filter(Boolean)),
  );
}
