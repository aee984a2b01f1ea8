#!/usr/bin/env bash
# Whoever answers in place of ditrace can neither drive the terminal of `ditrace ctl` nor keep it busy for ever.
. "$(dirname "$0")/../lib.sh"
first_torch

# lied HOW: `ditrace ctl` to a program that answers so
lied() {
	rm -f "$T/socket"
	start env LD_PRELOAD="$BUILD/tracer/shim/libditrace_shim.so" "$PY" trust/liar.py "$T/socket" "$1" >"$T/liar" 2>&1
	wait_line "$T/liar" '^pid '
	(ulimit -v 4000000 && exec timeout "$PATIENCE" "$DITRACE" ctl "$child" fallback off) >"$T/out" 2>&1
	status=$?
	kill -9 "$child"
}

clean() {
	! LC_ALL=C grep -nP '[\x00-\x08\x0b-\x1f\x7f]|\xe2\x80[\x8e\x8f\xa8-\xae]' "$1"
}

lied keys
is "keys of any kind are shown" $status 0
like "as text" "$T/out" '^functions: \\x1b\]0;owned\\x07\\xe2\\x80\\xae +\\x1b\[31mred$'
ok "that the terminal does not obey" clean "$T/out"
lied nothing
is "a connection that is closed fails" $status 1
like "and is told of" "$T/out" 'does not answer'
lied flood
is "an answer without end fails" $status 1
like "and is called too long" "$T/out" 'answers with more than 1048576 bytes'
if in_long; then
	lied silence
	is "no answer fails" $status 1
	like "after its time" "$T/out" 'does not answer within 20 s'
else
	skip "waits for 20 s: make test-long" 2
fi
done_testing
