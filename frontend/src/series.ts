// Small multiples of the raw series, the highlighted times shaded by their mask, on the time axis of the map.

import { card, moreButton } from "./cards";
import { C, D, inputAt, maskAt, T } from "./data";
import { figure, h, hideTip, say, showTip, svg, tip } from "./dom";
import { finite, least, most, numeral, percent } from "./format";
import { describeCell, FIRST_SERIES, SALIENT, type Totals } from "./instance";
import { channelOrder, scaleOf } from "./scales";

export function seriesCard(n: number, sums: Totals): HTMLElement {
  const order = channelOrder(sums.byChannel, "importance");
  // the leading channels, without those that the mask does not touch
  const first = Math.max(1, Math.min(FIRST_SERIES, sums.byChannel.filter((share) => share >= 0.005).length));
  const state = { all: false };
  const place = h("div", { class: "series" });
  const draw = () =>
    place.replaceChildren(...(state.all ? order : order.slice(0, first)).map((c) => sparkline(n, c, sums)));
  draw();
  const more =
    C > first
      ? moreButton("Show all " + C + " channels", "Show the leading channels only", (all) => {
          state.all = all;
          draw();
        })
      : null;
  return card(
    "The measurements themselves",
    "Channels with the greatest share of the mask first; shaded where the mask highlights.",
    place,
    more,
  );
}

function sparkline(n: number, c: number, sums: Totals): HTMLElement {
  const values = Array.from({ length: T }, (_, t) => inputAt(n, t, c));
  const known = values.filter(finite);
  const [low, high] = known.length ? [least(known), most(known)] : [0, 1];
  const words = known.length ? "from " + numeral(low) + " to " + numeral(high) : "never measured";
  let drawn: Drawn | null = null;
  const node = figure(
    {
      class: "spark",
      tabindex: "0",
      role: "img",
      "aria-label": D.channels[c] + ", " + words + "; " + percent(sums.byChannel[c]) + " of the mask",
    },
    (holder, width) => {
      drawn = drawSpark(holder, width, { n, c, values, low, high });
    },
  );
  let at: number | null = null;
  const read = (t: number, x: number, y: number) => {
    at = t;
    drawn?.cross(t);
    const [title, ...lines] = describeCell(n)(t, c);
    showTip(title, lines, x, y);
  };
  const clear = () => {
    hideTip();
    at = null;
    drawn?.cross(null);
  };
  node.addEventListener("pointermove", (event) => {
    const t = Math.floor((event.clientX - node.getBoundingClientRect().left) / (node.clientWidth / T));
    if (t >= 0 && t < T && drawn) read(t, event.clientX, event.clientY);
  });
  node.addEventListener("pointerleave", clear);
  node.addEventListener("blur", clear);
  node.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !drawn) return;
    event.preventDefault();
    const t = at === null ? 0 : Math.max(0, Math.min(T - 1, at + by));
    const box = node.getBoundingClientRect();
    read(t, box.left + (t + 0.5) * (box.width / T), box.top + box.height / 2);
    say(tip.textContent ?? "");
  });
  return h(
    "div",
    { class: "sparkrow" },
    h(
      "div",
      { class: "sparkname" },
      h("strong", { text: D.channels[c] }),
      h("span", { class: "sub", text: words }),
    ),
    node,
  );
}

interface Spark {
  n: number;
  c: number;
  values: number[];
  low: number;
  high: number;
}

interface Drawn {
  cross: (t: number | null) => void;
}

function drawSpark(node: HTMLElement, width: number, { n, c, values, low, high }: Spark): Drawn {
  const height = 46,
    across = width / T;
  const y = scaleOf(low, high > low ? high : low + 1, height - 7, 7, false);
  const picture = svg("svg", {
    width,
    height,
    viewBox: "0 0 " + width + " " + height,
    "aria-hidden": "true",
  });
  for (let t = 0; t < T; t++) {
    const m = maskAt(n, t, c);
    if (m < 0.08) continue;
    picture.append(
      svg("rect", {
        class: "shade",
        x: t * across,
        y: 0,
        width: across + 0.3,
        height,
        "fill-opacity": (0.5 * m).toFixed(3),
      }),
    );
  }
  let path = "",
    pen = false;
  values.forEach((v, t) => {
    if (!finite(v)) {
      pen = false;
      return;
    }
    path += (pen ? "L" : "M") + ((t + 0.5) * across).toFixed(1) + " " + y(v).toFixed(1);
    pen = true;
  });
  picture.append(svg("path", { class: "line main thin", d: path }));
  if (T <= 120)
    values.forEach((v, t) => {
      if (finite(v) && maskAt(n, t, c) >= SALIENT)
        picture.append(svg("circle", { class: "dot main", cx: (t + 0.5) * across, cy: y(v), r: 2.4 }));
    });
  const cross = svg("line", { class: "crossline", y1: 0, y2: height, visibility: "hidden" });
  picture.append(cross);
  const setCross = (t: number | null) => {
    cross.setAttribute("visibility", t === null ? "hidden" : "visible");
    if (t !== null) {
      cross.setAttribute("x1", String((t + 0.5) * across));
      cross.setAttribute("x2", String((t + 0.5) * across));
    }
  };
  node.replaceChildren(picture);
  return { cross: setCross };
}
