#!/usr/bin/env bash
# The engine ptrace leaves a program as it was: attached to and left again, killed at any moment (KILLS
# times), with signals and stops, children and exec, and when something else traces already.
. "$(dirname "$0")/lib.sh"
need_tracing
KILLS=${KILLS:-20}

losses() {
	grep -v '^pid ' "$1"
}

# untraced PID: until nothing traces any thread of it
untraced() {
	local i
	for ((i = 0; i < 300; i++)); do
		cat /proc/"$1"/task/*/status 2>/dev/null | grep -q '^TracerPid:	[1-9]' || return 0
		sleep 0.1
	done
	echo "still traced"
	return 1
}

left_alone() {
	untraced "$child" && python3 "$here/code_unchanged.py" "$child"
}

kill_often() {
	local i tracer alive=0
	RANDOM=1
	for ((i = 0; i < KILLS; i++)); do
		start_as tracer "$DITRACE" attach --engine ptrace "$child" -o "$T/killed" >/dev/null 2>"$T/killed.err"
		sleep "$((RANDOM % 4)).$(printf %03d $((RANDOM % 1000)))"
		kill -0 "$tracer" 2>/dev/null && alive=$((alive + 1))
		kill -9 "$tracer" 2>/dev/null
		wait "$tracer" 2>/dev/null
		left_alone >/dev/null || return 1
	done
	echo "# $alive of $KILLS were running when killed"
	[ "$alive" -ge $((KILLS * 9 / 10)) ] || { cat "$T/killed.err" && return 1; }
}

killed() {
	local steps
	start "$PY" train.py --steps 1000000 >"$T/long" 2>"$T/long.err"
	wait_line "$T/long" '^1 '
	ok "the training outlives $KILLS killed ditraces" kill_often
	ok "one can still attach" "$DITRACE" attach --engine ptrace "$child" --for 1s -o "$T/data"
	ok "and it is left alone then" left_alone
	kill -TERM "$child"
	finish "$child"
	is "the training ends well" "$status" 0
	steps=$(losses "$T/long" | wc -l)
	"$PY" train.py --steps "$steps" >"$T/plain" 2>/dev/null
	ok "its $steps losses are those of an untraced one" cmp <(losses "$T/long") <(losses "$T/plain")
}

attached() {
	ok "a program runs" start_busy
	ok "attach for a second" "$DITRACE" attach --engine ptrace "$child" --for 1s -o "$T/a"
	ok "the code is as in the file" left_alone
	start_as tracer env --default-signal=INT "$DITRACE" attach --engine ptrace "$child" -o "$T/b" >"$T/b.out" 2>&1
	sleep 4
	error "a second one is told who traces" 'traces it already' "$DITRACE" attach --engine ptrace "$child" -o "$T/c"
	kill -INT "$tracer"
	wait "$tracer"
	is "Ctrl-C ends it well" $? 0
	ok "the table is shown" found "$T/b.out" 'engine ptrace'
	ok "the code is as in the file" left_alone
	kill -STOP "$child"
	ok "attach to a stopped program" "$DITRACE" attach --engine ptrace "$child" --for 1s -o "$T/d"
	like "it is still stopped" "/proc/$child/status" '^State:	T'
	ok "the code is as in the file" left_alone
	kill -CONT "$child"
	ok "attach for a number of ops" "$DITRACE" attach --engine ptrace "$child" --count 300 -o "$T/e"
	start_as tracer "$DITRACE" attach --engine ptrace "$child" -o "$T/f" >"$T/f.out" 2>&1
	sleep 4
	stop_busy
	is "the program ends well" "$status $(tail -n 1 "$T/busy")" "0 ended well True"
	wait "$tracer"
	is "ditrace ends with it" $? 0
}

fills() {
	"$DITRACE" script --format jsonl "$T/data" | "$PY" -c '
import json, sys
calls = [(e["args"][1]["value"], e["pid"]) for e in map(json.loads, sys.stdin) if e["op"] == "aten::full"]
print(sorted(v for v, _ in calls), len({p for _, p in calls}))'
}

followed() {
	ok "forks and a DataLoader run traced" trace --engine ptrace -- "$PY" fork.py
	is "their output is the same" "$(cat "$T/out")" "total 16056"
	is "every child's ops are seen" "$(fills)" "[1, $(printf '2, %.0s' {1..10})$(printf '3, %.0s' {1..10})1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007] 5"
	ok "exec and a shell run traced" trace --engine ptrace -- "$PY" exec.py
	is "the ops of both are seen" "$(fills)" "[5, 6] 2"
	ok "a late import runs traced" trace --engine ptrace -- "$PY" late_import.py 1
	is "its ops are seen from the first" "$(fills)" "[$(seq -s ', ' 0 19)] 1"
	"$PY" signals.py >"$T/plain" 2>/dev/null
	ok "signals under trace" trace --engine ptrace -- "$PY" signals.py
	ok "do the same as without" cmp "$T/plain" "$T/out"
}

each_torch attached
each_torch followed
each_torch killed
done_testing
