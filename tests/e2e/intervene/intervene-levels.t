#!/usr/bin/env bash
# run --overflow and --level aten, and modes of the program's own next to ditrace's. Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
how_many STEPS 201 720
WARM=torch._dynamo # imported by modes of operators

# change OPTION... -- PROGRAM ARGUMENT...: in $T; the program's output in $T/out, ditrace's in $T/err
change() {
	(cd "$T" && ditraced "$@")
}

# run OPTION... PROGRAM...: the same with ditrace run itself
run() {
	(cd "$T" && "$DITRACE" run "$@" >out 2>err)
}

overflows() {
	run --overflow "$PY" "$W/intervene/overflows.py"
	like "a table has the columns of --stats" "$T/err" '^\|  +name  +\| inf_or_nan \| +min +\| +max +\| +mean +\| +std +\| +norm +\| nan \| inf \| -inf \| zeros \|'
	like "inputs" "$T/err" '^\| +torch.log input\[0\] +\| +False +\| +-1 +\| +1 +\| +0 +\| +1 +\| +1.41421 +\| +0 +\| +0 +\| +0 +\| +1 +\|'
	like "results" "$T/err" '^\| +torch.log output\[0\] +\| +True +\| +-inf +\| +0 +\| +0 +\| +nan +\| +0 +\| +1 +\| +0 +\| +1 +\| +1 +\|'
	like "gradients" "$T/err" '^\| +torch.sqrt grad_inputs\[0\] +\|    True    \| 0\.25 \| inf \|.*\|  0  \|  1  \|  0   \|'
	like "what is written, where nothing is given back" "$T/err" '^\| torch.Tensor.__setitem__ output\[0\] \| +True +\| +1 +\| inf '
	like "and where that is" "$T/err" '^ +1  torch.Tensor.__setitem__  overflows.py:[0-9]+ <module>$'
	like "and where they came from" "$T/err" "^ +1  torch.log +overflows.py:$(grep -n 'torch.log' "$W/intervene/overflows.py" | cut -d: -f1) "
	OP_OVERFLOW_CHECK_LIST=torch.log,torch.Tensor.sum OP_OVERFLOW_CHECK_DISABLE_LIST=torch.Tensor.sum change --overflow -- "$W/intervene/overflows.py"
	like "ditorch's lists" "$T/err" '^ditrace: overflow: 1 call of 1 function measured'
	change --overflow --ops gelu -- "$W/intervene/device.py" --steps 1
	like "on a device" "$T/err" '^ditrace: overflow: 1 call of 1 function measured'
	like "nothing is said where nothing is" "$T/err" '^ditrace: overflow: no NaN and no infinity in what they gave'
}

operators() {
	run --level aten --compare all "$PY" "$W/intervene/flaky.py"
	is "a fault in a backward kernel, and no other" "$(grep -c ' WRONG ' "$T/err")" 1
	like "by the operator's name, at its line" "$T/err" "^aten::gelu_backward  WRONG  .*/flaky.py:$(grep -n 'backward()' "$W/intervene/flaky.py" | cut -d: -f1) "
	alone "$W/intervene/device.py" --device cpu >"$T/plain"
	change --level aten --fallback-all -- "$W/intervene/device.py" --device cpu
	ok "on the CPU already: as it was" cmp "$T/plain" "$T/out"
	change --level aten --cast 'bfloat16->float32' --ops 'aten::add.Tensor,gelu_backward' -- "$W/intervene/device.py" --device cpu --dtype bfloat16 --steps 2
	like "operators of forward and backward are cast" "$T/err" '^ditrace: cast: 4 calls of 2 functions'
}

own() {
	local option
	alone "$W/intervene/own_modes.py" >"$T/plain"
	like "it has modes of its own" "$T/plain" "a:mul"
	for option in '--fallback-all' '--cast float32->float64' '--compare all' '--overflow' '--overflow --level aten'; do
		# shellcheck disable=SC2086
		change $option -- "$W/intervene/own_modes.py"
		ok "the program's own modes beside $option" cmp "$T/plain" "$T/out"
	done
}

# Thousands of compared calls of a training in bfloat16: no false alarm, and no growing memory
long() {
	alone "$W/intervene/device.py" --device cpu --dtype bfloat16 --steps "$STEPS" >"$T/plain"
	change --compare all -- "$W/intervene/device.py" --device cpu --dtype bfloat16 --steps "$STEPS" --memory
	ok "a long training computes the same" cmp "$T/plain" "$T/out"
	like "without an alarm" "$T/err" "^ditrace: compare: $(with_commas $((STEPS * 7))) backward, $(with_commas $((STEPS * 21 + 2))) tensors judged, 0 not"
	steady "its memory does not grow"
	change --fallback-all --cast 'float32->float64' -- "$W/intervene/device.py" --steps 201 --memory
	like "a training on the CPU in place of the device" "$T/err" '^ditrace: fallback: 2,[0-9]{3} calls'
	steady "does not grow either"
}

with_commas() {
	sed -E 's/([0-9]{3})$/,\1/' <<<"$1"
}

steady() {
	local mib
	mapfile -t mib < <(sed -n 's/^resident //p' "$T/err")
	ok "$1: ${mib[*]} MiB" test $((mib[1] - mib[0])) -le 8
}

levels() {
	long
	overflows
	operators
	own
}
each_torch forking levels
T=$base
error "no such level" '--level: there is no level jit' "$DITRACE" run --overflow --level jit true
done_testing
