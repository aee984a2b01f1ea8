#!/usr/bin/env bash
# ditrace record: samples show where the time went as the program itself measured it, to ops and to lines of
# Python, and as its op events do.
. "$(dirname "$0")/lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# near CLOCK JSON: the shares of the three lines, and of the op on each, are those that the program said it had had
near() {
	python3 - "$1" "$2" "$T/out" "$W/shares.py" <<-'END'
		import json, sys
		clock, report, out, source = sys.argv[1:]
		ops = {"first": "aten::mm", "second": "aten::sort.stable", "third": "aten::cumsum"}
		words = next(s for s in open(out) if s.startswith(clock)).split()[1:]
		wanted = dict(zip(words[::2], map(float, words[1::2])))
		lines = {s.split("# mark: ")[1].strip(): n for n, s in enumerate(open(source), 1) if "# mark: " in s}
		rows = json.load(open(report))["rows"]
		key = "weight" if "weight" in rows[0] else "self_ns"
		here = [r for r in rows if (r["file"] or "").endswith("shares.py")]
		by_line = {m: sum(r[key] for r in here if r["line"] == n) for m, n in lines.items()}
		by_op = {m: sum(r[key] for r in rows if r["op"] == ops[m]) for m in lines}
		good = True
		for what in by_line, by_op:
		    share = {m: 100 * what[m] / sum(what.values()) for m in lines}
		    print("#", *(f"{m} {share[m]:.1f} ({wanted[m]:.1f})" for m in lines))
		    good &= all(abs(share[m] - wanted[m]) < 2 for m in lines)
		sys.exit(not good)
	END
}

# Samples are chance, and where the machine is busy their Python frames are sometimes read too late.
near_once() {
	local i
	for i in 1 2 3; do
		record -- "$PY" shares.py 5 && report && near cpu "$T/json" && return 0
	done
	return 1
}

both() {
	"$DITRACE" run --sample=199 -o "$T/data" -- "$PY" shares.py 3 >"$T/out" 2>"$T/err" || { cat "$T/err"; return 1; }
}

# wait_file FILE: until it is there and has been begun
wait_file() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ -s "$1" ] && return 0
		sleep 0.1
	done
	return 1
}

record() {
	"$DITRACE" record -F 997 -o "$T/data" "$@" >"$T/out" 2>"$T/err" || { cat "$T/err"; return 1; }
}

report() {
	"$DITRACE" report --format json "$@" "$T/data" >"$T/json"
}

samples() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["summary"]["samples"])' "$T/json"
}

weight() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["summary"]["weight"])' "$T/json"
}

shares() {
	ok "the three lines and ops of a program have their shares" near_once
	like "what was recorded is told" "$T/err" "samples of (cycles|cpu-clock) at 997 Hz, .* lost, .* moved on"
	"$DITRACE" report --call-graph callees --frames mixed --percent-limit 1 "$T/data" >"$T/tree"
	like "the tree leads from Python over the op into native code" "$T/tree" "aten::cumsum$"
	like "with lines of Python" "$T/tree" "third \(shares.py:[0-9]+\)"
	"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	is "script has each of the samples" "$(grep -c '"sample":true' "$T/jsonl")" "$(samples)"
	"$DITRACE" export --to folded "$T/data" >"$T/folded"
	is "the flame graph has all of the weight" "$(awk '{ n += $NF } END { printf "%.0f", n }' "$T/folded")" "$(weight)"
	"$DITRACE" export --to speedscope "$T/data" >"$T/speedscope"
	is "so has the speedscope" "$(python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))
frames = len(p["shared"]["frames"])
[p] = p["profiles"]
assert len(p["samples"]) == len(p["weights"]) and all(0 <= f < frames for s in p["samples"] for f in s)
print(sum(p["weights"]))' "$T/speedscope")" "$(weight)"
	ok "by thread, op and native function" report --group thread,op,symbol --sort samples
	ok "a filter chooses" report --filter 'op == "aten::mm"' --group op
	is "one op then" "$(python3 -c 'import json, sys
print([r["op"] for r in json.load(open(sys.argv[1]))["rows"]])' "$T/json")" "['aten::mm']"
}

events() {
	[ "$(id -u)" = 0 ] || { skip "tracing with eBPF needs root" 4; return; }
	ok "events and samples go into one file" both
	"$DITRACE" report --format json "$T/data" >"$T/json"
	ok "by the events, the shares are those by the clock" near wall "$T/json"
	"$DITRACE" report "$T/data" >"$T/text"
	like "that there are samples is said" "$T/text" "samples besides, see: ditrace report --samples"
	"$DITRACE" report --samples --group op "$T/data" >"$T/text"
	like "and they are shown" "$T/text" "aten::mm"
}

attached() {
	start "$PY" shares.py 600 threads >"$T/running" 2>&1
	wait_line "$T/running" '^ready'
	ok "a running program is recorded" record --pid "$child" --for 3s
	ok "and runs on" kill -0 "$child"
	kill -9 "$child"
	ok "its samples are there" report --group thread
	ok "of both of its threads" python3 -c 'import json, sys
rows = [r for r in json.load(open(sys.argv[1]))["rows"] if r["samples"] > 20]
print(rows)
sys.exit(len(rows) < 2)' "$T/json"
}

user() {
	[ "$(id -u)" = 0 ] || { skip "only root can become another user" 2; return; }
	[ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ] || { skip "kernel.perf_event_paranoid is above 2" 2; return; }
	chmod 755 "$base" "$T"
	mkdir -m 777 "$T/user"
	cp "$DITRACE" "$T/ditrace"
	ok "a plain user records a program" setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
		"$T/ditrace" record -F 997 -o "$T/user/data" -- "$PY" -c 'import torch; a = torch.randn(400, 400)
for _ in range(60): torch.mm(a, a)'
	"$DITRACE" report "$T/user/data" >"$T/user.report"
	like "and sees ops and lines" "$T/user.report" 'aten::mm +<string>:2'
}

children() {
	ok "children are recorded" record -- "$PY" -c 'import os, torch
a = torch.randn(400, 400)
if not os.fork():
    for _ in range(60): torch.mm(a, a)
    os._exit(0)
os.wait()'
	ok "both processes have samples" report --group thread,op
	ok "the op is the child'\''s" python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
rows = [x for x in r["rows"] if x["op"] == "aten::mm"]
sys.exit(not rows or rows[0]["pid"] == r["summary"]["targets"][0]["pid"])' "$T/json"
}

ends() {
	"$DITRACE" record -o "$T/data" -- "$PY" -c 'import sys; sys.exit(7)' 2>"$T/err"
	is "the status is the program's" $? 7
	"$DITRACE" record -o "$T/data" -- /nowhere/at-all 2>"$T/err"
	is "that of a shell for none" $? 127
	"$DITRACE" record -F 100000000 -o "$T/data" -- true 2>"$T/err"
	like "a frequency that cannot be is told" "$T/err" 'hint: from 1 to'
	"$DITRACE" record 2>"$T/err"
	is "nothing to record is misuse" $? 2
	start "$PY" shares.py 600 >"$T/running" 2>&1
	local target=$child recorder
	wait_line "$T/running" '^ready'
	start "$DITRACE" record --pid "$target" -o "$T/killed" 2>"$T/err"
	recorder=$child
	wait_file "$T/killed"
	kill -9 "$recorder"
	ok "the program outlives a recorder that is killed" kill -0 "$target"
	rm -f "$T/data"
	start "$DITRACE" record --pid "$target" -o "$T/data" 2>"$T/err"
	recorder=$child
	wait_file "$T/data"
	kill -9 "$target"
	wait "$target" 2>/dev/null
	wait "$recorder"
	is "recording ends with the process" $? 0
}

each_torch shares
each_torch events
each_torch attached
first_torch
user
children
ends
done_testing
