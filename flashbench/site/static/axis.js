// The axis of commits: which commits have a place, their positions, and their labels.
"use strict";

{
  // Width from one label to the next: one and a half times the longest label, because the first one is
  // left-aligned and the others are centred, plus some room.
  const DATE = 130;
  const TIME = 175; // for a date with a time
  const SHORT = 8; // digits of a hash

  /**
   * view: {axis: "tried" or "all", from, to}; known: the commits with a number or a reason for having
   * none. Commits without a place are between two places of the axis.
   */
  flashbench.axis = (view, commits, known) => {
    let places = [];
    if (view.axis === "tried") {
      places = [...new Set(known)].filter((i) => i >= view.from && i <= view.to).sort((a, b) => a - b);
    }
    const all = !places.length;
    if (all) for (let i = view.from; i <= view.to; i++) places.push(i);
    const last = places.length - 1;

    /** The place of a commit, from 0; a half for a commit between two places. */
    function at(commit) {
      let [low, high] = [0, places.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (places[middle] < commit) low = middle + 1;
        else high = middle;
      }
      return places[low] === commit ? low : low - 0.5;
    }

    /** The commits with labels: the first, the last, and as many as fit `room` apart. */
    function marked(width, room) {
      for (let count = Math.min(places.length, Math.floor(width / room)); count > 2; count--) {
        const step = last / (count - 1); // after rounding, labels are at least floor(step) apart
        if ((Math.floor(step) * width) / last >= room) {
          return Array.from({ length: count }, (_, k) => places[Math.round(k * step)]);
        }
      }
      return last ? [places[0], places[last]] : places;
    }

    function labels(width) {
      const differ = (texts) => new Set(texts).size === texts.length;
      const days = (some) => some.map((i) => commits[i].date);
      const close = marked(width, DATE);
      const chosen = differ(days(close)) ? close : marked(width, TIME);
      const dates = days(chosen);
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
