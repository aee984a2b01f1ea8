#!/usr/bin/env bash
# PyTorch functions that are judged as they run, in a program that knows nothing of it: run --compare, with ditorch's tables.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
. "$(dirname "$0")/../changed.sh"

# engine: the one with which tracing costs least here
engine() {
	[ "$(id -u)" = 0 ] && echo bpf || echo ptrace
}

# judged OPTION... -- PROGRAM ARGUMENT...: in $T, where the CSV goes
judged() {
	rm -rf "$T/op_tools_results"
	(cd "$T" && ditraced "$@")
}

# shows FAULT: the output for the first wrong call
shows() {
	local part="output" given="inputs outputs inputs(cpu) outputs(cpu)"
	[ "$1" = forward ] || part="grad[0]" given="grad_output(cpu) grad_inputs grad_inputs(cpu)"
	ok "its number, the dtype of the reference and the line" is_headed "torch.nn.functional.gelu    forward_id: 4    cpu_dtype_cast_info(from:to): {torch.float32: torch.float64}" "/device.py:[0-9]+ train: h = F.gelu\(h\)"
	is "what it was given and gave, on both sides" "$(sed -nE 's/^\| +torch.nn.functional.gelu ([a-z_]+(\(cpu\))?) +\| \(8, 16\) .*/\1/p' "$T/err" | xargs)" "$given"
	is "in ditorch's columns" "$(sed -nE 's/^\| torch.nn.functional.gelu ([a-z0-9]+(\[0\])?) +\| +(False) +\| 0\.[0-9]{9} +\| +0\.[0-9]{9} +\| 0.000010000 \| 0.000010000 \| biased: .*/\1 \3/p' "$T/err")" "$part False"
}

compares() {
	local fault
	for fault in forward backward; do
		if [ $fault = forward ]; then
			(cd "$T" && run --engine "$(engine)" -o "$T/data" --compare all "$PY" "$W/intervene/device.py" --fault $fault)
			ok "recorded by another engine, without what comparing computes" was_recorded compare
		else
			judged --compare all -- "$W/intervene/device.py" --fault $fault
		fi
		is "a fault in a $fault kernel, and no other" "$(grep -c ' WRONG ' "$T/err")" 1
		like "at its line" "$T/err" "^torch.nn.functional.gelu  WRONG  .*/device.py:$(grep -n 'F.gelu' "$W/intervene/device.py" | cut -d: -f1) train  forward_id: [0-9]+  float32, lazy:0"
		shows $fault
		like "in the summary" "$T/err" "^ +3 +3 +torch.nn.functional.gelu +"
		ok "and in the CSV, in ditorch's columns" \
			verify intervene/worst_gelu $fault "$T"/op_tools_results/op_autocompare_result/op_autocompare_info_pid*.csv "$T/err"
	done
	AUTOCOMPARE_ERROR_TOLERANCE=1,1 judged --compare torch.nn.functional.gelu --every 2 -- "$W/intervene/device.py" --fault backward
	like "by ditorch's tolerance, of two calls" "$T/err" "^ditrace: compare: 2 calls of 1 function compared, "
	like "nothing is wrong" "$T/err" "^ditrace: compare: all 4 right$"
	like "and every second call" "$T/err" " +[0-9]+  torch.nn.functional.gelu +is left out by --every"
	alone intervene/device.py --device cpu --dtype bfloat16 --steps 20 >"$T/plain"
	judged --compare all -- "$W/intervene/device.py" --device cpu --dtype bfloat16 --steps 20
	ok "a bfloat16 training computes the same" cmp "$T/plain" "$T/out"
	like "of its calls" "$T/err" "^ditrace: compare: 262 calls of "
	like "without an alarm" "$T/err" "^ditrace: compare: all 402 right$"
	alone intervene/changes.py --device cpu >"$T/plain"
	judged --compare all -- "$W/intervene/changes.py" --device cpu
	ok "calls of all sorts as they were" cmp "$T/plain" "$T/out"
	unlike "all right" "$T/err" " WRONG "
}

under_autocast() {
	alone intervene/autocast.py >"$T/plain"
	judged --compare all -- "$W/intervene/autocast.py"
	ok "a training under autocast computes the same" cmp "$T/plain" "$T/out"
	like "without an alarm" "$T/err" "^ditrace: compare: all 1[0-9][0-9] right$"
	unlike "its forward is judged, too" "$T/err" "under autocast"
	like "of each linear" "$T/err" "^ +(27|30) +(27|30) +0 +torch.nn.functional.linear *$"
	judged --compare all -- "$W/intervene/autocast.py" fault
	is "a kernel that is wrong there is found, and no other" "$(grep -o '^[^ ]*  WRONG' "$T/err")" "torch.nn.functional.gelu  WRONG"
}

# of CUDA, without a GPU: what is cast, of which functions only the forward is compared, and which are left alone
under_cuda_autocast() {
	"$(warmed)" -c 'import torch; torch.get_autocast_dtype' 2>/dev/null || return 0
	"$(warmed)" "$here/intervene/device_casts.py" "$here/../../tracer/shim/modes" "$here/../../replay/runner" >"$T/out" 2>"$T/err"
	is "what autocast of a device does is found" "$(cat "$T/out")" "linear bfloat16 bfloat16
layer_norm .float32
pow .float32
gelu None
mse_loss .float32 None
float None
sum .float32 forward
sum of float64 None
cross_entropy None None forward torch.bfloat16
on the CPU None None"
}

# The program's choice of kernels holds for the reference, too, which then needs none of them.
of_one_backend() {
	"$(warmed)" -c 'import torch.nn.attention' 2>/dev/null || return 0
	judged --compare scaled_dot_product_attention -- "$W/intervene/one_backend.py"
	like "attention that the CPU has no kernel left for is judged" "$T/err" '^ditrace: compare: 1 backward, 4 tensors judged, 0 not$'
}

compare() {
	compares
	of_one_backend
	under_autocast
	under_cuda_autocast
}
each_torch forking compare
done_testing
