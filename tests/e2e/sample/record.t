#!/usr/bin/env bash
# ditrace record: samples attribute time to ops and lines of Python as the program itself measured it, and as its op events do.
. "$(dirname "$0")/../lib.sh"
. "$here/forked.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# near CLOCK: the shares of the three lines in $T/json, and of the op on each, match those that the program reports
near() {
	verify sample/op_shares "$1" "$T/json" "$T/out" "$W/sample/shares.py"
}

# longer COMMAND...: whether it holds with one of these numbers of seconds. Samples are random, the kernel lowers their rate where
# they take long, and on a busy machine Python frames are sometimes read too late. Between two ops other processes may take the
# processor, which counts as wall-clock time.
longer() {
	local seconds
	for seconds in 2 4 8 16; do "$@" $seconds && return; done
	return 1
}

by_samples() {
	if may_fork; then
		watched has_events record -F 1997 --pid -- sample/shares.py "$1"
	else
		record -- "$PY" sample/shares.py "$1"
	fi && report && near cpu
}

by_events() {
	if may_fork; then
		watched has_relu attach --sample=199 -- sample/shares.py "$1"
	else
		"$DITRACE" run --sample=199 -o "$T/data" -- "$PY" sample/shares.py "$1" >"$T/out" 2>"$T/err" || { cat "$T/err"; return 1; }
	fi && report && near wall
}

# wait until $child has opened the events of a thread, and their buffers
wait_sampling() {
	before_long has_events
}

has_events() {
	[ "$(ls -l "/proc/$child/fd" | grep -c perf_event)" -ge $((2 * $(nproc))) ]
}

record() {
	"$DITRACE" record -F "${HZ:-1997}" -o "$T/data" "$@" >"$T/out" 2>"$T/err" || { cat "$T/err"; return 1; }
}

report() {
	"$DITRACE" report --format json "$@" "${data:-$T/data}" >"$T/json"
}

samples() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["summary"]["samples"])' "$T/json"
}

weight() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["summary"]["weight"])' "$T/json"
}

shares() {
	ok "the three lines and ops of a program have their shares" longer by_samples
	like "what was recorded is told" "$T/err" "^ditrace: .* samples of (cycles|cpu-clock) at [0-9]+ Hz, .* lost$"
	"$DITRACE" report --call-graph callees --frames mixed --percent-limit 1 "$T/data" >"$T/tree"
	like "the tree leads from Python over the op into native code" "$T/tree" "aten::digamma$"
	like "with lines of Python" "$T/tree" "third \(shares.py:[0-9]+\)"
	"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	is "script has each of the samples" "$(grep -c '"sample":true' "$T/jsonl")" "$(samples)"
	"$DITRACE" export --to folded "$T/data" >"$T/folded"
	is "the flame graph has all of the weight" "$(awk '{ n += $NF } END { printf "%.0f", n }' "$T/folded")" "$(weight)"
	"$DITRACE" export --to speedscope "$T/data" >"$T/speedscope"
	is "so has the speedscope" "$(verify sample/speedscope_weight "$T/speedscope")" "$(weight)"
	ok "by thread, op and native function" report --group thread,op,symbol --sort samples
	ok "a condition chooses" report --when 'op == "aten::mm"' --group op
	is "one op then" "$(python3 -c 'import json, sys
print([r["op"] for r in json.load(open(sys.argv[1]))["rows"]])' "$T/json")" "['aten::mm']"
}

events() {
	[ "$(id -u)" = 0 ] || { skip "tracing with eBPF needs root" 3; return; }
	ok "events and samples go into one file; by the events, the shares are those by the clock" longer by_events
	"$DITRACE" report "$T/data" >"$T/text"
	like "that there are samples is said" "$T/text" "samples besides, see: ditrace report --samples"
	"$DITRACE" report --samples --group op "$T/data" >"$T/text"
	like "and they are shown" "$T/text" "aten::mm"
}

# for_a_time: record for one, again while the program, on a busy machine, does not run in it
for_a_time() {
	local end=$((SECONDS + PATIENCE))
	until record --pid "$target" --for 300ms && report --group thread || return 1 && [ "$(samples)" -gt 0 ]; do
		[ $SECONDS -lt $end ] || return 1
	done
}

# Two threads, each with modules, are sampled while they run; then what happens when either side ends.
attached() {
	begin '^ready' sample/two_threads.py
	ok "a running program is recorded, for a time" for_a_time
	ok "and runs on" kill -0 "$target"
	start "$DITRACE" record --pid "$target" -o "$T/killed" 2>"$T/err"
	before_long test -s "$T/killed"
	kill -9 "$child"
	wait "$child" 2>/dev/null
	ok "the program outlives a recorder that is killed" kill -0 "$target"
	rm -f "$T/data"
	start "$DITRACE" record -F 1997 --pid "$target" -o "$T/data" 2>"$T/err"
	wait_sampling
	before_long used "$target" $(($(ticks "$target") + 250))
	kill -9 "$target"
	the_end 2>/dev/null
	finish "$child"
	is "recording ends with the process" "$status" 0
	report --group thread
	ok "with samples of both of its threads" python3 -c 'import json, sys
rows = [r for r in json.load(open(sys.argv[1]))["rows"] if r["samples"] > 20]
print(rows)
sys.exit(len(rows) < 2)' "$T/json"
	if [ "$(id -u)" = 0 ]; then
		report --group module
		ok "and of the paths of its modules" python3 -c 'import json, sys
had = {r["module"]: r["samples"] for r in json.load(open(sys.argv[1]))["rows"]}
print(had)
sys.exit(not all(had.get(f"blocks.{i}.{m}", 0) > 50 for i in (0, 1) for m in ("fc", "out")))' "$T/json"
	else
		skip "modules come with frames read by eBPF, which needs root"
	fi
}

compiles() {
	"$PY" -c 'import sys, torch; sys.exit(not hasattr(torch, "compile"))' || { skip "this PyTorch does not compile" 3; return; }
	HZ=499 ok "a program that compiles" record -- "$PY" sample/compiles.py
	"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	is "what is sampled in a compilation is in that phase" "$(verify sample/phases "$T/jsonl")" \
		"<module>:forward compiles:compile compiles_backward:compile"
	"$DITRACE" report --group phase "$T/data" >"$T/text"
	like "and told apart" "$T/text" "while torch.compile compiled, in percent of that time"
}

nodes() {
	HZ=499 ok "a program with a node of Python" record -- "$PY" sample/node.py
	"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	is "its backward is in that phase" "$(verify sample/phases "$T/jsonl")" "<module>:forward backward:backward forward:forward"
	is "and in a node" "$(verify sample/node_ops "$T/jsonl")" "torch::autograd::PyNode"
}

user() {
	[ "$(id -u)" = 0 ] || { skip "only root can become another user" 2; return; }
	[ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ] || { skip "kernel.perf_event_paranoid is above 2" 2; return; }
	local nobody=(setpriv --reuid="$plain_uid" --regid="$plain_uid" --clear-groups --inh-caps=-all)
	"${nobody[@]}" test -x "$PY" || { skip "a plain user may not run $PY" 2; return; }
	chmod 755 "$base" "$T"
	mkdir -m 777 "$T/user"
	cp "$DITRACE" "$T/ditrace"
	ok "a plain user records a program" "${nobody[@]}" "$T/ditrace" record -F 499 -o "$T/user/data" -- "$PY" -c 'import torch; a = torch.randn(400, 400)
for _ in range(60): torch.mm(a, a)'
	"$DITRACE" report "$T/user/data" >"$T/user.report"
	like "and sees ops and lines" "$T/user.report" 'aten::mm +<string>:2'
}

# python_near: the shares of the three functions in $T/json match those that the program reports
python_near() {
	verify sample/function_shares "$T/json" "$T/out"
}

# twice SECONDS COMMAND...: record py_shares.py into $T/data, and at the same time into $T/plain by ditrace under COMMAND
twice() {
	local seconds=$1
	shift
	record -- "$@" bash -c 'exec "$@" 2>"$0"' "$T/plain.err" \
		"$DITRACE" record -F 1997 -o "$T/plain" -- "$PY" "$W/sample/py_shares.py" "$seconds" || { cat "$T/plain.err"; return 1; }
}

# python_shares FILE: whether its shares match; records again, for longer, if there is no file or the samples were too far off
python_shares() {
	local data=$1
	its_shares || longer recorded_again
}

its_shares() {
	[ -e "$data" ] && report --group function && python_near
}

recorded_again() {
	twice $(($1 / 2)) "${no_bpf[@]}" && its_shares
}

# made_code: what is told of code that is made and dropped and cannot be; again while, on a busy machine, too little was sampled
made_code() {
	local i
	for i in 1 2 3; do
		HZ=4999 record -- "$PY" sample/short_lived.py 0.5 && "$DITRACE" script --format jsonl "$T/data" >"$T/jsonl" &&
			verify sample/made "$T/jsonl" "$T/out" 2>"$T/made.err" && return
	done
	cat "$T/made.err"
}

# named FILE FUNCTION: whether samples of it have been written
named() {
	"$DITRACE" script --format jsonl "$1" 2>/dev/null | grep -q "\"function\":\"$2\""
}

# recorded NAME HZ: the workload, $target, which goes on when there is $T/go, is being recorded by $child
recorded() {
	rm -f "$T/go" "$T/data"
	start "$PY" "sample/$1.py" "$T/go" >"$T/running" 2>&1
	target=$child
	wait_line "$T/running" '^ready'
	start "$DITRACE" record -F "$2" --pid "$target" -o "$T/data" 2>"$T/err"
}

# held: ditrace gets no processor while code is run, dropped, and the program ends
held() {
	local target
	recorded dropped 199
	before_long named "$T/data" spin
	kill -STOP "$child"
	touch "$T/go"
	wait_line "$T/running" '^dropped'
	wait "$target"
	kill -CONT "$child"
	wait "$child" && "$DITRACE" script --format jsonl "$T/data" >"$T/jsonl" && verify sample/dropped "$T/jsonl"
}

pythons() {
	local found=0 no_bpf=()
	[ "$(id -u)" != 0 ] || no_bpf=(setpriv --bounding-set=-bpf,-perfmon,-sys_admin)
	for PY in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
		"$PY" -c 'import sys; assert (3, 8) <= sys.version_info[:2] <= (3, 13)' 2>/dev/null || continue
		found=$((found + 1))
		label="CPython $("$PY" -c 'import platform; print(platform.python_version())'): "
		is "no function has the name of one that was at its address" "$(made_code)" ""
		rm -f "$T/data" "$T/plain"
		ok "functions have their shares" python_shares "$T/data"
		[ "$(id -u)" = 0 ] || { skip "reading by eBPF needs root" 4; continue; }
		like "read as the samples were taken" "$T/err" "[0-9] read at once by eBPF"
		ok "also without eBPF" python_shares "$T/plain"
		ok "which says nothing of it" not grep -q "at once" "$T/plain.err"
		is "code is named that is gone when ditrace gets a processor" "$(held)" "<module> <long>:1500"
	done
	label=""
	[ $found -gt 0 ] || skip "no CPython of pyenv's here"
}

children() {
	HZ=499 ok "children are recorded" record -- "$PY" sample/forks.py
	ok "both processes have samples" report --group thread,op
	ok "the op is the child'\''s" python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
rows = [x for x in r["rows"] if x["op"] == "aten::mm"]
print(r["rows"], r["summary"])
sys.exit(not rows or rows[0]["pid"] == r["summary"]["targets"][0]["pid"])' "$T/json"
}

born() {
	local target
	recorded born 499
	wait_sampling
	touch "$T/go"
	wait_line "$T/running" '^made'
	kill -INT "$child"
	wait "$child"
	is "Ctrl-C ends recording well" $? 0
	ok "the program runs on" kill -0 "$target"
	kill -9 "$target"
	ok "the file is whole" report --group thread
	ok "a thread, a fork and a program that it made have samples" verify sample/born "$T/json" "$T/running"
}

# ticks PID: the CPU time of a process, in hundredths of a second
ticks() {
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

# used PID TICKS: whether it has used so much CPU time
used() {
	[ "$(ticks "$1")" -ge "$2" ]
}

lost() {
	start "$PY" -c 'while True: pass'
	local target=$child had
	rm -f "$T/data"
	start "$DITRACE" record -F 9973 --pid "$target" -o "$T/data" 2>"$T/err"
	wait_sampling
	kill -STOP "$child" # the buffers fill up
	had=$(ticks "$target")
	before_long used "$target" $((had + 100))
	kill -CONT "$child"
	before_long used "$target" $((had + 130))
	kill -INT "$child"
	wait "$child"
	kill -9 "$target"
	like "samples that were lost are told" "$T/err" "samples of .* [1-9][0-9,]* lost"
	report
	ok "and in the report" python3 -c 'import json, sys
sys.exit(not json.load(open(sys.argv[1]))["summary"]["lost"] > 0)' "$T/json"
}

ends() {
	"$DITRACE" record -o "$T/data" -- "$PY" -c 'import sys; sys.exit(7)' 2>"$T/err"
	is "the status is the program's" $? 7
	"$DITRACE" record -o "$T/data" -- /nowhere/at-all 2>"$T/err"
	is "that of a shell for none" $? 127
	"$DITRACE" record -F 100000000 -o "$T/data" -- true 2>"$T/err"
	like "a rate above the kernel's limit is lowered, and said" "$T/err" '^ditrace: [0-9]+ samples a second instead of 100000000: kernel.perf_event_max_sample_rate'
	"$DITRACE" record 2>"$T/err"
	is "nothing to record is misuse" $? 2
}

# In the short run these record forked children, which have PyTorch loaded already; user and children, whose programs ditrace
# record starts, run with one torch each.
all() {
	shares
	events
	attached
}

with_torch() {
	forking all
	compiles
	nodes
	! of_first_torch || user
	! in_long && [ "$PY" = "$FIRST" ] && skip "children: with the other torch, or make test-long" 3 || children
}

each_torch with_torch
first_torch
born
lost
ends
pythons
done_testing
