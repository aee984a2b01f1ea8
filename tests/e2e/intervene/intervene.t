#!/usr/bin/env bash
# PyTorch functions that are changed in a running program that knows nothing of it: run --fallback and --cast. Needs no
# privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
. "$(dirname "$0")/../changed.sh"
WARM=torch._dynamo # imported by torch.vmap and torch.compile

# as_before DESCRIPTION OPTION... -- PROGRAM ARGUMENT...: the program prints the same as without ditrace
as_before() {
	local what=$1 program=("${@:2}")
	while [ "${program[0]}" != -- ]; do program=("${program[@]:1}"); done
	alone "${program[@]:1}" >"$T/plain"
	ok "$what: runs" ditraced "${@:2}"
	ok "$what: as it was" cmp "$T/plain" "$T/out"
}

lists() {
	local linear="torch.nn.functional.linear"
	run --engine shim -o "$T/data" --fallback linear "$PY" intervene/device.py --steps 1
	is "by its last name" "$(count_of fallback)" 2
	ok "recorded by the engine shim at the same time" was_recorded fallback
	like "and its table has device and CPU" "$T/err" "\| +$linear input\(device\)\[1\] \| \(16, 6\) \| +\(6, 1\) +\| +96 +\| float32 \| lazy:0 \| +True +\|"
	like "for both" "$T/err" "\| +$linear input\(cpu\)\[1\] .*\|  cpu   \|"
	ok "with the call's number, and then its line" is_headed "$linear    forward_id: 1" "/device.py:[0-9]+ train: h = F.linear\(x, w\[0\]\)"
	OP_FALLBACK_LIST="$linear,torch.Tensor.add,torch.nn.functional.layer_norm" OP_FALLBACK_DISABLE_LIST=torch.Tensor.add \
		ditraced --fallback-all --not-ops layer_norm -- intervene/device.py --steps 1
	is "ditorch's lists, and our own" "$(count_of fallback)" 2
	ditraced --fallback relu6 -- intervene/device.py --steps 0
	like "a list without any call" "$T/err" "  hint: no function that was called is in the list"
}

faults() {
	local fault
	alone intervene/device.py --device cpu >"$T/cpu"
	ok "all ops on the CPU" ditraced --fallback-all -- intervene/device.py
	ok "give the losses of the CPU" cmp "$T/cpu" "$T/out"
	ditraced --fallback gelu -- intervene/device.py
	cp "$T/out" "$T/right"
	for fault in forward backward; do
		alone intervene/device.py --fault $fault >"$T/wrong"
		ok "a fault in a $fault kernel is seen" not cmp "$T/wrong" "$T/right"
		ditraced --fallback gelu -- intervene/device.py --fault $fault
		ok "and not with that op on the CPU" cmp "$T/out" "$T/right"
		is "it and nothing else" "$(count_of fallback)" 3
	done
	ditraced --fallback linear -- intervene/device.py --threads --steps 1
	is "threads" "$(count_of fallback)" 2
}

half() {
	as_before "half precision" --fallback-all -- intervene/halves_on_cpu.py
	like "that the CPU cannot compute" "$T/err" "^ {0,8}1 .*  torch.nn.functional.linear( |$)"
}

own_operator() {
	ditraced --fallback-all -- intervene/own_store.py
	like "an operator of the program's own writes to its argument, by name or overload" "$T/out" '^\[\[1.0\], \[2.0\]\] \[\[3.0\], \[4.0\]\]$'
}

# its tensors have no version counters, which otherwise show what a call has changed
inference() {
	ditraced --fallback add,mul_ -- intervene/inference.py
	like "under inference_mode" "$T/out" '\[6.0, 6.0\]'
	is "calls are computed on the CPU" "$(count_of fallback)" 1
	like "but not those that change an argument" "$T/err" "1  torch.Tensor.mul_ +may change an argument"
}

casts() {
	ditraced --cast 'torch.bfloat16->torch.float32' --ops torch.nn.functional.linear,torch.Tensor.view -- intervene/device.py --device cpu --dtype bfloat16 --steps 1
	is "a cast" "$(count_of cast)" 2
	like "of an input" "$T/err" "\| torch.nn.functional.linear \|  input\[0\] \| torch.bfloat16 -> torch.float32 \| torch.bfloat16->torch.float32 \|"
	like "of a result, back" "$T/err" "\| torch.nn.functional.linear \| output\[0\] \| torch.float32 -> torch.bfloat16 \| torch.bfloat16->torch.float32 \|"
	like "and none of a view" "$T/err" "1  torch.Tensor.view +is a view"
	OP_DTYPE_CAST_DICT="torch.bfloat16->torch.float32" OP_DTYPE_CAST_DISABLE_LIST=torch.Tensor.add OP_DTYPE_CAST_LIST='torch.Tensor.(?:add|mul_)' ditraced --cast env -- intervene/device.py --device cpu --dtype bfloat16 --steps 1
	is "ditorch's variables" "$(count_of cast)" 1
	as_before "bfloat16 in float32" --cast 'torch.bfloat16->torch.float32' -- intervene/changes.py --device cpu --dtype bfloat16
	as_before "in float64, on the CPU" --fallback-all --cast 'float32->double' -- intervene/changes.py
	like "both are counted" "$T/err" "^ditrace: cast: [1-9]"
}

applied() {
	ditraced --apply 'gelu:fallback:self.dim() == 2 and self.shape[1] == 16' --apply 'layer_norm:fallback:input.dtype == float16' \
		--apply 'linear:cast_dtype:args[1].numel() == 96' -- intervene/device.py --dtype bfloat16 --steps 1
	is "what a condition holds for" "$(count_of fallback)" 1
	like "and what it does not" "$T/err" '1  torch.nn.functional.layer_norm +does not meet the condition'
	like "ditorch's own dtypes" "$T/err" 'torch.nn.functional.linear \|  input\[0\] \| torch.bfloat16 -> torch.float32'
	is "for one of two calls" "$(count_of cast)" 1
	LINEAR_OP_DTYPE_CAST_DICT='bfloat16->float64' ditraced --cast 'bfloat16->float32' --ops linear,gelu -- intervene/device.py --device cpu --dtype bfloat16 --steps 1
	like "a variable of one function's own" "$T/err" 'linear \|  input\[0\] \| torch.bfloat16 -> torch.float64 \| +bfloat16->float64'
	like "is not another's" "$T/err" 'gelu \|  input\[0\] \| torch.bfloat16 -> torch.float32 \| +bfloat16->float32'
	alone -c 'import torch; torch.compile' || { skip "no torch.compile to turn off"; return; }
	run --eager --fallback relu6 "$PY" -c '
import torch
torch.compile(lambda x: x + 1, backend=lambda m, _: print("compiled") or m)(torch.ones(2))'
	unlike "--eager" "$T/out" compiled
}

forks() {
	run --fallback-all "$PY" intervene/forks.py
	is "the exit status is the program's" $? 7
	like "a fork is as its parent" "$T/err" "2  torch.add +is on the CPU"
}

killed() {
	start "$DITRACE" run --cast 'float32->float64' --ops torch.Tensor.add,linear "$PY" intervene/device.py --device cpu --steps 400 --alone >"$T/long" 2>"$T/err"
	wait_line "$T/long" '^3 '
	ok "a table of casts is headed as others are" before_long is_headed "torch.nn.functional.linear    forward_id: 1" "/device.py:[0-9]+ train: h = F.linear\(x, w\[0\]\)"
	kill -9 "$child"
	finish "$child"
	ok "the program outlives a killed ditrace" wait_line "$T/long" '^modes '
	is "and nothing is left in it" "$(tail -n 1 "$T/long")" "modes 0"
	is "all its steps are there" "$(wc -l <"$T/long")" 401
	start "$DITRACE" run --fallback relu "$PY" intervene/overridable.py >"$T/long" 2>"$T/err"
	wait_line "$T/long" '^modes 1'
	kill -9 "$child"
	finish "$child"
	ok "the mode is not taken off where PyTorch is about to ask it" wait_line "$T/long" '^done'
}

intervene() {
	as_before "calls of all sorts on a device" --fallback-all -- intervene/changes.py
	like "most on the CPU" "$T/err" "^ditrace: fallback: 4[0-9] calls of 2[0-9] functions computed on the CPU"
	as_before "on the CPU already" --fallback-all -- intervene/changes.py --device cpu
	is "none of them changed" "$(count_of fallback)" 0
	as_before "compiled functions" --cast 'float32->float64' -- intervene/compiled.py
	lists
	faults
	half
	own_operator
	inference
	casts
	applied
	forks
	killed
}
each_torch forking intervene
T=$base
error "no list" 'the list is empty' "$DITRACE" run --fallback '' true
error "operators of the dispatcher" 'functions of Python are chosen' "$DITRACE" run --fallback aten::add true
error "no dtypes" 'is not FROM->TO' "$DITRACE" run --cast 'float16->int9' true
error "operators are met within their calls" '--level aten does not go together with a trace: .* twice' "$DITRACE" run --fallback aten::add --level aten --print true
error "no share" 'is not one of a number' "$DITRACE" run --compare all --sample=50 true
error "no feature" 'unknown feature' "$DITRACE" run --apply torch.add:nothing true
error "a condition that is none" 'nothing has "dtypo"' "$DITRACE" run --apply 'add:fallback:self.dtypo == 1' true
error "what is not known before" 'has no "elapsed"' "$DITRACE" run --apply 'add:fallback:elapsed > 1ms' true
error "whose ops" '--ops chooses for --cast' "$DITRACE" run --fallback add --ops add true
ok "a program without PyTorch" run --fallback add sh -c 'echo here'
like "runs on" "$T/out" '^here$'
like "and that is said" "$T/err" '^ditrace: no process of this program imported PyTorch; nothing was changed$'
done_testing
