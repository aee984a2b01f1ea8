#!/usr/bin/env bash
# diff of two traces: what got slower comes first, and equal runs have the same rows.
. "$(dirname "$0")/../lib.sh"
. "$here/forked.sh"
need_tracing

# recorded FILE [OPTION...] -- PROGRAM ARGUMENT...
recorded() {
	local file=$1 options=()
	shift
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	may_fork || { "$DITRACE" run "${options[@]}" -o "$file" -- "$PY" "${@:2}" >/dev/null 2>"$T/err"; return; }
	watched has_relu attach "${options[@]}" "$@" && mv "$T/data" "$file"
}

# program ROWS: 200 calls of a product with so many rows, and some other ops
program() {
	recorded "$T/$1.data" --ops mm,relu,tanh,mul.Tensor,sigmoid -- "$W/trace/steps.py" "$@"
}

first_is_mm() {
	"$DITRACE" diff --format json "$T/32.data" "$T/512.data" | verify trace/slowed "$T/report.json"
}

doubled_is_first() {
	"$DITRACE" diff --format json "$T/256.data" "$T/512.data" | python3 -c 'import json, sys
first = json.load(sys.stdin)["rows"][0]
assert first["op"] == "aten::mm" and "shape" in first["verdict"], first'
}

# Durations depend on the machine, so tests/bench/diff.py covers them; all else is certain for two equal runs.
equal_runs() {
	"$DITRACE" diff --all --format json "$T/run1.data" "$T/run2.data" >"$T/rows"
	[ $? -le 1 ] || return 1
	local i
	for i in 1 2; do
		"$DITRACE" report --format json "$T/run$i.data" >"$T/report$i.json"
	done
	verify trace/equal_runs "$T/rows" "$T"/report[12].json
}

diffs() {
	program 32
	program 256
	program 512 more
	"$DITRACE" report --format json "$T/512.data" >"$T/report.json"
	ok "the slowed op is named first, the new one, and all agrees with the report" first_is_mm
	ok "so is one whose input has doubled" doubled_is_first
	"$DITRACE" diff "$T/32.data" "$T/512.data" >"$T/table"
	is "the exit status says that something changed" $? 1
	like "the table" "$T/table" '\+[0-9.]+ m?s .* 200 .* -> .* (slower\+)?shape +aten::mm +\[32,256\] \[256,256\] -> \[512,256\].*steps.py:10'
	"$DITRACE" diff "$T/32.data" "$T/32.data" >"$T/table"
	is "a trace does not differ from itself" $? 0
	like "which is said" "$T/table" '^nothing changed beyond noise'
	ok "with all rows" test "$("$DITRACE" diff --all "$T/32.data" "$T/32.data" | grep -v at_word.py | grep -c 'within noise')" = 3
	ok "as CSV" test "$("$DITRACE" diff --format csv --when "op == 'aten::mm'" "$T/32.data" "$T/512.data" 2>/dev/null | wc -l)" = 2
	head -c $(($(stat -c %s "$T/32.data") * 3 / 4)) "$T/32.data" >"$T/cut"
	error "a trace that was cut" 'cut|ends' "$DITRACE" diff "$T/32.data" "$T/cut"
	is "is told by the exit status" "$status" 2
	error "a file that is none" . "$DITRACE" diff "$T/32.data" "$T/nothing"
	error "a threshold that is none" "not a percentage" "$DITRACE" diff --threshold x "$T/32.data" "$T/32.data"
	error "one trace" . "$DITRACE" diff "$T/32.data"
}

# calls_of FILE OPTION...: the number of calls in report
calls_of() {
	"$DITRACE" report --format json "${@:2}" "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["summary"]["ops"])'
}

# compared OPTION...: the calls of the rows of run1 and run2
compared() {
	"$DITRACE" diff --all --format json "$@" "$T/run1.data" "$T/run2.data" | python3 -c 'import json, sys
rows = json.load(sys.stdin)["rows"]
print(*(sum(r[side]["calls"] for r in rows if r[side]) for side in ("before", "after")))'
}

# A part applies to both traces.
parts() {
	local part
	for part in "--step 2-3" "--time -1500ms" "--step 2- --time 1s-"; do
		is "$part of both" "$(compared $part)" "$(calls_of "$T/run1.data" $part) $(calls_of "$T/run2.data" $part)"
	done
	head -c $(($(stat -c %s "$T/run2.data") * 2 / 3)) "$T/run2.data" >"$T/short"
	error "a step that the second has not" "short has [0-9]+ steps" "$DITRACE" diff --step 8 "$T/run1.data" "$T/short"
	is "which is told by the exit status" "$status" 2
	"$DITRACE" diff --help "$T/run1.data" >"$T/help"
	like "help says that it is of both" "$T/help" '--time and --step choose in A and in B alike'
}

trains() {
	local i
	for i in 1 2; do
		recorded "$T/run$i.data" -- "$W/train.py" --steps 8 --quiet
	done
	ok "the rows of two equal runs are the same, and called as often" equal_runs
	"$DITRACE" diff "$T/run1.data" "$T/run2.data" >"$T/table"
	like "how long a step takes is told first" <(head -n 1 "$T/table") '^step [0-9.]+ [mu]?s -> [0-9.]+ [mu]?s \([-+][0-9]+ %, medians of [1-9] and of [1-9] steps\)$'
	"$DITRACE" diff --ops mm "$T/run1.data" "$T/run2.data" >"$T/part"
	unlike "of some ops it is not known" "$T/part" '^step '
	ok "what rows vary by is told" grep -q '^rows vary by ' "$T/table"
	parts
}

all() {
	trains
	! of_first_torch || diffs # diff is independent of what recorded the files
}

each_torch forking all
done_testing
