// Can this mask be trusted? The checks that the evaluation made, in words, each with its number.

import { answerOf, isSingle, type Reason, riskOf, told } from "./answer";
import { card } from "./cards";
import { D, explained, metric, targetShown } from "./data";
import { h } from "./dom";
import { finite, percent, roughly } from "./format";

interface Check {
  good: boolean | null;
  text: string;
}

const valueOf = (name: string, n: number) => metric(name)?.values[n];

// What is answered without the highlighted cells, and without as many random ones; in the answer itself where it is one
// number that was explained, else as a distance.
function removalWords(n: number, extent: string, shift: number, random: number, unit: string): string {
  const without = "Without the highlighted " + extent + ", each at its average over time, ";
  const [known, after] = [explained(), D.after?.value?.[n]];
  const answer = known?.answer[n];
  const read = (v: number) => (known?.logit ? riskOf(v) : v);
  const single = D.before?.kind === "probability" || isSingle();
  if (
    single &&
    finite(after) &&
    finite(answer) &&
    Math.abs(read(answer) - (D.before?.value?.[n] ?? NaN)) < 1e-3 &&
    told(after) !== told(answerOf(n))
  ) {
    const back = answer < (known?.reference[n] ?? 0) ? -1 : 1; // the way from the reference to the answer
    return (
      without +
      "the answer goes from " +
      told(answerOf(n)) +
      " to " +
      told(after) +
      "; without as many random cells to " +
      told(read(answer - back * random)) +
      "."
    );
  }
  const moves = (v: number) =>
    roughly(v) === "0"
      ? "stays where it is"
      : "moves " + (v > 0 ? "back by " : "further away by ") + roughly(Math.abs(v)) + unit;
  return without + "the answer " + moves(shift) + "; without as many random cells it " + moves(random) + ".";
}

export function checksOf(n: number, extent: string): Check[] {
  const found: Check[] = [];
  const name = metric("answer_shift") ? "answer_shift" : "squared_error";
  const unit = name === "answer_shift" && explained()?.unit ? " " + explained()?.unit : "";
  const [shift, random] = [valueOf(name, n), valueOf(name + "/random", n)];
  if (extent && finite(shift) && finite(random))
    found.push({
      good: shift > random && shift > 0,
      text: removalWords(n, extent, shift, random, unit),
    });
  const certainty = valueOf("certainty", n);
  if (finite(certainty))
    found.push({
      good: certainty >= 0.7 ? true : certainty >= 0.5 ? null : false,
      text:
        "Its highlighted cells matter to the model with a probability of " +
        percent(certainty) +
        " on average.",
    });
  const converged = valueOf("converged", n);
  if (converged !== undefined && converged !== null)
    found.push({
      good: Boolean(converged),
      text: converged ? "Its first cells hold the answer." : "Its first cells do not hold the answer well.",
    });
  for (const [name, text] of [
    ["constant_prediction", "The answer is that of its reference: there is nothing to explain."],
    ["dead_gradient", "The model does not react to this input: its mask says nothing."],
    ["noise_baseline", "Only noise takes this answer away: it rests on something that does not happen."],
    ["plateau", "No size of the mask stands out: several would do equally well."],
  ])
    if (valueOf(name, n) === true) found.push({ good: name === "plateau" ? null : false, text });
  return found;
}

function verdictOf(checks: Check[]): string {
  const bad = checks.filter((check) => check.good === false).length;
  const open = checks.filter((check) => check.good === null).length;
  if (bad) return "Read this mask with doubt: " + bad + " of " + checks.length + " checks failed.";
  if (open)
    return (
      "No check failed; " +
      open +
      " of " +
      checks.length +
      (open === 1 ? " is undecided." : " are undecided.")
    );
  if (checks.length === 1) return "The one check passed.";
  return (checks.length === 2 ? "Both" : "All " + checks.length) + " checks passed.";
}

// The verdict, for the first card.
export function trustWords(n: number, extent: string): Reason | null {
  const checks = targetShown() ? [] : checksOf(n, extent);
  return checks.length ? ["Trust", verdictOf(checks)] : null;
}

export function trustCard(n: number, extent: string): HTMLElement | null {
  if (targetShown()) return null; // the checks are of the target that was evaluated
  const checks = checksOf(n, extent);
  if (!checks.length) return null;
  const verdict = verdictOf(checks);
  const sign = (good: boolean | null) => (good === null ? "?" : good ? "✓" : "✗");
  const word = (good: boolean | null) => (good === null ? "undecided: " : good ? "passed: " : "failed: ");
  return card(
    "Can this mask be trusted?",
    verdict,
    h(
      "ul",
      { class: "checks" },
      checks.map(({ good, text }) =>
        h(
          "li",
          { class: good === null ? "open" : good ? "good" : "bad" },
          h("span", { class: "sign", "aria-hidden": "true", text: sign(good) }),
          h("span", { class: "visually-hidden", text: word(good) }),
          text,
        ),
      ),
    ),
    h("p", {
      class: "note",
      text: "It shows what the model used, not what caused the outcome.",
    }),
  );
}
