"""The captured linears of workloads/threads.py: each result is four times the weight, whichever threads run at the same
time. fours.py TREE CALLS"""

import glob
import sys

from storages import storages

folders = glob.glob(sys.argv[1] + "/op_tools_results/op_capture_results/*linear/*/*/*/")
for folder in folders:
    weight = storages(folder + "input.pth")[1]
    assert len(weight) == 12 and storages(folder + "output.pth")[0] == [4 * weight[0]] * 3, folder
assert len(folders) == int(sys.argv[2]), len(folders)
