#!/usr/bin/env bash
# What the commands make of a recorded file: script, report, export, each also for programs, and --follow.
. "$(dirname "$0")/../lib.sh"
need_tracing

KEYS='["args", "backward_of", "depth", "end_ns", "forward_id", "id", "op", "parameter", "parent", "phase", "pid", "results", "stack", "start_ns", "thrown", "tid"]'

# If the writer pauses for a second, ops are printed without waiting for the op around them.
follow() {
	local tracer
	start_as tracer "$DITRACE" run -o "$T/live" -- "$PY" train.py --steps 40 >"$T/live.out" 2>"$T/err"
	wait_line "$T/live.out" '^0 '
	timeout "$PATIENCE" "$DITRACE" script --follow --format jsonl "$T/live" >"$T/followed"
	echo "script --follow: $?"
	wait "$tracer"
	cmp <("$DITRACE" script --format jsonl "$T/live" | LC_ALL=C sort) <(LC_ALL=C sort "$T/followed")
}

files() {
	trace -- "$PY" train.py --steps 3
	ok "script --format jsonl" events
	is "each event has these keys" "$(verify trace/keys "$T/events")" "$KEYS"
	ok "report" "$DITRACE" report "$T/data"
	"$DITRACE" report --percent-limit 0 "$T/data" >"$T/report"
	like "the report has the op and its line" "$T/report" 'aten::linear .*train.py:[0-9]+'
	like "and its columns" "$T/report" 'Total.*Self.*Calls|Self.*Total.*Calls'
	"$DITRACE" report --format json "$T/data" >"$T/json"
	ok "report --format json is JSON with the same op" python3 -c \
		'import json, sys; sys.exit("aten::linear" not in json.dumps(json.load(open(sys.argv[1]))))' "$T/json"
	"$DITRACE" export "$T/data" --to csv >"$T/csv"
	ok "export --to csv has ditorch's columns" verify trace/csv_columns "$T/csv"
	ln -f "$T/data" "$T/same"
	cp "$T/data" "$T/copy"
	ok "export refuses to write over the trace it reads" not "$DITRACE" export "$T/data" -o "$T/same"
	ok "and leaves it as it was" cmp "$T/data" "$T/copy"
	if of_first_torch; then
		ok "script --follow sees all of a file that is being written" follow
	else
		skip "what follows a file knows no torch: make test-long"
	fi
}
each_torch files
done_testing
