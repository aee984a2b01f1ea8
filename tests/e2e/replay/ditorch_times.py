"""The CSV of times in a folder is ditorch's, with four calls of gelu a layer: ditorch_times.py FOLDER LAYERS"""

import csv
import glob
import sys

WANTED = "name forward_id forward_elasped backward_elasped unit input output grad_inputs grad_outputs".split()

path = glob.glob(sys.argv[1] + "/op_tools_results/op_time_measure_result/op_elasped_info_pid*.csv")[0]
with open(path, encoding="utf-8") as f:
    rows = list(csv.DictReader(f))
assert list(rows[0]) == WANTED
gelu = [r for r in rows if r["name"] == "torch.nn.functional.gelu"]
assert len(gelu) == int(sys.argv[2]) * 4, len(gelu)
assert all(float(r["forward_elasped"]) > 0 and float(r["backward_elasped"]) > 0 and r["unit"] == "ms" for r in gelu)
assert "'dtype': 'float32'" in gelu[0]["input"], gelu[0]
