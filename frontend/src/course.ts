// What changed since? The answer over the stay, and what moved it between two times that the reader sets.

import type { Reason } from "./answer";
import { figureCard } from "./cards";
import { barList, type Move, mostlyOf, names, stepsInWords } from "./contributions";
import { atTime, C, D, capitalTime, moveAt, targetShown } from "./data";
import { h } from "./dom";
import { chance, finite, most, numeral, tickNumber, tickPercent } from "./format";
import { lineChart } from "./lines";

const NOTABLE = 0.05;

// Contributions of the channels between two places of the course, the greatest first.
export function movesBetween(n: number, since: number, until: number): Move[] {
  const steps = D.course?.steps ?? [];
  // the steps that were new at some neighbouring places of the course
  const name = (places: number[]) => {
    const [first, last] = [since + 1 + places[0], since + 1 + places[places.length - 1]];
    return stepsInWords(
      Array.from({ length: steps[last] - steps[first - 1] }, (_, i) => steps[first - 1] + i),
    );
  };
  const found: Move[] = [];
  for (let c = 0; c < C; c++) {
    const moves = Array.from({ length: until - since }, (_, k) => moveAt(n, since + 1 + k, c));
    found.push({ c, sum: moves.reduce((all, v) => all + v, 0), when: mostlyOf(moves, name) });
  }
  return found.sort((a, b) => Math.abs(b.sum) - Math.abs(a.sum));
}

const isRisk = () => D.task === "classification"; // of one class, where there are several

// Since when the answer has been on this side of the threshold.
export function sinceWords(n: number): Reason | null {
  const course = D.course;
  if (!course || targetShown()) return null;
  const known = course.answers[n]
    .map((v, k) => [v, k])
    .filter((one): one is [number, number] => finite(one[0]));
  if (known.length < 2) return null;
  const when = (k: number) => atTime(course.steps[k] - 1);
  const values = known.map(([v]) => v);
  const [last] = known[known.length - 1];
  const { threshold } = D;
  if (!isRisk() || !finite(threshold)) {
    const [[first, start], [, end]] = [known[0], known[known.length - 1]];
    const read = isRisk() ? chance : numeral;
    return ["Over time", read(first) + " at " + when(start) + ", " + read(last) + " at " + when(end)];
  }
  const above = last >= threshold;
  const crossed = known.filter(([v]) => v >= threshold !== above).pop();
  const since = crossed ? "since " + when(known[known.indexOf(crossed) + 1][1]) : "all the time";
  const highest = most(values);
  return [
    crossed ? "Since when" : "Over time",
    (above ? "above" : "below") + " the threshold " + since,
    above ? "" : "; highest " + chance(highest) + " at " + when(known[values.indexOf(highest)][1]),
  ];
}

const lastPlace = (n: number) =>
  (D.course?.answers[n] ?? []).reduce<number>((end, v, k) => (finite(v) ? k : end), 0);

// The places of the course that the page shows first: those that were asked for, else the last quarter.
function firstPlaces(n: number, last: number): { since: number; until: number } {
  const course = D.course;
  // the last point at which no more steps were known than at the time that was asked for
  const placeOf = (steps: number | undefined, other: number) =>
    !course || steps === undefined ? other : course.steps.filter((known) => known <= steps).length - 1;
  const until = Math.max(1, Math.min(last, placeOf(course?.until?.[n], last)));
  const since = placeOf(course?.since?.[n], until - Math.max(1, Math.round((last + 1) / 4)));
  return { since: Math.max(0, Math.min(until - 1, since)), until };
}

// What moved the answer between two places: all channels, those that matter, time alone, and the leaders in words.
function changeBetween(n: number, a: number, b: number) {
  const { answers, elapsed } = { answers: D.course?.answers[n] ?? [], elapsed: D.course?.elapsed[n] ?? [] };
  const moves = movesBetween(n, a, b);
  const alone = elapsed.slice(a + 1, b + 1).reduce<number>((sum, v) => sum + (v ?? 0), 0);
  const total = moves.reduce((sum, one) => sum + Math.abs(one.sum), 0);
  const kept = moves.filter((one) => total > 0 && Math.abs(one.sum) >= NOTABLE * total).slice(0, 8);
  const rose = (answers[b] ?? 0) >= (answers[a] ?? 0);
  const leading = names(kept.filter((one) => (rose ? one.sum > 0 : one.sum < 0)));
  return {
    moves,
    kept,
    elapsed: Math.abs(alone) > 0.005 * (total || 1) ? alone : 0,
    leaders: leading ? ", " + (rose ? "raised" : "lowered") + " most by " + leading : "",
  };
}

// What changed between the two times that the page shows first, for the first card.
export function changeWords(n: number): Reason | null {
  const course = D.course;
  if (!course || targetShown()) return null;
  const last = lastPlace(n);
  if (last < 1) return null;
  const { since, until } = firstPlaces(n, last);
  const [from, to] = [course.answers[n][since], course.answers[n][until]];
  const told = isRisk() ? chance : numeral;
  const end = until < last ? " at " + atTime(course.steps[until] - 1) : "";
  return [
    "Since " + atTime(course.steps[since] - 1),
    "from " + told(from) + " to " + told(to) + end + changeBetween(n, since, until).leaders,
  ];
}

export function courseCard(n: number): HTMLElement | null {
  const course = D.course;
  if (!course || targetShown()) return null;
  const answers = course.answers[n];
  const last = lastPlace(n);
  if (last < 1) return null;
  const risk = isRisk();
  const told = risk ? chance : numeral;
  const roof = most([...answers.filter(finite), D.threshold ?? 0.1]);
  const nameOf = (k: number) => capitalTime(course.steps[k] - 1);
  const timeOf = (k: number) => atTime(course.steps[k] - 1);
  const state = firstPlaces(n, last);
  const [chart, words, list] = [h("div", {}), h("p", { class: "sentence" }), h("div", {})];
  const slider = (label: string, key: "since" | "until") => {
    const input = h("input", {
      type: "range",
      min: "0",
      max: String(last),
      step: "1",
      "aria-label": label,
      oninput: () => {
        state[key] = Number(input.value);
        if (state.since >= state.until) {
          if (key === "since") state.until = Math.min(last, state.since + 1);
          else state.since = Math.max(0, state.until - 1);
          state.since = Math.min(state.since, state.until - 1);
        }
        draw();
      },
    });
    return input;
  };
  const [since, until] = [slider("From", "since"), slider("To", "until")];
  const [sinceText, untilText] = [h("output", {}), h("output", {})];
  const draw = () => {
    const { since: a, until: b } = state;
    since.value = String(a);
    until.value = String(b);
    for (const [input, output, k] of [
      [since, sinceText, a],
      [until, untilText, b],
    ] as const) {
      output.textContent = nameOf(k);
      input.setAttribute("aria-valuetext", nameOf(k));
    }
    const { moves, kept, elapsed, leaders } = changeBetween(n, a, b);
    words.textContent =
      "From " +
      timeOf(a) +
      " to " +
      timeOf(b) +
      " it went from " +
      told(answers[a]) +
      " to " +
      told(answers[b]) +
      leaders +
      ".";
    chart.replaceChildren(
      lineChart({
        label: "Answer over time",
        x: course.steps,
        lines: [{ name: "answer", values: answers, look: "main" }],
        height: 170,
        xFormat: (step) => D.times[step - 1],
        xName: (step) => capitalTime(step - 1),
        yFormat: (v) => told(v),
        yTick: risk ? tickPercent : tickNumber,
        yRange: risk ? [0, roof > 0.75 ? 1 : 1.1 * roof] : null,
        xTitle: D.unit,
        bands: risk && finite(D.threshold) ? [{ y: D.threshold, text: "threshold" }] : [],
        marks: [
          { x: course.steps[a], text: "from" },
          { x: course.steps[b], text: "to" },
        ],
      }),
    );
    list.replaceChildren(barList(kept, moves, elapsed, course.unit));
  };
  draw();
  return figureCard(
    "What changed since?",
    "The answer as it stood at each " +
      D.unit +
      ", and what moved it between two times; the bars sum to the change. The bars above start elsewhere, so a channel may have another sign there.",
    chart,
    h("label", { class: "slider" }, h("span", { class: "end", text: "From" }), since, sinceText),
    h("label", { class: "slider" }, h("span", { class: "end", text: "To" }), until, untilText),
    words,
    list,
  );
}
