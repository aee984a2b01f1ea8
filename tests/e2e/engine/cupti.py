"""The activities that devices.py launches, each with the op, thread and phase that it has there. argv: the trace as jsonl."""
import collections
import json
import sys

seen = collections.Counter()
with open(sys.argv[1]) as f:
    for line in f:
        e = json.loads(line)
        if "activity" not in e:
            continue
        ns = e["end_ns"] - e["start_ns"]
        if e["activity"] == "kernel" and not e["in_graph"]:
            assert 5000 <= e["start_ns"] - e["launched_ns"], e
        seen[e["name"], e["stream"], e["launch"], e["op"], e["phase"], e["tid"] == e["pid"], e["in_graph"], ns, e["bytes"]] += 1
work = "void at::native::work<float>(float*)"
wanted = {
    ("outer_kernel", 7, "op", "device::outer", "forward", True, False, 30000, None): 20,
    ("blas_kernel", 7, "op", "device::outer", "forward", True, False, 60000, None): 10,
    (work, 7, "op", "device::work", "forward", True, False, 20000, None): 20,
    (work, 7, "op", "device::work", "backward", True, False, 20000, None): 10,
    ("lone_kernel", 9, "no op", None, None, True, False, 40000, None): 1,
    ("graph_kernel", 7, "no op", None, None, True, True, 10000, None): 3,
    ("Memcpy HtoD (Pageable -> Device)", 8, "no op", None, None, True, False, 7000, 4096): 1,
    (work, 7, "op", "device::work", "forward", False, False, 20000, None): 1,
    ("other_kernel", 7, "no op", None, None, False, False, 50000, None): 1,
}
if dict(seen) != wanted:
    for key in sorted(set(seen) | set(wanted), key=str):
        if seen[key] != wanted.get(key, 0):
            print(f"seen {seen[key]}, wanted {wanted.get(key, 0)}: {key}")
    sys.exit(1)
