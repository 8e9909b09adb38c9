// Ways out of the page: tables and masks as CSV, figures as PNG or SVG, links to one instance.

import { C, D, endOf, hasInputs, hasSigned, inputAt, maskAt, N, observedAt, signedAt } from "./data";
import { h, say, svg } from "./dom";
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
  ...["font-family", "font-size", "font-weight", "visibility"],
];

// An SVG that looks the same outside the page: what style sheets say becomes attributes.
export function standaloneSvg(picture: SVGSVGElement): string {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  const [from, to] = [picture, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]);
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of PAINTED) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill: ground }));
  return new XMLSerializer().serializeToString(copy);
}

function saveCanvas(canvas: HTMLCanvasElement, name: string): void {
  const copy = h("canvas", { width: canvas.width, height: canvas.height });
  const pen = copy.getContext("2d");
  if (!pen) return;
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  pen.fillRect(0, 0, copy.width, copy.height);
  pen.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => blob && download(name + ".png", blob), "image/png");
}

// A map is saved as PNG, a chart as SVG.
export function saveFigure(holder: HTMLElement, title: string): void {
  const canvas = holder.querySelector<HTMLCanvasElement>(".heat canvas");
  const picture = holder.querySelector<SVGSVGElement>(".chart svg");
  const name = fileName(title);
  if (canvas) saveCanvas(canvas, name);
  else if (picture) saveText(name + ".svg", standaloneSvg(picture), "image/svg+xml");
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
