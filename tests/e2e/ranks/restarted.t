#!/usr/bin/env bash
# Ranks that start late, are killed and started again, with workers; more ranks than processors; one whose file is cut; and
# all of them without ditrace, which is killed.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many MANY 4 8

# calls FOLDER: of cosh, one a step, of all ranks
calls() {
	"$DITRACE" report --group op --pager never --format csv --percent-limit 0 "$1" 2>/dev/null | sed -nE 's/^aten::cosh,([0-9]+),.*/\1/p'
}

loss() {
	grep -o 'loss .*' "$T/out"
}

many() {
	local untraced
	untraced=$(RANKS=$MANY "$PY" ranks/launch.py ranks/restarted.py "$T/plain" 2>/dev/null)
	RANKS=$MANY "$DITRACE" run -o "$T/many/" -- "$PY" ranks/launch.py ranks/restarted.py "$T/store" >"$T/out" 2>"$T/err"
	is "more ranks than processors end with the same loss" "$? $(loss)" "0 $untraced"
	is "no call of them is missing" "$(calls "$T/many"), $(grep -c ', 0 lost' "$T/err")" "$((20 * MANY)), 1"
	head -c 9000 "$T/many/rank3.data" >"$T/cut"
	mv "$T/cut" "$T/many/rank3.data"
	"$DITRACE" report --group rank --pager never --format csv "$T/many" >"$T/report" 2>"$T/err"
	like "where one file is cut, that is told" "$T/err" 'rank3.data: the file ends in the middle of a block'
	is "the others are read" "$(tail -n +2 "$T/report" | cut -d, -f1 | sort -u | grep -vx 3 | paste -sd' ')" "$(seq 0 $((MANY - 1)) | grep -vx 3 | paste -sd' ')"

	untraced=$(RANKS=2 "$PY" ranks/launch.py ranks/restarted.py "$T/plain2" 2>/dev/null)
	start_as tracer env RANKS=2 "$DITRACE" run -o "$T/killed/" -- "$PY" ranks/launch.py ranks/restarted.py "$T/store2" >"$T/out" 2>"$T/err"
	before_long test -e "$T/killed/rank0.data"
	kill -9 "$tracer"
	finish "$tracer"
	ok "without ditrace, that was killed, ranks train on" wait_line "$T/out" "^$untraced$"
}

again() {
	local torchrun=(-m torch.distributed.run --nproc_per_node 3 --max_restarts 1 --rdzv_backend c10d --rdzv_endpoint localhost:0)
	"$PY" -c 'from torch.distributed.elastic.multiprocessing.api import Std, to_map; to_map(Std.from_str("0"), 1)' 2>/dev/null ||
		{ skip "torchrun does not start anything with this Python" 4; return; }
	"$DITRACE" run -o "$T/again/" -- "$PY" "${torchrun[@]}" ranks/restarted.py "$T/store3" die >"$T/out" 2>"$T/err"
	is "ranks that torchrun starts again end well" "$? $(grep -c '^loss ' "$T/out")" "0 1"
	is "each start has a file" "$(cd "$T/again" && echo *)" "rank0.1.data rank0.data rank1.1.data rank1.data rank2.1.data rank2.data"
	ok "no call of the second start is missing, nor of the first up to its end" test "$(calls "$T/again")" -ge $((60 + 3 * 4))
	"$DITRACE" report --skew --pager never "$T/again" >"$T/skew"
	like "the second start is compared, which alone has so many collectives" "$T/skew" '\(of 2[0-9]\)'
}

all() {
	of_first_torch && many || skip "ranks were more than processors with another torch: make test-long" 5
	again
}

each_torch all
done_testing
