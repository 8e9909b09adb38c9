// Ways out of the page: tables and masks as CSV, figures as PNG or SVG, links to one instance.

import { C, D, endOf, hasInputs, hasSigned, inputAt, maskAt, N, observedAt, signedAt } from "./data";
import { h, say, svg } from "./dom";
import { least, most } from "./format";
import type { Num } from "./types";

type Field = string | Num | boolean | undefined;

export function csvField(value: Field): string {
  if (value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value)))
    return "";
  const text = typeof value === "number" ? String(+value.toPrecision(7)) : String(value);
  // A text that a spreadsheet would take for a formula is marked as text.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
  return /[",\n\r]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
}

export const csv = (rows: Field[][]) => rows.map((row) => row.map(csvField).join(",")).join("\r\n") + "\r\n";

export const fileName = (text: string) => text.replace(/[^\w.-]+/g, "_").slice(0, 60) || "report";

function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  say("Saved " + name);
}

export const saveText = (name: string, text: string, kind = "text/csv;charset=utf-8") =>
  download(name, new Blob(["\ufeff".repeat(kind.startsWith("text/csv") ? 1 : 0), text], { type: kind }));

export function tableRows(rows: number[]): Field[][] {
  const outputs = (
    [
      ["prediction", D.before],
      ["without the mask", D.after],
      ["actual", D.target],
    ] as const
  ).filter(([, output]) => output);
  const head = [
    "id",
    ...outputs.flatMap(([name, output]) => [name, ...(output?.value ? [name + " (number)"] : [])]),
    "led by",
    ...D.metrics.map((m) => m.name),
  ];
  const body = rows.map((n) => [
    D.ids[n],
    ...outputs.flatMap(([, output]) => [output?.text[n], ...(output?.value ? [output.value[n]] : [])]),
    D.names[D.leading[n]],
    ...D.metrics.map((m) => m.values[n]),
  ]);
  return [head, ...body];
}

// One row a cell; raw values only if the page holds them.
export function maskRows(n: number): Field[][] {
  const [signed, inputs] = [hasSigned(), hasInputs()];
  const head = [
    ...["id", "time", "channel", "unit", "mask", "measured"],
    ...(signed ? ["contribution"] : []),
    ...(inputs ? ["value"] : []),
  ];
  const rows: Field[][] = [head];
  for (let t = 0; t < endOf(n); t++)
    for (let c = 0; c < C; c++)
      rows.push([
        ...[D.ids[n], D.times[t], D.names[c], D.units?.[c] ?? "", maskAt(n, t, c), observedAt(n, t, c)],
        ...(signed ? [signedAt(n, t, c)] : []),
        ...(inputs ? [inputAt(n, t, c)] : []),
      ]);
  return rows;
}

export const saveTable = (rows: number[]) =>
  saveText(fileName(D.title) + (rows.length < N ? "-selected" : "") + ".csv", csv(tableRows(rows)));
export const saveMask = (n: number) => saveText(fileName(D.ids[n]) + "-mask.csv", csv(maskRows(n)));

// ---- figures ----

const PAINTED = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity"],
  ...["font-family", "font-size", "font-weight", "visibility", "paint-order", "stroke-linejoin"],
];

// A copy that looks the same outside the page: what style sheets say becomes attributes.
function painted(picture: SVGSVGElement): SVGSVGElement {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  const [from, to] = [picture, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]);
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of PAINTED) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  return copy;
}

function standaloneText(picture: SVGSVGElement): string {
  picture.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  picture.prepend(svg("rect", { width: "100%", height: "100%", fill: ground }));
  return new XMLSerializer().serializeToString(picture);
}

export const standaloneSvg = (picture: SVGSVGElement) => standaloneText(painted(picture));

const WORDS = "h2, h3, .who2, .who2 > *, .amount, .amount > *, .sparkname > *, .move > span";

// Rows of names, bars and amounts as one picture: each part where it stands on the page.
export function standaloneCard(holder: HTMLElement): string {
  const frame = holder.getBoundingClientRect();
  const whole = svg("svg", { width: frame.width, height: frame.height });
  for (const picture of holder.querySelectorAll<SVGSVGElement>("svg")) {
    const box = picture.getBoundingClientRect();
    if (!box.width) continue;
    const copy = painted(picture);
    copy.setAttribute("x", String(box.left - frame.left));
    copy.setAttribute("y", String(box.top - frame.top));
    whole.append(copy);
  }
  for (const node of holder.querySelectorAll<HTMLElement>(WORDS)) {
    const box = node.getBoundingClientRect();
    if (node.childElementCount || !node.textContent || !box.width) continue;
    const style = getComputedStyle(node);
    const right = style.textAlign === "right" || style.textAlign === "end";
    whole.append(
      svg("text", {
        x: (right ? box.right : box.left) - frame.left,
        y: (box.top + box.bottom) / 2 - frame.top,
        "dominant-baseline": "central",
        "text-anchor": right ? "end" : "start",
        fill: style.color,
        "font-family": style.fontFamily,
        "font-size": style.fontSize,
        "font-weight": style.fontWeight,
        text: node.textContent,
      }),
    );
  }
  return standaloneText(whole);
}

// Maps side by side are one picture, each where it stands on the page, under its heading.
function saveMaps(holder: HTMLElement, canvases: HTMLCanvasElement[], name: string): void {
  const frame = holder.getBoundingClientRect();
  const ratio = canvases[0].width / canvases[0].getBoundingClientRect().width;
  const [headings, boxes] = [
    [...holder.querySelectorAll<HTMLElement>("h3")],
    canvases.map((one) => one.getBoundingClientRect()),
  ];
  const top = least([...boxes, ...headings.map((one) => one.getBoundingClientRect())].map((box) => box.top));
  const height = most(boxes.map((box) => box.bottom)) - top;
  const copy = h("canvas", { width: Math.round(frame.width * ratio), height: Math.round(height * ratio) });
  const pen = copy.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  pen.fillRect(0, 0, frame.width, height);
  canvases.forEach((one, i) =>
    pen.drawImage(one, boxes[i].left - frame.left, boxes[i].top - top, boxes[i].width, boxes[i].height),
  );
  pen.textBaseline = "middle";
  for (const heading of headings) {
    const [box, style] = [heading.getBoundingClientRect(), getComputedStyle(heading)];
    pen.font = style.fontWeight + " " + style.fontSize + " " + style.fontFamily;
    pen.fillStyle = style.color;
    pen.fillText(heading.textContent ?? "", box.left - frame.left, (box.top + box.bottom) / 2 - top);
  }
  copy.toBlob((blob) => blob && download(name + ".png", blob), "image/png");
}

// Maps are saved as PNG, a chart as SVG, and so are several charts, rows of bars and series.
export function saveFigure(holder: HTMLElement, title: string): void {
  const maps = [...holder.querySelectorAll<HTMLCanvasElement>(".heat canvas:not(.overlay)")];
  const charts = holder.querySelectorAll<SVGSVGElement>(".chart svg");
  const rows = holder.querySelector(".track svg, .spark svg");
  const name = fileName(title);
  if (maps.length) saveMaps(holder, maps, name);
  else if (rows || charts.length > 1) saveText(name + ".svg", standaloneCard(holder), "image/svg+xml");
  else if (charts.length) saveText(name + ".svg", standaloneSvg(charts[0]), "image/svg+xml");
}

// ---- links ----

export interface Place {
  part?: string; // the tab
  id?: string; // of the instance
  show?: string; // what its map shows
  target?: string; // position of the target
}

export function placeOf(hash: string): Place {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const read = (key: string) => values.get(key) ?? undefined;
  return { part: read("part"), id: read("id"), show: read("show"), target: read("target") };
}

export function hashOf(place: Place): string {
  const values = new URLSearchParams();
  for (const [key, value] of Object.entries(place)) if (value) values.set(key, String(value));
  return "#" + values.toString();
}

// Inside the frame of another page the address cannot be changed; then nothing is lost but the link.
export function remember(place: Place): void {
  try {
    history.replaceState(null, "", hashOf(place));
  } catch {
    return;
  }
}

const framed = () => {
  try {
    return window.self !== window.top;
  } catch {
    return true;
  }
};

// A button that copies a link to what is in sight; in a frame, which has no address of its own, the id.
export function linkButton(place: () => Place, id: string): HTMLElement {
  const field = h("input", {
    class: "copied",
    readonly: true,
    hidden: true,
    "aria-label": "Link to this view",
  });
  const button = h("button", {
    type: "button",
    text: framed() ? "Copy id" : "Copy link",
    onclick: () => {
      const text = framed() ? id : location.href.split("#")[0] + hashOf(place());
      field.value = text;
      field.hidden = false;
      field.select();
      say("Link ready to copy");
      navigator.clipboard?.writeText(text).then(
        () => say("Link copied"),
        () => undefined,
      );
    },
  });
  return h("span", { class: "copy" }, button, field);
}
