"""Fails when a block of C++ in a Markdown file is not to be found in the source."""

import pathlib
import re
import sys

page, source = (pathlib.Path(path).read_text() for path in sys.argv[1:])
for block in re.findall(r"^```cpp\n(.*?)^```$", page, re.S | re.M):
    if block not in source:
        sys.exit(f"{sys.argv[2]} does not have this block of {sys.argv[1]}:\n{block}")
