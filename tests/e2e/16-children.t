#!/usr/bin/env bash
# run follows what a program starts: forks, DataLoader workers, exec, shells, and torch loaded late.
. "$(dirname "$0")/lib.sh"
need_tracing

# fills: PID-COUNT pairs and the values that aten::full was called with at the outermost level
fills() {
	python3 - "$T/events" <<-'EOF'
		import json, sys
		events = [json.loads(line) for line in open(sys.argv[1])]
		calls = [(e["args"][1]["value"], e["pid"]) for e in events if e["op"] == "aten::full"]
		print(sorted(v for v, _ in calls), len({p for _, p in calls}))
	EOF
}

# repeats: whether this is ptrace with another torch than the first
repeats() {
	[ "$ENGINE" = ptrace ] && ! in_long && [ "$PY" != "${FIRST:=$PY}" ]
}

children() {
	! repeats || { skip "ptrace has run with another torch: make test-long"; return; }
	ok "forks and a DataLoader run traced" trace -- "$PY" fork.py
	is "their output is the same" "$(cat "$T/out")" "total 16056"
	events
	is "every child's ops are seen" "$(fills)" "[1, $(printf '2, %.0s' {1..10})$(printf '3, %.0s' {1..10})1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007] 5"
	ok "exec and a shell run traced" trace -- "$PY" exec.py
	is "their output is the same" "$(cat "$T/out")" $'ran 5\nran 6'
	events
	is "the ops of both are seen" "$(fills)" "[5, 6] 2"
	trace -- /bin/sh -c "'$PY' late_import.py 1; exit 7"
	is "the program's exit status is ditrace's" $? 7
	late
	in_long || { skip "a late import of the program itself: make test-long"; return; }
	ok "a late import runs traced" trace -- "$PY" late_import.py 1
	late
}

late() {
	events
	is "a late import's ops are seen from the first" "$(fills)" "[$(seq -s ', ' 0 19)] 1"
}
each_torch each_engine children
done_testing
