#!/usr/bin/env bash
# Signals to ditrace run go to the program, even after tracing has ended; one that ends the program is named.
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

# dies COMMAND...
dies() {
	"$DITRACE" "$@" "$PY" -c 'import os, torch; torch.ones(2); os.kill(os.getpid(), 11)' 2>"$T/err"
	is "$*: a program that dies is said to have died, first of all" "$? $(grep -vE '^ditrace: (engine|taking samples)' "$T/err" | head -n 1 | cut -d, -f1)" \
		"139 ditrace: the program was ended by SIGSEGV"
}

deaths() {
	of_first_torch || return 0
	dies run -o "$T/data"
	dies run --compare all
	dies record -o "$T/data"
}
each_torch tracing_ended
each_torch deaths
done_testing
