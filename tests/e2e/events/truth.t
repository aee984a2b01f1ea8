#!/usr/bin/env bash
# Hundreds of ops with arguments of every kind, a training with backward and optimizer, layers of functorch and modes: the events match PyTorch's own log.
. "$(dirname "$0")/../lib.sh"
need_tracing

# agree PROGRAM LEAST
agree() {
	ok "events and log of $1 agree" python3 "$here/compare_truth.py" --min-ops "$2" "$T/events.$1.jsonl" "$T/truth.$1"
}

logs() {
	"$(warmed)" in_turn.py "ops.py --log $T/truth.ops" "train.py --steps 2 --log $T/truth.train" \
		"events/layers.py --log $T/truth.layers" | grep -v '^pid ' >"$T/logged"
}

# The names of dimensions can be read as long as the program runs.
has_ops() {
	[ "$("$DITRACE" script --ops aten::full "$T/data" 2>/dev/null | grep -c 98765)" -ge 3 ]
}

truth() {
	[ "$ENGINE" = bpf ] || of_first_torch || { skip "$ENGINE has run with another torch: make test-long"; return; }
	[ -s "$T/truth.train" ] || ok "PyTorch logs the workloads" logs
	rm -f "$T/data"
	ok "the workloads run traced" trace -- "$PY" in_turn.py ops.py "train.py --steps 2" events/layers.py run/stays.py < <(before_long has_ops)
	is "their output is the same" "$(grep -v '^pid ' "$T/out")" "$(cat "$T/logged")"
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* lost'
	events
	ok "each has run" python3 "$here/split_at_marks.py" "$T/events" "$T/events" ops train layers stays
	agree ops 9000
	agree train 4000
	agree layers 200
}
each_torch each_engine truth
done_testing
