#!/usr/bin/env bash
# Hundreds of ops that throw, with each engine: the program goes on as ever, and they are marked as thrown.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many THROWN 300 12000
how_many THROWN_BY_OTHERS 300 1200

count_thrown() {
	python3 - "$T/events" "$1" <<-'EOF'
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
	local n=$THROWN_BY_OTHERS
	[ "$ENGINE" != bpf ] || n=$THROWN
	[ "$ENGINE" = bpf ] || of_first_torch || { skip "by this engine with another torch: make test-long" 4; return; }
	ok "the program survives" trace -- "$PY" throws.py "$n"
	is "its output is the same" "$(cat "$T/out")" "$(untraced throws.py "$n")"
	ok "the events can be read" events
	ok "each is marked as thrown" count_thrown "$n"
}
each_torch each_engine throws
done_testing
