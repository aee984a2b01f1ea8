#!/usr/bin/env bash
# ditrace's own memory while it traces a training: under 128 MiB, and what it allocates does not grow with the run: by
# less than four bytes an op. What grows with a backlog, which depends on what else the machine
# does, and what doubles now and then, grows in a few steps: the middle one of the growths of all half seconds tells what
# grows with time. When the program ends and frees all its code at once, some MiB wait, which count for the peak alone.
. "$(dirname "$0")/../lib.sh"
need_tracing
LIMIT_KB=$((128 * 1024)) GROWTH_KB=128
how_many SECONDS_TRACED 9 40

# peaks: of ditrace (not of its target) each half second, VmHWM and RssAnon
peaks() {
	local kb
	while kb=$(awk '/^VmHWM/ { hwm = $2 } /^RssAnon/ { print hwm, $2 }' "/proc/$1/status" 2>/dev/null) && [ -n "$kb" ]; do
		echo "$kb"
		sleep 0.5
	done
}

# growth: the middle one, in KiB, of what is between a third of the time and the end
growth() {
	awk '{ kb[NR] = $2 } END { for (i = int(NR / 3) + 1; i <= NR - 2; i++) print kb[i] - kb[i - 1] }' "$1" |
		sort -n | awk '{ g[NR] = $1 } END { print NR ? g[int((NR + 1) / 2)] : "none" }'
}

memory() {
	local tracer peak grown
	start_as tracer "$DITRACE" run -o "$T/data" -- "$PY" train.py --seconds "$SECONDS_TRACED" >"$T/out" 2>"$T/err"
	peaks "$tracer" >"$T/peaks"
	wait "$tracer"
	is "it ends well" $? 0
	peak=$(tail -n 1 "$T/peaks" | cut -d' ' -f1) grown=$(growth "$T/peaks")
	echo "# peak $peak KiB; $grown KiB more each half second; file $(stat -c %s "$T/data") bytes"
	ok "under 128 MiB" [ "$peak" -lt "$LIMIT_KB" ]
	ok "not growing" [ "$grown" -lt "$GROWTH_KB" ]
}
each_torch memory
done_testing
