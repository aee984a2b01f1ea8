#!/usr/bin/env bash
# The losses of a training are the same bit by bit: untraced, under run, attached to, and with ditrace killed many times in
# between.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many KILLS 6 50
how_many STEPS 20 50

# The kernel removes a dead tracer's probes a moment later. The training is stopped meanwhile.
unprobed() {
	local status
	kill -STOP "$child"
	before_long python3 "$here/code_unchanged.py" "$child"
	status=$?
	kill -CONT "$child"
	return $status
}

# kill_often: attach to the training and kill ditrace with SIGKILL at a random time, repeatedly
kill_often() {
	local i tracer alive=0
	RANDOM=1
	for ((i = 0; i < KILLS; i++)); do
		start_as tracer "$DITRACE" attach "$child" -o "$T/killed" >/dev/null 2>"$T/killed.err"
		sleep "0.$(printf %03d $((RANDOM % 700)))"
		kill -0 "$tracer" 2>/dev/null && alive=$((alive + 1))
		kill -9 "$tracer" 2>/dev/null
		wait "$tracer" 2>/dev/null
		kill -0 "$child" || return 1
		[ $((i % 5)) != 4 ] || unprobed >"$T/code" || { tail -n 1 "$T/code" && return 1; }
	done
	echo "# $alive of $KILLS were running when killed"
	[ "$alive" -ge $((KILLS * 9 / 10)) ] || { cat "$T/killed.err" && return 1; }
}

# The same few steps repeated, the first time before they are traced.
bits() {
	start "$PY" on_line.py <<<always >"$T/lines" 2>"$T/lines.err"
	ok "a training runs" wait_line "$T/lines" '^always '
	ok "it outlives $KILLS killed ditraces" kill_often
	ok "and keeps no probe in its code" unprobed
	ok "one can still attach" "$DITRACE" attach "$child" --count 3000 -o "$T/data"
	kill -TERM "$child"
	finish "$child"
	is "the training ends well" "$status $(tail -n 1 "$T/lines")" "0 ended well"
	events
	ok "its ops were seen" grep -q '"op": *"AddmmBackward0"' "$T/events"
	is "all its losses are those from before" "$(grep '^always ' "$T/lines" | sort -u)" "$(grep -m 1 '^always ' "$T/lines")"
	ok "another trains under run" trace -- "$PY" train.py --steps "$STEPS"
	is "to its end" "$(grep -vc '^pid ' "$T/out")" "$STEPS"
	ok "with the losses of an untraced one" same_losses "$T/out"
}
each_torch bits
done_testing
