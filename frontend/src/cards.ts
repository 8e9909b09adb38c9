// Cards and controls that several parts of the page share.

import { D } from "./data";
import { type Attributes, type Child, fresh, h } from "./dom";
import { saveFigure } from "./export";
import type { Words } from "./types";

export const MANY_CHANNELS = 40;

export function card(title: string, note: string | null, ...content: Child[]): HTMLElement {
  const id = fresh("card");
  return h(
    "section",
    { class: "card", "aria-labelledby": id },
    h("header", {}, h("h2", { id, text: title }), note ? h("p", { class: "note", text: note }) : null),
    ...content,
  );
}

// A card whose figure can be saved.
export function figureCard(title: string, note: string | null, ...content: Child[]): HTMLElement {
  const made = card(title, note, ...content);
  const save = h("button", {
    type: "button",
    class: "save",
    "aria-label": "Save the figure: " + title,
    title: "Save this figure",
    text: "Save",
    onclick: () => {
      const instance = made.closest(".detail")?.querySelector("h2")?.textContent;
      saveFigure(made, (instance ?? D.title) + " " + title);
    },
  });
  made.querySelector("header")?.append(save);
  return made;
}

export const titled = (e: Words) => (e.symbol ? e.label + " (" + e.symbol + ")" : e.label);

// As many columns as there are children where there is room, else a number that leaves no ragged end.
export function columnsOf(look: string, attributes: Attributes, children: Node[]): HTMLElement {
  const node = h("div", { class: look, ...attributes }, children);
  node.style.setProperty("--all", String(Math.min(3, children.length)));
  const some = children.length === 3 || children.length > 4 ? 3 : Math.min(2, children.length);
  node.style.setProperty("--some", String(some));
  return node;
}

// Two or three exclusive choices, as a radio group.
export function choice(
  label: string,
  options: [string, string][],
  chosen: string,
  onchange: (value: string) => void,
): HTMLElement {
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

// A button that shows the rest of a list, and hides it again.
export function moreButton(more: string, less: string, onchange: (all: boolean) => void): HTMLElement {
  let all = false;
  const button = h("button", {
    type: "button",
    class: "plain",
    "aria-expanded": "false",
    text: more,
    onclick: () => {
      all = !all;
      button.textContent = all ? less : more;
      button.setAttribute("aria-expanded", String(all));
      onchange(all);
    },
  });
  return button;
}

export function rowsTable(
  title: string,
  note: string | null,
  rows: Record<string, string | number>,
  format: (v: number) => string,
): HTMLElement | null {
  const entries = Object.entries(rows);
  if (!entries.length) return null;
  const body = entries.map(([name, value]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: name }),
      h("td", { text: typeof value === "number" ? format(value) : String(value) }),
    ),
  );
  return card(title, note, h("table", { class: "plainrows" }, h("tbody", {}, body)));
}
