"""Prints the first fenced block of a Markdown file that has the given language."""

import re
import sys

path, language = sys.argv[1:]
with open(path) as page:
    block = re.search(rf"^```{language}\n(.*?)^```$", page.read(), re.S | re.M)
if not block:
    sys.exit(f"{path}: no block of {language}")
print(block[1], end="")
