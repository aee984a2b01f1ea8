#!/usr/bin/env bash
# A training on several processes: a trace for each rank, in a folder that all commands read as one trace.
. "$(dirname "$0")/../lib.sh"
need_tracing

# show OPTIONS...: a report in $T/report
show() {
	"$DITRACE" report --pager never --percent-limit 0 --format csv "$@" "$T/data" >"$T/report" 2>"$T/report.err"
}

traced() {
	SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 trace --engine shim -- "$PY" ranks/launch.py ranks/ddp.py "$T/store"
	is "all ranks run to their end" "$? $(cat "$T/out")" "0 total [3.0, 3.0, 3.0, 3.0]"
	is "each rank has a file, the launcher none, to which srun gave a rank" "$(cd "$T/data" && echo *)" "rank0.data rank1.data"
	like "where they are is told" "$T/err" "^trace written to $T/data/ \(2 files, .*; see: ditrace report $T/data\$"
}

reported() {
	show --group op
	like "calls are of both ranks" "$T/report" '^aten::square,10,'
	"$DITRACE" report --pager never --percent-limit 0 --columns least,most,op "$T/data" >"$T/table"
	like "a row tells which rank had most of it" "$T/table" '^ *0 ns 0 +[0-9.]+ [mun]s 1 +aten::cosh$'
	show --group rank
	is "rows by rank, and by worker" "$(tail -n +2 "$T/report" | cut -d, -f1 | sort | paste -sd' ')" "0 0 1"
	show --group op --rank 0
	like "--rank 0 has its ops" "$T/report" '^aten::square,5,'
	unlike "and no other's" "$T/report" '^aten::cosh,'
	like "its worker is in its file, as a worker" "$T/report" '^aten::stack.out,5,.*,true$'
	ok "totals of both are the same everywhere" verify trace/totals "$T/data"
	error "a rank that is not there" '--rank 2' "$DITRACE" report --rank 2 "$T/data"
}

read_by_others() {
	events
	ok "events of both are in the order in which they ran, their ids differ" verify ranks/in_order "$T/events"
	"$DITRACE" export --to sqlite -o "$T/db" "$T/data" 2>"$T/err"
	is "a database has the calls of both" "$(python3 -c "import sqlite3; print(*sqlite3.connect('$T/db').execute(\"select count(*) from calls where op = 'aten::square'\").fetchone())")" 10
	"$DITRACE" diff --pager never "$T/data" "$T/data" >"$T/diff"
	is "diff takes folders" $? 0
}

collectives() {
	"$DITRACE" script --collectives --format jsonl "$T/data" >"$T/calls"
	ok "all collectives are there, in order, and no others" verify ranks/collectives "$T/calls" "$T/store"
	"$DITRACE" report --collectives --no-pager --format csv "$T/data" >"$T/report"
	like "those of both ranks are one" "$T/report" '^allreduce,SUM,,8,float32,1,2,80,[0-9]+,[0-9]+,40,[0-9]+,1,[0-9]+,gloo,80,[0-9]+,[0-9]+,80,[0-9]+,[0-9]+,.*,late,[a-z0-9]+,0 1,$'
	like "with DDP's own" "$T/report" '^allreduce,SUM,,144,float32,0,2,10,'
	"$DITRACE" report --collectives --no-pager --format json "$T/data" >"$T/report"
	ok "and its buckets, with their parameters, and when each was reduced" jq -e '.buckets | ([.[].calls] | add == 10) and all(.[]; .bucket == 0 and .bytes == 144 and (.parameters | length == 2) and .left_p50_ns > 0 and .done_p50_ns > 0 and .late_p50_ns != null) and ([.[] | select(.parameters | sort == ["module.bias", "module.weight"]) | .calls] | add >= 4)' "$T/report"
	ok "each of its calls tells its bucket" jq -se '[.[] | select(.bucket == 0)] | length == 10 and all(.[]; .bytes == 144 and .function == "step")' "$T/calls"
	"$DITRACE" report --collectives --no-pager "$T/data" >"$T/report"
	like "in a table of their own" "$T/report" '^ +0 +[0-9]+ +144 B .* module.(weight|bias) +module.(weight|bias), module.(weight|bias)$'
	"$DITRACE" script "$T/data" >"$T/text"
	like "the end of what it computes is told, at its line" "$T/text" '^c10d::Reducer::finalize_backward +backward .*/ddp.py:[0-9]+ step: loss.backward\(\)'
	like "at the parameter whose gradient has filled a bucket" "$T/text" '^c10d::allreduce_ +backward .* gradient accumulation of '
	"$DITRACE" report --skew --no-pager "$T/data" >"$T/skew"
	like "the late rank is named" "$T/skew" '^rank 1 comes last in [0-9]+ of the [0-9]+ collectives that were waited for \(of 4[0-9]\), by [0-9]+ ms in the median: '
	like "and where it is meanwhile" "$T/skew" '^meanwhile it is in no op, up to aten::sinh_ ddp.py:[0-9]+ late: x.sinh_\(\), each time for [0-9]+ ms more than rank 0$'
	"$DITRACE" report --skew --no-pager --step 2 "$T/data" >"$T/skew"
	like "of a few calls no rank is named" "$T/skew" '^no rank holds the others up: |^ranks are not compared: there are no two'
	error "--skew takes no --rank" '--rank' "$DITRACE" report --skew --rank 1 "$T/data"
}

# rows FILTER CALLS: what FILTER makes of each call of exchange, by rank, in order
rows() {
	jq -rs "[.[] | select(.function == \"exchange\")] | sort_by(.rank) | .[] | $1" "$2"
}

# Those that are no operators, as in 1.13, they see with all that they are of.
other_engines() {
	local e known='[.rank, .collective, .bytes, .dtype, .reduce_op, .group_ranks, .line] | @json' functions='select(false)'
	case $TORCH in
	1.*) functions='select((.collective | IN("alltoall", "allreduce_coalesced", "allgather_coalesced", "monitored_barrier")) or .collective == "recv" and .root == null)' ;;
	*) in_long || { skip "operators, as all collectives of this torch: with another one, or make test-long" 6; return; } ;;
	esac
	for e in bpf ptrace; do
		"$DITRACE" run --engine $e -o "$T/$e/" -- "$PY" ranks/launch.py ranks/ddp.py "$T/$e-store" >"$T/out" 2>"$T/err"
		is "$e: all ranks run to their end" "$? $(cat "$T/out")" "0 total [3.0, 3.0, 3.0, 3.0]"
		"$DITRACE" script --collectives --format jsonl "$T/$e" >"$T/$e.calls"
		is "$e: each call is there once" "$(rows .collective "$T/$e.calls")" "$(rows .collective "$T/calls")"
		is "$e: with what is known of it" "$(rows "select(.group_ranks or .bytes) | $known" "$T/$e.calls")" "$(rows "$functions | $known" "$T/calls")"
	done
}

# Four ranks as a mesh of two by two: rank 2 is late for both of its groups.
subgroups() {
	RANKS=4 "$DITRACE" run --engine shim -o "$T/mesh/" -- "$PY" ranks/launch.py ranks/mesh.py "$T/mesh-store" >"$T/out" 2>"$T/err"
	is "ranks in groups run to their end" "$?" 0
	"$DITRACE" report --skew --pager never "$T/mesh" >"$T/skew"
	like "the late rank is named, in its group" "$T/skew" '^in group [0-9] \(ranks (0, 2|2, 3)\) rank 2 comes last in [0-9]+ of the [0-9]+ collectives '
	like "and what it does meanwhile" "$T/skew" '^meanwhile it is in no op, up to aten::sinh_ mesh.py:[0-9]+ slow: x.sinh_\(\), each time for [0-9]+ ms more than rank [03]$'
	like "a rank that only waits for it is told" "$T/skew" '^in group [0-9] \(ranks 1, 3\) rank 3, .*; it waits itself in group [0-9] \(ranks 2, 3\)$'
	"$DITRACE" script --collectives --format jsonl "$T/mesh" >"$T/calls"
	ok "each call has the ranks of its group" jq -se 'all(.[]; .rank as $r | .group_ranks | index($r) != null) and ([.[] | select(.group_size == 2) | .group_ranks] | unique == [[0,1],[0,2],[1,3],[2,3]])' "$T/calls"
	ok "a root is named by its rank among all" jq -se '[.[] | select(.collective == "broadcast") | .root] == [3, 3]' "$T/calls"
}

# Of each module that fully_shard has: parameters are gathered before its forward and its backward (of the outermost one only
# before its forward), gradients reduced. Of DTensors: what the second layer gives is reduced.
sharded() {
	local plain
	plain=$("$PY" ranks/launch.py ranks/sharded.py "$T/plain-store" 2>/dev/null)
	[ "$plain" = none ] && { skip "PyTorch has no fully_shard" 3; return; }
	"$DITRACE" run --engine shim -o "$T/sharded/" -- "$PY" ranks/launch.py ranks/sharded.py "$T/sharded-store" >"$T/out" 2>"$T/err"
	is "sharded ranks end with the same losses" "$? $(cat "$T/out")" "0 $plain"
	"$DITRACE" script --collectives --format jsonl "$T/sharded" >"$T/calls"
	ok "each collective of fully_shard tells the module that it is for" jq -se '[.[] | select(.purpose // "" | startswith("FSDP::")) | "\(.collective) \(.purpose)"] | group_by(.) | map({(.[0]): length}) | add == {"allgather FSDP::all_gather": 6, "allgather FSDP::all_gather (0)": 12, "allgather FSDP::all_gather (1)": 12, "reduce_scatter FSDP::post_backward_reduce": 6, "reduce_scatter FSDP::post_backward_reduce (0)": 6, "reduce_scatter FSDP::post_backward_reduce (1)": 6}' "$T/calls"
	"$DITRACE" report --collectives --pager never "$T/sharded" >"$T/report"
	like "and of a DTensor, its own" "$T/report" '^ +6 +128 B .* allreduce SUM float32 async +1 +0 \(ranks 0, 1\) gloo '
}

several_hosts() {
	mkdir "$T/here" "$T/there"
	cp "$T/data/rank0.data" "$T/here"
	verify ranks/other_host "$T/data/rank1.data" "$T/there/rank1.data"
	echo "no trace" >"$T/there/notes.data"
	"$DITRACE" merge -o "$T/both" "$T/here" "$T/there" 2>"$T/err"
	is "merge makes one folder of two hosts'" "$? $(cd "$T/both" && echo *)" "0 rank0.data rank1.data"
	like "and tells how their clocks differ" "$T/err" '^ditrace: the clock of .* is [0-9.]+ ms ahead of that of .* [0-9]+ collectives tell it'
	"$DITRACE" report --skew --pager never --format json "$T/both" >"$T/skew"
	ok "what is added to its times is as exact as is said" jq -e '.clocks[0] | .found and (.shift_ns | fabs) <= .off_at_most_ns and (.behind_ns + 2e8 | fabs) <= .off_at_most_ns' "$T/skew"
	"$DITRACE" report --skew --pager never --format json "$T/data" >"$T/skew.one"
	ok "the late rank is named, as late as by one clock" jq -e --slurpfile one "$T/skew.one" '.named == 1 and .ranks[1].late_p50_ns > 2e7 and .ranks[1].late_p50_ns < $one[0].ranks[1].late_p50_ns + 1e8' "$T/skew"
	"$DITRACE" merge -o "$T/both" "$T/there" "$T/here/rank0.data" 2>"$T/err"
	is "what was merged before is replaced" "$? $(cd "$T/both" && echo *)" "0 rank0.data rank1.data"
	head -c 64 "$T/there/rank1.data" >"$T/both/rank1.data"
	"$DITRACE" report --skew --pager never "$T/both" >"$T/skew" 2>"$T/err"
	like "without collectives of both, nothing is compared" "$T/skew" '^ranks are not compared: '
	error "what is not there is not merged" 'cannot read .*nowhere' "$DITRACE" merge -o "$T/both" "$T/nowhere"
	error "nor a folder without a trace" 'has no trace' "$DITRACE" merge -o "$T/both" "$W/ranks"
	mkdir "$T/of-others"
	chown 12345 "$T/of-others"
	error "nor, as root, into a folder of another user" 'other users may write there' "$DITRACE" merge -o "$T/of-others" "$T/here"
	is "nothing is left of what was fetched" "$(ls -A "$T/both" | paste -sd' ')" "rank0.data rank1.data"
}

# The library comes to ranks that were started without it only once they have PyTorch: first calls may be missing.
without_library() {
	"$DITRACE" run --engine shim -o "$T/late/" -- env -u LD_PRELOAD -u DITRACE_SHIM "$PY" ranks/launch.py ranks/ddp.py "$T/late-store" >"$T/out" 2>"$T/err"
	"$DITRACE" report --skew --pager never "$T/late" >"$T/skew"
	like "the waits of the other, first of all" <("$DITRACE" report --pager never "$T/late") '^[0-9.]+ % waits for collectives, most at '
	like "ranks that were not recorded from their start are not compared" "$T/skew" '^ranks are not compared: rank [01] was not recorded from its start'
}

# below PID: what it has started, in a line
below() {
	cat "/proc/$1/task/"*/children
}

both_train() {
	[ "$(grep -c trains "$T/hang")" = 2 ]
}

# attached NAME ARGUMENT...: attach until there are ops of both ranks
attached() {
	start_as tracer env --default-signal=INT "$DITRACE" attach --ops square,cosh -o "$T/$1" "${@:2}" >"$T/attached" 2>&1
	ok "attach $1: both ranks are recorded" before_long has_both "$T/$1"
	kill -INT "$tracer"
	finish "$tracer"
	is "attach $1 ends well" $status 0
}

has_both() {
	same "$("$DITRACE" report --pager never --group rank --format csv "$1" 2>/dev/null | tail -n +2 | cut -d, -f1 | sort | paste -sd' ')" "0 1"
}

hang() {
	SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 start "$PY" ranks/launch.py ranks/ddp.py "$T/hang-store" "$T/stop" >"$T/hang" 2>&1
	local launcher=$child
	before_long both_train
	attached tree --engine bpf --tree "$launcher"
	"$DITRACE" report --collectives "$T/tree" >"$T/report"
	like "where the engine does not see collectives, that is told" "$T/report" '^only the engine shim sees those'
	attached pids $(below "$launcher")
	attached shim --engine shim --tree "$launcher"
	touch "$T/stop"
	wait_line "$T/hang" stops
	local ranks
	ranks=($(below "$launcher"))
	children+=("${ranks[@]}")
	before_long in_collective --tree "$launcher"
	head -n 3 "$T/stack" >"$T/verdict"
	like "stack tells which rank does not come" "$T/verdict" '^rank 0 waits in all_reduce #[0-9]+ of group [a-z0-9_]+ \(float32 \(36,\)\) at ddp.py:[0-9]+; rank 1 is not there: it is in until at ddp.py:[0-9]+ \('
	like "and where each is" "$T/stack" "^ +1 +[0-9]+ +.* ddp.py:[0-9]+ until: signal.pause\\(\\)"
	"$DITRACE" stack --format json --tree "$launcher" >"$T/json" 2>&1
	ok "its launcher, which has a rank of srun's, and its worker are no ranks" jq -se '.[0].ranks | [.[] | .rank] == [null, null, 0, 1]' "$T/json"
	"$DITRACE" stack "$T/shim" >"$T/stack" 2>&1
	like "and finds the ranks by their trace" "$T/stack" '^rank 0 waits in all_reduce #.*; rank 1 is not there: it is in until '
	start_as watcher "$DITRACE" watch --for 1s -o "$T/watched" --tree "$launcher" 2>"$T/err"
	wait_line "$T/watched" '^rank 0 waits in all_reduce #.*; rank 1 is not there: '
	kill "${ranks[@]}"
	finish "$launcher"
	finish "$watcher"
	is "watch writes that by itself, ends with the ranks, and tells that there was a hang" $status 3
	like "and when" "$T/watched" '^20[-0-9]+ [:0-9]+: no collective of rank [01] for '
	"$DITRACE" stack "$T/shim" >"$T/stack" 2>"$T/err"
	is "of ranks that have ended there are no stacks" $? 1
	like "which is told" "$T/err" '^ditrace: all processes of .* have ended'
}

# in_collective ARGUMENT...: whether a rank is in a collective, its stacks and the others' in $T/stack
in_collective() {
	"$DITRACE" stack "$@" >"$T/stack" 2>&1 && grep -q "waits in .* is not there" "$T/stack"
}

all() {
	traced
	reported
	read_by_others
	collectives
	other_engines
	subgroups
	sharded
	if of_other_torch; then several_hosts; else skip "traces of two hosts are merged with the other torch, or make test-long" 14; fi
	if of_first_torch; then without_library; else skip "ranks without the library: with another torch, or make test-long" 2; fi
	hang
}

each_torch all
done_testing
