#!/usr/bin/env bash
# The export formats: their readers accept them, and they, script and report agree event by event.
. "$(dirname "$0")/../lib.sh"
need_tracing

all_forms() {
	local to
	for to in csv chrome folded speedscope; do
		"$DITRACE" export --to "$to" "$T/data" >"$T/$to" || return 1
	done
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data" && "$DITRACE" report --format json "$T/data" >"$T/report.json"
}

sums() {
	sqlite3_of "$T/part" "SELECT count(*), count(DISTINCT op) FROM calls"
}

sqlite3_of() {
	python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone())' "$@"
}

# step_calls: the number of calls in the second step
step_calls() {
	"$DITRACE" report --step 2 --format json "$T/data" | python3 -c 'import json, sys; print(json.load(sys.stdin)["summary"]["ops"])'
}

exports() {
	trace -- "$PY" train.py --steps 2
	ok "script" events
	ok "export in all forms" all_forms
	ok "all say the same, and are well formed" python3 "$here/compare_exports.py" "$T"
	speedscope_schema "$T/speedscope"
	ok "a condition" "$DITRACE" export --to sqlite -o "$T/part" --when "op == 'aten::linear'" "$T/data"
	is "and only such calls" "$(sums)" "$(grep -c '"op":"aten::linear"' "$T/events") 1"
	ok "a database is written anew" "$DITRACE" export --to sqlite -o "$T/part" "$T/data"
	is "with all calls" "$(sqlite3_of "$T/part" "SELECT count(*) FROM calls")" "$(grep -vc '"op":"profiler::_record_function' "$T/events")"
	for to in csv chrome folded speedscope; do
		ok "$to of a step" "$DITRACE" export --to "$to" -o "$T/part.$to" --step 2 "$T/data"
	done
	ok "sqlite of a step" "$DITRACE" export --to sqlite -o "$T/part" --step 2 "$T/data"
	is "has the calls that report counts" "$(sqlite3_of "$T/part" "SELECT count(*) FROM calls")" "$(step_calls)"
	is "chrome, too" "$(grep -c '"ph":"X".*"args":{"id"' "$T/part.chrome")" "$(step_calls)"
	ok "nothing before a time" "$DITRACE" export --to chrome -o "$T/none" --time 0s-1ns "$T/data"
	unlike "has no call" "$T/none" '"ph":"X"'
	"$DITRACE" export --to chrome -o "$T/chrome2" "$T/data"
	ok "-o writes the same" cmp "$T/chrome" "$T/chrome2"
	ok "-o - is standard output" cmp "$T/chrome" <("$DITRACE" export --to chrome -o - "$T/data")
	"$DITRACE" export --to chrome -o "$T/chrome2.gz" "$T/data"
	ok "and compressed, if the name says so" cmp "$T/chrome" <(zcat "$T/chrome2.gz")
	ok "html" "$DITRACE" export --to html -o "$T/page.html" "$T/data"
	ok "has the report's numbers, the folded stacks, whole steps, and blocks" verify trace/page "$T"
	! of_first_torch || in_browser
	ok "perfetto" "$DITRACE" export --to perfetto -o "$T/perfetto" "$T/data"
	ok "has each event" verify trace/perfetto "$T/perfetto" "$T/events"
	ok "svg" "$DITRACE" export --to svg -o "$T/svg" "$T/data"
	ok "has the widths of the folded stacks" verify trace/svg "$T/svg" "$T/folded"
	traced=$T/data
}

in_browser() {
	local why="no chromium: apt-get install chromium"
	command -v chromium chromium-browser google-chrome >/dev/null || { skip "$why" && return; }
	ok "a browser shows it, searches and zooms in it" timeout "$PATIENCE" env PYTHONPATH="$here" python3 "$here/trace/page_in_browser.py" "$T/page.html" aten::addmm
}
each_torch exports

first_torch
head -c $(($(stat -c %s "$traced") * 3 / 4)) "$traced" >"$T/cut"
for to in chrome speedscope; do
	error "$to of a cut file" 'cut|ends' "$DITRACE" export --to "$to" "$T/cut"
	ok "what is there is whole JSON" python3 -m json.tool "$T/error.out"
done
error "sqlite is not compressed" "compressed" "$DITRACE" export --to sqlite -o "$T/db.gz" "$traced"
"$BUILD/tests/tools/big_trace" 1000000 "$T/big"
start "$DITRACE" export --to chrome -o "$T/stopped.gz" "$T/big" 2>"$T/err"
ok "a long export" before_long test -e "$T/stopped.gz.part"
kill -TERM "$child"
finish "$child"
is "ends by the signal" "$status" 143
like "says so" "$T/err" "stopped: .*stopped.gz was not written"
is "and leaves nothing" "$(ls "$T" | grep stopped)" ""
error "sqlite needs a file" "standard output" "$DITRACE" export --to sqlite "$traced"
error "sqlite into a folder that is not there" "cannot write" "$DITRACE" export --to sqlite -o "$T/no/db" "$traced"
error "a form that there is not" "--to" "$DITRACE" export --to excel "$traced"
done_testing
