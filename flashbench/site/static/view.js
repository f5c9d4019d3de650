// The range of commits shown: parsed from a URL or form, and changed by zooming.
"use strict";

{
  const LEAST = 3; // commits between the ends at the highest zoom
  const DIGITS = 10; // of a hash in a URL

  const { content } = flashbench;
  const last = content.commits.length - 1;
  const SHOWN = { show: "speedup", quartiles: true, tail: false, pin: -1, beside: "", from: 0, to: last };

  /** The commit named by a text, a date or the start of a hash; -1 if there is none. */
  function commitAt(text, wanted) {
    const { commits } = content;
    if (!text) return wanted === "from" ? 0 : wanted === "to" ? last : -1;
    if (/^\d{4}-\d\d-\d\d$/.test(text)) {
      if (wanted === "from") return commits.findIndex((commit) => commit.date >= text);
      return commits.findLastIndex((commit) => commit.date <= text);
    }
    return text.length < 4 ? -1 : commits.findIndex((commit) => commit.hash.startsWith(text.toLowerCase()));
  }

  /** The range, and the commit to compare with, of {from, to, pin}: texts; one that names no commit counts as "". */
  function range(texts) {
    const at = (wanted) => {
      const found = commitAt(texts[wanted], wanted);
      return found < 0 ? commitAt("", wanted) : found;
    };
    const [one, other] = [at("from"), at("to")];
    return { from: Math.min(one, other), to: Math.max(one, other), pin: at("pin") };
  }

  /** Zoom around a commit, to half as many for factor 0.5: {from, to}. */
  function zoomed({ from, to }, around, factor) {
    const wide = Math.max(LEAST, Math.round((to - from) * factor));
    const part = to > from ? (around - from) / (to - from) : 0.5;
    const start = Math.max(0, Math.min(last - wide, Math.round(around - part * wide)));
    return { from: start, to: Math.min(last, start + wide) };
  }

  const gaps = new Map();

  /** Map of commit -> why it has no numbers on a machine. */
  function gapsOf(machine) {
    if (!gaps.has(machine)) {
      const mine = content.gaps.filter((gap) => gap.machine === "" || gap.machine === machine);
      gaps.set(machine, new Map(mine.map((gap) => [gap.commit, `${gap.status}${gap.reason && ": "}${gap.reason}`])));
    }
    return gaps.get(machine);
  }

  // If most commits were not measured, lines would be long and flat.
  const tried = new Set([...content.gaps.map((gap) => gap.commit), ...content.measured.flatMap((one) => one.commits)]);

  flashbench.view = {
    commitAt, range, zoomed, gapsOf, last,
    /** A commit's name in a URL; "" for the ends. */
    named: (commit) => content.commits[commit].hash.slice(0, DIGITS),
    initial: { ...SHOWN, axis: 2 * tried.size < content.commits.length ? "tried" : "all" },
  };
}
