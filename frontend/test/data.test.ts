import { describe, expect, it } from "vitest";
import { bytes, inputAt, maskAt, observedAt } from "../src/data";
import { h } from "../src/dom";
import { moveCell } from "../src/heatmap";
import { TimeWindow } from "../src/window";

describe("the data of the page", () => {
  it("reads cells by instance, step and channel", () => {
    expect(maskAt(0, 1, 2)).toBeCloseTo(50 / 255);
    expect(maskAt(1, 0, 0)).toBeCloseTo(120 / 255);
    expect(bytes("ranks")).toBeNull();
  });

  it("knows what was filled in, what is missing and what lies after the end", () => {
    expect([observedAt(0, 1, 1), observedAt(0, 1, 2)]).toEqual([true, false]);
    expect(inputAt(0, 1, 2)).toBeNaN();
    expect(inputAt(0, 2, 0)).toBe(15);
    expect(inputAt(0, 0, 2)).toBe(7);
    expect(inputAt(1, 3, 0)).toBeNaN();
  });
});

describe("elements", () => {
  it("takes names as text, whatever they hold", () => {
    const node = h("p", { text: "<img src=x onerror=alert(1)>" }, null, [h("b", { text: "&" })]);
    expect(node.querySelector("img")).toBeNull();
    expect(node.textContent).toBe("<img src=x onerror=alert(1)>&");
  });
});

describe("moving", () => {
  const options = { label: "", rows: [2, 0, 1], value: () => 0, describe: () => [""] };

  it("goes over the rows as they are drawn, and stops at the edges", () => {
    expect(moveCell("ArrowRight", null, options)).toEqual([0, 2]);
    expect(moveCell("ArrowDown", [0, 2], options)).toEqual([0, 0]);
    expect(moveCell("ArrowUp", [0, 2], options)).toEqual([0, 2]);
    expect(moveCell("End", [0, 2], options)).toEqual([3, 2]);
    expect(moveCell("a", [0, 2], options)).toBeNull();
  });

  it("a window stays inside the sequence and tells who listens", () => {
    const sight = new TimeWindow();
    let told = 0;
    sight.onchange(() => told++);
    sight.zoom(0.5);
    expect([sight.from, sight.to]).toEqual([0, 4]); // four steps cannot be zoomed
    sight.pan(10);
    expect(told).toBe(0);
  });
});
