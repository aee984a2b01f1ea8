#!/usr/bin/env python3
"""same_captures.py TREE TREE: both have files of the same calls with the same content, byte by byte: the storages, and
the pickles that describe the tensors. Works without PyTorch, which takes seconds to import."""

import glob
import sys
import zipfile


def contents(path):
    with zipfile.ZipFile(path) as z:
        parts = {n.split("/", 1)[1]: z.read(n) for n in z.namelist()}
    parts["data.pkl"] = parts["data.pkl"].partition(b"identifier")[0]  # the last entry, with the time
    return parts


def files(tree):
    """Paths by op, index among its captured calls, and name: the folder's number also counts calls of other ops."""
    found, ranks = {}, {}
    paths = glob.glob(tree + "/op_tools_results/op_capture_results/*/*/*/*/*.pth")
    for path in sorted(paths, key=lambda p: int(p.split("/")[-3])):
        op, _, number, _, name = path.split("/")[-5:]
        calls = ranks.setdefault(op, {})
        found[op, calls.setdefault(number, len(calls)), name] = path
    if len(found) != len(paths):
        sys.exit(f"{tree}: several files of one call")
    return found


first, second = map(files, sys.argv[1:])
alone = first.keys() ^ second.keys()
other = [c for c in first if c in second and contents(first[c]) != contents(second[c])]
if alone or other or not first:
    sys.exit(f"{len(first)} and {len(second)} files, in one alone: {sorted(alone)[:5]}, with other contents: {sorted(other)[:5]}")
print(f"# {len(first)} files of {len({c[:2] for c in first})} calls")
