// The list of instances: sorted, filtered, and drawn only where it is looked at.

import { type Column, columns, compare, filters, fitting, grouped, select } from "./columns";
import { D, N } from "./data";
import { figure, h } from "./dom";
import { saveTable } from "./export";
import { plural } from "./format";
import { stamp } from "./marks";

const ROW = 46;
const HEAD = 36; // of the row of names, which stays in sight

export interface Table {
  node: HTMLElement;
  choose: (n: number, opened?: boolean) => void;
  step: (by: number) => void;
  first: () => number | undefined;
  onlyChannel: (c: number) => void;
  redraw: () => void;
}

interface State {
  text: string;
  flag: string;
  channel: string;
  key: string;
  down: boolean;
  rows: number[];
  chosen: number | null;
}

export function instanceTable(onselect: (n: number, opened: boolean) => void): Table {
  const all = columns();
  const certain = all.find((c) => c.key === "metric:certainty");
  const state: State = {
    text: "",
    flag: "",
    channel: "",
    key: certain ? certain.key : "id",
    down: Boolean(certain),
    rows: [],
    chosen: null,
  };
  const haystack = D.ids.map((id, n) =>
    [id, D.before?.text[n], D.target?.text[n], D.channels[D.leading[n]], D.names[D.leading[n]]]
      .filter(Boolean)
      .join(" ")
      .toLowerCase(),
  );
  const count = h("span", { class: "count", role: "status" });
  const search = h("input", {
    type: "search",
    placeholder: "Find an instance or channel",
    "aria-label": "Find",
    oninput: () => {
      state.text = search.value.trim().toLowerCase();
      apply();
    },
  });
  const offered = filters();
  const flags = select("Show", [["", "All instances"], ...grouped(offered)], (v) => {
    state.flag = v;
    apply();
  });
  const leaders = [...new Set(D.leading)].sort((a, b) => D.profile.byChannel[b] - D.profile.byChannel[a]);
  const channel = select(
    "Led by",
    [
      ["", "Led by any channel"],
      ...leaders.map((c): [string, string] => [String(c), "Led by " + D.channels[c]]),
    ],
    (v) => {
      state.channel = v;
      apply();
    },
  );
  const order = select(
    "Sort by",
    all.map((c): [string, string] => [
      c.key,
      c.key === "id" ? "Sort: as given" : c === certain ? "Sort: most certain first" : "Sort: " + c.label,
    ]),
    (v) => sortBy(v, v !== "id" && Boolean(all.find((c) => c.key === v)?.right)),
  );
  const turn = h("button", {
    type: "button",
    class: "turn",
    "aria-label": "Reverse the order",
    title: "Reverse the order",
    text: "↑",
    onclick: () => sortBy(state.key, !state.down),
  });

  const save = h("button", {
    type: "button",
    text: "CSV",
    title: "Save this list as a table",
    onclick: () => saveTable(state.rows),
  });
  const head = h("div", { class: "row head", role: "row" });
  const space = h("div", { class: "space", role: "presentation" });
  const body = h("div", { role: "rowgroup" }, space);
  const grid = h(
    "div",
    { class: "grid", tabindex: "0", role: "grid", "aria-label": "Instances; the arrow keys choose one" },
    h("div", { role: "rowgroup", class: "heads" }, head),
    body,
  );
  const empty = h("p", { class: "quiet", hidden: true, text: "No instance fits these filters." });
  let shown: Column[] = [];
  let template = "";
  let drawn = [-1, -1];
  let started = false;

  function sortBy(key: string, down: boolean) {
    state.key = key;
    state.down = down;
    layout();
    apply();
  }

  function apply() {
    const filter = offered.find((f) => f.value === state.flag);
    const column = all.find((c) => c.key === state.key) ?? all[0];
    state.rows = [];
    for (let n = 0; n < N; n++) {
      if (state.text && !haystack[n].includes(state.text)) continue;
      if (filter && !filter.test(n)) continue;
      if (state.channel !== "" && D.leading[n] !== Number(state.channel)) continue;
      state.rows.push(n);
    }
    const keys = new Map(state.rows.map((n) => [n, column.sort(n)]));
    const sign = state.down ? -1 : 1;
    state.rows.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || a - b);
    order.value = state.key;
    turn.textContent = state.down ? "↓" : "↑";
    count.textContent =
      state.rows.length === N ? plural(N, "instance") : state.rows.length + " of " + plural(N, "instance");
    empty.hidden = state.rows.length > 0;
    grid.setAttribute("aria-rowcount", String(state.rows.length + 1));
    space.style.height = state.rows.length * ROW + "px";
    grid.scrollTop = 0;
    paint(true);
    // the pane beside the list shows an instance of the list
    if (started && state.rows.length && (state.chosen === null || !state.rows.includes(state.chosen)))
      choose(state.rows[0]);
  }

  function layout() {
    shown = fitting(all, body.clientWidth || 620, state.key);
    template =
      "72px " +
      shown
        .map((c) => "minmax(" + c.width + "px, " + (c.right || c.width < 70 ? "0.6fr" : "1fr") + ")")
        .join(" ");
    head.style.gridTemplateColumns = template;
    head.replaceChildren(
      h("span", { role: "columnheader", class: "mini", text: "Mask" }),
      ...shown.map((c) => {
        const active = c.key === state.key;
        return h(
          "span",
          {
            role: "columnheader",
            class: c.right ? "right" : "",
            "aria-sort": active ? (state.down ? "descending" : "ascending") : "none",
          },
          h(
            "button",
            {
              type: "button",
              title: c.help,
              class: active ? "active" : "",
              onclick: () => sortBy(c.key, active ? !state.down : Boolean(c.right)),
            },
            c.label,
            h("i", { "aria-hidden": "true", text: active ? (state.down ? " ↓" : " ↑") : "" }),
          ),
        );
      }),
    );
  }

  function row(index: number) {
    const n = state.rows[index];
    const mini = h("canvas", { class: "stamp", width: 64, height: 34, "aria-hidden": "true" });
    stamp(mini, n);
    const node = h(
      "div",
      {
        class: "row",
        role: "row",
        id: "row-" + n,
        "aria-rowindex": index + 2,
        "aria-selected": String(n === state.chosen),
        onclick: () => choose(n, true),
      },
      h("span", { role: "gridcell", class: "mini" }, mini),
      shown.map((c) => h("span", { role: "gridcell", class: c.right ? "right" : "" }, c.cell(n))),
    );
    node.style.gridTemplateColumns = template;
    node.style.top = index * ROW + "px";
    return node;
  }

  function paint(force: boolean) {
    const first = Math.max(0, Math.floor(grid.scrollTop / ROW) - 4);
    const last = Math.min(
      state.rows.length,
      Math.ceil((grid.scrollTop + (grid.clientHeight || 400)) / ROW) + 4,
    );
    if (!force && first === drawn[0] && last === drawn[1]) return;
    drawn = [first, last];
    const nodes = [];
    for (let i = first; i < last; i++) nodes.push(row(i));
    space.replaceChildren(...nodes);
  }

  function choose(n: number, opened = false) {
    state.chosen = n;
    const index = state.rows.indexOf(n);
    if (index >= 0) {
      if (index * ROW < grid.scrollTop) grid.scrollTop = index * ROW;
      const room = grid.clientHeight - HEAD;
      if ((index + 1) * ROW > grid.scrollTop + room) grid.scrollTop = (index + 1) * ROW - room;
      grid.setAttribute("aria-activedescendant", "row-" + n);
    }
    paint(true);
    onselect(n, opened);
  }

  function step(by: number) {
    if (!state.rows.length) return;
    const index = state.chosen === null ? -1 : state.rows.indexOf(state.chosen);
    choose(state.rows[Math.max(0, Math.min(state.rows.length - 1, index < 0 ? 0 : index + by))]);
  }

  grid.addEventListener("scroll", () => paint(false));
  grid.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor((grid.clientHeight - HEAD) / ROW) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -N, End: N }[event.key];
    if (by) {
      event.preventDefault();
      step(by);
    }
  });
  const watch = figure({ class: "watch", "aria-hidden": "true" }, () => {
    layout();
    paint(true);
  });
  const node = h(
    "div",
    { class: "list" },
    h(
      "div",
      { class: "tools" },
      search,
      offered.length ? flags : null,
      leaders.length > 1 ? channel : null,
      order,
      turn,
      count,
      save,
    ),
    watch,
    grid,
    empty,
  );
  apply();
  started = true;
  return {
    node,
    choose,
    step,
    first: () => state.rows[0],
    redraw: () => paint(true),
    onlyChannel: (c) => {
      channel.value = String(c);
      state.channel = String(c);
      search.value = "";
      state.text = "";
      flags.value = "";
      state.flag = "";
      apply();
    },
  };
}
