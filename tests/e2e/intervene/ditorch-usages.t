#!/usr/bin/env bash
# What ditorch's README does with op_tools in the program, done from outside: each usage, with what must be seen.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"

# usage OPTION...: the README's calls under ditrace run, in an empty folder; the variables are set by the caller
usage() {
	rm -rf "$T/in" && mkdir "$T/in"
	(cd "$T/in" && ditraced "$@" -- "$W/intervene/ditorch_usages.py")
}

# done_by FEATURE: the functions it was applied to, each once
done_by() {
	awk -v feature="$1" '/^ditrace: / { on = $2 == feature ":" } on && match($0, /[^ ]/) && RSTART <= 8 && $1 ~ /^[0-9,]+$/ {
		for (i = 2; $i ~ /^[0-9,?]+$/;) i++; if ($i ~ /^[A-Za-z_].*[.]/) print $i }' "$T/err" | LC_ALL=C sort -u | xargs
}

sees() {
	like "$1" "$T/err" "$2"
}

# captured: the functions with captures, and their numbers of files
captured() {
	(cd "$T/in/op_tools_results/op_capture_results" && find . -name '*.pth' | cut -d/ -f2 | LC_ALL=C sort | uniq -c | xargs)
}

captures() {
	usage --apply '.*:op_capture' # with op_tools.OpCapture():
	sees "capture of all" '^ditrace: saved op_tools_results/op_capture_results/torch.Tensor.sort/[0-9]+/[0-9]+/'
	OP_CAPTURE_LIST=torch.Tensor.sort usage --apply '.*:op_capture'
	is "of one, forward and backward" "$(captured)" "4 torch.Tensor.sort"
	OP_CAPTURE_DISABLE_LIST="torch.Tensor.*,torch.nn.*,torch._.*,torch.(?:arange|div|mul|ones_like|relu)" usage --apply '.*:op_capture'
	is "of all others" "$(captured)" "2 torch.add 4 torch.sub"
	usage --apply 'torch.mul:op_capture:args[0].dtype == float16'
	is "3. on demand" "$(captured)" "2 torch.mul"
}

fallbacks() {
	usage --fallback-all # with op_tools.OpFallback():
	is "fallback of all" "$(done_by fallback)" "torch.Tensor.__float__ torch.Tensor.add torch.Tensor.float torch.Tensor.sort torch.Tensor.sub torch.Tensor.sum torch.add torch.div torch.mul torch.nn.functional.linear torch.nn.functional.relu torch.sub"
	sees "tables of device and CPU" '^\| +torch.Tensor.sort output\(cpu\)\[1\] '
	is "which computes the same" "$(cat "$T/out")" "$(cat "$T/plain")"
	OP_FALLBACK_LIST="torch.nn.functional.linear" "$DITRACE" run --fallback-all "$PY" intervene/ditorch_usages.py >"$T/out" 2>"$T/err"
	is "of one" "$(done_by fallback)" torch.nn.functional.linear
	OP_FALLBACK_DISABLE_LIST="torch.nn.functional.linear,torch.Tensor.*" usage --fallback-all
	is "of all others, by an expression, too" "$(done_by fallback)" "torch.add torch.div torch.mul torch.nn.functional.relu torch.sub"
	OP_FALLBACK_LIST="torch.add,torch.sub,torch.mu" OP_FALLBACK_DISABLE_LIST="torch.sub" usage --fallback-all
	is "a function in both lists is left out; part of a name is none" "$(done_by fallback)" torch.add
	OP_FALLBACK_LIST="" usage --fallback-all
	is "an empty list has nothing" "$(done_by fallback)" ""
	OP_FALLBACK_LIST="TORCH.ADD,.*sub" OP_FALLBACK_DISABLE_LIST="" usage --fallback-all
	is "case counts; an empty list leaves nothing out" "$(done_by fallback)" "torch.Tensor.sub torch.sub"
}

casts() {
	local text="torch.float16->torch.float32,torch.bfloat16->torch.float32"
	OP_DTYPE_CAST_DICT="$text" usage --cast env # usage 1
	sees "cast of inputs" "^\| torch.nn.functional.linear \|  input\[1\] \| torch.bfloat16 -> torch.float32 \| $text \|"
	sees "and back" "^\| torch.nn.functional.linear \| output\[0\] \| torch.float32 -> torch.bfloat16 \| $text \|"
	is "of the functions that have such" "$(done_by cast)" "torch.Tensor.add torch.Tensor.sub torch.Tensor.sum torch.add torch.mul torch.nn.functional.linear torch.nn.functional.relu"
	like "gradients are of the dtype that they were" "$T/out" 'torch.bfloat16 [0-9.]+ torch.bfloat16 [0-9.]+$'
	OP_DTYPE_CAST_DISABLE_LIST="torch.Tensor.add,torch.Tensor.sub" usage --cast "$text" # usage 3
	is "but for some" "$(done_by cast)" "torch.Tensor.sum torch.add torch.mul torch.nn.functional.linear torch.nn.functional.relu"
	OP_DTYPE_CAST_DISABLE_LIST="" OP_DTYPE_CAST_LIST="torch.Tensor.sort,torch.Tensor.add,torch.add" OP_DTYPE_CAST_DICT=" torch.half -> torch.bfloat16 " usage --cast env # usage 4
	is "only some" "$(done_by cast)" torch.add
	sees "of another dtype" '\| torch.add \|  input\[0\] \| torch.float16 -> torch.bfloat16 \|'
}

compares() {
	usage --compare all # with op_tools.OpAutoCompare():
	sees "compare of all: nothing is wrong" '^ditrace: compare: (all|none of) [1-9]'
	OP_AUTOCOMPARE_LIST="torch.Tensor.sort,torch.nn.functional.linear" OP_AUTOCOMPARE_DISABLE_LIST="torch.Tensor.sort" usage --compare all
	is "of some, but for some" "$(done_by compare)" torch.nn.functional.linear
	LINEAR_AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16="0,0" AUTOCOMPARE_ERROR_TOLERANCE="1e-2,1e-2" AUTOCOMPARE_ERROR_TOLERANCE_BFLOAT16="1,1" usage --compare all
	is "ditorch's tolerances decide where they are set, one function's own first" "$(grep ' WRONG ' "$T/err" | cut -d' ' -f1 | sort -u)" "$1"
}

# README, custom conditions: apply_feature(OP, feature=..., condition_func=...)
applied() {
	local condition='args[0].dtype == float16 or args[0].dim() == 2'
	usage --apply "torch.add:fallback:$condition" --apply "torch.sub:autocompare:$condition" --apply "torch.div:cast_dtype:$condition"
	sees "1. fallback on demand" '^\| +torch.add +input\(cpu\)\[1\] +\| \(2, 3, 4\) \| \(12, 4, 1\) \| +24 +\| float16 \| +cpu +\|'
	sees "2. compare on demand: of one of two" '^ditrace: compare: 1 call of 1 function compared, '
	sees "and the other is told of" '1  torch.sub +does not meet the condition'
	is "4. cast, when the dtypes are no such" "$(done_by cast)" ""
	OP_DTYPE_CAST_DICT="torch.float32->torch.float16" usage --apply "torch.div:cast_dtype:$condition"
	sees "and when they are" '\| torch.div \|  input\[1\] \| torch.float32 -> torch.float16 \| torch.float32->torch.float16 \|'
	is "of one of two" "$(sed -nE 's/^ditrace: cast: ([0-9]+) .*/\1/p' "$T/err")" 1
	OP_FALLBACK_DISABLE_LIST=torch.add usage --apply "torch.add,torch.mul:fallback"
	is "the lists of what is left out count there, too" "$(done_by fallback)" torch.mul
}

looks() {
	OP_TIME_MEASURE_LIST="torch.Tensor.sort,torch.mul" OP_TIME_MEASURE_DISABLE_LIST="torch.mul" usage --apply '.*:measure_op_time' # OpTimeMeasure
	is "time of some" "$(done_by time)" torch.Tensor.sort
	sees "forward" '\| torch.Tensor.sort \| +[0-9]+ +\| +[0-9]+\.[0-9]{8} +\| +ms +\|'
	sees "and backward" '\| forward_id \| backward_elasped \| unit \|'
	OP_OBSERVE_LIST='torch.(?:Tensor.)?add,torch.sub' OP_OBSERVE_DISABLE_LIST='torch.Tensor.*' usage --apply '.*:dump_op_args' # OpObserve
	is "arguments of some" "$(done_by print)" "torch.add torch.sub"
	OP_OVERFLOW_CHECK_LIST='torch.div' usage --overflow # OpOverflowCheck
	is "overflow of some" "$(done_by overflow)" torch.div
}

usages() {
	alone intervene/ditorch_usages.py >"$T/plain"
	in_long || skip "other usages: with the other torch, or make test-long"
	if of_first_torch; then
		captures
		casts
		looks
		in_long || return
	fi
	fallbacks
	compares torch.nn.functional.linear
	applied
}
each_torch forking usages
done_testing
