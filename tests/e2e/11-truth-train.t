#!/usr/bin/env bash
# A training with backward and optimizer: the events are what PyTorch itself logged.
. "$(dirname "$0")/lib.sh"
need_tracing

truth() {
	[ -s "$T/truth" ] || ok "PyTorch logs the training" "$PY" train.py --steps 4 --log "$T/truth"
	ok "the training runs traced" trace -- "$PY" train.py --steps 4
	ok "the events can be read" events
	ok "events and log agree" "$PY" "$here/compare_truth.py" --min-ops 8000 "$T/events" "$T/truth"
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* lost'
}
each_torch each_engine truth
done_testing
