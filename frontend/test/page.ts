// A small report in the document, as the page has it when its script starts.

const SHAPE = [2, 4, 3] as const;

const report = {
  shape: SHAPE,
  unit: "hour",
  ids: ["first", "second"],
  channels: ["GCS", "Lactate", "pH"],
  names: ["GCS", "Lactate", "pH"],
  units: ["", "mmol/L", ""],
  views: [],
  course: null,
  explained: {
    answer: [0, 0],
    reference: [0, -1],
    sizes: [2, 2],
    spreads: null,
    logit: true,
    unit: "log-odds",
    target: "the risk of death",
    against: "",
    level: false,
  },
  leading: [0, 1],
  times: ["1", "2", "3", "4"],
  lengths: [4, 2],
  ranges: [
    [0, 0, 7],
    [15, 10, 8],
  ],
  metrics: [],
  summary: [],
};

const base64 = (bytes: number[]) => btoa(String.fromCharCode(...bytes));
const cells = SHAPE[0] * SHAPE[1] * SHAPE[2];
const words = Array.from({ length: cells }, (_, i) => (i === 5 ? 65535 : i === 6 ? 65534 : 0));

// pH of the second instance: 2 in hour 1, -1 in hour 2, as words of the root of their share of the greatest
const signed = Array.from({ length: cells }, (_, i) =>
  i === 14 ? 32767 : i === 17 ? -Math.round(32767 * Math.SQRT1_2) : 0,
);

const blobs: Record<string, number[]> = {
  signed: signed.flatMap((v) => [v & 255, (v >> 8) & 255]),
  masks: Array.from({ length: cells }, (_, i) => 10 * i),
  observed: [0b11111011, 0xff, 0xff],
  inputs: words.flatMap((v) => [v & 255, v >> 8]),
};

for (const [name, bytes] of Object.entries(blobs)) {
  const holder = document.createElement("script");
  holder.type = "text/plain";
  holder.id = "blob-" + name;
  holder.textContent = base64(bytes);
  document.body.append(holder);
}
const data = document.createElement("script");
data.type = "application/json";
data.id = "report-data";
data.textContent = JSON.stringify(report);
const [tip, live] = ["tip", "live"].map((id) => Object.assign(document.createElement("div"), { id }));
document.body.append(data, tip, live);

// jsdom has neither of them
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
};
window.matchMedia ??= () => ({ matches: false, addEventListener() {} }) as unknown as MediaQueryList;
HTMLCanvasElement.prototype.getContext = () => null;
