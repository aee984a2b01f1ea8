"""compare_memory_sorts.py TRACE: report sorts by each column of memory, largest first, and shows it."""
import json
import os
import subprocess
import sys

FIELDS = {"alloc": "alloc_bytes", "freed": "freed_bytes", "allocs": "allocs", "peak": "peak_bytes", "cpu_mem": "memory_bytes",
          "self_cpu_mem": "self_memory_bytes", "device_alloc": "device_alloc_bytes", "device_freed": "device_freed_bytes",
          "device_allocs": "device_allocs", "device_peak": "device_peak_bytes", "device_mem": "device_memory_bytes",
          "self_device_mem": "self_device_memory_bytes"}


def report(*options):
    return subprocess.run([os.environ["DITRACE"], "report", "--group", "op", *options, sys.argv[1]], check=True,
                          stdout=subprocess.PIPE, encoding="utf-8").stdout


for key, field in FIELDS.items():
    rows = json.loads(report("--sort", key, "--format", "json"))["rows"]
    of_ops = [r[field] for r in rows if r["launch"] == "op"]
    assert of_ops == sorted(of_ops, reverse=True), (key, of_ops)
    heads = [line for line in report("--sort", key).splitlines() if " v" in line and "Self %" in line]
    assert len(heads) == 1, (key, heads)
