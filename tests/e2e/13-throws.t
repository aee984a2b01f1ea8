#!/usr/bin/env bash
# Twelve thousand ops that throw, with the engine bpf, and fewer with the others: the program goes on as ever, and they are marked as thrown.
. "$(dirname "$0")/lib.sh"
need_tracing

count_thrown() {
	"$PY" - "$T/events" "$1" <<-'EOF'
		import collections, json, sys
		thrown, passed = collections.Counter(), 0
		for line in open(sys.argv[1]):
		    e = json.loads(line)
		    thrown[e["op"], e["depth"]] += e["thrown"]
		    passed += not e["thrown"]
		    assert not (e["thrown"] and e["results"]), e
		n = int(sys.argv[2])
		wanted = ["aten::add.Tensor", "aten::linear", "aten::view", "aten::cat", "aten::mm", "aten::layer_norm"]
		seen = {op: thrown[op, 0] for op in wanted}
		print("# thrown:", seen, "passed:", passed)
		sys.exit(not (all(v == n // len(wanted) for v in seen.values()) and passed >= n))
	EOF
}

throws() {
	local n=1200
	[ "$ENGINE" != bpf ] || n=12000
	"$PY" throws.py "$n" >"$T/untraced" 2>&1
	ok "the program survives" trace -- "$PY" throws.py "$n"
	is "its output is the same" "$(cat "$T/out")" "$(cat "$T/untraced")"
	ok "the events can be read" events
	ok "each is marked as thrown" count_thrown "$n"
}
each_torch each_engine throws
done_testing
