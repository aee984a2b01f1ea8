#!/usr/bin/env bash
# What can be had of a recorded file: script, report, export, each for programs too, and --follow.
. "$(dirname "$0")/../lib.sh"
need_tracing

KEYS='["args", "depth", "end_ns", "forward_id", "id", "op", "parent", "phase", "pid", "results", "stack", "start_ns", "thrown", "tid"]'

keys() {
	python3 -c 'import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    print(json.dumps(sorted(e)))
    for f in e["stack"]: assert sorted(f) == ["column", "end_column", "file", "function", "line"], f
    for v in e["args"] + e["results"]:
        if v["kind"] == "tensor":
            assert set(v) == set("name kind shape stride storage_offset numel dtype device layout requires_grad data_ptr".split()), v
' "$T/events" | sort -u
}

csv_is_right() {
	python3 - "$T/csv" <<-'EOF'
		import csv, sys
		rows = list(csv.DictReader(open(sys.argv[1])))
		wanted = "name forward_id forward_elapsed backward_elapsed unit input output grad_inputs grad_outputs".split()
		assert list(rows[0]) == wanted, list(rows[0])
		linear = [r for r in rows if "addmm" in r["name"]]
		assert linear and all(float(r["forward_elapsed"]) > 0 for r in linear), linear[:3]
		assert any(r["backward_elapsed"] and float(r["backward_elapsed"]) > 0 for r in linear), linear[:3]
		ids = [r["forward_id"] for r in rows if r["forward_id"]]
		assert ids and len(set(ids)) == len(ids)
	EOF
}

# Where the writer does not come on for a second, ops are printed that have not waited for the one around them.
follow() {
	local tracer
	start_as tracer "$DITRACE" run -o "$T/live" -- "$PY" train.py --steps 40 >"$T/live.out" 2>"$T/err"
	wait_line "$T/live.out" '^0 '
	timeout 100 "$DITRACE" script --follow --format jsonl "$T/live" >"$T/followed"
	echo "script --follow: $?"
	wait "$tracer"
	cmp <("$DITRACE" script --format jsonl "$T/live" | LC_ALL=C sort) <(LC_ALL=C sort "$T/followed")
}

files() {
	trace -- "$PY" train.py --steps 3
	ok "script --format jsonl" events
	is "each event has these keys" "$(keys)" "$KEYS"
	ok "report" "$DITRACE" report "$T/data"
	"$DITRACE" report "$T/data" >"$T/report"
	like "the report has the op and its line" "$T/report" 'aten::linear .*train.py:[0-9]+'
	like "and its columns" "$T/report" 'Total.*Self.*Calls|Self.*Total.*Calls'
	"$DITRACE" report --format json "$T/data" >"$T/json"
	ok "report --format json is JSON with the same op" python3 -c \
		'import json, sys; sys.exit("aten::linear" not in json.dumps(json.load(open(sys.argv[1]))))' "$T/json"
	"$DITRACE" export "$T/data" --to csv >"$T/csv"
	ok "export --to csv has ditorch's columns" csv_is_right
	ln -f "$T/data" "$T/same"
	cp "$T/data" "$T/copy"
	ok "export refuses to write over the trace it reads" not "$DITRACE" export "$T/data" -o "$T/same"
	ok "and leaves it as it was" cmp "$T/data" "$T/copy"
	if of_first_torch; then
		ok "script --follow sees all of a file that is being written" follow
	else
		skip "what follows a file knows no torch: make test-long"
	fi
}
each_torch files
done_testing
