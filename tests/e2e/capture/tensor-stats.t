#!/usr/bin/env bash
# --stats: the statistics recorded of every tensor are those the program computes itself, and the program is not affected.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../attached.sh"
need_tracing

numbers() {
	ok "a run with --stats" trace --engine ptrace --stats --ops flip,mul_,hypot,HypotBackward -- "$PY" capture/stats.py "$T/expected"
	is "the program's own results are the same, bit by bit" "$(cat "$T/out")" "$(untraced capture/stats.py /dev/null)"
	"$DITRACE" script --format jsonl --stats "$T/data" >"$T/events"
	ok "the numbers are those of the program" python3 "$here/compare_stats.py" "$T/events" "$T/expected"
	like "the table of what was not finite" "$T/err" '^ +2 +3 +2 +1 +[0-9,]+  aten::flip  +stats.py:[0-9]+ main: y = x.flip'
	"$DITRACE" script --format jsonl "$T/data" >"$T/all"
	unlike "without the option objects of events alone" "$T/all" stats_of
	"$DITRACE" script "$T/data" >"$T/text"
	like "the text has a table" "$T/text" '^\| +name +\| inf_or_nan \| +min +\| +max +\| +mean +\| +std +\| +norm +\| nan \| inf \| -inf \| zeros \| +hash'
	like "with a row for an argument" "$T/text" '^\| +self +\| +True +\| +-inf +\| +inf +\|'
	"$DITRACE" report "$T/data" >"$T/text"
	like "report has the table, too" "$T/text" 'aten::flip  +stats.py:[0-9]+ main: y = x.flip'
}

# Measured while the thread waits in the shim.
inside() {
	ok "a run with --stats, by the engine shim, unless another is asked for" trace --stats --ops flip,mul_,hypot,HypotBackward -- "$PY" capture/stats.py "$T/expected"
	is "the program's own results are the same, bit by bit" "$(cat "$T/out")" "$(untraced capture/stats.py /dev/null)"
	"$DITRACE" script --format jsonl --stats "$T/data" >"$T/events"
	ok "the numbers are those of the program" python3 "$here/compare_stats.py" "$T/events" "$T/expected"
	like "the engine is told" "$T/err" '^ditrace: engine shim$'
	ok "a program runs" begin '^pid ' paced.py
	ok "attach --stats" "$DITRACE" attach --engine shim --stats --count 300 -o "$T/data" "$target"
	"$DITRACE" script --format jsonl --stats "$T/data" >"$T/events"
	is "measures all that it records" "$(grep -c stats_of "$T/events")" 300
	kill -TERM "$target"
	the_end
	is "and leaves it well" "$status" 0
	error "but not the first NaN, in a trace" 'does not go together with a trace' "$DITRACE" run --first-nan --engine shim -o "$T/none" "$PY" capture/nan.py clean
}

choices() {
	ok "a run with --print" attached -o "$T/data" --stats --print --ops flip --when 'self.dtype == int16' -- capture/stats.py "$T/expected"
	is "--when chooses, and --print shows them" "$(grep -c inf_or_nan "$T/out")" 1
	like "a clean run says so" "$T/err" 'measured 1 call: no NaN and no infinity'
	ok "a run with --nth" attached -o "$T/data" --stats --ops flip,hypot,HypotBackward --nth 2 -- capture/stats.py "$T/expected"
	"$DITRACE" script --format jsonl --stats "$T/data" | grep -c stats_of >"$T/count"
	is "--nth chooses calls and the backward of these" "$(cat "$T/count")" 3
	OP_OVERFLOW_CHECK_LIST=torch.Tensor.hypot \
		ok "a run with a list" attached -o "$T/data" --stats --ops flip,mul_,hypot,HypotBackward -- capture/stats.py "$T/expected"
	"$DITRACE" script --format jsonl --stats "$T/data" >"$T/events"
	is "OP_OVERFLOW_CHECK_LIST chooses operators, with their backward" "$(verify capture/measured_ops "$T/events")" "HypotBackward0 aten::hypot"
	is "and all events are recorded" "$(grep -c '"op":' "$T/events")" "$(grep -c '"op":' "$T/all")"
	OP_OVERFLOW_CHECK_DISABLE_LIST='torch.*hypot' \
		ok "a run with the other list" attached -o "$T/data" --stats --ops flip,hypot,HypotBackward -- capture/stats.py "$T/expected"
	"$DITRACE" script --format jsonl --stats "$T/data" >"$T/events"
	is "OP_OVERFLOW_CHECK_DISABLE_LIST leaves some out" "$(verify capture/measured_ops "$T/events")" "aten::flip"
}

# independent of PyTorch
refusals() {
	OP_OVERFLOW_CHECK_LIST='(' error "a list that is none" 'OP_OVERFLOW_CHECK_LIST: item 1' "$DITRACE" run --stats -o "$T/none" "$PY" capture/stats.py "$T/expected"
	error "--engine bpf stops none" '--stats needs threads that stand still' \
		"$DITRACE" run --stats --engine bpf -o "$T/none" "$PY" capture/stats.py "$T/expected"
}

# choices compares with the events that numbers recorded
stats() {
	numbers
	inside
	choices
}
each_torch forking stats
first_torch
refusals
done_testing
