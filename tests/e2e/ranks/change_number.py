"""Changes the first number of what one rank gave to, or got from, collectives of one number in a group, float32:
change_number.py TREE input|output RANK GROUP NUMBER BY, which is added; RANK "all": of all ranks"""

import glob
import json
import struct
import sys
import zipfile

tree, part, rank, group, number, by = sys.argv[1:]
changed = 0
for path in glob.glob(f"{tree}/rank*/op_tools_results/op_capture_results/*/*/*/*/input.pth.json"):
    with open(path) as f:
        c = json.load(f)["collective"]
    if c["group"] != group or c["number"] != int(number) or rank not in ("all", str(c["ranks"][c["rank"]])):
        continue
    path = path.replace("input.pth.json", part + ".pth")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = next(n for n in parts if n.endswith("/data/0"))
    (value,) = struct.unpack("<f", parts[name][:4])
    parts[name] = struct.pack("<f", value + float(by)) + parts[name][4:]
    with zipfile.ZipFile(path, "w") as out:
        for name, content in parts.items():
            out.writestr(name, content)
    changed += 1
assert changed == (3 if rank == "all" else 1), changed
