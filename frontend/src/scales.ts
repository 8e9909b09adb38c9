// Positions on an axis. Nothing here knows the page.

export type Scale = (v: number) => number;

// Round numbers that cover [low, high] in about `count` steps.
export function niceTicks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((m) => m * power >= rough - 1e-12) ?? 10);
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++)
    ticks.push(+(i * step).toPrecision(12));
  return ticks;
}

// Every k-th position such that labels keep `least` pixels of distance.
export function labelled(count: number, room: number, least: number): number[] {
  const wanted = Math.max(1, Math.ceil((least * count) / Math.max(room, 1)));
  const every = [1, 2, 3, 4, 6, 8, 12, 24, 50, 100, 200, 500, 1000, 2000].find((k) => k >= wanted) ?? wanted;
  const positions: number[] = [];
  for (let i = 0; i < count; i += every) positions.push(i);
  return positions;
}

// Areas are often spaced by ratios; then their axis is logarithmic.
export function scaleOf(low: number, high: number, from: number, to: number, logarithmic = false): Scale {
  const f = logarithmic ? Math.log : (v: number) => v;
  const span = f(high) - f(low) || 1;
  return (v) => from + ((f(v) - f(low)) / span) * (to - from);
}

// Neighbouring positions as [first, last].
export function ranges(positions: number[]): [number, number][] {
  const result: [number, number][] = [];
  for (const p of [...positions].sort((a, b) => a - b)) {
    const last = result[result.length - 1];
    if (last && p === last[1] + 1) last[1] = p;
    else result.push([p, p]);
  }
  return result;
}

export function channelOrder(totals: number[], by: string): number[] {
  const all = totals.map((_, i) => i);
  return by === "importance" ? all.sort((a, b) => totals[b] - totals[a] || a - b) : all;
}
