#!/usr/bin/env bash
# Ops called through torch.ops, dispatch modes and autograd.Functions are events like any other.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing

torch_ops() {
	ok "all of them are events, each with its own argument" verify events/torch_ops "$T/events"
	unlike "and none was missed" "$T/err" '[0-9.]+ ?% of (the )?dispatched ops'
}

both() {
	[ "$ENGINE" != ptrace ] || of_first_torch || { skip "ptrace has run with another torch: make test-long"; return; }
	[ "$ENGINE" != bpf ] || of_other_torch || { skip "bpf: with the other torch, or make test-long"; return; }
	ok "torch.ops and autograd.Functions run traced" recorded -- in_turn.py torchops.py customfn.py
	events
	torch_ops
	ok "their backward is shown under the class's name" verify events/autograd_functions "$T/events"
}
each_torch forking each_engine both
done_testing
