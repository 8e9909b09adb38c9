// The frame: head, tabs, and what is shown under each.

import { C, D, N, T } from "./data";
import { h, hideTip, say } from "./dom";
import { driftView } from "./drift";
import { plural } from "./format";
import { comparison, guide } from "./guide";
import { instanceView, type View } from "./instance";
import { type Go, overview } from "./overview";
import { instanceTable, type Table } from "./table";

interface Tab {
  key: string;
  button: HTMLElement;
  panel: HTMLElement;
  build: () => HTMLElement;
}

const view: View = { by: "importance", what: "mask" };
const tabs: Tab[] = [];
const go: Go = { toChannel: () => undefined };

function instances(): HTMLElement {
  const detail = h("section", { class: "detail stack", "aria-label": "Chosen instance" });
  const behavior = window.matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  const scrollTo = (node: HTMLElement) =>
    window.scrollTo({ top: node.getBoundingClientRect().top + window.scrollY - 12, behavior });
  const table: Table = instanceTable((n, opened) => {
    detail.replaceChildren(
      ...instanceView(n, view, { by: (by) => table.step(by), list: () => scrollTo(table.node) }),
    );
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
  showFirst();
  return h("div", { class: "split" }, table.node, detail);
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
    { type: "button", role: "tab", id: tabId, "aria-controls": panelId, onclick: () => open(key) },
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
      fact("Explained", plural(N, "instance") + ", " + plural(C, "channel") + ", " + plural(T, D.unit)),
    ),
  );
}

function start(): void {
  const { drift } = D;
  if (drift) addTab("drift", "Drift", () => driftView(drift));
  addTab("overview", "Overview", () => overview(go));
  if (N && T && C) addTab("instances", "Instances", instances);
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
    bar,
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
  window.addEventListener("beforeprint", () => {
    for (const tab of tabs) if (!tab.panel.firstChild) tab.panel.append(tab.build());
  });
  open("overview");
  if (D.drift) open("drift");
}

start();
