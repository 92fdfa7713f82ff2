"""Run the first Python block of a page: `python first_block.py README.md`."""

import re
import sys
from pathlib import Path

page = Path(sys.argv[1])
block = re.search(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
if block is None:
    raise SystemExit(f"{page} has no Python block.")
exec(compile(block[1], str(page), "exec"), {"__name__": "__main__"})
