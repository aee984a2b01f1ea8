#!/usr/bin/env bash
# ditrace's own memory while it traces a training: under 128 MiB, and what it allocates does not grow with the
# run: by less than a word for each of the millions of ops of the second half. What it keeps of autograd nodes
# doubles now and then, up to 16 MiB. How much of the ring buffer has been in use depends on what else the
# machine does, and so does what waits when the program ends and frees all its code at once: some MiB, which
# count for the peak alone.
. "$(dirname "$0")/lib.sh"
need_tracing
LIMIT_KB=$((128 * 1024)) GROWTH_KB=$((8 * 1024))

# peaks: of ditrace (not of its target) each second, VmHWM and RssAnon
peaks() {
	local kb
	while kb=$(awk '/^VmHWM/ { hwm = $2 } /^RssAnon/ { print hwm, $2 }' "/proc/$1/status" 2>/dev/null) && [ -n "$kb" ]; do
		echo "$kb"
		sleep 1
	done
}

memory() {
	local tracer peak half end
	start_as tracer "$DITRACE" run -o "$T/data" -- "$PY" train.py --seconds 20 >"$T/out" 2>"$T/err"
	peaks "$tracer" >"$T/peaks"
	wait "$tracer"
	is "it ends well" $? 0
	read -r peak half end < <(awk '{ peak = $1; kb[NR] = $2 } END { print peak, kb[int(NR * 0.4)], kb[int(NR * 0.8)] }' "$T/peaks")
	echo "# peak $peak KiB; allocated: $half KiB after two fifths of the time, $end KiB after four; file $(stat -c %s "$T/data") bytes"
	ok "under 128 MiB" [ "$peak" -lt "$LIMIT_KB" ]
	ok "not growing" [ $((end - half)) -lt "$GROWTH_KB" ]
}
each_torch memory
done_testing
