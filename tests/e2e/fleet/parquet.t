#!/usr/bin/env bash
# A data set of Parquet files, read by DuckDB and by Spark with the questions of docs/howto-fleet.md, as they stand there.
. "$(dirname "$0")/../lib.sh"
need_tracing
python=${DITRACE_TEST_FLEET:-$top/build/venv-fleet/bin/python}
"$python" -c 'import duckdb, pyarrow' 2>/dev/null || skip_all "no Python with pyarrow and duckdb: tests/deps test"

to_parquet() {
	"$DITRACE" export --to parquet --python "$python" -o "$T/set" "$@"
}

sql() {
	"$python" -c "import duckdb, sys; print(*duckdb.sql(sys.argv[1]).fetchall()[0])" "$1"
}

# of TABLE: what reads it
of() {
	echo "read_parquet('$T/set/$1/**/*.parquet', hive_partitioning = true)"
}

ask() {
	"$python" "$here/fleet/queries.py" "$1" "$T/set" "$top/docs/howto-fleet.md" 2>"$T/err"
}

data_set() {
	trace --engine shim -- "$PY" ranks/launch.py ranks/ddp.py "$T/store"
	ok "it is written" to_parquet "$T/data"
	is "a file for each table and rank" "$(cd "$T/set" && echo */host=*/rank=*/*.parquet | wc -w)" 12
	is "that others cannot read" "$(find "$T/set" -type f ! -perm 600 -o -type d ! -perm 700)" ""
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data"
	local sums="count(*), sum(ns), sum(self_ns), count(shapes)"
	is "the calls are those of SQLite" "$(sql "SELECT $sums FROM $(of events)")" \
		"$(python3 -c "import sqlite3; print(*sqlite3.connect('$T/db').execute('SELECT $sums FROM calls').fetchone())")"
	is "the blocks, too" "$(sql "SELECT count(*), sum(ns), count(DISTINCT name), count(DISTINCT stack) > 0 FROM $(of blocks)")" \
		"$(python3 -c "import sqlite3; print(*sqlite3.connect('$T/db').execute('SELECT count(*), sum(end_ns - start_ns), count(DISTINCT name) FROM blocks').fetchone())") True"
	is "they have ranks" "$(sql "SELECT count(*), min(rank), max(rank) FROM $(of events) WHERE op = 'aten::square'")" "10 0 1"
	is "time is the wall clock's" "$(sql "SELECT max(abs(epoch(time) - $(stat -c %Y "$T/data"))) < 300 FROM $(of events)")" True
	is "ops have their sums" "$(sql "SELECT (SELECT sum(self_ns) FROM $(of ops)) = (SELECT sum(self_ns) FROM $(of events))")" True
	is "collectives of both ranks have the same numbers" "$(sql "SELECT count(*), min(n) FROM (SELECT count(*) AS n FROM $(of collectives) WHERE collective = 'allreduce' AND bytes = 8 GROUP BY group_number, number)")" "40 2"
	is "steps are whole" "$(sql "SELECT min(n), max(n) FROM (SELECT count(*) AS n FROM $(of steps) GROUP BY rank)")" "4 4"
	is "and consist of their parts" "$(sql "SELECT max(abs(ns - forward_ns - backward_ns - optimizer_ns - data_ns - no_op_ns)) FROM $(of steps)")" 0
	is "a stack has its frames" "$(sql "SELECT count(*) > 0 FROM $(of events) e JOIN $(of stacks) s USING (host, rank, run, stack) WHERE e.op = 'aten::square' AND s.position = 0 AND s.function LIKE '%step'")" True
	to_parquet --step 2 "$T/data"
	is "another export replaces it; of a step there is the step" "$(sql "SELECT count(*), min(step), max(step) FROM $(of steps)")" "2 2 2"
	to_parquet "$T/data"
}

# A day later, and a process without a rank.
more_of_it() {
	mkdir "$T/old"
	for rank in 0 1; do verify fleet/older "$T/data/rank$rank.data" "$T/old/rank$rank.data"; done
	to_parquet "$T/old"
	"$DITRACE" run -o "$T/one" -- "$PY" train.py --steps 3 >"$T/out" 2>&1
	to_parquet "$T/one"
	is "other traces stand beside it" "$(sql "SELECT count(DISTINCT run), count(DISTINCT rank), count(*) FILTER (rank IS NULL) > 0 FROM $(of events)")" "3 2 True"
	ask duckdb >"$T/duckdb"
	# Whether one of two ranks is an outlier, the fourth, is open.
	is "DuckDB answers the ten questions" "$? $(tr -d '[' <"$T/duckdb" | cut -d, -f1 | sort -un | grep -vx 4 | paste -sd' ')" "0 1 2 3 5 6 7 8 9 10"
}

with_memory() {
	"$DITRACE" run --memory --engine shim -o "$T/of_memory" -- "$PY" trace/memory.py >"$T/out" 2>&1
	"$DITRACE" export --to parquet --python "$python" -o "$T/memory" "$T/of_memory"
	"$DITRACE" script --only memory --format jsonl "$T/of_memory" >"$T/jsonl"
	is "memory is what script says" \
		"$(sql "SELECT count(*), sum(bytes * (CASE freed WHEN true THEN 1 ELSE 2 END)), max(allocated) FILTER (device = 'cpu'), count(reserved), count(line) > 50, count(event), count(DISTINCT op) FROM read_parquet('$T/memory/memory/**/*.parquet', hive_partitioning = true)")" \
		"$(python3 -c "
import json, sys
e = [json.loads(line) for line in sys.stdin]
print(len(e), sum((x['bytes'] or 0) * (1 if x['memory'] == 'freed' else 2) for x in e), max(x['total'] for x in e if x['device'] == 'cpu'),
      sum(bool(x['reserved']) for x in e), True, sum(x['op_id'] is not None for x in e), len({x['op'] for x in e} - {None}))" <"$T/jsonl")"
	is "bytes by op and line, joined with the events" "$(sql "SELECT e.op, m.line, sum(m.bytes) FROM read_parquet('$T/memory/memory/**/*.parquet', hive_partitioning = true) m JOIN read_parquet('$T/memory/events/**/*.parquet', hive_partitioning = true) e ON m.event = e.id AND m.pid = e.pid WHERE NOT freed GROUP BY ALL ORDER BY 3 DESC, 1 LIMIT 1")" "aten::add.Tensor $(grep -n 'held.add' trace/memory.py | cut -d: -f1) 8388608"
}

spark() {
	in_long || return 0
	"$python" -c 'import pyspark' 2>/dev/null && command -v java >/dev/null || { skip "Spark needs pyspark and Java: tests/deps test"; return; }
	ask spark >"$T/spark"
	ok "Spark, on two workers, answers as DuckDB" diff "$T/duckdb" "$T/spark"
}

all() {
	of_first_torch || { skip "files were of a trace of another torch: make test-long" 19; return; }
	data_set
	more_of_it
	with_memory
	spark
}

each_torch all

# The first file is being written.
begun() {
	[ -n "$(find "$T/stopped" -name '*.part' 2>/dev/null)" ]
}

first_torch
"$BUILD/tests/tools/big_trace" 1000000 "$T/big"
start "$DITRACE" export --to parquet --python "$python" -o "$T/stopped" "$T/big" 2>"$T/err"
ok "a long export" before_long begun
kill -TERM "$child"
finish "$child"
is "ends by the signal" "$status" 143
is "and leaves nothing" "$(ls "$T" | grep stopped)" ""
error "a folder is named" "writes a folder" "$DITRACE" export --to parquet "$T/big"
error "a Python without pyarrow" "pyarrow" "$DITRACE" export --to parquet --python "$PY" -o "$T/none" "$T/big"
is "leaves nothing, too" "$(ls "$T" | grep none)" ""
error "none on the PATH" "no python3 on the PATH imports pyarrow" env PATH=/nowhere "$DITRACE" export --to parquet -o "$T/none" "$T/big"
mkdir "$T/full"
if mount -t tmpfs -o size=64k tmpfs "$T/full" 2>/dev/null; then
	error "a full disk" "No space left|OSError" "$DITRACE" export --to parquet --python "$python" -o "$T/full/set" "$T/big"
	is "has nothing of it" "$(ls "$T/full")" ""
	umount "$T/full"
else
	skip "no right to mount" 2
fi
done_testing
