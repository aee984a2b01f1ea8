#!/usr/bin/env bash
# ditrace's own memory while it traces a training: under 128 MiB, and growth of less than four bytes an op. Backlogs, which depend
# on the machine's load, and arrays that double grow in a few large steps, so both are medians over all half seconds, and a peak
# has 288 MiB more: what the engine bpf lets wait, and its ring buffer.
. "$(dirname "$0")/../lib.sh"
need_tracing
LIMIT_KB=$((128 * 1024)) BACKLOG_KB=$((288 * 1024)) GROWTH_KB=128
how_many SECONDS_TRACED 9 40

# used: VmHWM, VmRSS and RssAnon of ditrace (not of its target) every half second
used() {
	local kb
	while kb=$(awk '/^VmHWM/ { hwm = $2 } /^VmRSS/ { rss = $2 } /^RssAnon/ { print hwm, rss, $2 }' "/proc/$1/status" 2>/dev/null) && [ -n "$kb" ]; do
		echo "$kb"
		sleep 0.5
	done
}

# median: of the numbers of its input
median() {
	sort -n | awk '{ n[NR] = $1 } END { print NR ? n[int((NR + 1) / 2)] : "none" }'
}

# growth FILE: the median growth in KiB, from a third of the time to the end
growth() {
	awk '{ kb[NR] = $3 } END { for (i = int(NR / 3) + 1; i <= NR - 2; i++) print kb[i] - kb[i - 1] }' "$1" | median
}

memory() {
	local tracer peak usual grown
	start_as tracer "$DITRACE" run -o "$T/data" -- "$PY" train.py --seconds "$SECONDS_TRACED" >"$T/out" 2>"$T/err"
	used "$tracer" >"$T/used"
	wait "$tracer"
	is "it ends well" $? 0
	peak=$(tail -n 1 "$T/used" | cut -d' ' -f1) usual=$(cut -d' ' -f2 "$T/used" | median) grown=$(growth "$T/used")
	echo "# peak $peak KiB; usually $usual KiB; $grown KiB more each half second; file $(stat -c %s "$T/data") bytes"
	ok "under 128 MiB" [ "$usual" -lt "$LIMIT_KB" ]
	ok "and a backlog" [ "$peak" -lt $((LIMIT_KB + BACKLOG_KB)) ]
	ok "not growing" [ "$grown" -lt "$GROWTH_KB" ]
}
each_torch memory
done_testing
