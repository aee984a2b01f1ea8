#!/usr/bin/env bash
# More processes, one after the other, than can be traced at once: all are traced.
. "$(dirname "$0")/../lib.sh"
need_tracing
N=260

first_torch
ok "$N processes run traced" trace --engine ptrace --ops full --capture="$T/captured" --nth 1 -- "$PY" run/many.py "$N"
is "their output is the same" "$(cat "$T/out")" "done"
unlike "none is left alone" "$T/err" 'left alone'
like "the first call of each is captured" "$T/err" "^ditrace: captured $((N + 1)) calls"
events
ok "the op of each is seen, with its line" verify run/one_each "$T/events" "$N"
done_testing
