#!/usr/bin/env bash
# An argument in a page that is mapped but not present, like file pages that the kernel has reclaimed.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing

dims() {
	"$DITRACE" script --format jsonl "$T/data" | python3 -c 'import json, sys
for e in map(json.loads, sys.stdin):
    if e["op"] == "aten::flip":
        print([v["value"] for v in e["args"][1].get("items", ())] or e["args"][1])'
}

not_present() {
	[ "$ENGINE" = bpf ] || [ "$ENGINE" = "$other" ] || in_long || { skip "with another torch, or make test-long" 2; return; }
	ok "the program runs" recorded --ops flip,relu -- events/not_present.py
	is "each call's dims are seen" "$(dims | sort | uniq -c | xargs)" "10 [-1, 0]"
}

# bpf with each torch, the other engines with one each
all() {
	each_engine not_present
	other=shim
}

other=ptrace
each_torch forking all
done_testing
