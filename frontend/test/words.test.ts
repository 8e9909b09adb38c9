import { describe, expect, it } from "vitest";
import { riskOf } from "../src/answer";
import { contributionsOf, mostlyOf, notable, stepsInWords, whenOf } from "../src/contributions";
import { testWords } from "../src/overview";

describe("words", () => {
  it("says better only where every paired test says so", () => {
    const base = { shift: 0.5, low: 0.4, high: 0.6, instances: 20 };
    const won = testWords({ ...base, controls: { random: [0.1, 0.001], other: [0.2, 0.01] } });
    expect(won).toMatchObject({ good: true, text: "better than random cells and another instance's mask" });
    const open = testWords({ ...base, controls: { random: [0.1, 0.001], other: [0.2, 0.2] } });
    expect(open).toMatchObject({ good: false, text: "not shown to be better than another instance's mask" });
    expect(testWords({ ...base, controls: { random: [0.1, null] } }).details[0]).toContain(
      "too few instances",
    );
  });

  it("says what was compared and the p-value", () => {
    const paired = { shift: 0.391, low: 0.1, high: 0.6, instances: 40, controls: { random: [-0.002, 0.84] } };
    const { good, text, details } = testWords(paired as never);
    expect(details).toEqual(["random cells \u22120.002, p = 0.840"]);
    expect([good, text]).toEqual([false, "not shown to be better than random cells"]);
    const shares = { ...paired, controls: { random: [0.97, 0.0001] } };
    expect(testWords(shares as never, "share").details[0]).toMatch(/^random cells 97.%, p < 0.001$/);
  });

  it("keeps the channels that matter, and the greatest where many share the answer", () => {
    const share = (c: number, sum: number) => ({ c, sum, share: 0, spread: 0, when: "", against: "" });
    const kept = (sums: number[]) => notable(sums.map((sum, c) => share(c, sum))).map((one) => one.c);
    expect(kept([2, -1, 0.001])).toEqual([0, 1]);
    expect(kept([1.2, ...Array.from({ length: 30 }, () => -1)])).toEqual([0, 1, 2]);
    expect(kept([0, 0])).toEqual([0, 1]);
  });

  it("names the hours of a channel", () => {
    expect(whenOf(0, 0)).toBe("");
    expect(whenOf(1, 2)).toBe("all hours");
  });

  it("gives a channel's push no hours that push the other way", () => {
    // pH of the second instance is highlighted in both hours: it raises the answer by 2 and then lowers it by 1
    expect([whenOf(1, 2, 1), whenOf(1, 2, -1)]).toEqual(["hour 1", "hour 2"]);
    const found = contributionsOf(1, [0, 0, 1]).find((one) => one.c === 2);
    expect(found).toMatchObject({ when: "hour 1", against: "hour 2" });
    expect(found?.sum).toBeCloseTo(1, 3);
  });

  it("names the longest of many stretches, in the order of time", () => {
    expect(stepsInWords([0, 2, 3])).toBe("hours 1, 3–4");
    expect(stepsInWords([1])).toBe("hour 2");
  });

  it("names the shortest stretch that holds half of a push, if it is short", () => {
    const name = (steps: number[]) => steps.join(" ");
    expect(mostlyOf([0, 0, 0, 0, 0, 0, 3, 4, 1, 0], name)).toBe("mostly 7");
    expect(mostlyOf([0, 0, 0, 0, 0, 0, -3, -3, -3, 5], name)).toBe("mostly 6 7");
    expect(mostlyOf([1, 1, 1, 1, 1, 1], name)).toBe("");
    expect(mostlyOf([0, 0, 0], name)).toBe("");
    expect(mostlyOf([], name)).toBe("");
  });

  it("reads a risk off log-odds", () => {
    expect(riskOf(0)).toBe(0.5);
    expect(riskOf(-2)).toBeCloseTo(0.119, 3);
  });
});
