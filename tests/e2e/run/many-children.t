#!/usr/bin/env bash
# More processes, one after the other, than are traced at once: all of them are traced.
. "$(dirname "$0")/../lib.sh"
need_tracing
N=260

# numbers: which processes' ops are seen, each once and by another process
numbers() {
	"$PY" - "$T/events" "$N" <<-'EOF'
		import json, sys
		events = [json.loads(line) for line in open(sys.argv[1])]
		calls = [(e["args"][1]["value"], e["pid"]) for e in events if e["op"] == "aten::full"]
		wanted = list(range(int(sys.argv[2]) + 1))
		seen = sorted(v for v, _ in calls)
		print("missing", set(wanted) - set(seen), len(calls), "calls", len({p for _, p in calls}), "processes")
		assert seen == wanted and all(e["stack"][0]["function"] for e in events)
	EOF
}

first_torch
ok "$N processes run traced" trace --engine ptrace --ops full --capture="$T/captured" --nth 1 -- "$PY" run/many.py "$N"
is "their output is the same" "$(cat "$T/out")" "done"
unlike "none is left alone" "$T/err" 'left alone'
like "the first call of each is captured" "$T/err" "^ditrace: captured $((N + 1)) calls"
events
ok "the op of each is seen, with its line" numbers
done_testing
