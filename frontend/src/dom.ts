// Elements, the one tooltip, and figures that are drawn again when their width changes.
// Text from users reaches the page through textContent and setAttribute alone.

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- handlers take the event of their own kind
type Handler = (event: any) => void;
export type Attributes = Record<string, string | number | boolean | null | undefined | Handler>;
export type Child = Node | string | null | undefined | false | Child[];

function fill<E extends Element>(node: E, attributes: Attributes | null, children: Child[]): E {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else if (key === "text") node.textContent = String(value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity as 1) as (Node | string | null | undefined | false)[]) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export const h = <K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] => fill(document.createElement(tag), attributes, children);

export const svg = <K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes | null,
  ...children: Child[]
): SVGElementTagNameMap[K] =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

let serial = 0;
export const fresh = (stem: string) => stem + "-" + ++serial;

const live = document.getElementById("live") as HTMLElement;
export const say = (text: string) => {
  live.textContent = text;
};

// ---- the one tooltip ----

export const tip = document.getElementById("tip") as HTMLElement;

export function showTip(title: string, lines: (string | null)[], x: number, y: number): void {
  tip.replaceChildren(
    h("strong", { text: title }),
    ...lines.filter(Boolean).map((line) => h("span", { text: line })),
  );
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const [width, height] = [document.documentElement.clientWidth, window.innerHeight];
  let [left, top] = [x + 14, y + 16];
  if (left + box.width > width - 6) left = Math.max(6, x - box.width - 14);
  if (top + box.height > height - 6) top = Math.max(6, y - box.height - 12);
  tip.style.left = left + "px";
  tip.style.top = top + "px";
}

export function hideTip(): void {
  tip.hidden = true;
}

window.addEventListener("scroll", hideTip, true);
window.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});

// ---- redrawing: when a figure's width, the theme or the medium changes ----

type Draw = (node: HTMLElement, width: number) => void;
const figures = new Map<HTMLElement, { draw: Draw; drawn: number }>();

function drawNow(node: HTMLElement, always: boolean): void {
  const entry = figures.get(node);
  if (!entry) return;
  if (!node.isConnected) {
    if (!entry.drawn) return; // not in the page yet
    figures.delete(node);
    sizes.unobserve(node);
    return;
  }
  const width = Math.floor(node.clientWidth);
  if (width > 0 && (always || entry.drawn !== width)) {
    entry.drawn = width;
    entry.draw(node, width);
  }
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) drawNow(target as HTMLElement, false);
});

// A figure is an element with a function that draws it for a given width.
export function figure(attributes: Attributes, draw: Draw): HTMLElement {
  const node = h("div", attributes);
  figures.set(node, { draw, drawn: 0 });
  sizes.observe(node);
  return node;
}

export const redraw = (node: HTMLElement) => drawNow(node, true);

export function redrawAll(): void {
  for (const node of [...figures.keys()]) drawNow(node, true);
}
