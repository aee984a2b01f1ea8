#!/usr/bin/env bash
# Calls that cannot be changed or judged are left alone, and the summary says which and why. Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"

# changed OPTION...: the calls that are left alone; their results in $T/out, the summary in $T/err
changed() {
	ditraced "$@" -- "$W/intervene/left_alone.py"
	ok "$*: all as it was" cmp "$T/plain" "$T/out"
}

# why FUNCTION REASON: its only calls were left alone for that reason
why() {
	is "$1 $2" "$(sed -nE "s/^ +[0-9,]+  $1 +//p" "$T/err")" "$2"
}

left() {
	why torch.add "has a Own, which is a subclass of Tensor"
	why 'torch.(mm|spmm|sparse.mm)' "has a tensor of layout sparse_coo"
	why torch.nn.functional.relu "has a quantized tensor"
	why torch.sub "has a tensor without numbers"
	why torch.hypot "has a tensor without memory"
	why torch.Tensor.reshape "is a view"
	why torch.nn.functional.softmax "is being captured as a graph"
	why torch.sigmoid "is being traced"
	grep -q '^vmap' "$T/plain" && why torch.mul "is inside of vmap, grad or the like"
	like "scripted functions are told" "$T/err" '^ditrace: left alone as a whole, with all that they call: [1-9][0-9]* scripted functions?'
	grep -q '^compiled' "$T/plain" || return
	like "and compiled ones, of the program alone" "$T/err" ', 1 compiled graph$'
	unlike "torch.compile meets nothing of ditrace's" "$T/err" 'Dynamo|_dynamo'
}

left_alone() {
	cd "$T" || return
	alone "$W/intervene/left_alone.py" >"$T/plain"
	like "the workload works" "$T/plain" '^captured as a graph'
	changed --fallback-all
	why torch.ones_like "makes a tensor of none"
	left
	changed --compare all
	unlike "nothing is wrong" "$T/err" WRONG
	why torch.ones_like "makes a tensor"
	why torch.lstm "cannot be compared: a random op"
	like "operators that the program calls itself are compared" "$T/err" '^ +1 +1 +0 +torch.ops.aten.hardtanh.default *$'
	like "by name or overload" "$T/err" '^ +1 +1 +0 +torch.ops.aten.ceil *$'
	unlike "but for what only marks a place" "$T/err" 'profiler\.'
	like "what drops nothing out is compared" "$T/err" '^ +1 +1 +0 +torch.gru'
	like "a result that is an argument has no gradient of its own" "$T/err" '^ +1 +1 +0 +torch.Tensor.type_as *$'
	like "why sparse gradients are not judged" "$T/err" 'embedding +not judged: tensors of layout torch.sparse_coo are not compared$'
	left
	changed --cast 'float32->float64'
	why torch.ones_like "makes a tensor"
	why torch.nn.functional.embedding "has a sparse gradient"
	why torch.embedding ""
	changed --overflow
	why torch.zeros_like "has a tensor without memory"
	like "why a result is not measured" "$T/err" '^\| torch.quantize_per_tensor output\[0\] +\| +a quantized tensor +\|'
	changed --fallback torch.abs
	grep -q '^vmap' "$T/plain" || return 0 # before 2.0 a mode of PyTorch's dispatcher fails as_subclass
	changed --compare all --level aten
	unlike "nor are operators" "$T/err" WRONG
	unlike "what torch.func's transforms call is judged" "$T/err" 'saved tensor hooks'
	why c10d::allreduce_ "is not for the tensors of one process"
	grep -q '^cond' "$T/plain" && why higher_order::cond "runs functions that it is given"
}
each_torch forking left_alone
done_testing
