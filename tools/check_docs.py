#!/usr/bin/env python3
"""Fails when a document points at something that is not there.

Looks at every Markdown file: links to files and to headings. ARCHITECTURE.md must also stay
short enough to be read in one sitting.
"""

import re
import sys

from source_files import ROOT, source_files

MAP = "ARCHITECTURE.md"
MAP_LIMIT = 200
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)


def anchors(path):
    """The names by which a page's headings can be linked to."""
    headings = HEADING.findall(FENCE.sub("", path.read_text()))
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def dead_links(name):
    page = ROOT / name
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        if not linked.exists():
            yield f"{name}: {target}: no such file"
        elif anchor and anchor not in anchors(linked):
            yield f"{name}: {target}: no such heading"


def main():
    errors = [error for name in source_files("*.md") for error in dead_links(name)]
    lines = len((ROOT / MAP).read_text().splitlines())
    if lines > MAP_LIMIT:
        errors.append(f"{MAP}: {lines} lines; a map has at most {MAP_LIMIT}")
    print(*errors, sep="\n", end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
