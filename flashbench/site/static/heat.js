// Every case at every commit in one picture, with the numbers at the cursor. The slower, the darker:
// in grey too; orange to blue: for the colour-blind too.
"use strict";

{
  const { element, digits, address, content } = flashbench;
  const ROW = 24; // pixels per row with a name: no smaller, because names are links
  const NAMED = 60; // rows; with more there is no room for names
  const SHADES = 64; // of each colour
  const TALL = 900; // about the pixels of all rows without names
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const place = document.getElementById("heat");
  const chosen = document.getElementById("heat-of");

  /** The speed-ups of a row, null if missing. */
  function numbers(text, { levels, widest }) {
    return Array.from({ length: text.length / 2 }, (_, i) => {
      const level = 64 * DIGITS.indexOf(text[2 * i]) + DIGITS.indexOf(text[2 * i + 1]);
      return level ? widest ** ((2 * (level - 1)) / levels - 1) : null;
    });
  }

  const mix = (one, other, part) => `rgb(${one.map((from, i) => Math.round(from + (other[i] - from) * part)).join(" ")})`;

  const rgb = (name) => {
    const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  };

  /** The factor with full colour: the 90th percentile of the cells. */
  function strongest(rows) {
    const sizes = rows.flat().filter((one) => one !== null).map((one) => Math.abs(Math.log(one))).sort((a, b) => a - b);
    const most = Math.exp(sizes[Math.floor(0.9 * sizes.length)] ?? 0);
    return [1.05, 1.1, 1.2, 1.5, 2, 3, 5].find((one) => one >= most) ?? 10;
  }

  function show(heat) {
    const speed = heat.cells.map((text) => numbers(text, heat));
    const named = heat.rows.length <= NAMED;
    const height = named ? ROW : Math.max(2, Math.round(TALL / heat.rows.length));
    const canvas = element("canvas", { tabindex: "0", role: "img" });
    const names = element("ol", { class: "names" });
    if (named) names.append(...heat.rows.map((row) => element("li", {}, element("a", { href: address(row.page) }, row.name))));
    const readout = element("p", { class: "readout", "aria-live": "polite" }, "Point at a cell, or walk with the arrow keys; Enter opens the case.");
    const compare = element("button", { type: "button" }, "Compare with this commit");
    const oldest = element("button", { type: "button" }, "Compare with the oldest");
    const key = element("p", { class: "key" });
    const cells = document.createElement("canvas"); // without the cursor
    const days = heat.columns.length ? [heat.columns[0][0], heat.columns.at(-1)[1]].map((i) => content.commits[i].date) : [];
    const axis = element("p", { class: "days soft" }, ...days.map((day) => element("span", {}, day)));
    const map = element("div", { class: named ? "heat" : "heat dense" }, names, element("div", {}, canvas, axis));
    place.replaceChildren(key, element("p", { class: "tools" }, oldest, compare), map, readout);
    let [row, column] = [0, heat.columns.length - 1];
    let pinned = -1; // the column to compare with

    const first = heat.columns.findIndex((_, c) => speed.some((some) => some[c] !== null)); // with numbers
    const hashOf = (c) => content.commits[heat.columns[c][1]].hash.slice(0, 10);
    let edges = []; // of the columns, in pixels
    const shown = (r, c) => {
      const value = speed[r][c];
      if (value === null || pinned < 0) return value;
      return speed[r][pinned] === null ? null : value / speed[r][pinned];
    };

    /** Draw the cells once, for all positions of the cursor. */
    function draw() {
      const width = Math.max(1, canvas.parentElement.clientWidth);
      const dots = Math.min(2, window.devicePixelRatio);
      for (const one of [canvas, cells]) {
        one.width = width * dots;
        one.height = height * heat.rows.length * dots;
      }
      canvas.style.height = `${height * heat.rows.length}px`;
      edges = Array.from({ length: heat.columns.length + 1 }, (_, c) => Math.round((c * width) / heat.columns.length));
      const pen = cells.getContext("2d");
      pen.scale(dots, dots);
      const [slow, none, fast, gap] = ["--slow", "--same", "--fast", "--gap"].map(rgb);
      const shades = Array.from({ length: 2 * SHADES + 1 }, (_, i) => mix(none, i > SHADES ? fast : slow, Math.abs(i / SHADES - 1)));
      const most = strongest(speed.map((some, r) => some.map((_, c) => shown(r, c))));
      const [wide, space] = [width / heat.columns.length, width / heat.columns.length > 6 && named ? 1 : 0];
      speed.forEach((some, r) => some.forEach((_, c) => {
        const value = shown(r, c);
        if (value === null) return;
        const part = Math.max(-1, Math.min(1, Math.log(value) / Math.log(most)));
        pen.fillStyle = shades[Math.round((part + 1) * SHADES)];
        pen.fillRect(edges[c], r * height, edges[c + 1] - edges[c] - space, height - space);
      }));
      pen.fillStyle = mix(gap, gap, 0);
      for (const c of heat.broken) {
        if (speed.every((some) => some[c] === null)) pen.fillRect(edges[c] + Math.floor(wide / 2) - 1, 0, 2, canvas.height);
      }
      const scale = [1 / most, 1, most].map((one) => Number(one.toPrecision(2)));
      key.replaceChildren(pinned < 0 ? `Speed-up over ${content.baseline}: ` : `Speed over that at ${hashOf(pinned)}: `,
        ...["slow", "same", "fast"].map((one, i) => element("span", { class: `swatch ${one}` }, `${scale[i]}×`)),
        " (log scale, darker is slower); blank: not measured; a thin line: no results.");
      canvas.setAttribute("aria-label", `Heat map of ${heat.rows.length} cases at ${heat.columns.length} commits or stretches of them, the slowest case first. Arrow keys walk over the cells, Enter opens the case, c compares with the commit.`);
      paint();
      place.dataset.drawn = heat.id;
    }

    function paint() {
      const pen = canvas.getContext("2d");
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(cells, 0, 0);
      if (!canvas.matches(":focus, :hover")) return;
      pen.scale(canvas.width / canvas.clientWidth, canvas.width / canvas.clientWidth);
      const ink = rgb("--ink");
      pen.strokeStyle = mix(ink, ink, 0);
      pen.lineWidth = 2;
      pen.strokeRect(edges[column], row * height, Math.max(3, edges[column + 1] - edges[column]), Math.max(3, height));
    }

    function tell() {
      const [from, last] = heat.columns[column];
      const commit = content.commits[last];
      const value = speed[row][column];
      const link = element("a", { href: address(heat.rows[row].page) }, heat.rows[row].name);
      const at = element("a", { href: address(commit.page) }, commit.hash.slice(0, 10));
      const ratio = shown(row, column);
      readout.replaceChildren(link, `: ${value === null ? "not measured" : `${digits(value)}× ${content.baseline}`}`,
        pinned < 0 || ratio === null ? "" : `, ${digits(ratio)} times that at ${hashOf(pinned)}`,
        " at ", at, ` ${commit.date} ${commit.subject}${from === last ? "" : `, the newest of ${last - from + 1} commits`}`);
    }

    function move(r, c) {
      row = Math.min(heat.rows.length - 1, Math.max(0, r));
      column = Math.min(heat.columns.length - 1, Math.max(0, c));
      paint();
      tell();
    }

    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      move(Math.floor((event.clientY - box.top) / height), Math.floor(((event.clientX - box.left) / box.width) * heat.columns.length));
    });
    function pin(at) {
      pinned = pinned === at ? -1 : at;
      draw();
      tell();
    }

    compare.addEventListener("click", () => pin(column));
    oldest.addEventListener("click", () => pin(first));
    canvas.addEventListener("click", tell);
    canvas.addEventListener("blur", paint);
    canvas.addEventListener("focus", () => move(row, column));
    canvas.addEventListener("pointerleave", paint);
    canvas.addEventListener("keydown", (event) => {
      const to = {
        ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column],
        ArrowDown: [row + 1, column], Home: [row, 0], End: [row, Infinity], PageUp: [row - 10, column],
        PageDown: [row + 10, column],
      }[event.key];
      if (event.key === "c") compare.click();
      if (event.key === "Enter") window.location.href = address(heat.rows[row].page);
      if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(...to);
    });
    draw();
    return draw;
  }

  let draw = () => {};
  function load() {
    const wanted = chosen.value;
    flashbench.load("heat", wanted).then(
      (heat) => { if (chosen.value === wanted) draw = show(heat); },
      (error) => place.replaceChildren(error.message),
    );
  }

  if (chosen?.options.length) {
    chosen.addEventListener("change", load);
    flashbench.onWidth(() => draw());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
    requestAnimationFrame(() => setTimeout(load)); // after the first graph is on the screen
  } else {
    for (const id of ["heat-title", "heat-choice"]) document.getElementById(id)?.remove();
  }
}
