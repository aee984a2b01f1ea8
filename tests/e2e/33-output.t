#!/usr/bin/env bash
# A disk that is full: the program runs on, ditrace says so.
. "$(dirname "$0")/lib.sh"
need_tracing

full() {
	mkdir "$T/full"
	mount -t tmpfs -o size=64k none "$T/full" 2>"$T/err" || {
		skip "no small filesystem can be mounted: $(head -n 1 "$T/err")" 4
		return
	}
	"$PY" train.py --steps 30 2>/dev/null | grep -v '^pid ' >"$T/untraced"
	"$DITRACE" run -o "$T/full/data" -- "$PY" train.py --steps 30 >"$T/out" 2>"$T/error"
	status=$?
	ok "the program runs to its end" cmp <(grep -v '^pid ' "$T/out") "$T/untraced"
	ok "ditrace names the reason" error_is_good 'space'
	"$DITRACE" script --format jsonl "$T/full/data" >"$T/events" 2>"$T/err"
	ok "what was written can be read" [ "$(wc -l <"$T/events")" -ge 1 ]
	umount "$T/full"
	start_busy
	mount -t tmpfs -o size=64k none "$T/full"
	error "attach to a full disk" 'space' timeout 50 "$DITRACE" attach "$child" --for 20s -o "$T/full/data"
	stop_busy
	is "the program goes on" "$status" 0
	umount "$T/full"
}
each_torch full
done_testing
