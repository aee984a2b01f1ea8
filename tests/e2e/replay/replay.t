#!/usr/bin/env bash
# A captured training is replayed: all is right, times are measured, and a tampered result is found.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../warm.sh"
small=(--small) layers=1 least=(270 30)
chosen="1:output0 1:output2 2:OUTPUT1 3:output1 4:OUTPUT 5:output0 5:output1 6:output2 8:OUTPUT 9:output0 9:output2"
chosen+=" 10:output0 10:output2 10:grad0"
! in_long || small=() layers=2 least=(1000 50)

replay() {
	timeout "$PATIENCE" "$DITRACE" replay --python "$WARMED" "$@"
}

# all_right FILE: every op call ran, every verdict is "right", and there were enough of them
all_right() {
	verify replay/all_right "$1" "${least[@]}" "not compared:randint" "not judged:_foreach_"
}

keys() {
	python3 -c 'import json, sys
wanted = "op id role index verdict allclose cosine max_abs_diff max_relative_diff ulp atol rtol reason file line".split()
for line in open(sys.argv[1]):
    assert list(json.loads(line)) == wanted, line' "$1"
}

# not_right FILE: id:result of those that are wrong, in capitals, or not judged
not_right() {
	python3 -c 'import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
found = ["%s:%s" % (r["id"], r["role"] + r["index"]) for r in rows if r["verdict"] == "not judged"]
found += ["%s:%s" % (r["id"], (r["role"] + r["index"]).upper()) for r in rows if r["verdict"] == "wrong"]
print(*sorted(found, key=lambda x: int(x.split(":")[0])))' "$1"
}

# tolerances TREE: independent of PyTorch, which does not judge
tolerances() {
	AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16=1e-9,1e-9 replay --dtype bfloat16 --ops gelu "$1" >"$T/env" 2>&1
	is "ditorch's variables decide when they are set" $? 1
	like "and are shown" "$T/env" ' 1e-09  1e-09 '
	GELU_AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16=1,1 AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16=1e-9,1e-9 \
		replay --dtype bfloat16 --ops gelu "$1" >"$T/env" 2>&1
	is "that of an op before that of a dtype" $? 0
}

# packaged: operators that PyTorch has not, from their program
packaged() {
	ok "a program's own operators are captured, by an expression" trace --capture="$T/own" --ops 'ditrace_test::.*' -- "$PY" -c 'import customops
customops.section()
customops.ops.packed(customops.torch.ones(2, 2).bfloat16())'
	replay "$T/own" >"$T/none" 2>&1
	is "they are not run without their package: status 2" $? 2
	like "and how to is told" "$T/none" 'no operator ditrace_test::none; .* --import'
	WARMED=$PY PYTHONPATH=$W replay --import customops --format csv "$T/own" >"$T/csv" 2>"$T/err"
	is "with it all are right" "$? $(cut -d, -f5 "$T/csv" | sort | uniq -c | xargs)" "0 1 not compared 22 right 1 verdict"
	PYTHONPATH=$W replay --import nowhere "$T/own" >"$T/none" 2>&1
	like "a package that is not there is told" "$T/none" '--import nowhere: ModuleNotFoundError'
}

replays() {
	local f=$T/both/functions python=$WARMED
	! of_first_torch || python=$PY
	ok "a training is captured, by functions and by operators" "$WARMED" captures.py both "$T/both" "${small[@]}"
	replay --of captured --format json --detail "$T/both" >"$T/c.json" 2>"$T/c.err"
	is "the results in the captures are judged" $? 0
	ok "and are right, forward and backward" all_right "$T/c.json"

	ok "one element of one result is changed by 0.1 %" verify replay/tamper "$f"
	replay --of captured "$f" >"$T/tampered" 2>&1
	is "that is found: status 1" $? 1
	like "first in the table, with the place" "$T/tampered" '^wrong +torch.nn.functional.gelu output .*worst \[1, 2, 3\]: got'
	is "and nothing else" "$(grep -c '^wrong' "$T/tampered")" 1
	"$WARMED" replay/chosen_captures.py "$T/chosen" 2>"$T/err"
	replay --of captured --format json --detail "$T/chosen" >"$T/chosen.json" 2>"$T/err"
	is "what another kernel may choose is not wrong, what it may not is" "$(not_right "$T/chosen.json")" "$chosen"
	WARMED=$python replay --of rerun --format json --detail --jobs 2 "$T/both" >"$T/rerun.json" 2>"$T/rerun.err"
	is "a new run has no such fault, in two processes" $? 0
	ok "and all is right, forward and backward" all_right "$T/rerun.json"

	cd "$T" || return
	replay --sync-time-measure --run_times 4 --ops gelu "$f" >"$T/times" 2>"$T/times.err"
	is "times are measured; ditorch's spelling of an option does" $? 0
	like "in ditorch's table" "$T/times" '^\| *name *\| forward_id \| forward_elasped \| backward_elasped \| unit \|'
	like "and summed up" "$T/times" '^ *[0-9]+ +4 .*torch.nn.functional.gelu'
	ok "the CSV has ditorch's columns and place" verify replay/ditorch_times "$T" "$layers"
	cd "$W" || return

	replay --device lazy --ops linear,gelu,softmax --format json "$f" >"$T/keys.json" 2>"$T/lazy.err"
	is "another device computes right" $? 0
	ok "a row has the keys that programs know" keys "$T/keys.json"
	replay --device cuda:99 --ops gelu "$f" >"$T/cuda" 2>&1
	is "a device that is not there: status 2" $? 2
	like "and the reason" "$T/cuda" 'there is no cuda:99 here'
	ok "devices are waited for, each kind by its own function" "$WARMED" "$top/tests/e2e/replay/waits_for_device.py" \
		"$top/replay/runner/device.py"
	replay --dtype bfloat16 --ops gelu,linear,layer_norm "$f" >"$T/half" 2>&1
	is "in bfloat16 it is right as well" $? 0
	of_first_torch && tolerances "$f" || skip "tolerances were of another torch: make test-long"
	if of_other_torch; then packaged; else skip "operators of packages: with the other torch, or make test-long" 5; fi
}

each_torch warm replays
done_testing
