// Stores the data of data files, which call `flashbench.site`, `graphs`, `earlier` and `heat`.
// Untrusted text becomes text nodes and attributes only, never markup.
"use strict";

const flashbench = { content: null };

{
  const root = document.documentElement.dataset.root;
  const files = new Map(); // folder/id -> a file's content, or the callbacks waiting for it
  const arrived = (folder) => (data) => { files.get(`${folder}/${data.id}`)?.resolve(data); };

  flashbench.site = (content) => { flashbench.content = content; };

  for (const folder of ["graphs", "earlier", "heat"]) flashbench[folder] = arrived(folder);

  /** The content of a data file in a folder, loaded once on first use. */
  flashbench.load = (folder, id) => {
    const name = `${folder}/${id}`;
    if (!files.has(name)) {
      const waiting = {};
      waiting.promise = new Promise((resolve, reject) => {
        waiting.resolve = resolve;
        const script = document.createElement("script");
        script.src = `${root}data/${folder}/${encodeURIComponent(id)}.js`;
        script.onerror = () => reject(new Error(`${script.src} cannot be read; publish again`));
        document.head.append(script);
      });
      files.set(name, waiting);
    }
    return files.get(name).promise;
  };

  /** A line's numbers; null for those that it lacks. */
  const numbers = (line, key) => (line[key] ?? line.x.map(() => null)).map((n) => (n === null ? null : n * line.scale));

  /** A line of earlier and of newer commits. */
  function joined(earlier, newest) {
    const made = { ...newest, x: [...earlier.x, ...newest.x], scale: 1 };
    for (const key of ["v", "lo", "hi", "q25", "q75", "p90", "p99"]) {
      if (key in earlier || key in newest) made[key] = [...numbers(earlier, key), ...numbers(newest, key)];
    }
    return made;
  }

  /** A graph with all its commits; those before the newest few are in a file that seldom changes. */
  flashbench.graph = async (id) => {
    const newest = await flashbench.load("graphs", id);
    if (!newest.continues) return newest;
    const earlier = await flashbench.load("earlier", id);
    return { ...newest, lines: newest.lines.map((line, i) => joined(earlier.lines[i], line)) };
  };

  /** A path in the site, relative to this page. */
  flashbench.address = (page) => root + page;

  /** An HTML element with attributes and children (nodes or texts). */
  flashbench.element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  /** An SVG element, likewise. */
  flashbench.shape = (name, attributes = {}, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  /** Scaling for numbers of about this size in a unit: [factor, unit]. */
  flashbench.scaled = (unit, typical) => {
    if (unit !== "seconds") return [1, unit];
    for (const [factor, name] of [[1, "s"], [1e3, "ms"], [1e6, "µs"]]) {
      if (typical * factor >= 1) return [factor, name];
    }
    return [1e9, "ns"];
  };

  /** Four digits, as in all tables. */
  flashbench.digits = (number) => {
    if (number === null || !Number.isFinite(number)) return "?";
    const size = Math.abs(number);
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) return number.toExponential(3);
    return size >= 1000 ? number.toFixed(0) : number.toPrecision(4);
  };

  /** Call when the window's width changes; a phone's address bar changes its height alone. */
  flashbench.onWidth = (call) => {
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      call();
    });
  };
}
