#!/usr/bin/env bash
# ditrace's own memory while it traces a training: a peak under 128 MiB, and growth of less than four bytes an op. Backlogs,
# which depend on the machine's load, and arrays that double grow in a few large steps, so growth is the median over all half
# seconds. When the program ends and frees all its code at once, some MiB are queued, which count only towards the peak.
. "$(dirname "$0")/../lib.sh"
need_tracing
LIMIT_KB=$((128 * 1024)) GROWTH_KB=128
how_many SECONDS_TRACED 9 40

# peaks: VmHWM and RssAnon of ditrace (not of its target) every half second
peaks() {
	local kb
	while kb=$(awk '/^VmHWM/ { hwm = $2 } /^RssAnon/ { print hwm, $2 }' "/proc/$1/status" 2>/dev/null) && [ -n "$kb" ]; do
		echo "$kb"
		sleep 0.5
	done
}

# growth: the median growth in KiB, from a third of the time to the end
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
