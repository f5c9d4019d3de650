// What zooms and compares all graphs of a page: one row of buttons, and the keys of each graph.
"use strict";

{
  const { element } = flashbench;
  const { zoomed, last } = flashbench.view;

  /**
   * The tools of the graphs in a place, at its top: {act(key), point(commit), draw(view)}. act:
   * whether it is one of their keys; change(some): called with requested changes of the view.
   */
  flashbench.tools = (place, change) => {
    let view = null;
    let current = null; // the commit that was pointed at last
    const around = (factor) => change(zoomed(view, current ?? Math.round((view.from + view.to) / 2), factor));
    const actions = {
      "+": ["Zoom in", () => around(0.5)],
      "-": ["Zoom out", () => around(2)],
      0: ["Show all", () => change({ from: 0, to: last, pin: -1 })],
      c: ["Compare with this commit", () => change({ pin: view.pin === current ? -1 : current ?? -1 })],
    };
    const buttons = {};
    for (const [key, [text, act]] of Object.entries(actions)) {
      buttons[key] = element("button", { type: "button" }, text);
      buttons[key].addEventListener("click", act);
    }
    const { 0: all, c: compare } = buttons;
    const hint = element("p", { class: "soft hint" }, "Point at a graph or tap it, or walk along it with the arrow keys; drag over commits to zoom in.");
    const group = element("div", { class: "tools", role: "group", "aria-label": "Commits of all graphs" }, ...Object.values(buttons));
    place.prepend(hint, group);
    const same = () => {
      compare.disabled = current === null;
      compare.textContent = view.pin >= 0 && view.pin === current ? "Compare with none" : "Compare with this commit";
    };
    return {
      act(key) {
        const known = actions[key === "=" ? "+" : key];
        known?.[1]();
        return Boolean(known);
      },
      point(commit) {
        current = commit;
        same();
      },
      draw(now) {
        view = now;
        all.hidden = view.from === 0 && view.to === last && view.pin < 0;
        same();
      },
    };
  };
}
