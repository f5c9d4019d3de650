// A graph with everything around it: title, legend, values at the cursor, and a table.
"use strict";

{
  const { element, shape, digits, address } = flashbench;
  const PAGE = 10; // commits per PageUp and PageDown
  const DRAGGED = 8; // pixels: less is a click
  const KEYS = "Arrow keys walk along the commits, Enter opens one, c compares with one, + and - zoom, 0 shows all.";

  const number = (value, made) => digits(value * made.factor);
  const has = (point, ...columns) => columns.every((column) => Number.isFinite(point[column] ?? NaN));

  /** The speed at a point as a multiple of that at another, with the ends of both intervals. */
  function against(point, other, line, hash) {
    const isTime = line.unit === "seconds";
    const faster = (a, b) => (isTime ? b / a : a / b);
    let text = `, ${digits(faster(point.v, other.v))} times that of ${hash}`;
    if (has(point, "lo", "hi") && has(other, "lo", "hi")) {
      const ends = [faster(point.lo, other.hi), faster(point.hi, other.lo)].sort((a, b) => a - b);
      text += ` [${ends.map(digits).join(", ")}]`;
    }
    return text;
  }

  function describe(made, i, pin, commits) {
    const parts = [];
    for (const line of made.lines) {
      const point = line.points.find((p) => p.x === i);
      if (!point) continue;
      const name = line.role.endsWith("speedup") ? "speed-up" : line.name;
      let text = `${name}${line.where ? ` on ${line.where}` : ""} ${number(point.v, made)} ${made.unit}`;
      if (has(point, "lo", "hi")) text += ` [${number(point.lo, made)}, ${number(point.hi, made)}]`;
      if (has(point, "q25", "q75")) {
        text += `, 25th and 75th percentile ${number(point.q25, made)} and ${number(point.q75, made)}`;
      }
      for (const tail of ["p90", "p99"]) {
        if (has(point, tail)) text += `, ${tail} ${number(point[tail], made)}`;
      }
      const other = pin === i ? undefined : line.points.find((p) => p.x === pin);
      if (other) text += against(point, other, line, commits[pin].hash.slice(0, 10));
      parts.push(text);
    }
    parts.push(...made.steps.filter(({ at }) => at === i).map(({ text }) => text));
    if (made.notes.has(i)) parts.push(made.notes.get(i));
    return parts.join("; ");
  }

  function legend(made, graph, view, gaps) {
    const swatch = (...shapes) => shape("svg", { viewBox: "0 0 24 12", "aria-hidden": "true" }, ...shapes);
    const item = (text, ...shapes) => element("li", {}, swatch(...shapes), text);
    const items = [];
    for (const { role, name, where } of made.lines) {
      const stroke = shape("path", { d: "M0,6H24", class: `value ${role}` });
      const text = role.endsWith("speedup") ? `speed-up of ${name} over ${flashbench.content.baseline}` : name;
      items.push(item(`${text}${where ? ` on ${where}` : ""}`, stroke));
    }
    const { role } = made.lines[0];
    const known = (column) => made.lines.some((line) => line[column]);
    const outside = (value) => Number.isFinite(value) && (value < made.low || value > made.high);
    /** The note if some of these columns are outside the picture. */
    const cut = (...columns) => made.lines.some((line) => line.points.some((point) => columns.some((one) => outside(point[one]))))
      ? ", cut at the thick dashes" : "";
    const area = () => shape("path", { d: "M0,1H24V11H0Z", class: `band ${role}` });
    if (made.spread[0] === "q25") {
      items.push(item(`25th to 75th percentile of the launches; ${known("lo") ? `the ${graph.interval} is wider than the picture` : `too few of them for the ${graph.interval}`}${cut("q25", "q75")}`, area()));
    } else if (known("lo")) {
      items.push(item(`${graph.interval}${cut("lo", "hi")}`, area()));
    }
    if (view.quartiles && known("q25") && made.spread[0] !== "q25") {
      const dotted = shape("path", { d: "M0,3H24M0,9H24", class: `quartile ${role}` });
      items.push(item(`25th and 75th percentile of the launches${cut("q25", "q75")}`, dotted));
    }
    for (const name of view.tail ? ["p90", "p99"] : []) {
      const line = shape("path", { d: "M0,6H24", class: `${name} ${role}` });
      if (known(name)) items.push(item(`${name.slice(1)}th percentile of the samples of all launches${cut(name)}`, line));
    }
    if (made.lines.some((line) => line.points.some((point) => outside(point.v)))) {
      items.push(item("a value outside of the picture", shape("path", { d: "M7,11h10l-5,-9Z", class: "beyond" })));
    }
    const step = (way) => shape("path", { d: "M12,0V12", class: `change ${way}` });
    if (graph.changes.length) {
      const doubt = graph.changes.some((one) => one.provisional) ? "; with ? provisional, until more commits confirm it" : "";
      items.push(item(`change, in the commits it may lie in${doubt}`, shape("path", { d: "M6,0H18V12H6Z", class: "range" }), step("provisional")));
    }
    if (graph.jumps.length) items.push(item("(jump) with too few commits on one side to be judged", step("jump")));
    if (view.pin >= 0) items.push(item("commit to compare with", shape("path", { d: "M12,0V12", class: "pin" })));
    if (gaps.size) items.push(item("build failed", shape("path", { d: "M8,2l8,8m0,-8l-8,8", class: "gap" })));
    if (graph.failed.some((i) => !gaps.has(i))) {
      items.push(item("not measured", shape("circle", { cx: 12, cy: 6, r: 3.5, class: "failed" })));
    }
    return element("ul", { class: "legend", "aria-label": "Legend" }, ...items);
  }

  function table(made, view, commits, caption) {
    const unit = made.unit ? ` (${made.unit})` : "";
    const head = element("tr", {}, ...["commit", "date (UTC)", `values${unit}`].map((text) => element("th", { scope: "col" }, text)));
    const rows = made.stops.map((i) => element("tr", {},
      element("th", { scope: "row", class: "id" }, element("a", { href: address(commits[i].page) }, commits[i].hash.slice(0, 10))),
      element("td", {}, `${commits[i].date} ${commits[i].time}`),
      element("td", {}, describe(made, i, view.pin, commits))));
    const whole = element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...rows));
    return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, whole);
  }

  /**
   * A figure for `entry` of the list of graphs: {figure, draw(view)}. options: change(view) is called
   * with requested changes of the view; tools: of all graphs; words: name the case in words; plain:
   * no title; level: of its heading.
   */
  flashbench.figure = (entry, { change, tools, words = false, plain = false, level = 3 }) => {
    const { content } = flashbench;
    const { commits } = content;
    const title = entry.page ? element("a", { href: address(entry.page) }, entry.title) : entry.title;
    if (title.pathname === window.location.pathname) title.removeAttribute("href"); // on the case's own page
    const heading = element("figcaption", plain ? { class: "hidden" } : {}, plain ? title : element(`h${level}`, {}, title));
    const svg = shape("svg", { tabindex: "0", role: "img" });
    const plot = element("div", { class: "plot" }, svg);
    const readout = element("p", { class: "readout" }, "loading …");
    const details = element("details", {}, element("summary", {}, "The same as a table"));
    const figure = element("figure", { "data-graph": entry.id, "aria-label": entry.title }, heading, plot, readout, details);
    if (words && entry.words) heading.after(element("p", { class: "soft" }, entry.words));
    const gaps = flashbench.view.gapsOf(entry.machine);
    const measured = content.measured.find((one) => one.machine === entry.machine)?.commits ?? [];
    let view = null;
    let graph = null;
    let made = null;
    let current = null;

    function tell(i) {
      const commit = commits[i];
      const link = element("a", { href: address(commit.page) }, commit.hash.slice(0, 10));
      readout.replaceChildren(link, ` ${commit.date} ${commit.time} ${commit.subject}: ${describe(made, i, view.pin, commits)}`);
    }

    function show(i) {
      current = i;
      made.point(i);
      tell(i);
      tools.point(i);
    }

    /** The graph with the lines of the same series on the machine to compare with. */
    async function together() {
      const own = await flashbench.graph(entry.id);
      const wanted = content.graphs.find((one) => one.name === entry.name && one.machine === view.beside && one.id !== entry.id);
      if (!wanted) return own;
      const other = await flashbench.graph(wanted.id);
      const added = other.lines.filter((line) => line.role !== "control");
      return { ...own, lines: [...own.lines, ...added.map((line) => ({ ...line, role: `other ${line.role}`, where: wanted.machine }))] };
    }

    function drawn() {
      if (!plot.clientWidth) return;
      made = flashbench.draw(svg, graph, view, commits, gaps, measured);
      const many = made.lines.reduce((sum, line) => sum + line.points.length, 0);
      svg.setAttribute("aria-label", `${entry.title}: graph of ${many} points from ` +
        `${commits[view.from].date} to ${commits[view.to].date}. ${KEYS}`);
      figure.querySelector(".legend")?.remove();
      plot.after(legend(made, graph, view, gaps));
      if (details.open) details.lastElementChild.replaceWith(table(made, view, commits, entry.title));
      const isPointed = made.stops.includes(current);
      if (isPointed) made.point(current);
      if (made.stops.length) tell(isPointed ? current : made.stops.at(-1));
      else readout.replaceChildren("No commit of this range was tried.");
      figure.dataset.drawn = "yes";
    }

    async function draw(now) {
      view = now;
      try {
        const loaded = await together();
        if (view !== now) return; // redrawn meanwhile
        graph = loaded;
        drawn();
      } catch (error) {
        readout.replaceChildren(error.message);
      }
    }

    svg.addEventListener("keydown", (event) => {
      if (!made?.stops.length || event.ctrlKey || event.metaKey || event.altKey) return;
      const last = made.stops.length - 1;
      const at = made.stops.indexOf(current);
      const to = {
        ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at + 1, PageUp: at - PAGE, PageDown: at + PAGE,
        Home: 0, End: last,
      }[event.key];
      if (event.key === "Enter" && at >= 0) window.location.href = address(commits[current].page);
      if (to === undefined && !tools.act(event.key)) return;
      event.preventDefault();
      if (to !== undefined) show(made.stops[Math.min(last, Math.max(0, to))]);
    });
    // Not from the start: a page of graphs would read out all their newest commits.
    svg.addEventListener("focus", () => readout.setAttribute("aria-live", "polite"), { once: true });
    let start = null; // where a drag began
    svg.addEventListener("pointerdown", (event) => {
      if (made?.stops.length && event.pointerType === "mouse" && event.button === 0) {
        start = { x: event.clientX, commit: made.nearest(event.clientX) };
        svg.setPointerCapture(event.pointerId);
      }
    });
    svg.addEventListener("pointermove", (event) => {
      if (!made?.stops.length) return;
      const at = made.nearest(event.clientX);
      if (start && Math.abs(event.clientX - start.x) >= DRAGGED) made.select(start.commit, at);
      show(at);
    });
    svg.addEventListener("pointerup", (event) => {
      const from = start;
      start = null;
      if (!from || Math.abs(event.clientX - from.x) < DRAGGED) return;
      const to = made.nearest(event.clientX);
      made.select(to, to);
      if (to !== from.commit) change({ from: Math.min(from.commit, to), to: Math.max(from.commit, to) });
    });
    svg.addEventListener("click", (event) => {
      if (made?.stops.length) show(made.nearest(event.clientX));
    });
    details.addEventListener("toggle", () => {
      if (details.open && made && details.children.length === 1) {
        details.append(table(made, view, commits, entry.title));
      }
    });
    return { figure, draw };
  };
}
