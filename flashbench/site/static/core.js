// The data files call `flashbench.site` and `flashbench.graph`; what they bring is kept here.
// Untrusted text becomes text nodes and attributes only, never markup.
"use strict";

const flashbench = { content: null };

{
  const graphs = new Map(); // id -> the graph, or what waits for it

  flashbench.site = (content) => { flashbench.content = content; };

  flashbench.graph = (graph) => { graphs.get(graph.id)?.resolve(graph); };

  /** The numbers of a graph; its file is loaded once, on first use. */
  flashbench.load = (id) => {
    if (!graphs.has(id)) {
      const waiting = {};
      waiting.promise = new Promise((resolve, reject) => {
        waiting.resolve = resolve;
        const script = document.createElement("script");
        script.src = `data/graphs/${encodeURIComponent(id)}.js`;
        script.onerror = () => reject(new Error(`${script.src} cannot be read; publish again`));
        document.head.append(script);
      });
      graphs.set(id, waiting);
    }
    return graphs.get(id).promise;
  };

  /** An HTML element with attributes and children (nodes or texts). */
  flashbench.element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  /** The same in SVG. */
  flashbench.shape = (name, attributes = {}, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  /** How to show numbers of about this size in a unit: [factor, unit]. */
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

  /** The address of a commit's page. */
  flashbench.commitPage = (commit) => commit.page;
}
