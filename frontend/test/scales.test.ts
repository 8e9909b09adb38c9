import { describe, expect, it } from "vitest";
import { channelOrder, labelled, niceTicks, ranges, scaleOf } from "../src/scales";

describe("axes", () => {
  it("ticks are round and lie inside", () => {
    expect(niceTicks(0, 1, 4)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(niceTicks(-3, 7, 5)).toEqual([-2, 0, 2, 4, 6]);
    expect(niceTicks(2, 2, 5)).toEqual([2]);
  });

  it("labels keep their distance", () => {
    expect(labelled(48, 480, 30)).toEqual(Array.from({ length: 16 }, (_, i) => 3 * i));
    expect(labelled(5000, 500, 40).length).toBeLessThanOrEqual(12);
  });

  it("a logarithmic scale gives equal room to equal ratios", () => {
    const x = scaleOf(0.001, 0.1, 0, 100, true);
    expect(x(0.01)).toBeCloseTo(50);
    expect(scaleOf(0, 10, 20, 0)(5)).toBe(10);
  });

  it("neighbours are one range", () => {
    expect(ranges([5, 1, 2, 3, 9])).toEqual([
      [1, 3],
      [5, 5],
      [9, 9],
    ]);
  });

  it("channels by importance, ties as recorded", () => {
    expect(channelOrder([0.1, 0.5, 0.1], "importance")).toEqual([1, 0, 2]);
    expect(channelOrder([0.1, 0.5, 0.1], "recorded")).toEqual([0, 1, 2]);
  });
});
