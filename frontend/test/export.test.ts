import { describe, expect, it } from "vitest";
import { csv, csvField, fileName, hashOf, maskRows, placeOf } from "../src/export";

describe("ways out", () => {
  it("quotes what a table would break on, and marks what a spreadsheet would run", () => {
    expect(csvField('a "b", c')).toBe('"a ""b"", c"');
    expect(csvField("=1+1")).toBe("'=1+1");
    expect(csvField(-1.5)).toBe("-1.5");
    expect([null, undefined, NaN].map(csvField)).toEqual(["", "", ""]);
    expect(
      csv([
        ["a", 1],
        ["b", true],
      ]),
    ).toBe("a,1\r\nb,true\r\n");
  });

  it("writes a mask cell by cell, up to the end of the series", () => {
    const rows = maskRows(1);
    expect(rows[0]).toEqual(["id", "time", "channel", "unit", "mask", "measured", "contribution", "value"]);
    expect(rows).toHaveLength(1 + 2 * 3);
    expect(rows[1].slice(0, 3)).toEqual(["second", "1", "GCS"]);
  });

  it("gives a view an address and finds it again, whatever the id holds", () => {
    const place = { part: "instances", id: "stay 1 & <b>#=ü", show: "mask", target: undefined };
    expect(placeOf(hashOf(place))).toEqual(place);
    expect(placeOf("")).toEqual({ part: undefined, id: undefined, show: undefined, target: undefined });
  });

  it("names files without markup", () => {
    expect(fileName("a/b <c>")).toBe("a_b_c_");
    expect(fileName("///")).toBe("_");
  });
});
