#!/usr/bin/env bash
# A captured training runs again: all is right, times are measured, and a result that was tampered with is found.
. "$(dirname "$0")/lib.sh"

replay() {
	timeout 300 "$DITRACE" replay --python "$PY" "$@"
}

capture_both() {
	"$PY" captures.py functions "$T/functions" && "$PY" captures.py operators "$T/operators"
}

# all_right FILE...: every op call ran, every verdict is "right", and there were at least 1,000 of them
all_right() {
	"$PY" - "$@" <<-'EOF2'
		import collections, json, sys
		rows = [json.loads(line) for f in sys.argv[1:] for line in open(f)]
		for r in rows:
		    random = r["verdict"] == "not compared" and "randint" in r["op"]
		    nothing = r["verdict"] == "not judged" and "_foreach_" in r["op"]
		    assert r["verdict"] == "right" or random or nothing, r
		calls = {r["dir"] for r in rows}
		print("#", len(calls), "calls,", collections.Counter(r["role"] for r in rows))
		assert len(calls) >= 1000, len(calls)
		assert sum(r["role"] == "grad" for r in rows) >= 50
	EOF2
}

keys() {
	"$PY" -c 'import json, sys
wanted = "op id role index verdict allclose cosine max_abs_diff max_relative_diff ulp atol rtol reason file line".split()
for line in open(sys.argv[1]):
    assert list(json.loads(line)) == wanted, line' "$1"
}

tamper() {
	"$PY" - "$1" <<-'EOF2'
		import glob, sys, torch
		path = glob.glob(sys.argv[1] + "/op_tools_results/op_capture_results/torch.nn.functional.gelu/*/*/*/output.pth")[0]
		d = torch.load(path)
		d["args"][0].data[1, 2, 3] *= 1.001
		torch.save(d, path)
	EOF2
}

csv_is_ditorchs() {
	"$PY" - "$1" <<-'EOF2'
		import csv, glob, sys
		rows = list(csv.DictReader(open(glob.glob(sys.argv[1] + "/op_tools_results/op_time_measure_result/op_elasped_info_pid*.csv")[0])))
		assert list(rows[0]) == "name forward_id forward_elasped backward_elasped unit input output grad_inputs grad_outputs".split()
		gelu = [r for r in rows if r["name"] == "torch.nn.functional.gelu"]
		assert len(gelu) == 2 * 4, len(gelu)
		assert all(float(r["forward_elasped"]) > 0 and float(r["backward_elasped"]) > 0 and r["unit"] == "ms" for r in gelu)
		assert "'dtype': 'float32'" in gelu[0]["input"], gelu[0]
	EOF2
}

replays() {
	ok "a training is captured, by functions and by operators" capture_both
	replay --format json --detail "$T/functions" >"$T/f.json" 2>"$T/f.err"
	is "the functions replay" $? 0
	replay --format json --detail --jobs 2 "$T/operators" >"$T/o.json" 2>"$T/o.err"
	is "the operators replay, in two processes" $? 0
	ok "all is right, forward and backward" all_right "$T/f.json" "$T/o.json"
	replay --format json --ops gelu "$T/functions" >"$T/keys.json" 2>/dev/null
	ok "a row has the keys that programs know" keys "$T/keys.json"
	replay --of captured --format json --detail "$T/functions" "$T/operators" >"$T/c.json" 2>"$T/c.err"
	is "the results in the captures are judged, too" $? 0
	ok "and are right" all_right "$T/c.json"

	cd "$T" || return
	replay --sync-time-measure --run_times 4 --ops gelu "$T/functions" >"$T/times" 2>"$T/times.err"
	is "times are measured; ditorch's spelling of an option does" $? 0
	like "in ditorch's table" "$T/times" '^\| *name *\| forward_id \| forward_elasped \| backward_elasped \| unit \|'
	like "and summed up" "$T/times" '^ *[0-9]+ +4 .*torch.nn.functional.gelu'
	ok "the CSV has ditorch's columns and place" csv_is_ditorchs "$T"
	cd "$W" || return

	replay --device lazy --ops linear,gelu,softmax "$T/functions" >"$T/lazy" 2>&1
	is "another device computes right" $? 0
	replay --device cuda:99 --ops gelu "$T/functions" >"$T/cuda" 2>&1
	is "a device that is not there: status 2" $? 2
	like "and the reason" "$T/cuda" 'there is no cuda:99 here'
	replay --dtype bfloat16 --ops gelu,linear,layer_norm "$T/functions" >"$T/half" 2>&1
	is "in bfloat16 it is right as well" $? 0
	AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16=1e-9,1e-9 replay --dtype bfloat16 --ops gelu "$T/functions" >"$T/env" 2>&1
	is "ditorch's variables decide when they are set" $? 1
	like "and are shown" "$T/env" ' 1e-09  1e-09 '
	GELU_AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16=1,1 AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16=1e-9,1e-9 \
		replay --dtype bfloat16 --ops gelu "$T/functions" >"$T/env" 2>&1
	is "that of an op before that of a dtype" $? 0

	ok "one element of one result is changed by 0.1 %" tamper "$T/functions"
	replay --of captured "$T/functions" >"$T/tampered" 2>&1
	is "that is found: status 1" $? 1
	like "first in the table, with the place" "$T/tampered" '^wrong +torch.nn.functional.gelu output .*worst \[1, 2, 3\]: got'
	is "and nothing else" "$(grep -c '^wrong' "$T/tampered")" 1
	replay --of rerun "$T/functions" >"$T/rerun" 2>&1
	is "a new run has no such fault" $? 0
}
each_torch replays
done_testing
