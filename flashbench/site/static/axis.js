// The axis of commits: which of them have a place on it, where each lies, and what is written below.
"use strict";

{
  const LABEL = 130; // units of width that a date with a time of day takes, with room beside it
  const SHORT = 8; // digits of a hash

  /**
   * view: {axis: "tried" or "all", from, to}; known: the commits with a number or a reason for
   * having none. Between two places of the axis lie the commits that have none.
   */
  flashbench.axis = (view, commits, known) => {
    let places = [];
    if (view.axis === "tried") {
      places = [...new Set(known)].filter((i) => i >= view.from && i <= view.to).sort((a, b) => a - b);
    }
    const all = !places.length;
    if (all) for (let i = view.from; i <= view.to; i++) places.push(i);
    const last = places.length - 1;

    /** The place of a commit, counted from 0; a half for what lies between two. */
    function at(commit) {
      let [low, high] = [0, places.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (places[middle] < commit) low = middle + 1;
        else high = middle;
      }
      return places[low] === commit ? low : low - 0.5;
    }

    function labels(width) {
      const count = Math.min(places.length, Math.max(2, Math.floor(width / LABEL)));
      const chosen = Array.from({ length: count }, (_, k) => places[count === 1 ? 0 : Math.round((k * last) / (count - 1))]);
      const differ = (texts) => new Set(texts).size === texts.length;
      const dates = chosen.map((i) => commits[i].date);
      const times = chosen.map((i, k) => (k && dates[k] === dates[k - 1] ? commits[i].time : `${dates[k]} ${commits[i].time}`));
      const hashes = chosen.map((i) => commits[i].hash.slice(0, SHORT));
      const [texts, kind] = differ(dates) ? [dates, ""]
        : differ(chosen.map((i) => `${commits[i].date} ${commits[i].time}`)) ? [times, " (UTC)"]
          : [hashes, " (hashes)"];
      const what = all ? "commits" : `${places.length} tried of ${view.to - view.from + 1} commits`;
      return { title: `${what}, oldest first${kind}`, marks: chosen.map((i, k) => [i, texts[k]]) };
    }

    return {
      labels,
      /** From 0 at the first place to 1 at the last. */
      part: (commit) => (last === 0 ? 0.5 : Math.min(1, Math.max(0, at(commit) / last))),
    };
  };
}
