#!/usr/bin/env bash
# Captures of a program's calls equal the program's own values bit by bit, in ditorch's format.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
need_tracing

# capture PROGRAM OPTIONS... -- ARGUMENTS...
capture() {
	local program=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"$DITRACE" run --capture="$T/$program" -o "$T/data" "${options[@]}" -- "$PY" "$program.py" "$@" >"$T/out" 2>"$T/err"
}

# judge PROGRAM ARGUMENT...: forked from one process that has imported PyTorch
judge() {
	may_fork || { "$PY" "$@"; return; }
	forked "/proc/$BASHPID/fd/1" "/proc/$BASHPID/fd/1" go "$@" && answered ended && return "$REPLY"
}

# part NAME head|tail -n N: move the first or last calls of in_turn to $T/NAME
part() {
	local own=op_tools_results/op_capture_results call
	find "$T/in_turn/$own" -mindepth 3 -maxdepth 3 -printf '%f %P\n' | sort -n | "${@:2}" | while read -r _ call; do
		mkdir -p "$T/$1/$own/${call%/*}" && mv "$T/in_turn/$own/$call" "$T/$1/$own/$call"
	done
}

exact() {
	mkdir "$T/own"
	# lazy.py comes first: it needs a process that has seen no tensor
	ok "calls over all dtypes, views, lists, in place, conjugates and negatives, and ditorch's example" capture in_turn \
		--when 'depth == 0 and (function == "traced" and phase == forward or "lazy.py" in file and op == "aten::mul.Tensor" or
			"halves.py" in file and phase == forward and op in ("aten::mul.Tensor", "aten::add.Tensor", "aten::sub.Tensor",
			"aten::div.Tensor", "aten::sort", "aten::sum", "aten::to.dtype", "aten::linear"))' -- "capture/lazy.py $T/own" "capture/captured.py $T/own" capture/halves.py
	part lazy head -n 7
	part halves tail -n 17
	ok "are captured bit by bit, with their gradients" judge "$here/compare_captures.py" "$T/in_turn" "$T/own"
	like "gradients that cannot be told apart are left out" "$T/err" '^  skipped grad_inputs of 6 calls: arguments that come out of one op'
	like "and those that are sums of several" "$T/err" '^  skipped grad_inputs of 1 call: .* summed up of several'
	local wanted=xxxxxxx
	[ "${TORCH%%.*}" != 1 ] || wanted=---x--x # its torch.load does not support these bits
	is "conjugates and negatives are captured as such, or not at all" "$(judge "$here/lazy_captures.py" "$T/lazy" "$T/own/values.pth" 2>&1)" "$wanted"
	[ "${TORCH%%.*}" != 1 ] || like "which is told" "$T/err" '^  skipped 5 files: .*conjugate'
	ok "the ops of ditorch's example are captured in its form, and give the same again" judge "$here/ditorch_captures.py" "$T/halves"
	in_long || { skip "the same, chosen by ditorch's names: make test-long" 2; return; }
	rm -r "$T/halves"
	ok "they are chosen by ditorch's names" capture halves --when 'phase == forward and depth == 0' \
		--ops torch.mul,torch.add,torch.sub,torch.div,torch.sort,torch.sum,torch.Tensor.to,linear --
	ok "and are the same" judge "$here/ditorch_captures.py" "$T/halves"
}

# memory on a device: the hint says what to do instead, and that works as written
on_a_device() {
	"$DITRACE" run --capture="$T/none" --ops gelu -o "$T/data" "$PY" "$W/capture/gelus.py" >"$T/out" 2>"$T/err"
	like "tensors on a device are not read from outside" "$T/err" 'cannot be saved: argument 0: (memory on a device|a tensor of which not all is known)'
	local option
	option=$(grep -oE -m 1 -e "--apply '[^']+'" "$T/err" | head -n 1)
	is "the hint names what does" "$option" "--apply 'torch.nn.functional.gelu:op_capture'"
	rm -rf "$T/inside" && mkdir "$T/inside"
	(cd "$T/inside" && eval "'$DITRACE' run $option '$PY' '$W/capture/gelus.py'") >"$T/out" 2>"$T/err"
	like "and it works" "$T/err" '^ditrace: capture: 2 calls of 1 function captured'
	is "forward and backward" "$(find "$T/inside" -name '*.pth' | wc -l)" 6
	of_first_torch || { skip "--engine shim beside --capture was with another torch: make test-long" 4; return; }
	"$DITRACE" run --capture="$T/shim" --engine shim --ops gelu --nth 2- --max-calls 1 "$PY" "$W/capture/gelus.py" >"$T/out" 2>"$T/err"
	like "by --nth, too" "$T/err" "is left out by --nth or --every"
	like "so does --engine shim beside --capture" "$T/err" "^ditrace: 1 call saved.* replay $T/shim/"
	is "with its limit" "$(find "$T/shim" -name '*.pth' -printf '%f\n' | sort | xargs)" "grad_inputs.pth grad_outputs.pth input.pth output.pth"
	error "not by steps" '--step does not go together' "$DITRACE" run --capture --engine shim --step 2 "$PY" "$W/capture/gelus.py"
}
each_torch forking exact
each_torch on_a_device
done_testing
