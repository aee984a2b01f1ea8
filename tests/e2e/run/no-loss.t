#!/usr/bin/env bash
# A burst of ops while ditrace has no time for them: none is lost.
. "$(dirname "$0")/../lib.sh"
need_tracing
OPS=100000

has_relu() {
	"$DITRACE" script "$T/data" 2>/dev/null | grep -q relu
}

burst() {
	local program tracer stopper
	start_as program "$PY" run/burst.py "$T/word" "$OPS" >"$T/out" 2>"$T/out.err"
	wait_line "$T/out" '^ready'
	start_as tracer "$DITRACE" attach --engine bpf "$program" -o "$T/data" >"$T/table" 2>"$T/err"
	ok "a program is traced" before_long has_relu
	start_as stopper python3 "$here/run/stops_thread.py" "$tracer" >"$T/stopper" 2>&1
	ok "ditrace's first thread is stopped" wait_line "$T/stopper" '^stopped'
	touch "$T/word"
	ok "the program runs on" wait_line "$T/out" '^done'
	kill "$stopper"
	finish "$program"
	finish "$tracer"
	is "it ends well" "$status" 0
	unlike "nothing was lost" "$T/err" '[1-9][0-9,]* (events )?lost'
	is "all were seen" "$("$DITRACE" script --format jsonl "$T/data" | grep -c "\"aten::neg\"")" "$OPS"
}
each_torch burst
done_testing
