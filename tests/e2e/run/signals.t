#!/usr/bin/env bash
# Signals to ditrace run go to the program, even after tracing has ended.
. "$(dirname "$0")/../lib.sh"
need_tracing

tracing_ended() {
	start "$DITRACE" run --ops add_ --capture="$T" --max-calls 1 -o "$T/data" -- "$PY" run/until_sigterm.py >"$T/out" 2>"$T/err"
	ok "tracing ends" wait_line "$T/err" '^trace written to'
	ok "the program goes on" wait_line "$T/out" '^done'
	kill -INT "$child"
	sleep 0.5
	ok "ditrace waits for it, Ctrl-C or not" kill -0 "$child"
	kill -TERM "$child"
	finish "$child"
	is "it gets SIGTERM, and its status is ditrace's" "$status" 7
}
each_torch tracing_ended
done_testing
