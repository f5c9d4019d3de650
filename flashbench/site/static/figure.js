// A graph with everything around it: title, legend, what the cursor is on, the same as a table.
"use strict";

{
  const { element, shape, digits } = flashbench;
  const PAGE = 10; // commits that PageUp and PageDown pass over

  const number = (value, made) => digits(value * made.factor);

  function describe(made, i) {
    const parts = [];
    for (const line of made.lines) {
      const point = line.points.find((p) => p.x === i);
      if (!point) continue;
      const name = line.role === "speedup" ? "speed-up" : line.name;
      let text = `${name} ${number(point.v, made)} ${made.unit}`;
      if ((point.lo ?? null) !== null && (point.hi ?? null) !== null) {
        text += ` [${number(point.lo, made)}, ${number(point.hi, made)}]`;
      }
      if ((point.q25 ?? null) !== null && (point.q75 ?? null) !== null) {
        text += `, 25th and 75th percentile ${number(point.q25, made)} and ${number(point.q75, made)}`;
      }
      for (const name of ["p90", "p99"]) {
        if (Number.isFinite(point[name])) text += `, ${name} ${number(point[name], made)}`;
      }
      parts.push(text);
    }
    if (made.notes.has(i)) parts.push(made.notes.get(i));
    return parts.join("; ");
  }

  function legend(made, graph, view, gaps) {
    const swatch = (...shapes) => shape("svg", { viewBox: "0 0 24 12", "aria-hidden": "true" }, ...shapes);
    const item = (text, ...shapes) => element("li", {}, swatch(...shapes), text);
    const items = [];
    for (const { role, name } of made.lines) {
      const stroke = shape("path", { d: "M0,6H24", class: `value ${role}` });
      items.push(item(role === "speedup" ? `speed-up of ${name} over SDPA` : name, stroke));
    }
    const { role } = made.lines[0];
    const has = (column) => made.lines.some((line) => line[column]);
    const beyond = (value) => Number.isFinite(value) && (value < made.low || value > made.high);
    /** What to add where some of these columns lie outside of the picture. */
    const cut = (...columns) => made.lines.some((line) => line.points.some((point) => columns.some((one) => beyond(point[one]))))
      ? ", cut where it leaves the picture" : "";
    if (has("lo")) {
      const area = shape("path", { d: "M0,1H24V11H0Z", class: `band ${role}` });
      items.push(item(`${100 * graph.confidence} % interval of the median${cut("lo", "hi")}`, area));
    }
    if (view.quartiles && has("q25")) {
      const dotted = shape("path", { d: "M0,3H24M0,9H24", class: `quartile ${role}` });
      items.push(item(`25th and 75th percentile of the launches${cut("q25", "q75")}`, dotted));
    }
    for (const name of view.tail ? ["p90", "p99"] : []) {
      const line = shape("path", { d: "M0,6H24", class: `${name} ${role}` });
      if (has(name)) items.push(item(`${name.slice(1)}th percentile of the samples of all launches${cut(name)}`, line));
    }
    if (graph.changes.length) {
      const line = shape("path", { d: "M12,0V12", class: "change down" });
      items.push(item("change, in the commits it may lie in", shape("path", { d: "M6,0H18V12H6Z", class: "range" }), line));
    }
    if (gaps.size) items.push(item("build failed", shape("path", { d: "M8,2l8,8m0,-8l-8,8", class: "gap" })));
    if (graph.failed.some((i) => !gaps.has(i))) {
      items.push(item("not measured", shape("circle", { cx: 12, cy: 6, r: 3.5, class: "failed" })));
    }
    return element("ul", { class: "legend", "aria-label": "Legend" }, ...items);
  }

  function table(made, commits, caption) {
    const unit = made.unit ? ` (${made.unit})` : "";
    const head = element("tr", {}, ...["commit", "date (UTC)", `values${unit}`].map((text) => element("th", { scope: "col" }, text)));
    const rows = made.stops.map((i) => element("tr", {},
      element("th", { scope: "row", class: "id" }, element("a", { href: commits[i].page }, commits[i].hash.slice(0, 10))),
      element("td", {}, `${commits[i].date} ${commits[i].time}`),
      element("td", {}, describe(made, i))));
    const made_ = element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...rows));
    return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, made_);
  }

  /** A figure for `graph` (its entry in the list) that draws itself when its numbers are there. */
  flashbench.figure = (entry, view, content) => {
    const { commits } = content;
    const heading = element("figcaption", {}, entry.title);
    const svg = shape("svg", { tabindex: "0", role: "img" });
    const plot = element("div", { class: "plot" }, svg);
    const readout = element("p", { class: "readout", "aria-live": "polite" }, "loading …");
    const details = element("details", {}, element("summary", {}, "The same as a table"));
    const figure = element("figure", { "data-graph": entry.id }, heading, plot, readout, details);
    const gaps = content.gapsOf(entry.machine);
    const measured = content.measured.find((one) => one.machine === entry.machine)?.commits ?? [];
    let graph = null;
    let made = null;
    let current = null;

    function show(i) {
      current = i;
      made.point(i);
      const commit = commits[i];
      const link = element("a", { href: commit.page }, commit.hash.slice(0, 10));
      readout.replaceChildren(link, ` ${commit.date} ${commit.time} ${commit.subject}: ${describe(made, i)}`);
    }

    function draw() {
      if (!graph || !plot.clientWidth) return;
      made = flashbench.draw(svg, graph, view, commits, gaps, measured);
      const many = made.lines.reduce((sum, line) => sum + line.points.length, 0);
      svg.setAttribute("aria-label", `${entry.title}: graph of ${many} points from ` +
        `${commits[view.from].date} to ${commits[view.to].date}. Arrow keys walk along the commits, ` +
        "Enter opens one.");
      figure.querySelector(".legend")?.remove();
      plot.after(legend(made, graph, view, gaps));
      if (current !== null && made.stops.includes(current)) show(current);
    }

    svg.addEventListener("keydown", (event) => {
      if (!made?.stops.length || event.ctrlKey || event.metaKey || event.altKey) return;
      const last = made.stops.length - 1;
      const at = made.stops.indexOf(current);
      const to = {
        ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at + 1, PageUp: at - PAGE, PageDown: at + PAGE,
        Home: 0, End: last,
      }[event.key];
      if (event.key === "Enter" && at >= 0) window.location.href = commits[current].page;
      if (to === undefined) return;
      event.preventDefault();
      show(made.stops[Math.min(last, Math.max(0, to))]);
    });
    svg.addEventListener("pointermove", (event) => {
      if (made?.stops.length) show(made.nearest(event.clientX));
    });
    svg.addEventListener("click", (event) => {
      if (made?.stops.length) show(made.nearest(event.clientX));
    });
    details.addEventListener("toggle", () => {
      if (details.open && made && details.children.length === 1) {
        details.append(table(made, commits, entry.title));
      }
    });
    flashbench.load(entry.id).then((loaded) => {
      graph = loaded;
      readout.replaceChildren("Point at the graph, or walk along it with the arrow keys.");
      draw();
      figure.dataset.drawn = "yes";
    }, (error) => readout.replaceChildren(error.message));
    return { figure, draw };
  };
}
