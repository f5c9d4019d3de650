// The changes and jumps of a graph: how each is called, and where its label has room.
"use strict";

{
  const WIDE = 7; // pixels of a letter, at most

  const size = (speedup) => `${speedup > 1 ? "▲" : "▼"} ${(100 * Math.abs(speedup - 1)).toFixed(1)} %`;

  const ofChange = ({ speedup: [speedup], provisional, ...place }) => ({
    ...place, speedup,
    way: provisional ? "provisional" : speedup > 1 ? "up" : "down",
    label: `${size(speedup)}${provisional ? "?" : ""}`,
    named: `${provisional ? "provisional " : ""}change, most likely here`,
  });

  const ofJump = ({ at, speedup }) => ({
    at, first: at, last: at, speedup,
    way: "jump",
    label: `(${size(speedup)})`,
    named: "jump, with too few commits on one side to be judged",
  });

  /**
   * The steps of `graph` in a range of commits, oldest first: {at, text, way, left, place, right,
   * label, start, wide, row}. at: the commit; left, place, right: where it may begin, is, and may end, by
   * x(commit); start, wide, row: of the label.
   */
  flashbench.steps = (graph, { from, to }, x, width) => {
    const inside = (i) => Math.min(to, Math.max(from, i));
    const taken = []; // the end of each row of labels
    return [...graph.changes.map(ofChange), ...graph.jumps.map(ofJump)]
      .filter(({ first, last }) => last >= from && first <= to)
      .sort((one, other) => one.at - other.at)
      .map(({ at, first, last, speedup, way, label, named }) => {
        const place = x(inside(at));
        const wide = WIDE * label.length;
        const start = place + wide > width - 4 ? place - 4 - wide : place + 4;
        let row = 0;
        while (taken[row] > start) row++;
        taken[row] = start + wide;
        const text = `${named}: speed × ${flashbench.digits(speedup)}`;
        return { at, left: x(inside(first)) - 2, place, right: x(inside(last)) + 2, way, label, text, start, wide, row };
      });
  };
}
