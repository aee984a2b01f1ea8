#!/usr/bin/env bash
# run follows what a program starts: forks, DataLoader workers, exec, shells, and torch loaded late.
. "$(dirname "$0")/lib.sh"
need_tracing

# fills PROGRAM: the values that aten::full was called with in it, and from how many processes
fills() {
	python3 - "$T/events.$1.jsonl" <<-'EOF'
		import json, sys
		events = [json.loads(line) for line in open(sys.argv[1])]
		calls = [(e["args"][1]["value"], e["pid"]) for e in events if e["op"] == "aten::full"]
		print(sorted(v for v, _ in calls), len({p for _, p in calls}))
	EOF
}

# A shell starts one process, which becomes another one at last.
children() {
	[ "$ENGINE" != ptrace ] || in_long || { skip "as in 41-ptrace-life.t: make test-long"; return; }
	trace -- /bin/sh -c "'$PY' in_turn.py 'late_import.py 1' fork.py exec.py; exit 7"
	is "the program's exit status is ditrace's" $? 7
	is "what it prints is the same" "$(grep -v '^pid ' "$T/out")" $'done\ntotal 16056\nran 5\nran 6'
	events
	ok "each has run" python3 "$here/split_at_marks.py" "$T/events" "$T/events" late_import fork exec
	is "a late import's ops are seen from the first" "$(fills late_import)" "[$(seq -s ', ' 0 19)] 1"
	is "every child's ops are seen, those of a DataLoader, too" "$(fills fork)" "[1, $(printf '2, %.0s' {1..10})$(printf '3, %.0s' {1..10})1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007] 5"
	is "the ops after exec and in a shell are seen" "$(fills exec)" "[5, 6] 2"
	in_long || { skip "a late import of the program itself: make test-long"; return; }
	ok "a late import runs traced" trace -- "$PY" late_import.py 1
	events
	cp "$T/events" "$T/events.alone.jsonl"
	is "its ops are seen from the first" "$(fills alone)" "[$(seq -s ', ' 0 19)] 1"
}
each_torch each_engine children
done_testing
