#!/usr/bin/env bash
# Truncated and damaged files: what can be read is shown, the rest is reported, nothing crashes.
. "$(dirname "$0")/../lib.sh"
need_tracing
first_torch
trace -- "$PY" train.py --steps 2
events

CUT='cut|truncat|incomplete|ends|empty|short|not a '

# prefix: the printed events are events of the whole file in its order. An op follows the ops inside it in the file, so that the
# last events may lack theirs.
prefix() {
	[ "$(wc -l <"$T/error.out")" -ge "$1" ] &&
		python3 -c 'import sys; whole = iter(open(sys.argv[1])); sys.exit(not all(e in whole for e in open(sys.argv[2])))' \
			"$T/events" "$T/error.out"
}

for size in 0 8 64 256; do
	head -c "$size" "$T/data" >"$T/cut"
	error "script: cut at $size bytes" "$CUT" "$DITRACE" script --format jsonl "$T/cut"
	error "report: cut at $size bytes" "$CUT" "$DITRACE" report "$T/cut"
	error "export: cut at $size bytes" "$CUT" "$DITRACE" export "$T/cut" --to csv
done
head -c $(($(stat -c %s "$T/data") * 3 / 4)) "$T/data" >"$T/cut"
error "report: cut at 75 %" "$CUT" "$DITRACE" report "$T/cut"
like "the table of what is there is shown" "$T/error.out" aten::
error "script: cut at 75 %" "$CUT" "$DITRACE" script --format jsonl "$T/cut"
ok "the events before the cut are shown" prefix 1

# damaged_is_good: an error and the events before it, or the damage does not affect what is shown
damaged_is_good() {
	"$DITRACE" script --format jsonl "$T/cut" >"$T/error.out" 2>"$T/error"
	status=$?
	if [ "$status" = 0 ]; then
		cmp "$T/error.out" "$T/events"
	else
		error_is_good . && prefix 0
	fi
}

for seed in $(seq 24); do
	verify trace/damage "$T/data" "$T/cut" "$seed"
	ok "flipped bytes, $seed" damaged_is_good
done
head -c 4096 /dev/urandom >"$T/cut"
error "not a trace file" . "$DITRACE" report "$T/cut"
error "a folder" . "$DITRACE" report "$T"
error "no such file" . "$DITRACE" report "$T/nothing"
done_testing
