// Chooses the range of a graph's y axis, and the band to draw, from the data.
"use strict";

{
  const FEW = 8; // with fewer points, every value is inside
  const NEWEST = 3; // this many newest points are always inside
  const FAR = 3; // values beyond this many times the range of most values are cut

  /** Minimum and maximum of the numbers and these two; there may be more numbers than Math.min takes. */
  function span(numbers, least = Infinity, most = -Infinity) {
    for (const number of numbers) {
      least = Math.min(least, number);
      most = Math.max(most, number);
    }
    return [least, most];
  }

  const quantile = (sorted, part) => sorted[Math.round(part * (sorted.length - 1))];

  function median(numbers) {
    return numbers.length ? quantile([...numbers].sort((a, b) => a - b), 0.5) : NaN;
  }

  /** Leave out single values that would flatten all others, but never the newest ones. */
  function ofValues(lines) {
    const values = lines.flatMap((line) => line.points.map((point) => point.v)).sort((a, b) => a - b);
    const newest = lines.flatMap((line) => line.points.slice(-NEWEST).map((point) => point.v));
    if (values.length < FEW) return span(values);
    const [near, far] = [quantile(values, 0.05), quantile(values, 0.95)];
    const core = Math.max(far - near, 0.02 * Math.abs(far));
    return span(newest, Math.max(values[0], near - FAR * core), Math.min(values.at(-1), far + FAR * core));
  }

  /**
   * {low, high, spread}: the ends of the axis, and the columns of the band: the interval, or the
   * quartiles if most intervals are wider than the range of all values, or there are none.
   */
  flashbench.scale = (lines, isRatio, tail) => {
    let [low, high] = ofValues(lines);
    if (isRatio) {
      // Include "as fast as the baseline", unless that would leave only a third of the picture for the data.
      const close = 2 * Math.max(high - low, 0.02 * high);
      if (1 > low - close && 1 < high + close) [low, high] = [Math.min(low, 1), Math.max(high, 1)];
    }
    const room = Math.max(high - low, Math.abs(high) * 0.02, 1e-300);
    const points = lines.flatMap((line) => line.points);
    const wide = median(points.map((p) => p.hi - p.lo).filter(Number.isFinite)) > room;
    const none = !points.some((p) => Number.isFinite(p.lo));
    const quartiles = (wide || none) && lines.some((line) => line.q25);
    const spread = quartiles ? ["q25", "q75"] : ["lo", "hi"];
    const drawn = [...spread, ...(tail ? ["p90", "p99"] : [])];
    const ends = points.flatMap((point) => drawn.map((name) => point[name])).filter(Number.isFinite);
    const [least, most] = span(ends, low, high);
    const [bottom, top] = [Math.max(low - 0.6 * room, least), Math.min(high + 0.6 * room, most)];
    const edge = Math.max((top - bottom) * 0.06, room * 0.02);
    return { low: bottom - edge, high: top + edge, spread };
  };

  flashbench.span = span;
}
