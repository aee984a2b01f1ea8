#!/usr/bin/env bash
# A training with backward and optimizer: the events are what PyTorch itself logged.
. "$(dirname "$0")/lib.sh"
need_tracing

truth() {
	[ "$ENGINE" != ptrace ] || of_first_torch || { skip "ptrace has run with another torch: make test-long"; return; }
	[ -s "$T/truth" ] || ok "PyTorch logs the training" "$PY" train.py --steps 2 --log "$T/truth"
	ok "the training runs traced" trace -- "$PY" train.py --steps 2
	ok "the events can be read" events
	ok "events and log agree" "$PY" "$here/compare_truth.py" --min-ops 4000 "$T/events" "$T/truth"
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* lost'
}
each_torch each_engine truth
done_testing
