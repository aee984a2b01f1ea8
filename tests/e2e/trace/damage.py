"""Writes a copy of a file with one to three bytes changed: damage.py FILE DAMAGED SEED"""

import random
import sys

path, damaged, seed = sys.argv[1:]
rng = random.Random(int(seed))
with open(path, "rb") as f:
    data = bytearray(f.read())
for _ in range(rng.randint(1, 3)):
    data[rng.randrange(len(data))] ^= rng.randint(1, 255)
with open(damaged, "wb") as f:
    f.write(data)
