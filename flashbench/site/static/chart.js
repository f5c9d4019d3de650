// One graph: a series with its interval and quartiles along the commits, failed builds and changes.
"use strict";

{
  const { shape, scaled } = flashbench;
  const HEIGHT = 280;
  const MARGIN = { top: 24, right: 14, bottom: 56, left: 62 };
  const FEW = 150; // points that are drawn as dots, too

  /** The numbers of a line, in its unit, of the commits from `from` to `to`. */
  function selected(line, from, to) {
    const columns = ["lo", "hi", "q25", "q75", "p90", "p99"].filter((name) => line[name]);
    const points = [];
    line.x.forEach((x, i) => {
      if (x < from || x > to || line.v[i] === null) return;
      const point = { x, v: line.v[i] * line.scale };
      for (const name of columns) {
        point[name] = line[name][i] === null ? null : line[name][i] * line.scale;
      }
      points.push(point);
    });
    return { ...line, points };
  }

  /** Round numbers, about `count`, from low to high: [number, text] with the digits that they need. */
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const places = -Math.floor(Math.log10(step) + 1e-9); // of the last digit, behind the point
    const largest = Math.max(Math.abs(low), Math.abs(high));
    const text = largest >= 1e7 || places > 6
      ? (value) => value.toExponential(Math.max(0, Math.floor(Math.log10(Math.abs(value) || 1)) + places))
      : (value) => value.toFixed(Math.max(0, places));
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high; i++) found.push([i * step, text(i * step)]);
    return found;
  }

  /** The least and the most of numbers and the two; there may be more than a call takes arguments. */
  function span(numbers, least = Infinity, most = -Infinity) {
    for (const number of numbers) {
      least = Math.min(least, number);
      most = Math.max(most, number);
    }
    return [least, most];
  }

  /** What the y axis spans: every value, and intervals unless they dwarf the values (`cut`). */
  function extent(lines, isRatio, tail) {
    const values = lines.flatMap((line) => line.points.map((point) => point.v));
    if (isRatio) values.push(1);
    const [low, high] = span(values);
    const room = Math.max(high - low, Math.abs(high) * 0.02, 1e-300);
    const ends = lines.flatMap((l) => l.points.flatMap((p) => [p.lo, p.hi, p.q25, p.q75, ...(tail ? [p.p90, p.p99] : [])].filter(Number.isFinite)));
    const [least, most] = span(ends, low, high);
    const [bottom, top] = [Math.max(low - 0.6 * room, least), Math.min(high + 0.6 * room, most)];
    const edge = Math.max((top - bottom) * 0.06, room * 0.02);
    return { low: bottom - edge, high: top + edge, cut: least < bottom || most > top };
  }

  function path(points, x, y, name) {
    let open = false;
    let text = "";
    for (const point of points) {
      const value = point[name] ?? null;
      if (value === null) { open = false; continue; }
      text += `${open ? "L" : "M"}${x(point.x).toFixed(1)},${y(value).toFixed(1)}`;
      open = true;
    }
    return text;
  }

  /** Each stretch of points that have an interval as one closed shape. */
  function band(points, x, y) {
    let text = "";
    let run = [];
    const close = () => {
      if (run.length) {
        // A point without neighbours still shows its interval.
        if (run.length === 1) run = [{ ...run[0], side: -3 }, { ...run[0], side: 3 }];
        const at = (p, v) => `${(x(p.x) + (p.side ?? 0)).toFixed(1)},${y(v).toFixed(1)}`;
        const up = run.map((p) => at(p, p.hi));
        const down = run.map((p) => at(p, p.lo)).reverse();
        text += `M${[...up, ...down].join("L")}Z`;
      }
      run = [];
    };
    for (const point of points) {
      if ((point.lo ?? null) === null || (point.hi ?? null) === null) close();
      else run.push(point);
    }
    close();
    return text;
  }

  /** The mark of a commit without numbers: a cross for a build that failed, else a ring. */
  function mark(kind, x, y, title) {
    const drawn = kind === "gap"
      ? shape("path", { d: `M${x - 4},${y - 4}l8,8m0,-8l-8,8` })
      : shape("circle", { cx: x, cy: y, r: 3.5 });
    drawn.setAttribute("class", kind);
    drawn.append(shape("title", {}, title));
    return drawn;
  }

  /**
   * Draw `graph` into `svg`, as wide as it is. view: {show: "speedup" or "time", axis, from, to,
   * quartiles, tail}. gaps: Map of commit -> text; measured: the commits with a number on the machine.
   * Returns what is needed to point at it.
   */
  flashbench.draw = (svg, graph, view, commits, gaps, measured) => {
    const isRatio = view.show === "speedup" && graph.lines.some((l) => l.role === "speedup");
    const roles = isRatio ? ["speedup"] : ["time", "control"];
    let lines = graph.lines.filter((line) => roles.includes(line.role));
    lines = lines.map((line) => selected(line, view.from, view.to));
    const width = Math.max(280, svg.parentElement.clientWidth);
    const inner = { w: width - MARGIN.left - MARGIN.right, h: HEIGHT - MARGIN.top - MARGIN.bottom };
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);

    const any = lines.some((line) => line.points.length);
    const [, largest] = span(lines.flatMap((l) => l.points.map((p) => p.v)), 0, 0);
    const [factor, unit] = isRatio ? [1, "×"] : scaled(lines[0].unit, largest);
    const { low, high } = any ? extent(lines, isRatio, view.tail) : { low: 0, high: 1 };
    const notes = new Map(gaps);
    for (const i of graph.failed) if (!notes.has(i)) notes.set(i, "not measured");
    const axis = flashbench.axis(view, commits, [...measured, ...notes.keys()]);
    const x = (i) => MARGIN.left + inner.w * axis.part(i);
    const y = (v) => MARGIN.top + inner.h * (1 - (Math.min(high, Math.max(low, v)) - low) / (high - low));
    const floor = MARGIN.top + inner.h;

    const title = isRatio
      ? "speed-up over SDPA (×, above 1 is faster)"
      : `${lines[0].unit === "seconds" ? "time" : "value"}${unit ? ` (${unit})` : ""}`;
    svg.append(shape("text", { x: 4, y: 15, class: "title" }, title));
    for (const [tick, text] of any ? ticks(low * factor, high * factor, 5) : []) {
      const at = y(tick / factor);
      svg.append(
        shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at, class: "grid" }),
        shape("text", { x: MARGIN.left - 6, y: at + 4, class: "number", "text-anchor": "end" }, text),
      );
    }
    if (isRatio) {
      svg.append(shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(1), y2: y(1), class: "one" }));
    }
    svg.append(shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor, class: "axis" }));
    const { title: below, marks } = axis.labels(inner.w);
    marks.forEach(([i, text], k) => {
      const anchor = marks.length === 1 ? "middle" : k === 0 ? "start" : k === marks.length - 1 ? "end" : "middle";
      svg.append(shape("text", { x: x(i), y: floor + 32, class: "commit", "text-anchor": anchor }, text));
    });
    svg.append(shape("text", { x: width / 2, y: HEIGHT - 6, "text-anchor": "middle" }, below));

    const taken = []; // in each row of texts, up to where
    for (const change of graph.changes) {
      if (change.last < view.from || change.first > view.to) continue;
      const way = change.speedup[0] > 1 ? "up" : "down";
      const left = x(Math.max(view.from, change.first)) - 2;
      const right = x(Math.min(view.to, change.last)) + 2;
      const at = x(Math.min(view.to, Math.max(view.from, change.at)));
      const percent = `${way === "up" ? "▲" : "▼"} ${(100 * (change.speedup[0] - 1)).toFixed(1)} %`;
      const wide = 7 * percent.length;
      const start = at + wide > width - 4 ? at - 4 - wide : at + 4;
      let row = 0;
      while (taken[row] > start) row++;
      taken[row] = start + wide;
      svg.append(
        shape("rect", { x: left, y: MARGIN.top, width: right - left, height: inner.h, class: "range" }),
        shape("line", { x1: at, x2: at, y1: MARGIN.top, y2: floor, class: `change ${way}` }),
        shape("text", { x: start, y: MARGIN.top + 12 + 14 * row, class: way }, percent),
      );
    }
    for (const line of lines) {
      const { role, points } = line;
      svg.append(shape("path", { d: band(points, x, y), class: `band ${role}` }));
      const percentiles = [...(view.quartiles ? ["q25", "q75"] : []), ...(view.tail ? ["p90", "p99"] : [])];
      for (const name of percentiles.filter((one) => line[one])) {
        const kind = name.startsWith("q") ? "quartile" : name;
        svg.append(shape("path", { d: path(points, x, y, name), class: `${kind} ${role}` }));
      }
      svg.append(shape("path", { d: path(points, x, y, "v"), class: `value ${role}` }));
      for (const point of points.length <= FEW ? points : []) {
        svg.append(shape("circle", { cx: x(point.x), cy: y(point.v), r: 2.5, class: `dot ${role}` }));
      }
    }
    for (const [i, text] of notes) {
      if (i < view.from || i > view.to) continue;
      const kind = gaps.has(i) ? "gap" : "failed";
      svg.append(mark(kind, x(i), floor + 10, `${commits[i].hash.slice(0, 10)}: ${text}`));
    }
    const cursor = shape("line", { y1: MARGIN.top, y2: floor, class: "cursor", visibility: "hidden" });
    svg.append(cursor);

    const stops = [...new Set([...lines.flatMap((l) => l.points.map((p) => p.x)), ...notes.keys()])];
    return {
      lines, isRatio, factor, unit, notes, low, high,
      stops: stops.filter((i) => i >= view.from && i <= view.to).sort((a, b) => a - b),
      nearest(clientX) {
        const box = svg.getBoundingClientRect();
        const at = ((clientX - box.left) * width) / box.width;
        const away = (i) => Math.abs(x(i) - at);
        return this.stops.reduce((best, s) => (away(s) < away(best) ? s : best), this.stops[0]);
      },
      point(i) {
        cursor.setAttribute("visibility", "visible");
        for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(i));
      },
    };
  };
}
