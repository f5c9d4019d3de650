// Material lets wide tables scroll; so can the keyboard.
document$.subscribe(() => {
  const reach = () => {
    for (const wide of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
      Object.entries({ tabindex: "0", role: "region", "aria-label": "Table" }).forEach(([name, value]) => wide.setAttribute(name, value));
    }
  };
  reach();
  new MutationObserver(reach).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
});
