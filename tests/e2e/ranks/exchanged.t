#!/usr/bin/env bash
# What ranks give each other: captured when it is there, judged together, compared between runs and between ranks.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../warm.sh"
need_tracing
export RANKS=3

# captured FOLDER [FAULT]
captured() {
	timeout "$PATIENCE" "$DITRACE" run -o "$T/data" --capture="$1" --ops 'c10d::.*' -- "$PY" ranks/launch.py ranks/exchanged.py "$1.store" "${@:2}" \
		>"$T/out" 2>"$T/err"
}

replayed() {
	"$DITRACE" replay --python "$WARMED" --format json --detail "$@" >"$T/json" 2>"$T/err"
}

diff_of() {
	"$DITRACE" diff --python "$WARMED" --pager never "$@" >"$T/diff" 2>&1
}

exchanged() {
	captured "$T/a"
	is "all ranks run to their end" "$?, $(grep -o 'sum [-0-9.e]*' "$T/out" | sort | uniq -c | sed 's/ sum.*//; s/ //g')" "0, 3"
	is "each has a folder" "$(cd "$T/a" && echo *)" "rank0 rank1 rank2"
	is "all is there, or told to be no operator" "$(grep -oE 'skipped .*|no output' "$T/err")" \
		"$(grep -q 'torch 1\.' "$T/err" && echo "skipped 3 collectives: PyTorch has no operator for it")"
	replayed "$T/a"
	is "what each rank got is judged" $? 0
	ok "all is right" verify replay/all_right "$T/json" 70 0

	diff_of "$T"/a/rank0 "$T"/a/rank2
	is "ranks get the same" "$? $(head -n 1 "$T/diff")" "0 the two ranks are equal, bit by bit"
	cp -r "$T/a" "$T/b"
	verify ranks/change_number "$T/b" output 1 0 1 0.01
	replayed "$T/b"
	is "one that got something else" "$? $(grep -c '"verdict":"wrong"' "$T/json")" "1 1"
	like "is named" "$T/json" '"verdict":"wrong".*"rank":1,"group":"0","number":1}'
	diff_of "$T"/b/rank0 "$T"/b/rank1
	like "and found between the ranks" <(head -n 1 "$T/diff") '^first op where the two ranks part: .*allreduce_.default #1 of group 0, rank 0 .*exchanged.py:[0-9]+'
	verify ranks/change_number "$T/b" input 2 0 1 0.01
	verify ranks/change_number "$T/b" output all 0 1 0.01
	diff_of "$T/a" "$T/b"
	like "of two runs, the rank that gave something else" <(head -n 1 "$T/diff") \
		'^first op where the two runs part: .*allreduce_.default #1 of group 0, rank 2 .*input\[0,0\]'
	rm -r "$T"/b/rank2/op_tools_results/op_capture_results/*allreduce*
	replayed --ops allreduce_ "$T/b"
	like "without a rank's" "$T/json" "\"verdict\":\"not run\".*rank 2's is not there: cannot be judged"
	find "$T/b" -path '*c10d.reduce_.default*' -name '*.json' -exec sed -i 's/"reduce_op": "SUM"/"reduce_op": "PREMUL_SUM"/' {} +
	replayed --ops reduce_ "$T/b"
	like "a reduction that a capture does not tell" "$T/json" '"verdict":"not judged".*what PREMUL_SUM multiplies by is not captured: not judged'
	in_long || { skip "another run, with noise: make test-long" && return; }
	captured "$T/c" noise
	diff_of "$T/a" "$T/c"
	like "noise of a rank in training" <(head -n 1 "$T/diff") '^first op where the two runs part: .*allreduce_.* rank 2 .*input'
}
each_torch warm exchanged
done_testing
