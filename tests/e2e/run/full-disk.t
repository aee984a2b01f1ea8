#!/usr/bin/env bash
# A full disk: the program runs on, and ditrace reports it.
. "$(dirname "$0")/../lib.sh"
need_tracing

full() {
	mkdir "$T/full"
	mount -t tmpfs -o size=64k none "$T/full" 2>"$T/err" || {
		skip "no small filesystem can be mounted: $(head -n 1 "$T/err")" 6
		return
	}
	"$DITRACE" run -o "$T/full/data" -- "$PY" train.py --steps 6 >"$T/out" 2>"$T/error"
	status=$?
	is "the program runs to its end" "$(grep -vc '^pid ' "$T/out")" 6
	ok "with the losses of an untraced one" same_losses "$T/out"
	ok "ditrace names the reason" error_is_good 'space'
	"$DITRACE" script --format jsonl "$T/full/data" >"$T/events" 2>"$T/err"
	ok "what was written can be read" [ "$(wc -l <"$T/events")" -ge 1 ]
	umount "$T/full"
	start_busy
	mount -t tmpfs -o size=64k none "$T/full"
	error "attach to a full disk" 'space' timeout "$PATIENCE" "$DITRACE" attach "$child" --count 20000 -o "$T/full/data"
	stop_busy
	is "the program goes on" "$status" 0
	umount "$T/full"
}
each_torch full
done_testing
