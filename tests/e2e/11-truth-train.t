#!/usr/bin/env bash
# A training with backward and optimizer: the events are what PyTorch itself logged.
. "$(dirname "$0")/lib.sh"
need_tracing

# repeats: whether this is ptrace with another torch than the first
repeats() {
	[ "$ENGINE" = ptrace ] && ! in_long && [ "$PY" != "${FIRST:=$PY}" ]
}

truth() {
	! repeats || { skip "ptrace has run with another torch: make test-long"; return; }
	[ -s "$T/truth" ] || ok "PyTorch logs the training" "$PY" train.py --steps 2 --log "$T/truth"
	ok "the training runs traced" trace -- "$PY" train.py --steps 2
	ok "the events can be read" events
	ok "events and log agree" "$PY" "$here/compare_truth.py" --min-ops 4000 "$T/events" "$T/truth"
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* lost'
}
each_torch each_engine truth
done_testing
