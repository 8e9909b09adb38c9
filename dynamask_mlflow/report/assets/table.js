// The list of instances: sorted, filtered, and drawn only where it is looked at.

const ROW = 46;

// Wide enough for the longest of the texts, within reason.
const widthOf = (texts, least, most) => Math.max(least, Math.min(most, 10 + 7 * texts.reduce((longest, text) => Math.max(longest, text.length), 0)));

function outputColumn(key, label, help, output) {
  return {
    key, label, help, width: widthOf(output.text, 62, 110),
    sort: (n) => (output.value ? output.value[n] : output.text[n]),
    cell: (n) => {
      const detail = output.kind === "probability" || output.kind === "classes" ? number(output.value[n]) : "";
      return [h("span", { class: "word", text: output.text[n] || "–" }), detail ? h("span", { class: "sub", text: detail }) : null];
    },
  };
}

function columns() {
  const list = [{ key: "id", label: "Instance", help: "The name of the instance.", width: widthOf(D.ids, 70, 150), sort: (n) => n,
    cell: (n) => [h("span", { class: "word", text: D.ids[n] })] }];
  if (D.before) list.push(outputColumn("before", "Prediction", "What the model predicts from everything.", D.before));
  if (D.after) list.push(outputColumn("after", "Without", "What it predicts once the highlighted cells are averaged out.", D.after));
  if (D.target) list.push(outputColumn("target", "Actual", "What really happened.", D.target));
  const rank = ["flipped", "leading", "area", "ce", "squared_error", "entropy", "information", "correct"];
  const rest = [{ key: "leading", label: "Led by", help: "The channel with the greatest share of the mask.", width: 82,
    sort: (n) => D.channels[D.leading[n]], cell: (n) => [h("span", { class: "word", text: D.channels[D.leading[n]] || "–" })] }];
  for (const m of D.metrics) {
    rest.push({ key: "metric:" + m.name, label: m.symbol || m.label, help: m.help, width: m.kind === "flag" ? 56 : 64, right: m.kind !== "flag",
      sort: (n) => (m.kind === "flag" && m.values[n] !== null ? Number(m.values[n]) : m.values[n]),
      cell: (n) => [m.kind === "flag"
        ? h("span", { class: m.values[n] ? (m.name === "flipped" ? "pill" : "") : "sub", text: show(m.values[n], "flag") })
        : h("span", { text: show(m.values[n], m.kind) })] });
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
  const [noA, noB] = [a === null || a === undefined || Number.isNaN(a), b === null || b === undefined || Number.isNaN(b)];
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
  const box = h("select", { "aria-label": label, onchange: () => onchange(box.value) },
    options.map(([value, text]) => h("option", { value, text })));
  return box;
}

function instanceTable(onselect) {
  const all = columns();
  const state = { text: "", flag: "", channel: "", key: "id", down: false, rows: [], chosen: null };
  const haystack = D.ids.map((id, n) =>
    [id, D.before && D.before.text[n], D.target && D.target.text[n]].filter(Boolean).join(" ").toLowerCase());
  const count = h("span", { class: "count", role: "status" });
  const search = h("input", { type: "search", placeholder: "Find an instance or a prediction", "aria-label": "Find",
    oninput: () => { state.text = search.value.trim().toLowerCase(); apply(); } });
  const flags = select("Show", filterOptions(), (v) => { state.flag = v; apply(); });
  const leaders = [...new Set(D.leading)].sort((a, b) => D.profile.byChannel[b] - D.profile.byChannel[a]);
  const channel = select("Led by", [["", "Led by any channel"], ...leaders.map((c) => [String(c), "Led by " + D.channels[c]])],
    (v) => { state.channel = v; apply(); });
  const order = select("Sort by", all.map((c) => [c.key, c.key === "id" ? "Sort: as given" : "Sort: " + c.label]), (v) => sortBy(v, v !== "id" && all.find((c) => c.key === v).right));
  const turn = h("button", { type: "button", class: "turn", "aria-label": "Reverse the order", title: "Reverse the order", text: "↑", onclick: () => sortBy(state.key, !state.down) });

  const head = h("div", { class: "row head", role: "row" });
  const space = h("div", { class: "space", role: "presentation" });
  const body = h("div", { class: "scroll", role: "rowgroup" }, space);
  const grid = h("div", { class: "grid", tabindex: "0", role: "grid", "aria-label": "Instances; the arrow keys choose one" }, h("div", { role: "rowgroup" }, head), body);
  const empty = h("p", { class: "quiet", hidden: true, text: "No instance fits these filters." });
  let shown = [], template = "", drawn = [-1, -1];

  function sortBy(key, down) {
    state.key = key;
    state.down = Boolean(down);
    layout();
    apply();
  }

  function apply() {
    const [flag, wanted] = state.flag ? state.flag.split(/=(?=[01]$)/) : ["", ""];
    const flagged = flag && metric(flag);
    const column = all.find((c) => c.key === state.key);
    state.rows = [];
    for (let n = 0; n < N; n++) {
      if (state.text && !haystack[n].includes(state.text)) continue;
      if (flagged && flagged.values[n] !== (wanted === "1")) continue;
      if (state.channel !== "" && D.leading[n] !== Number(state.channel)) continue;
      state.rows.push(n);
    }
    const keys = new Map(state.rows.map((n) => [n, column.sort(n)]));
    const sign = state.down ? -1 : 1;
    state.rows.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || a - b);
    order.value = state.key;
    turn.textContent = state.down ? "↓" : "↑";
    count.textContent = state.rows.length === N ? plural(N, "instance") : state.rows.length + " of " + plural(N, "instance");
    empty.hidden = state.rows.length > 0;
    grid.setAttribute("aria-rowcount", state.rows.length + 1);
    space.style.height = state.rows.length * ROW + "px";
    body.scrollTop = 0;
    paint(true);
  }

  function layout() {
    shown = fitting(all, body.clientWidth || 620, state.key);
    template = "72px " + shown.map((c) => "minmax(" + c.width + "px, " + (c.right || c.width < 70 ? "0.6fr" : "1fr") + ")").join(" ");
    head.style.gridTemplateColumns = template;
    head.replaceChildren(h("span", { role: "columnheader", class: "mini", text: "Mask" }), ...shown.map((c) => {
      const active = c.key === state.key;
      return h("span", { role: "columnheader", class: c.right ? "right" : "", "aria-sort": active ? (state.down ? "descending" : "ascending") : "none" },
        h("button", { type: "button", title: c.help, class: active ? "active" : "", onclick: () => sortBy(c.key, active ? !state.down : c.right) },
          c.label, h("i", { "aria-hidden": "true", text: active ? (state.down ? " ↓" : " ↑") : "" })));
    }));
  }

  function row(index) {
    const n = state.rows[index];
    const mini = h("canvas", { class: "stamp", width: 64, height: 34, "aria-hidden": "true" });
    stamp(mini, n);
    const node = h("div", { class: "row", role: "row", id: "row-" + n, "aria-rowindex": index + 2, "aria-selected": String(n === state.chosen), onclick: () => choose(n, true) },
      h("span", { role: "gridcell", class: "mini" }, mini), shown.map((c) => h("span", { role: "gridcell", class: c.right ? "right" : "" }, c.cell(n))));
    node.style.gridTemplateColumns = template;
    node.style.top = index * ROW + "px";
    return node;
  }

  function paint(force) {
    const first = Math.max(0, Math.floor(body.scrollTop / ROW) - 4);
    const last = Math.min(state.rows.length, Math.ceil((body.scrollTop + (body.clientHeight || 400)) / ROW) + 4);
    if (!force && first === drawn[0] && last === drawn[1]) return;
    drawn = [first, last];
    const nodes = [];
    for (let i = first; i < last; i++) nodes.push(row(i));
    space.replaceChildren(...nodes);
  }

  function choose(n, opened) {
    state.chosen = n;
    const index = state.rows.indexOf(n);
    if (index >= 0) {
      if (index * ROW < body.scrollTop) body.scrollTop = index * ROW;
      if ((index + 1) * ROW > body.scrollTop + body.clientHeight) body.scrollTop = (index + 1) * ROW - body.clientHeight;
      grid.setAttribute("aria-activedescendant", "row-" + n);
    }
    paint(true);
    onselect(n, opened);
  }

  function step(by) {
    if (!state.rows.length) return;
    const index = state.rows.indexOf(state.chosen);
    choose(state.rows[Math.max(0, Math.min(state.rows.length - 1, index < 0 ? 0 : index + by))]);
  }

  body.addEventListener("scroll", () => paint(false));
  grid.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(body.clientHeight / ROW) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -N, End: N }[event.key];
    if (by) { event.preventDefault(); step(by); }
  });
  const watch = figure({ class: "watch", "aria-hidden": "true" }, () => { layout(); paint(true); });
  const node = h("div", { class: "list" },
    h("div", { class: "tools" }, search, flags, leaders.length > 1 ? channel : null, order, turn, count), watch, grid, empty);
  apply();
  return {
    node, choose, step,
    get chosen() { return state.chosen; },
    first: () => state.rows[0],
    onlyChannel: (c) => { channel.value = String(c); state.channel = String(c); search.value = ""; state.text = ""; flags.value = ""; state.flag = ""; apply(); },
  };
}
