import { describe, expect, it } from "vitest";
import { chance, columnFormat, numeral, percent, plural, roughly, show, tickNumber } from "../src/format";

describe("numbers", () => {
  it.each([
    [NaN, "–"],
    [null, "–"],
    [0, "0"],
    [-1.23456, "−1.235"],
    [12.3456, "12.35"],
    [1234.5, "1,235"],
    [0.0001, "1.0e−4"],
  ])("numeral(%s) is %s", (value, text) => expect(numeral(value)).toBe(text));

  it.each([
    [0.00086, "0.001"],
    [-0.0007, "−0.001"],
    [0.0001, "0"],
    [0.0421, "0.042"],
    [NaN, "–"],
  ])("roughly(%s) is %s", (value, text) => expect(roughly(value)).toBe(text));

  it("never says that a probability is certain because it was rounded", () => {
    expect(chance(0.99999)).toBe(">\u00a099.9\u00a0%");
    expect(chance(0.00001)).toBe("<\u00a00.1\u00a0%");
    expect([0, 0.0312, 1].map(chance)).toEqual(["0.0\u00a0%", "3.1\u00a0%", "100.0\u00a0%"]);
  });

  it("keeps small shares apart from nothing", () => {
    expect(percent(0.00001)).toBe("< 0.01\u00a0%");
    expect(percent(0)).toBe("0\u00a0%");
    expect(percent(0.0123)).toBe("1.2\u00a0%");
    expect(percent(0.5)).toBe("50\u00a0%");
  });

  it("gives a column one number of digits", () => {
    const format = columnFormat([0.5, 12.25, null], "number");
    expect([0.5, 12.25].map(format)).toEqual(["0.5", "12.3"]);
    expect(columnFormat([1, 2], "number")(2)).toBe("2");
  });

  it("speaks of flags, one and many", () => {
    expect([true, false, null].map((v) => show(v, "flag"))).toEqual(["yes", "no", "–"]);
    expect([plural(1, "cell"), plural(1200, "cell")]).toEqual(["1 cell", "1,200 cells"]);
    expect(tickNumber(-0.5)).toBe("−0.5");
  });
});
