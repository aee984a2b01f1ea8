#!/usr/bin/env bash
# --measure-overhead: a figure; a recording that is whole from where it begins; the program's numbers.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
need_tracing

# Each step has the same ops in the same places, and an op that lies in others is never the outermost.
same_steps() {
	"$DITRACE" script --format jsonl "$T/data" | python3 "$here/run/same_steps.py"
}

has_steps() {
	[ "$(stat -c %s "$T/data" 2>/dev/null || echo 0)" -gt 60000 ]
}

measures() {
	local tracer engine=$1
	rm -f "$T/word" "$T/data"
	begin '^ready' run/turns.py "$T/word"
	start_as tracer "$DITRACE" attach --engine "$engine" --measure-overhead=12 -o "$T/data" "$target" >"$T/table" 2>"$T/err"
	ok "it says when recording begins" wait_line "$T/err" 'overhead is measured; recording begins'
	ok "and records then" before_long has_steps
	touch "$T/word"
	the_end
	finish "$tracer"
	is "it ends well" "$status" 0
	like "a figure, and how far it may be off" "$T/err" ', 0 lost; measured: -?[0-9.]+ % ± [0-9.]+ % slower, in 12 turns'
	like "what is not recorded is counted" "$T/err" '[0-9],[0-9]{3} ops before that, while the overhead was measured, are not recorded'
	"$DITRACE" report "$T/data" >"$T/report"
	like "the report has the same" "$T/report" "$(grep -oE 'measured: [^,]*' "$T/err" | head -1)"
	ok "all steps are whole" same_steps
	alone run/turns.py "$(tail -1 "$T/out" | cut -d' ' -f1)" | tail -1 >"$T/untraced"
	is "the numbers are the same" "$(tail -1 "$T/out")" "$(cat "$T/untraced")"
}

# A program that ends too early.
ends_early() {
	"$DITRACE" run --measure-overhead -o "$T/short" -- "$PY" -c 'import torch; torch.ones(2)' >"$T/out" 2>"$T/err"
	like "that it was too short is said" "$T/err" 'the overhead is not measured, and nothing is recorded: tracing ended after 0 of 24 turns'
	unlike "and no figure" "$T/err" 'probes (made|took)|measured:'
}

by_engines() {
	measures shim
	if of_first_torch; then
		measures bpf
		ends_early
	fi
}

each_torch forking by_engines
done_testing
