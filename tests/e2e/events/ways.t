#!/usr/bin/env bash
# Ops that come through torch.ops, dispatch modes and autograd.Functions are events like any other.
. "$(dirname "$0")/../lib.sh"
need_tracing

torch_ops() {
	ok "all of them are events, each with its own argument" python3 - "$T/events" <<-'EOF'
		import collections, json, sys
		seen = collections.defaultdict(list)
		for line in open(sys.argv[1]):
		    e = json.loads(line)
		    if any("torchops.py" in f["file"] for f in e["stack"]):
		        seen[e["op"]].append([a.get("value") for a in e["args"]])
		assert [a[2] for a in seen["aten::add.Tensor"]] == list(range(100)), seen["aten::add.Tensor"]
		assert [a[0] for a in seen["ditrace_test::numbers"]] == list(range(100)), seen["ditrace_test::numbers"]
		assert [a[1] for a in seen["aten::mul.Scalar"] if a[1] is not None] == list(range(100))
		assert len(seen["aten::neg"]) == 2, seen["aten::neg"]
	EOF
	unlike "and none was missed" "$T/err" '[0-9.]+ ?% of (the )?dispatched ops'
}

functions() {
	ok "their backward is shown under the class's name" python3 - "$T/events" <<-'EOF'
		import collections, json, sys
		seen = collections.Counter()
		for line in open(sys.argv[1]):
		    e = json.loads(line)
		    seen[e["op"], e["phase"]] += 1
		print("#", {k: v for k, v in seen.items() if "Cube" in k[0] or "Split" in k[0] or "PyNode" in k[0]})
		sys.exit(seen["CubeBackward", "backward"] != 100 or seen["SplitSumBackward", "backward"] != 50)
	EOF
}

both() {
	[ "$ENGINE" != ptrace ] || of_first_torch || { skip "ptrace has run with another torch: make test-long"; return; }
	ok "torch.ops and autograd.Functions run traced" trace -- "$PY" -c 'import torchops, customfn'
	events
	torch_ops
	functions
}
each_torch each_engine both
done_testing
