// Graphs placed on a page by <div data-graph="ID">. They share one view, stored in the URL.
"use strict";

{
  const { content, view: views } = flashbench;
  const entries = new Map([...content.graphs, ...content.means].map((entry) => [entry.id, entry]));
  const TEXTS = ["from", "to", "pin"];
  let view = views.initial;

  function read() {
    const state = new URLSearchParams(window.location.hash.slice(1));
    view = { ...views.initial, ...views.range(Object.fromEntries(state)) };
  }

  function change(some) {
    view = { ...view, ...some };
    const state = new URLSearchParams();
    for (const name of TEXTS) {
      if (view[name] !== views.initial[name]) state.set(name, views.named(view[name]));
    }
    window.history.replaceState(null, "", `#${state}`);
    draw();
  }

  const tools = flashbench.tools(document.querySelector(".charts"), change);
  const figures = [...document.querySelectorAll(".placed")].map((place) => {
    const made = flashbench.figure(entries.get(place.dataset.graph), { change, tools, plain: place.dataset.plain === "yes" });
    place.append(made.figure);
    return made;
  });

  function draw() {
    tools.draw(view);
    for (const one of figures) one.draw(view);
  }

  window.addEventListener("hashchange", () => { read(); draw(); });
  flashbench.onWidth(draw);
  read();
  draw();
}
