#!/usr/bin/env bash
# A burst of ops while ditrace has no time for them: none is lost.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
need_tracing
OPS=100000

burst() {
	local tracer stopper
	rm -f "$T/data"
	begin '^ready' run/burst.py "$T/word" "$OPS"
	start_as tracer "$DITRACE" attach --engine bpf "$target" -o "$T/data" >"$T/table" 2>"$T/err"
	ok "a program is traced" before_long has_relu
	start_as stopper python3 "$here/run/stops_thread.py" "$tracer" >"$T/stopper" 2>&1
	ok "ditrace's first thread is stopped" wait_line "$T/stopper" '^stopped'
	touch "$T/word"
	ok "the program runs on" wait_line "$T/out" '^done'
	kill "$stopper"
	the_end
	finish "$tracer"
	is "it ends well" "$status" 0
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* (events )?lost'
	is "all were seen" "$("$DITRACE" script --format jsonl "$T/data" | grep -c "\"aten::neg\"")" "$OPS"
}

# The engine shim: ditrace is stopped, and its rings are too small for the burst.
calls_of() {
	"$DITRACE" report --format json --group op "$T/data" |
		python3 -c 'import json, sys; print(sum(r["calls"] for r in json.load(sys.stdin)["rows"] if r["op"] == sys.argv[1]))' "$1"
}

stopped() {
	local tracer
	rm -f "$T/word" "$T/data"
	begin '^ready' run/burst.py "$T/word" "$OPS"
	start_as tracer "$DITRACE" attach --no-loss --buffer 4M "$target" -o "$T/data" >"$T/table" 2>"$T/err"
	ok "a program is traced" before_long has_relu
	kill -STOP "$tracer"
	touch "$T/word"
	ok "the program runs on while ditrace is stopped" wait_line "$T/out" '^done'
	kill -CONT "$tracer"
	the_end
	finish "$tracer"
	is "it ends well" "$status" 0
	like "nothing was lost" "$T/err" ', 0 lost'
	like "some calls have less detail" "$T/err" '[1-9][0-9,]* ops are in the counts and times with less detail'
	is "all are counted" "$(calls_of aten::neg)" "$OPS"
	"$DITRACE" annotate -i "$T/data" --format csv >"$T/lines"
	is "at their line, too" "$(grep -c "burst.py,.*,$OPS," "$T/lines")" 1
	"$DITRACE" export --to html -o "$T/page" "$T/data"
	like "and in a page" "$T/page" '"op": *"aten::neg".*"calls": *100000'
	"$DITRACE" script "$T/data" 2>&1 >/dev/null | cat >"$T/said"
	like "a list of events says what it lacks" "$T/said" 'of which the recording has sums only, left out'
}

# counted OP...: how often each was called
counted() {
	"$DITRACE" report --format json --group op "$T/data" | python3 -c '
import json, sys
calls = dict.fromkeys(sys.argv[1:], 0)
for r in json.load(sys.stdin)["rows"]:
    if r["op"] in calls:
        calls[r["op"]] += r["calls"]
print(*(f"{op}={n}" for op, n in calls.items()))' "$@"
}

# stopped_when_full OPTION...: ditrace is stopped while threads make more calls than a small ring has room for
stopped_when_full() {
	local rounds=2000
	[ "$ENGINE" != ptrace ] || rounds=400 # each stop takes long
	rm -f "$T/word" "$T/data"
	begin '^ready' run/full.py "$T/word" "$rounds"
	start_as tracer "$DITRACE" attach --engine "$ENGINE" --buffer 512k "$@" "$target" -o "$T/data" >"$T/table" 2>"$T/err"
	ok "a program with threads is traced" before_long has_relu
	kill -STOP "$tracer"
	touch "$T/word"
}

full() {
	local tracer all
	stopped_when_full
	ok "it runs on while ditrace is stopped" wait_line "$T/out" '^done'
	kill -CONT "$tracer"
	the_end
	finish "$tracer"
	is "it ends well" "$status" 0
	like "none of their calls was lost" "$T/err" ', 0 lost'
	like "some have less detail" "$T/err" '[1-9][0-9,]* ops are in the counts and times with less detail'
	all=$(grep '^aten::' "$T/out")
	is "all of each op are counted, as the program has" "$(counted $(sed -E 's/=[0-9]+//g' <<<"$all"))" "$all"
	"$DITRACE" report --percent-limit 0 "$T/data" >"$T/table" 2>/dev/null
	like "of which no stack was kept say so" "$T/table" 'aten::neg .*\(stack left out\)'
	unlike "and not that they had none" "$T/table" 'no Python frame'
	unlike "nor is any shown at a line that did not call it" "$T/table" 'aten::floor .*(full\.py|<module>)'
	verify trace/totals "$T/data" >"$T/totals" 2>&1
	is "all that counts agrees" "$?" 0
}

# With an option that needs each call nothing is summed up.
lossy() {
	local tracer
	stopped_when_full --when 'self.dim() > 0'
	ok "it runs on while ditrace cannot sum up" wait_line "$T/out" '^done'
	kill -CONT "$tracer"
	the_end
	finish "$tracer"
	is "it ends well" "$status" 0
	like "what found no room is counted as lost" "$T/err" ', [1-9][0-9,]* lost'
	like "and the option that is why is named" "$T/err" '--when needs each call'
	unlike "none has less detail" "$T/err" 'counts and times with less detail'
}

# ditrace is killed while calls are summed up.
killed_when_full() {
	local tracer
	stopped_when_full
	ok "the program is in the midst of it" wait_line "$T/out" '^half'
	kill -KILL "$tracer"
	ok "it runs on when ditrace is killed" wait_line "$T/out" '^done'
	the_end
	is "and ends well" "$status" 0
	wait "$tracer" 2>/dev/null
	"$DITRACE" report "$T/data" >"$T/table" 2>&1
	like "what was recorded can be read" "$T/table" 'aten::relu'
}

# With a ring that holds few records the program waits for ditrace; but not for one that is stopped, see above.
waits() {
	touch "$T/word"
	"$DITRACE" run --no-loss --buffer 512k -o "$T/data" "$PY" run/burst.py "$T/word" "$OPS" >"$T/out" 2>"$T/err"
	like "a program that waits for room loses nothing" "$T/err" ', 0 lost'
	unlike "and nothing is summed up" "$T/err" 'less detail'
	is "all were seen" "$("$DITRACE" script --format jsonl "$T/data" | grep -c "\"aten::neg\"")" "$OPS"
}

all() {
	burst
	stopped
	waits
	each_engine full
	by_turns killed_when_full ptrace shim
	by_turns lossy bpf ptrace shim
}
each_torch forking all
done_testing
