// The frame: head, tabs, what is shown under each, and the address of what is in sight.

import { select } from "./columns";
import { C, D, N, showTarget, T, targetShown, times } from "./data";
import { h, hideTip, say } from "./dom";
import { comparedView, driftView } from "./drift";
import { type Place, placeOf, remember } from "./export";
import { plural } from "./format";
import { comparison, guide } from "./guide";
import { instanceView, type View } from "./instance";
import { type Go, overview } from "./overview";
import { onPrint } from "./print";
import { instanceTable, type Table } from "./table";

interface Tab {
  key: string;
  button: HTMLElement;
  panel: HTMLElement;
  build: () => HTMLElement;
}

const SHOWN = ["direction", "mask", "rank"];

const asked = placeOf(location.hash);
const view: View = {
  by: "importance",
  what: asked.show && SHOWN.includes(asked.show) ? asked.show : "direction",
};
const tabs: Tab[] = [];
const go: Go = { toChannel: () => undefined };
let chosen: number | null = null;

const openTab = () => tabs.find((tab) => !tab.panel.hidden)?.key;

const place = (): Place =>
  openTab() === "instances" && chosen !== null
    ? {
        part: "instances",
        id: D.ids[chosen],
        show: view.what,
        target: targetShown() ? String(targetShown()) : undefined,
      }
    : { part: openTab() };

// A choice between the targets that were explained, where there are several.
function targetChoice(changed: () => void): HTMLElement | null {
  if (!D.views.length) return null;
  const first = D.explained?.target || "as evaluated";
  const names = [first, ...D.views.map((other) => other.label)];
  const box = select(
    "Which answer is explained",
    names.map((name, i): [string, string] => [String(i), name]),
    (value) => {
      showTarget(Number(value));
      changed();
    },
  );
  box.value = String(targetShown());
  return h("label", { class: "target" }, "Explained: ", box);
}

function instances(): HTMLElement {
  const detail = h("section", { class: "detail stack", "aria-label": "Chosen instance" });
  const behavior = window.matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  const scrollTo = (node: HTMLElement) =>
    window.scrollTo({ top: node.getBoundingClientRect().top + window.scrollY - 12, behavior });
  const draw = (n: number) =>
    detail.replaceChildren(
      ...instanceView(n, view, {
        by: (by) => table.step(by),
        list: () => scrollTo(table.node),
        place,
        changed: () => remember(place()),
      }),
    );
  const table: Table = instanceTable((n, opened) => {
    chosen = n;
    draw(n);
    if (openTab() === "instances") remember(place());
    // in a narrow pane the list stands above: opening an instance brings it into sight
    if (opened && detail.getBoundingClientRect().top > 0.6 * window.innerHeight) scrollTo(detail);
  });
  const showFirst = () => {
    const first = table.first();
    if (first !== undefined) table.choose(first);
  };
  go.toChannel = (c: number) => {
    open("instances");
    table.onlyChannel(c);
    showFirst();
    say("Instances led by " + D.channels[c]);
  };
  const wanted = asked.id === undefined ? -1 : D.ids.indexOf(asked.id);
  const target = Number(asked.target ?? 0);
  if (target > 0 && target <= D.views.length) showTarget(target);
  if (wanted >= 0) table.choose(wanted);
  else showFirst();
  const targets = targetChoice(() => {
    table.redraw();
    if (chosen !== null) draw(chosen);
    remember(place());
  });
  const split = h("div", { class: "split" }, table.node, detail);
  return targets ? h("div", { class: "stack" }, targets, split) : split;
}

function open(key: string, focus = false): void {
  for (const tab of tabs) {
    const on = tab.key === key;
    tab.button.setAttribute("aria-selected", String(on));
    tab.button.tabIndex = on ? 0 : -1;
    tab.panel.hidden = !on;
    if (on && focus) tab.button.focus();
    if (on && !tab.panel.firstChild) tab.panel.append(tab.build());
  }
  hideTip();
}

function addTab(key: string, label: string, build: () => HTMLElement): void {
  const [tabId, panelId] = ["tab-" + key, "panel-" + key];
  const button = h(
    "button",
    {
      type: "button",
      role: "tab",
      id: tabId,
      "aria-controls": panelId,
      onclick: () => {
        open(key);
        remember(place());
      },
    },
    label,
  );
  const panel = h("div", { role: "tabpanel", id: panelId, "aria-labelledby": tabId, hidden: true });
  tabs.push({ key, button, panel, build });
}

function turnTabs(event: KeyboardEvent): void {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const at = tabs.findIndex((tab) => tab.button.getAttribute("aria-selected") === "true");
  open(tabs[(at + by + tabs.length) % tabs.length].key, true);
  remember(place());
}

/** Of an audit's window only some are shown one by one. */
function explainedCount(): string {
  const all = D.drift?.explained ?? N;
  return plural(all, "instance") + (all > N ? " (" + N + " shown one by one)" : "");
}

function head(): HTMLElement {
  const fact = (term: string, text: string) =>
    text ? h("div", {}, h("dt", { text: term }), h("dd", { text })) : null;
  return h(
    "header",
    { class: "top" },
    h("p", { class: "eyebrow", text: "Dynamic masks · what the model relies on" }),
    h("h1", { text: D.title }),
    h(
      "dl",
      { class: "meta" },
      fact("Model", D.model),
      fact("Made", D.created),
      fact("Explained", explainedCount() + ", " + plural(C, "channel") + ", " + times(0, T - 1)),
      fact("Answer", D.compared ? "" : (D.explained?.target ?? "")),
    ),
  );
}

function start(): void {
  const { drift } = D;
  if (drift) addTab("drift", "Drift", () => driftView(drift));
  const { compared } = D;
  if (compared) addTab("compare", "Compare", () => comparedView(compared));
  if (N && T && C) addTab("instances", "Instances", instances);
  if (!compared) addTab("overview", "Overview", () => overview(go)); // of one model
  if (D.comparison.length) addTab("methods", "Methods", comparison);
  addTab("guide", "How to read", guide);
  const bar = h(
    "div",
    { class: "tabs", role: "tablist", "aria-label": "Parts of the report", onkeydown: turnTabs },
    tabs.map((tab) => tab.button),
  );
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  });
  document.getElementById("app")?.append(
    head(),
    h("nav", { "aria-label": "Parts of the report" }, bar),
    h(
      "main",
      { id: "main", tabindex: "-1" },
      tabs.map((tab) => tab.panel),
    ),
  );
  go.toChannel = (c: number) => {
    open("instances");
    go.toChannel(c);
  }; // building the tab replaces this
  onPrint(() => {
    for (const tab of tabs) if (!tab.panel.firstChild) tab.panel.append(tab.build());
  });
  const part = tabs.some((tab) => tab.key === asked.part) ? asked.part : undefined;
  open(part ?? tabs[0].key);
}

start();
