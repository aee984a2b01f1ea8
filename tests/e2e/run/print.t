#!/usr/bin/env bash
# run --print and script: a block for each op, with its line and a table of its arguments and results.
. "$(dirname "$0")/../lib.sh"
need_tracing

# block FILE OP: the lines of the first block of an op
block() {
	awk -v op="$2" '!on && index($0, op) && /^[^|+ ]/ { on = 1; print; next } on && /^[^|+ ]/ { exit } on' "$1"
}

looks_right() {
	block "$1" aten::add.Tensor >"$T/block"
	cat "$T/block"
	grep -q 'forward_id' "$T/block" && grep -q 'show.py:8' "$T/block" &&
		grep -q 'y = torch.add(x, x\[:, 1:2\], alpha=7)' "$T/block" &&
		grep -E 'name .*device .*dtype .*numel .*shape .*stride .*requires_grad .*layout .*data_ptr .*value' "$T/block" &&
		grep -E '\| +self .* cpu .*float32 .* 6 .*\(2, 3\) .*\(3, 1\) .*True .*torch.strided' "$T/block" &&
		grep -E '\| +other .* cpu .*float32 .* 2 .*\(2, 1\) .*\(3, 1\) .*True .*torch.strided' "$T/block" &&
		grep -E '\| +outputs .*\(2, 3\) ' "$T/block" &&
		grep -E '\| +alpha .* 7 ' "$T/block"
}

printed() {
	"$DITRACE" run ${ENGINE:+--engine "$ENGINE"} --print -o "$T/data" -- "$PY" run/show.py >"$T/out" 2>"$T/err"
	is "the program ends well" $? 0
	cat "$T/out" "$T/err" >"$T/all"
	like "its own output is there" "$T/out" '^shown$'
	ok "an op's block" looks_right "$T/all"
	like "a string argument" <(block "$T/all" aten::max.dim) 'keepdim .*False'
	like "a second result has its name" <(block "$T/all" aten::max.dim) 'indices .*int64'
	like "a backward op's block" "$T/all" 'AddBackward0'
	like "shows grad_outputs" <(block "$T/all" AddBackward0) 'grad_outputs?'
	like "and grad_inputs" <(block "$T/all" AddBackward0) 'grad_inputs?'
	"$DITRACE" script "$T/data" >"$T/script"
	ok "script prints the recorded file in the same form" looks_right "$T/script"
}
each_torch by_turns printed bpf shim
done_testing
