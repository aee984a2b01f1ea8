#!/usr/bin/env bash
# Hundreds of ops with arguments of every kind: the events are what PyTorch itself logged.
. "$(dirname "$0")/lib.sh"
need_tracing

truth() {
	[ "$ENGINE" != ptrace ] || of_first_torch || { skip "ptrace has run with another torch: make test-long"; return; }
	[ -s "$T/truth" ] || ok "PyTorch logs the workload" "$PY" ops.py --log "$T/truth"
	ok "the workload runs traced" trace -- "$PY" ops.py
	is "its output is the same" "$(cat "$T/out")" done
	ok "the events can be read" events
	ok "events and log agree" "$PY" "$here/compare_truth.py" --min-ops 9000 "$T/events" "$T/truth"
}
each_torch each_engine truth
done_testing
