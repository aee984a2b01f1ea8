#!/usr/bin/env bash
# Two captured runs side by side: equal ones, and where runs with a difference first diverge.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../warm.sh"
small=(--small) layers=1
! in_long || small=() layers=2

diff_of() {
	timeout "$PATIENCE" "$DITRACE" diff --python "$WARMED" "$@"
}

diffs() {
	"$WARMED" unequal_captures.py "$T" "${small[@]}" >"$T/trainings" 2>&1
	diff_of "$T/a" "$T/b" >"$T/equal" 2>&1
	is "two equal runs: status 0" $? 0
	like "are equal, bit by bit" "$T/equal" '^the two runs are equal, bit by bit'
	diff_of "$T/a" "$T/c" >"$T/out" 2>&1
	is "a run that differs: status 1" $? 1
	like "the first op where they part, on top" <(head -n 1 "$T/out") \
		'^first op where the two runs part: torch.nn.functional.linear  call .*output: .*what it takes is equal'
	diff_of --format json --ops linear,gelu "$T/a" "$T/c" >"$T/json" 2>&1
	ok "it is the third linear, for programs too" verify replay/third_linear "$T/json"
	rm -r "$T"/b/op_tools_results/op_capture_results/torch.nn.functional.gelu
	diff_of --ops gelu,embedding "$T/a" "$T/b" >"$T/fewer" 2>&1
	is "calls that one run has not: status 1" $? 1
	like "of chosen ops, so many in both" "$T/fewer" '^1 op calls in both'
	like "and the number of the others" "$T/fewer" " $layers only in the first, 0 only in the second"
	a=$(dirname "$(ls "$T"/a/op_tools_results/op_capture_results/torch.Tensor.softmax/*/*/*/input.pth | head -n 1)")
	diff_of "$a" "$a" >"$T/one" 2>&1
	is "two captures, instead of two trees" $? 0
	printf cut >"$a/input.pth"
	diff_of --ops softmax,embedding "$T/a" "$T/c" >"$T/cut" 2>&1
	like "a damaged file is named, the rest is compared" "$T/cut" 'input.pth: .*zip'
	error "nothing in common" 'no op call of' "$DITRACE" diff --python "$WARMED" "$a" \
		"$T"/a/op_tools_results/op_capture_results/torch.nn.functional.gelu
	error "one operand" 'B is missing|A is missing|needs A B' "$DITRACE" diff "$T/a"
}
each_torch warm diffs
done_testing
