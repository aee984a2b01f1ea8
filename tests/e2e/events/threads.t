#!/usr/bin/env bash
# Several threads at once: each thread's ops are its own, with parents of their own thread.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing

how_many DITRACE_TEST_ROUNDS 60 200

threads() {
	[ "$ENGINE" != ptrace ] || of_first_torch || { skip "ptrace has run with another torch: make test-long"; return; }
	[ "$ENGINE" != bpf ] || of_other_torch || { skip "bpf: with the other torch, or make test-long"; return; }
	ok "threads run traced" recorded -- threads.py "$DITRACE_TEST_ROUNDS"
	events
	ok "no thread's ops are missing or mixed" verify events/thread_ops "$T/events" "$DITRACE_TEST_ROUNDS"
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* lost'
}
each_torch forking each_engine threads
done_testing
