#!/usr/bin/env bash
# A training on several processes: a trace for each rank, in a folder that all commands read as one trace.
. "$(dirname "$0")/../lib.sh"
need_tracing

# show OPTIONS...: a report in $T/report
show() {
	"$DITRACE" report --no-pager --percent-limit 0 --format csv "$@" "$T/data" >"$T/report" 2>"$T/report.err"
}

traced() {
	trace -- "$PY" ranks/launch.py ranks/ddp.py "$T/store"
	is "all ranks run to their end" "$? $(cat "$T/out")" "0 total [3.0, 3.0, 3.0, 3.0]"
	is "each rank has a file, the launcher none" "$(cd "$T/data" && echo *)" "rank0.data rank1.data"
	like "where they are is told" "$T/err" "^trace written to $T/data/ \(2 files, .*; see: ditrace report $T/data\$"
}

reported() {
	show --group op
	like "calls are of both ranks" "$T/report" '^aten::square,10,'
	"$DITRACE" report --no-pager --percent-limit 0 --columns least,most,op "$T/data" >"$T/table"
	like "a row tells which rank had most of it" "$T/table" '^ *0 ns 0 +[0-9.]+ [mun]s 1 +aten::cosh$'
	show --group rank
	is "rows by rank" "$(tail -n +2 "$T/report" | cut -d, -f1 | sort | paste -sd' ')" "0 0 1"
	show --group op --rank 0
	like "--rank 0 has its ops" "$T/report" '^aten::square,5,'
	unlike "and no other's" "$T/report" '^aten::cosh,'
	like "its worker is in its file, as a worker" "$T/report" '^aten::stack.out,5,.*,true$'
	error "a rank that is not there" '--rank 2' "$DITRACE" report --rank 2 "$T/data"
}

read_by_others() {
	events
	ok "events of both are in the order of their starts, their ids differ" verify ranks/in_order "$T/events"
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data" 2>"$T/err"
	is "a database has the calls of both" "$(python3 -c "import sqlite3; print(*sqlite3.connect('$T/db').execute(\"select count(*) from calls where op = 'aten::square'\").fetchone())")" 10
	"$DITRACE" diff --no-pager "$T/data" "$T/data" >"$T/diff"
	is "diff takes folders" $? 0
}

all() {
	traced
	reported
	read_by_others
}

each_torch all
done_testing
