// One graph: a series with its interval and quartiles along the commits, failed builds and changes.
"use strict";

{
  const { shape, scaled, span } = flashbench;
  const HEIGHT = 280; // without labels of changes
  const ROW = 14; // of these labels
  const MARGIN = { top: 24, right: 14, bottom: 56, left: 62 };
  const FEW = 150; // up to this many points are also drawn as dots

  /** The values of a line, in its unit, at the commits from `from` to `to`. */
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

  /** About `count` round numbers from low to high: [number, text], with as many digits as needed. */
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const places = -Math.floor(Math.log10(step) + 1e-9); // of decimals
    const largest = Math.max(Math.abs(low), Math.abs(high));
    const text = largest >= 1e7 || places > 6
      ? (value) => value.toExponential(Math.max(0, Math.floor(Math.log10(Math.abs(value) || 1)) + places))
      : (value) => value.toFixed(Math.max(0, places));
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high; i++) found.push([i * step, text(i * step)]);
    return found;
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

  /** One closed shape for each run of points that have both ends of a band. */
  function band(points, x, y, [lower, upper]) {
    let text = "";
    let run = [];
    const close = () => {
      if (run.length) {
        // Show the interval of a point without neighbours too.
        if (run.length === 1) run = [{ ...run[0], side: -3 }, { ...run[0], side: 3 }];
        const at = (p, v) => `${(x(p.x) + (p.side ?? 0)).toFixed(1)},${y(v).toFixed(1)}`;
        const up = run.map((p) => at(p, p[upper]));
        const down = run.map((p) => at(p, p[lower])).reverse();
        text += `M${[...up, ...down].join("L")}Z`;
      }
      run = [];
    };
    for (const point of points) {
      if ((point[lower] ?? null) === null || (point[upper] ?? null) === null) close();
      else run.push(point);
    }
    close();
    return text;
  }

  /** A dash on the picture's edge for each of these columns beyond it. */
  function cuts(points, names, x, { low, high }, top, floor) {
    let text = "";
    for (const point of points) {
      if (names.some((name) => point[name] > high)) text += `M${(x(point.x) - 3).toFixed(1)},${top}h6`;
      if (names.some((name) => Number.isFinite(point[name]) && point[name] < low)) text += `M${(x(point.x) - 3).toFixed(1)},${floor}h6`;
    }
    return text;
  }

  /** An arrow towards a value beyond the edge. */
  function beyond(point, x, { low, high }, top, floor, text) {
    const up = point.v > high;
    if (!up && point.v >= low) return [];
    const at = x(point.x);
    const drawn = shape("path", { d: up ? `M${at - 5},${top + 9}h10l-5,-9Z` : `M${at - 5},${floor - 9}h10l-5,9Z`, class: "beyond" });
    drawn.append(shape("title", {}, `outside of the picture: ${text}`));
    return [drawn];
  }

  /** The mark of a commit without numbers: a cross for a failed build, else a ring. */
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
   * quartiles, tail, pin}; pin: a commit to compare with, or -1. gaps: Map of
   * commit -> text; measured: the commits with a number on the machine. Returns what is needed to point at it.
   */
  flashbench.draw = (svg, graph, view, commits, gaps, measured) => {
    const has = (role) => graph.lines.some((line) => line.role === role);
    const isRatio = has("speedup") && (view.show === "speedup" || !has("time"));
    const roles = isRatio ? ["speedup", "other speedup"] : ["time", "control", "other time"];
    let lines = graph.lines.filter((line) => roles.includes(line.role));
    lines = lines.map((line) => selected(line, view.from, view.to));
    const width = Math.max(280, svg.parentElement.clientWidth);
    const inner = { w: width - MARGIN.left - MARGIN.right, h: HEIGHT - MARGIN.top - MARGIN.bottom };

    const any = lines.some((line) => line.points.length);
    const [, largest] = span(lines.flatMap((l) => l.points.map((p) => p.v)), 0, 0);
    const [factor, unit] = isRatio ? [1, "×"] : scaled(lines[0].unit, largest);
    const scale = any ? flashbench.scale(lines, isRatio, view.tail) : { low: 0, high: 1, spread: ["lo", "hi"] };
    const { low, high, spread } = scale;
    const notes = new Map(gaps);
    for (const i of graph.failed) if (!notes.has(i)) notes.set(i, "not measured");
    const axis = flashbench.axis(view, commits, [...measured, ...notes.keys()]);
    const x = (i) => MARGIN.left + inner.w * axis.part(i);
    const steps = flashbench.steps(graph, view, x, width);
    const top = MARGIN.top + ROW * steps.reduce((rows, { row }) => Math.max(rows, row + 1), 0); // below all labels
    const floor = top + inner.h;
    const height = floor + MARGIN.bottom;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const y = (v) => top + inner.h * (1 - (Math.min(high, Math.max(low, v)) - low) / (high - low));

    const title = isRatio
      ? `speed-up over ${flashbench.content.baseline} (×, above 1 is faster)`
      : `${lines[0].unit === "seconds" ? "time" : "value"}${unit ? ` (${unit})` : ""}`;
    svg.append(shape("text", { x: 4, y: 15, class: "title" }, title));
    for (const [tick, text] of any ? ticks(low * factor, high * factor, 5) : []) {
      const at = y(tick / factor);
      svg.append(
        shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at, class: "grid" }),
        shape("text", { x: MARGIN.left - 6, y: at + 4, class: "number", "text-anchor": "end" }, text),
      );
    }
    if (isRatio && low < 1 && high > 1) {
      svg.append(shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(1), y2: y(1), class: "one" }));
    }
    svg.append(shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor, class: "axis" }));
    const { title: below, marks } = axis.labels(inner.w);
    marks.forEach(([i, text], k) => {
      const anchor = marks.length === 1 ? "middle" : k === 0 ? "start" : k === marks.length - 1 ? "end" : "middle";
      svg.append(shape("text", { x: x(i), y: floor + 32, class: "commit", "text-anchor": anchor }, text));
    });
    svg.append(shape("text", { x: width / 2, y: height - 6, "text-anchor": "middle" }, below));

    for (const { way, left, place, right } of steps) {
      if (way !== "jump") svg.append(shape("rect", { x: left, y: MARGIN.top, width: right - left, height: floor - MARGIN.top, class: "range" }));
      svg.append(shape("line", { x1: place, x2: place, y1: MARGIN.top, y2: floor, class: `change ${way}` }));
    }
    for (const line of lines) {
      const { role, points } = line;
      svg.append(shape("path", { d: band(points, x, y, spread), class: `band ${role}` }));
      const quartiles = view.quartiles && spread[0] !== "q25" ? ["q25", "q75"] : [];
      const percentiles = [...quartiles, ...(view.tail ? ["p90", "p99"] : [])].filter((one) => line[one]);
      svg.append(shape("path", { d: cuts(points, [...spread, ...percentiles], x, scale, top, floor), class: `cut ${role}` }));
      for (const name of percentiles) {
        const kind = name.startsWith("q") ? "quartile" : name;
        svg.append(shape("path", { d: path(points, x, y, name), class: `${kind} ${role}` }));
      }
      svg.append(shape("path", { d: path(points, x, y, "v"), class: `value ${role}` }));
      for (const point of points.length <= FEW ? points : []) {
        svg.append(shape("circle", { cx: x(point.x), cy: y(point.v), r: 2.5, class: `dot ${role}` }));
      }
      for (const point of points) {
        const text = `${commits[point.x].hash.slice(0, 10)}: ${flashbench.digits(point.v * factor)} ${unit}`;
        svg.append(...beyond(point, x, scale, top, floor, text));
      }
    }
    for (const [i, text] of notes) {
      if (i < view.from || i > view.to) continue;
      const kind = gaps.has(i) ? "gap" : "failed";
      svg.append(mark(kind, x(i), floor + 10, `${commits[i].hash.slice(0, 10)}: ${text}`));
    }
    if (view.pin >= view.from && view.pin <= view.to) {
      svg.append(shape("line", { x1: x(view.pin), x2: x(view.pin), y1: MARGIN.top, y2: floor, class: "pin" }));
    }
    const selection = shape("rect", { y: MARGIN.top, height: floor - MARGIN.top, class: "selection", visibility: "hidden" });
    const cursor = shape("line", { y1: MARGIN.top, y2: floor, class: "cursor", visibility: "hidden" });
    const label = ({ start, wide, row, way, label: text }) => [
      shape("rect", { x: start, y: MARGIN.top + 1 + ROW * row, width: wide, height: ROW, class: "ground" }), // above other steps' lines
      shape("text", { x: start, y: MARGIN.top + 12 + ROW * row, class: `size ${way}` }, text),
    ];
    svg.append(...steps.flatMap(label), selection, cursor);

    const stops = [...new Set([...lines.flatMap((l) => l.points.map((p) => p.x)), ...notes.keys()])];
    return {
      lines, isRatio, factor, unit, notes, steps, low, high, spread,
      stops: stops.filter((i) => i >= view.from && i <= view.to).sort((a, b) => a - b),
      nearest(clientX) {
        const box = svg.getBoundingClientRect();
        const at = ((clientX - box.left) * width) / box.width;
        const away = (i) => Math.abs(x(i) - at);
        return this.stops.reduce((best, s) => (away(s) < away(best) ? s : best), this.stops[0]);
      },
      /** Show the dragged range from one commit to another; nothing if they are equal. */
      select(one, other) {
        const [left, right] = [x(Math.min(one, other)), x(Math.max(one, other))];
        selection.setAttribute("visibility", one === other ? "hidden" : "visible");
        selection.setAttribute("x", left);
        selection.setAttribute("width", right - left);
      },
      point(i) {
        cursor.setAttribute("visibility", "visible");
        for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(i));
      },
    };
  };
}
