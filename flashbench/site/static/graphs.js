// The page of graphs: filters, with their state in the URL, and the matching graphs.
"use strict";

{
  const { element } = flashbench;
  const { content, view: views } = flashbench;
  const AT_ONCE = 8; // graphs shown, and added by "Show more"
  const FIELDS = ["machine", "candidate", "dtype", "causal", "device", "metric"];
  const form = document.getElementById("filters");
  const list = document.getElementById("graphs");
  const count = document.getElementById("count");
  const more = document.getElementById("more");
  let shown = [];
  let passing = [];
  let limit = AT_ONCE;

  for (const field of FIELDS) {
    const values = [...new Set(content.graphs.map((graph) => graph[field]))].filter(Boolean).sort();
    const select = form.elements[field];
    select.append(...values.map((value) => element("option", { value }, value)));
    select.closest("div").hidden = values.length < 2;
  }

  const { beside } = form.elements;
  beside.append(...content.measured.map(({ machine }) => element("option", { value: machine }, machine)));
  beside.closest("div").hidden = content.measured.length < 2;

  document.getElementById("tail").hidden = !content.graphs.some((graph) => graph.tail);

  const axis = form.elements.axis;
  axis.dataset.initial = views.initial.axis;
  for (const option of axis.options) option.defaultSelected = option.value === axis.dataset.initial;

  function range() {
    const texts = {};
    for (const end of ["from", "to", "pin"]) {
      const input = form.elements[end];
      texts[end] = input.value.trim();
      input.setAttribute("aria-invalid", String(texts[end] !== "" && views.commitAt(texts[end], end) < 0));
    }
    return views.range(texts);
  }

  function passes(graph) {
    const words = form.elements.case.value.toLowerCase().split(/\s+/);
    const name = `${graph.title} ${graph.case} ${graph.words}`.toLowerCase();
    return words.every((word) => name.includes(word))
      && FIELDS.every((field) => ["", graph[field]].includes(form.elements[field].value))
      && (!form.elements.changed.checked || graph.changes > 0)
      && (!form.elements.graph.value || graph.id === form.elements.graph.value);
  }

  function view() {
    const { show, axis, quartiles, tail } = form.elements;
    return { show: show.value, axis: axis.value, beside: beside.value, quartiles: quartiles.checked, tail: tail.checked, ...range() };
  }

  function drawAll() {
    const now = view();
    tools.draw(now);
    for (const one of shown) one.draw(now);
  }

  function render() {
    const wanted = passing.slice(0, limit);
    list.replaceChildren();
    const named = new Set(); // cases already named in words
    shown = wanted.map((entry) => {
      const words = !named.has(entry.case);
      named.add(entry.case);
      return flashbench.figure(entry, { change, tools, words, level: 2 });
    });
    list.append(...shown.map((one) => one.figure));
    drawAll();
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
    // Replaces the history entry, so the back button leaves the page; works from disk too.
    window.history.replaceState(null, "", `#${state}`);
  }

  function read() {
    const state = new URLSearchParams(window.location.hash.slice(1));
    for (const input of form.elements) {
      if (!input.name) continue;
      const value = state.get(input.name);
      if (input.type === "checkbox") input.checked = value === null ? input.defaultChecked : value === "1";
      else input.value = value ?? input.dataset.initial ?? "";
      // Ignore a value that is not an option, from an old URL.
      if (input.tagName === "SELECT" && input.selectedIndex < 0) input.value = input.dataset.initial ?? "";
    }
  }

  /** A graph's request: other commits, or one to compare with. Keeps the graphs. */
  function change(some) {
    for (const [name, commit] of Object.entries(some)) {
      form.elements[name].value = commit === views.initial[name] ? "" : views.named(commit);
    }
    write();
    drawAll();
  }

  const tools = flashbench.tools(list.parentElement, change);
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
  flashbench.onWidth(drawAll);
  read();
  // On a phone the graphs come first, unless the address says something of these fields.
  const folded = document.querySelector("details.more");
  const isSet = ({ name, type }) => name && type !== "checkbox" && new URLSearchParams(window.location.hash.slice(1)).has(name);
  folded.open = window.innerWidth > 640 || [...folded.querySelectorAll("input, select")].some(isSet);
  apply();
}
