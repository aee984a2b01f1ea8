#!/usr/bin/env bash
# Ops that a library calls by a handle inlined into its own function are events, one for each call.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing

calls() {
	is "calls of $1" "$(grep -c "\"op\": *\"$1\"" "$T/events")" "$2"
}

collectives() {
	ok "collectives run traced" recorded -- inlined.py
	events
	calls c10d::allreduce_ 5
	calls c10d::broadcast_ 3
	calls c10d::barrier 1
	unlike "none of them ended by an exception" "$T/events" '"op": *"c10d::[a-z]*_?".*"thrown": *true'
	unlike "and none was missed" "$T/err" '[0-9.]+ ?% of (the )?dispatched ops'
}

# As on a busy machine: it gets no processor until the program has ended.
late() {
	start_as tracer "$DITRACE" run --engine bpf --print -o "$T/data" -- "$PY" inlined.py "$T/go" >"$T/out" 2>"$T/err"
	wait_line "$T/out" 'c10d::barrier'
	kill -STOP "$tracer"
	touch "$T/go"
	wait_line "/proc/$(grep -oxm 1 '[0-9]*' "$T/out")/status" '^State:.Z'
	kill -CONT "$tracer"
	finish "$tracer"
	events
	calls c10d::allreduce_ 5
	calls c10d::broadcast_ 3
}

all() {
	forking each_engine collectives
	late
}
each_torch all
done_testing
