#!/usr/bin/env bash
# Blocks of record_function, which PyTorch tells no observer of: by a DataLoader's, report sees that a step waits for it.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing

# waits_with WORKERS: whether it has waited for more than half of the time; on a busy machine its steps may take longer than
# its data
waits_with() {
	recorded -- engine/slow_data.py "$1" && found "$T/out" '^waits (5[5-9]|[6-9][0-9]|100)$'
}

# waits_for_data WORKERS HOW: more than half of the time, as the program itself measures, too
waits_for_data() {
	ok "the program waits for its data" before_long waits_with "$1"
	"$DITRACE" report "$T/data" >"$T/report"
	head -n 1 "$T/report" >"$T/first"
	like "report opens with that: $2" "$T/first" "^([5-9][0-9]|100) % of a step $2 in slow_data.py:[0-9]+: x = next\(data\)$"
	unlike "no block is missing" "$T/err" 'blocks of record_function'
}

with_a_worker() {
	waits_for_data 1 'waits for data'
	"$DITRACE" annotate -i "$T/data" >"$T/lines"
	like "annotate tells the worker's time apart" "$T/lines" '^[0-9.]+ %, .* of .*; workers: .*, in no op '
	"$DITRACE" report --gaps "$T/data" >"$T/gaps"
	like "so does report --gaps" "$T/gaps" '^workers, which load and send data, in percent of their own time$'
	events
	grep -oE '"op":"profiler::[^"]*"' "$T/events" | sort | uniq -c >"$T/blocks.$ENGINE"
}

# blocks ENGINE: as torch.profiler in the same process has them
blocks() {
	recorded -- engine/blocks.py
	"$DITRACE" report --group block --format csv "$T/data" >"$T/blocks.csv"
	"$DITRACE" export --to chrome -o "$T/chrome.json" "$T/data"
	ok "torch.profiler has the same blocks" verify engine/compare_blocks "$T/out" "$T/blocks.csv" "$T/chrome.json"
	"$DITRACE" report --group block --per-step --columns calls,total,p50,block --sort calls "$T/data" >"$T/per_step"
	like "those of a step, with the columns asked for" "$T/per_step" '^Calls v +Total +P50  Block$'
	like "of two whole steps of three" "$T/per_step" '; below: means of 2 whole steps$'
	like "each has one" "$T/per_step" '^ +1 .* inner$'
	"$DITRACE" report --group block --when 'id > 1' "$T/data" 2>"$T/refused"
	like "no call of an op" "$T/refused" '--group block does not go with --when: a block is no call of an op$'
	"$DITRACE" report "$T/data" >"$T/report"
	unlike "a mark is no op" "$T/report" '_record_function'
	like "there are blocks" "$T/report" '^[0-9]+ blocks of record_function besides, see: ditrace report --group block$'
	"$DITRACE" report --group op --ops "profiler::_record_function.*" --percent-limit 0 "$T/data" >"$T/report"
	like "unless it is asked for" "$T/report" '  profiler::_record_function_exit'
}

# bpf with each torch, the other engines with one each, or it takes long
record_function() {
	local engine ENGINE
	for ENGINE in shim ptrace; do
		[ $ENGINE = $other ] || in_long || { skip "$ENGINE: with the other torch, or make test-long" 5; continue; }
		[ $ENGINE = ptrace ] || waits_for_data 0 'loads data, without workers,'
		with_a_worker
	done
	ENGINE=bpf with_a_worker
	is "the program, the DataLoader and the optimizer have blocks" "$(awk '{ n[$1 >= 24]++ } END { print n[1] }' "$T/blocks.bpf")" 2
	for engine in ptrace shim; do
		[ ! -e "$T/blocks.$engine" ] || ok "$engine sees those that bpf sees" cmp "$T/blocks.bpf" "$T/blocks.$engine"
	done
	if in_long; then each_engine blocks; else ENGINE=shim blocks; fi
	ok "with their names" [ "$(grep -cE '"op":"profiler::_record_function_enter[^"]*".*"value":"train"' "$T/events")" = 6 ]
	other=shim
}

other=ptrace
each_torch forking record_function
done_testing
