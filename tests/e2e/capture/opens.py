"""All captures below a folder load, and there are some: opens.py FOLDER"""

import glob
import json
import sys

import torch

files = glob.glob(sys.argv[1] + "/**/*.pth", recursive=True)
for path in files:
    assert torch.load(path)["args"]
for path in glob.glob(sys.argv[1] + "/**/*.json", recursive=True):
    with open(path, encoding="utf-8") as f:
        json.load(f)
print("#", len(files), "files open")
sys.exit(not files)
