"""The folders of two captures are printed in full, and are below a folder: long_paths.py ROWS FOLDER"""

import sys

import jsonl

dirs = sorted(r["dir"] for r in jsonl.read(sys.argv[1]))
print(dirs)
assert len(dirs) == 2 and all(d.startswith(sys.argv[2]) and len(d) > 600 for d in dirs)
assert all(d.endswith("2026-01-01-00-00-00") for d in dirs)
