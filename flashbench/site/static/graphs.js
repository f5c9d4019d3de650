// The page of graphs: filters, whose state is in the address, and the graphs that pass them.
"use strict";

{
  const { element } = flashbench;
  const content = flashbench.content;
  const AT_ONCE = 8; // graphs shown, and added by "Show more"
  const FIELDS = ["machine", "candidate", "dtype", "causal", "device", "metric"];
  const form = document.getElementById("filters");
  const list = document.getElementById("graphs");
  const count = document.getElementById("count");
  const more = document.getElementById("more");
  let shown = [];
  let passing = [];
  let limit = AT_ONCE;

  content.gapsOf = (machine) => {
    const found = new Map();
    for (const gap of content.gaps) {
      if (gap.machine === "" || gap.machine === machine) found.set(gap.commit, `${gap.status}${gap.reason && ": "}${gap.reason}`);
    }
    return found;
  };

  for (const field of FIELDS) {
    const values = [...new Set(content.graphs.map((graph) => graph[field]))].filter(Boolean).sort();
    const select = form.elements[field];
    select.append(...values.map((value) => element("option", { value }, value)));
    select.closest("div").hidden = values.length < 2;
  }

  document.getElementById("tail").hidden = !content.graphs.some((graph) => graph.tail);

  // Where most commits were not measured, lines would be long and flat.
  const tried = new Set([...content.gaps.map((gap) => gap.commit), ...content.measured.flatMap((one) => one.commits)]);
  const axis = form.elements.axis;
  axis.dataset.initial = 2 * tried.size < content.commits.length ? "tried" : "all";
  for (const option of axis.options) option.defaultSelected = option.value === axis.dataset.initial;

  /** The commit that a text means: a date, or the start of a hash. -1: none. */
  function commitAt(text, wanted) {
    const { commits } = content;
    if (!text) return wanted === "from" ? 0 : commits.length - 1;
    if (/^\d{4}-\d\d-\d\d$/.test(text)) {
      if (wanted === "from") return commits.findIndex((commit) => commit.date >= text);
      return commits.findLastIndex((commit) => commit.date <= text);
    }
    return text.length < 4 ? -1 : commits.findIndex((commit) => commit.hash.startsWith(text.toLowerCase()));
  }

  function range() {
    const ends = {};
    for (const end of ["from", "to"]) {
      const input = form.elements[end];
      ends[end] = commitAt(input.value.trim(), end);
      input.setAttribute("aria-invalid", String(ends[end] < 0));
    }
    if (ends.from < 0) ends.from = 0;
    if (ends.to < 0) ends.to = content.commits.length - 1;
    return ends.from <= ends.to ? ends : { from: ends.to, to: ends.from };
  }

  function passes(graph) {
    const words = form.elements.case.value.toLowerCase().split(/\s+/);
    const name = graph.title.toLowerCase();
    return words.every((word) => name.includes(word))
      && FIELDS.every((field) => ["", graph[field]].includes(form.elements[field].value))
      && (!form.elements.changed.checked || graph.changes > 0)
      && (!form.elements.graph.value || graph.id === form.elements.graph.value);
  }

  function view() {
    const { show, axis, quartiles, tail } = form.elements;
    return { show: show.value, axis: axis.value, quartiles: quartiles.checked, tail: tail.checked, ...range() };
  }

  function render() {
    const now = view();
    const wanted = passing.slice(0, limit);
    list.replaceChildren();
    shown = wanted.map((entry) => flashbench.figure(entry, now, content));
    list.append(...shown.map((one) => one.figure));
    for (const one of shown) one.draw();
    more.hidden = wanted.length === passing.length;
    count.textContent = `${passing.length} of ${content.graphs.length} graphs pass the filters` +
      `${more.hidden ? "" : `; the first ${wanted.length} are shown`}.`;
  }

  function apply() {
    limit = AT_ONCE;
    passing = content.graphs.filter(passes);
    render();
  }

  function write() {
    const state = new URLSearchParams();
    for (const input of form.elements) {
      if (!input.name) continue;
      const value = input.type === "checkbox" ? (input.checked ? "1" : "") : input.value;
      const initial = input.type === "checkbox" ? (input.defaultChecked ? "1" : "") : input.dataset.initial ?? "";
      if (value !== initial) state.set(input.name, value);
    }
    // Replaced, not added: the back button leaves the page. A file's address may be changed so, too.
    window.history.replaceState(null, "", `#${state}`);
  }

  function read() {
    const state = new URLSearchParams(window.location.hash.slice(1));
    for (const input of form.elements) {
      if (!input.name) continue;
      const value = state.get(input.name);
      if (input.type === "checkbox") input.checked = value === null ? input.defaultChecked : value === "1";
      else input.value = value ?? input.dataset.initial ?? "";
      // A value that is no option here, of an old address: no filter.
      if (input.tagName === "SELECT" && input.selectedIndex < 0) input.value = input.dataset.initial ?? "";
    }
  }

  let typing = 0;
  form.addEventListener("input", () => {
    window.clearTimeout(typing);
    typing = window.setTimeout(() => { write(); apply(); }, 120);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => window.setTimeout(() => {
    form.elements.graph.value = "";
    write();
    apply();
  }));
  more.addEventListener("click", () => {
    const first = limit;
    limit += AT_ONCE;
    render();
    list.children[first]?.querySelector("svg").focus();
  });
  window.addEventListener("hashchange", () => { read(); apply(); });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // the height alone, as of a phone's address bar
    width = window.innerWidth;
    for (const one of shown) one.draw();
  });
  read();
  apply();
}
