#!/usr/bin/env bash
# Several threads at once: each thread's ops are its own, with parents of their own thread.
. "$(dirname "$0")/../lib.sh"
need_tracing

how_many DITRACE_TEST_ROUNDS 60 200

threads() {
	[ "$ENGINE" != ptrace ] || of_first_torch || { skip "ptrace has run with another torch: make test-long"; return; }
	ok "threads run traced" trace -- "$PY" threads.py "$DITRACE_TEST_ROUNDS"
	events
	ok "no thread's ops are missing or mixed" python3 - "$T/events" "$DITRACE_TEST_ROUNDS" <<-'EOF'
		import collections, json, sys
		events = [json.loads(line) for line in open(sys.argv[1])]
		by_id = {e["id"]: e for e in events}
		owner, count = {}, collections.Counter()
		for e in events:
		    assert not e["parent"] or by_id[e["parent"]]["tid"] == e["tid"], e
		    if e["op"] == "aten::add.Tensor":
		        number = e["args"][2]["value"]
		        assert owner.setdefault(e["tid"], number) == number, e
		        assert e["args"][0]["shape"] == [number + 1] == e["results"][0]["shape"], e
		        count[number] += 1
		    if e["op"] == "aten::linear":
		        assert e["results"][0]["shape"] == [1, 3], e
		sys.exit(dict(count) != {n: int(sys.argv[2]) for n in range(4)})
	EOF
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* lost'
}
each_torch each_engine threads
done_testing
