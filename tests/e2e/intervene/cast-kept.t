#!/usr/bin/env bash
# run --cast never harms the program: dtypes and side effects of its calls are unchanged, and a call is left alone if a kernel
# for it or its backward may be missing. Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"

# cast DTYPES [OPTION...]: nothing changes
cast() {
	ditraced --cast "$1" "${@:2}" -- intervene/cast_kept.py "$device"
	ok "$* on $device: as it was" cmp "$T/plain" "$T/out"
}

kept() {
	local device
	for device in lazy cpu; do
		alone intervene/cast_kept.py $device >"$T/plain"
		like "the workload works" "$T/plain" '^statistics'
		cast 'float32->float16'
		like "a gradient that cannot be had" "$T/err" "^ +1  torch.(special.i1|special.special_i1|nn.functional.mse_loss) +would fail: .*not implemented for 'Half'"
		like "numbers are read as they are" "$T/err" "^ +1  torch.Tensor.item +reads a number"
		cast 'float32->bfloat16'
		cast 'float32->float64'
		cast 'bfloat16->float32'
	done
	like "random functions are left alone" "$T/err" "^ +1  torch.bernoulli +is random"
	like "and so is what is cast already" "$T/err" "^ +[12]  torch.nn.functional.cross_entropy +runs under autocast"
	like "lists of several dtypes" "$T/err" "^ +1  torch._foreach_add +gives several results, of tensors of several dtypes"
	cast 'float32->float64' --level aten
	cast 'bfloat16->float32' --level aten
}
# Below autograd a tensor of the lazy device has no memory, and moving it to the CPU is up to the program.
operators() {
	local what
	for what in --fallback-all '--cast float32->float64'; do
		# shellcheck disable=SC2086 # words
		ditraced $what --level aten -- intervene/lazy_add.py
		like "operators on a device: $what" "$T/out" '^\[6.0, 6.0\]$'
		like "are changed" "$T/err" "^ {0,8}1 .*  aten::mul.Tensor( |$)"
	done
}

casts() {
	kept
	operators
}
each_torch forking casts
done_testing
