#!/usr/bin/env bash
# run follows what a program starts: forks, DataLoader workers, exec, shells, and torch loaded late; with signals.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many ROUNDS 6 20

# fills PROGRAM: the non-negative values that it called aten::full with, and the number of processes that did
fills() {
	verify run/fills "$T/events.$1.jsonl"
}

# What an op's line took, in ops and in none, of workers and of others.
workers_apart() {
	"$DITRACE" report --percent-limit 0 --group line,phase --format csv "$T/data" >"$T/rows" && "$DITRACE" report --percent-limit 0 --gaps --format csv "$T/data" >"$T/gaps" &&
		"$DITRACE" report --percent-limit 0 --group op,line,phase,shape --format csv "$T/data" >"$T/shapes" &&
		"$DITRACE" annotate -i "$T/data" --format json | verify trace/annotated "$T/rows" "$T/gaps" "$T/shapes" &&
		[ "$("$DITRACE" annotate -i "$T/data" --format csv | grep -E '/fork.py,[0-9]+,settle' | cut -d, -f 2 | uniq -c | awk '{ print $1 }')" = 2 ] &&
		"$DITRACE" export --to html -o "$T/page.html" "$T/data" && verify trace/page_gaps "$T/page.html" "$T/gaps"
}

# A shell starts one process, which finally execs another program.
children() {
	[ "$ENGINE" = bpf ] || of_first_torch || { skip "$ENGINE has run with another torch: make test-long"; return; }
	PRINTED=$T/out trace --print -- /bin/sh -c "'$PY' in_turn.py 'late_import.py 0.2' 'run/signals.py $ROUNDS' run/fork.py run/exec.py >'$T/said'; exit 7"
	is "the program's exit status is ditrace's" $? 7
	is "what it prints is the same" "$(grep -v '^pid ' "$T/said")" "done
$(untraced run/signals.py "$ROUNDS")
total 16056
ran 5
ran 6"
	events
	ok "each has run" python3 "$here/split_at_marks.py" "$T/events" "$T/events" late_import signals fork exec
	is "a late import's ops are seen from the first" "$(fills late_import)" "[$(seq -s ', ' 0 19)] 1"
	is "every child's ops are seen, those of a DataLoader, too" "$(fills fork)" "[1, $(printf '2, %.0s' {1..10})$(printf '3, %.0s' {1..10})1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007] 5"
	is "the ops after exec and in a shell are seen" "$(fills exec)" "[5, 6] 2"
	[ "$ENGINE" != bpf ] || like "for how long a fork can have run unseen is told" "$T/err" '^ditrace: [0-9]+ forks: up to [0-9.]+ m?s passed until'
	"$DITRACE" report --group thread --percent-limit 0 --limit 99 "$T/data" >"$T/report"
	like "the workers of a DataLoader are named" "$T/report" ' DataLoader worker 1$'
	ok "totals are the same everywhere, and shares no more than all" verify trace/totals "$T/data"
	like "and are counted in their program's line" "$T/report" '^ditrace: .* more, 2 DataLoader workers, torch '
	ok "the lines of annotate and of the page have what workers took apart" workers_apart
	in_long || { skip "a late import of the program itself: make test-long"; return; }
	ok "a late import runs traced" trace -- "$PY" late_import.py 1
	events
	cp "$T/events" "$T/events.alone.jsonl"
	is "its ops are seen from the first" "$(fills alone)" "[$(seq -s ', ' 0 19)] 1"
}
each_torch each_engine children
done_testing
