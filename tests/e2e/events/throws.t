#!/usr/bin/env bash
# Hundreds of ops that throw, with each engine: the program is not affected, and they are marked as thrown.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing
how_many THROWN 300 12000
how_many THROWN_BY_OTHERS 300 1200

throws() {
	local n=$THROWN_BY_OTHERS
	[ "$ENGINE" != bpf ] || n=$THROWN
	[ "$ENGINE" = bpf ] || of_first_torch || { skip "by this engine with another torch: make test-long" 4; return; }
	ok "the program survives" recorded -- throws.py "$n"
	is "its output is the same" "$(cat "$T/out")" "$(untraced throws.py "$n")"
	ok "the events can be read" events
	ok "each is marked as thrown" verify events/thrown "$T/events" "$n"
}
each_torch forking each_engine throws
done_testing
