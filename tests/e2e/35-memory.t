#!/usr/bin/env bash
# ditrace's own memory while it traces a training: under 128 MiB, and it does not grow with the run.
. "$(dirname "$0")/lib.sh"
need_tracing
LIMIT_KB=$((128 * 1024)) GROWTH_KB=$((8 * 1024))

# peaks: the greatest VmHWM of ditrace (not of its target) after each second
peaks() {
	local kb
	while kb=$(awk '/^VmHWM/ { print $2 }' "/proc/$1/status" 2>/dev/null) && [ -n "$kb" ]; do
		echo "$kb"
		sleep 1
	done
}

memory() {
	"$DITRACE" run -o "$T/data" -- "$PY" train.py --seconds 20 >"$T/out" 2>"$T/err" &
	local tracer=$! half end
	children+=("$tracer")
	peaks "$tracer" >"$T/peaks"
	wait "$tracer"
	is "it ends well" $? 0
	half=$(awk '{ kb[NR] = $1 } END { print kb[int(NR / 2)] }' "$T/peaks")
	end=$(tail -n 1 "$T/peaks")
	echo "# peak ${half} KiB at half time, $end KiB at the end, file $(stat -c %s "$T/data") bytes"
	ok "under 128 MiB" [ "$end" -lt "$LIMIT_KB" ]
	ok "not growing" [ $((end - half)) -lt "$GROWTH_KB" ]
}
each_torch memory
done_testing
