// Heat map: channels down, time across, totals along both edges, one cursor for mouse and keyboard.
//
// options: label (for screen readers), rows (positions of channels, top to bottom), value(t, c) in [0, 1],
// missing(t, c), end (the first step of padding), top / right: totals by time / by channel (arrays over all positions), describe(t, c) -> lines,
// onpick(t, c). `state.cell` survives redrawing.

function heatMap(options) {
  const state = { cell: null };
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const node = figure(
    {
      class: "heat",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "heat map",
      "aria-label": options.label + ". Use the arrow keys to move over the cells.",
    },
    (holder, width) => drawHeatMap(holder, width, options, state),
  );
  const at = (event) => cellUnder(node, options, event);
  const point = (event) => {
    const cell = at(event);
    if (!cell) {
      state.cell = null;
      hideTip();
      drawCursor(node, options, state);
      return;
    }
    state.cell = cell;
    drawCursor(node, options, state);
    const [title, ...lines] = options.describe(...cell);
    readout.textContent = [title, ...lines].join(" · ");
    showTip(title, lines, event.clientX, event.clientY);
  };
  node.addEventListener("pointermove", point);
  node.addEventListener("pointerdown", point);
  node.addEventListener("pointerleave", () => {
    state.cell = null;
    hideTip();
    drawCursor(node, options, state);
  });
  node.addEventListener("blur", () => {
    hideTip();
    state.cell = null;
    drawCursor(node, options, state);
  });
  if (options.onpick)
    node.addEventListener("click", (event) => {
      const cell = at(event);
      if (cell) options.onpick(...cell);
    });
  node.addEventListener("keydown", (event) => {
    const moved = moveCell(event.key, state.cell, options.rows);
    if (event.key === "Escape") {
      hideTip();
      return;
    }
    if (event.key === "Enter" && state.cell && options.onpick) {
      options.onpick(...state.cell);
      return;
    }
    if (!moved || !node.geometry) return;
    event.preventDefault();
    state.cell = moved;
    drawCursor(node, options, state);
    const [title, ...lines] = options.describe(...moved);
    readout.textContent = [title, ...lines].join(" · ");
    const g = node.geometry,
      box = node.getBoundingClientRect();
    showTip(
      title,
      lines,
      box.left + g.left + (moved[0] + 0.5) * g.across,
      box.top + g.top + (g.place.get(moved[1]) + 1) * g.down,
    );
  });
  readout.textContent = options.hint || "Point at a cell, or focus the map and use the arrow keys.";
  return [node, readout];
}

function moveCell(key, cell, rows) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const jump = { Home: 0, End: T - 1 }[key];
  if (!step && jump === undefined) return null;
  if (!cell) return [0, rows[0]];
  if (jump !== undefined) return [jump, cell[1]];
  const row = Math.max(0, Math.min(rows.length - 1, rows.indexOf(cell[1]) + step[1]));
  return [Math.max(0, Math.min(T - 1, cell[0] + step[0])), rows[row]];
}

function cellUnder(node, options, event) {
  const g = node.geometry;
  if (!g) return null;
  const box = node.getBoundingClientRect();
  const t = Math.floor((event.clientX - box.left - g.left) / g.across);
  const row = Math.floor((event.clientY - box.top - g.top) / g.down);
  return t >= 0 && t < T && row >= 0 && row < options.rows.length ? [t, options.rows[row]] : null;
}

function heatGeometry(width, options) {
  const rows = options.rows.length;
  const probe = document.createElement("canvas").getContext("2d");
  probe.font = "12px " + FONT();
  const widest = most(
    [D.unit, ...options.rows.map((c) => D.channels[c])].map((text) => probe.measureText(text).width),
    20,
  );
  const left = Math.ceil(Math.min(widest + 12, 0.27 * width));
  const right = options.right ? Math.round(Math.max(84, Math.min(150, 0.16 * width))) : 4;
  const top = options.top ? 46 : 4;
  const down = rows > 60 ? Math.max(4, 900 / rows) : Math.max(14, Math.min(24, Math.round(480 / rows)));
  const across = (width - left - right) / T;
  const place = new Map(options.rows.map((c, i) => [c, i]));
  return {
    width,
    left,
    right,
    top,
    down,
    across,
    place,
    plotWidth: T * across,
    plotHeight: rows * down,
    height: top + rows * down + 26,
  };
}

function drawHeatMap(node, width, options, state) {
  const g = (node.geometry = heatGeometry(width, options));
  const [canvas, pen] = canvasFor(width, g.height);
  const [overlay] = canvasFor(width, g.height);
  overlay.className = "overlay";
  node.replaceChildren(canvas, overlay);
  node.style.height = g.height + "px";
  paintCells(pen, g, options);
  if (options.end < T) paintPadding(pen, g, options.end);
  const faint = styleOf("ink-2"),
    ink = styleOf("ink");
  pen.font = "12px " + FONT();
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  pen.fillStyle = ink;
  for (const i of labelled(options.rows.length, g.plotHeight, 13)) {
    pen.fillText(cut(pen, D.channels[options.rows[i]], g.left - 10), g.left - 8, g.top + (i + 0.5) * g.down);
  }
  pen.textAlign = "center";
  pen.textBaseline = "top";
  pen.fillStyle = faint;
  const widest = Math.max(14, ...[0, T - 1].map((t) => Math.min(90, pen.measureText(D.times[t]).width)));
  for (const t of labelled(T, g.plotWidth, widest + 12)) {
    pen.fillText(cut(pen, D.times[t], 90), g.left + (t + 0.5) * g.across, g.top + g.plotHeight + 7);
  }
  pen.textAlign = "right";
  pen.fillText(cut(pen, D.unit, g.left - 10), g.left - 8, g.top + g.plotHeight + 7);
  if (options.top) drawTopBars(pen, g, options.top);
  if (options.right) drawRightBars(pen, g, options);
  drawCursor(node, options, state);
}

function paintCells(pen, g, options) {
  const gap = g.across >= 7 && g.down >= 7 ? 1 : 0;
  const hole = styleOf("hole");
  const end = options.end === undefined ? T : options.end;
  const columns = Math.min(T, Math.max(1, Math.floor(g.plotWidth)));
  pen.fillStyle = colour(0);
  if (!gap) pen.fillRect(g.left, g.top, end * g.across, g.plotHeight);
  options.rows.forEach((c, row) => {
    const y = g.top + row * g.down;
    for (let k = 0; k < columns; k++) {
      const [t0, t1] = [Math.floor((k * T) / columns), Math.floor(((k + 1) * T) / columns)];
      if (t0 >= end) break;
      let [peak, absent] = [0, true];
      for (let t = t0; t < t1; t++) {
        peak = Math.max(peak, options.value(t, c));
        if (!options.missing || !options.missing(t, c)) absent = false;
      }
      if (!gap && peak === 0 && !absent) continue;
      const x = g.left + t0 * g.across,
        wide = (t1 - t0) * g.across;
      if (absent && peak < 0.02) {
        pen.fillStyle = hole;
        pen.fillRect(x, y + g.down / 2 - 0.5, Math.max(1, wide - gap), 1);
        continue;
      }
      pen.fillStyle = colour(peak);
      pen.fillRect(x, y, gap ? wide - 1 : wide + 0.4, gap ? g.down - 1 : g.down + 0.2);
    }
  });
}

// Hatched: steps that this instance does not have.
function paintPadding(pen, g, end) {
  const x = g.left + end * g.across,
    wide = g.plotWidth - end * g.across;
  pen.save();
  pen.beginPath();
  pen.rect(x, g.top, wide, g.plotHeight);
  pen.clip();
  pen.strokeStyle = styleOf("hole");
  pen.lineWidth = 1;
  pen.globalAlpha = 0.7;
  pen.beginPath();
  for (let at = x - g.plotHeight; at < x + wide; at += 9) {
    pen.moveTo(at, g.top + g.plotHeight);
    pen.lineTo(at + g.plotHeight, g.top);
  }
  pen.stroke();
  pen.restore();
}

function drawTopBars(pen, g, totals) {
  const roof = most(totals, 1e-12),
    base = g.top - 6,
    tall = g.top - 14;
  pen.fillStyle = styleOf("bar");
  totals.forEach((v, t) => {
    const height = (v / roof) * tall;
    pen.fillRect(
      g.left + t * g.across,
      base - height,
      Math.max(0.6, g.across - (g.across >= 5 ? 1 : 0)),
      height,
    );
  });
}

function drawRightBars(pen, g, options) {
  const totals = options.rows.map((c) => options.right[c]);
  const roof = most(options.right, 1e-12),
    x = g.left + g.plotWidth + 8;
  const room = g.right - 8 - 46;
  const [bar, ink] = [styleOf("bar"), styleOf("ink-2")];
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.font = "11px " + FONT();
  const named = new Set(labelled(totals.length, g.plotHeight, 12));
  totals.forEach((v, row) => {
    const y = g.top + row * g.down,
      wide = (v / roof) * room;
    pen.fillStyle = bar;
    pen.fillRect(x, y + 0.15 * g.down, wide, Math.max(1, 0.7 * g.down - 1));
    if (!named.has(row) || v === 0) return; // a column of zeros says nothing
    pen.fillStyle = ink;
    pen.fillText(percent(v), x + wide + 5, y + 0.5 * g.down);
  });
}

function drawCursor(node, options, state) {
  const overlay = node.querySelector(".overlay"),
    g = node.geometry;
  if (!overlay || !g) return;
  const pen = overlay.getContext("2d");
  pen.clearRect(0, 0, g.width, g.height);
  if (!state.cell) return;
  const [t, c] = state.cell,
    row = g.place.get(c);
  if (row === undefined) return;
  const [x, y] = [g.left + t * g.across, g.top + row * g.down];
  pen.fillStyle = styleOf("veil");
  pen.fillRect(g.left, y, g.plotWidth, g.down - 1);
  pen.fillRect(x, g.top, Math.max(1, g.across - 1), g.plotHeight);
  pen.strokeStyle = styleOf("focus");
  pen.lineWidth = 2;
  pen.strokeRect(x - 1, y - 1, Math.max(3, g.across + 1), g.down + 1);
}

// The key to the colours, drawn once for each map.
function legend(low, high) {
  const strip = figure(
    { class: "strip", role: "img", "aria-label": "Colour scale from " + low + " to " + high },
    (node) => {
      const [canvas, pen] = canvasFor(120, 10);
      for (let i = 0; i < 120; i++) {
        pen.fillStyle = colour(i / 119);
        pen.fillRect(i, 0, 1.5, 10);
      }
      node.replaceChildren(canvas);
    },
  );
  return h("div", { class: "legend" }, h("span", { text: low }), strip, h("span", { text: high }));
}
