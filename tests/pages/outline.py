"""What a screen reader is told of a page: the accessibility tree of Chromium, read by its rules."""

from dataclasses import dataclass, field
from itertools import pairwise

from playwright.sync_api import Page

_LANDMARKS = ("banner", "main", "contentinfo", "navigation")
_NAMED = (
    "figure",
    "image",
    "table",
    "region",
    "navigation",
    "link",
    "button",
    "textbox",
    "combobox",
)


@dataclass
class Node:
    """An element that is told: role, name, heading level; parts: all below it."""

    role: str
    name: str
    level: int
    parts: list["Node"] = field(default_factory=list)

    def all(self, *roles: str) -> list["Node"]:
        found = [one for part in self.parts for one in part.all(*roles)]
        return [self, *found] if self.role in roles else found


def tree(page: Page) -> Node:
    """The accessibility tree, without what is ignored in it."""
    with_ids = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    known = {one["nodeId"]: one for one in with_ids}

    def read(one: dict) -> Node:
        level = [p["value"]["value"] for p in one.get("properties", []) if p["name"] == "level"]
        role = "" if one["ignored"] else one["role"]["value"]
        name = one.get("name", {}).get("value", "")
        parts = [read(known[child]) for child in one.get("childIds", []) if child in known]
        return Node(role, name, level[0] if level else 0, parts)

    return read(with_ids[0])


def faults(page: Page) -> list[str]:
    """What of the outline is wrong; empty if nothing is."""
    root = tree(page)
    levels = [one.level for one in root.all("heading")]
    found = [f"{levels.count(1)} headings of level 1"] if levels.count(1) != 1 else []
    found += [f"level {b} after {a}" for a, b in pairwise([0, *levels]) if b > a + 1]
    found += [f"{role}: not one" for role in _LANDMARKS if len(root.all(role)) != 1]
    found += [f"{one.role} without a name" for one in root.all(*_NAMED) if not one.name.strip()]
    found += [f"unexplained {one.name!r}" for one in root.all("image") if len(one.name) < 20]
    found += [
        f"figure without a picture: {one.name}"
        for one in root.all("figure")
        if not one.all("image")
    ]
    for table in root.all("table"):
        rows = table.all("row")
        columns = len(table.all("columnheader"))
        if not columns or not table.all("rowheader"):
            found.append(f"table without headers: {table.name}")
        wrong = [
            row for row in rows[1:] if len(row.all("cell", "rowheader", "gridcell")) != columns
        ]
        found += [f"row of another length in {table.name}"] * bool(wrong)
    return found
