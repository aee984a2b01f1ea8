#!/usr/bin/env bash
# What a device does, as CUPTI tells it to the engine shim: a library stands in for CUPTI, and for CUDA's driver.
. "$(dirname "$0")/../lib.sh"
need_tracing
command -v gcc >/dev/null || skip_all "no gcc to build what stands in for CUPTI"

build() {
	gcc -O1 -shared -fPIC -Wl,-soname,libcupti.so.13 -o "$base/libcupti.so.13" "$W/engine/stand_in.c" &&
		gcc -O1 -DDRIVER -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$base/libcuda.so.1" "$W/engine/stand_in.c"
}

# of_run WHEN [WHAT]: it runs under trace
of_run() {
	local devices=()
	[ "$1" = after ] || devices=(--devices)
	"$DITRACE" run "${devices[@]}" -o "$T/data" -- "$PY" engine/devices.py "$base" "$@" >"$T/out" 2>"$T/err" </dev/null
	local status=$?
	"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	return $status
}

as_it_is() {
	python3 "$here/engine/cupti.py" "$T/jsonl"
}

attached() {
	start_as program "$PY" engine/devices.py "$base" before waits <"$T/in" >"$T/out" 2>"$T/err"
	wait_line "$T/out" '^waiting'
	start_as tracer "$DITRACE" attach --devices -o "$T/data" "$program" >"$T/table" 2>&1
	wait_line "$T/out" '^waits'
	kill -TERM "$tracer"
	wait "$tracer"
}

# is_told WHEN
is_told() {
	ok "CUDA is initialised $1 recording begins" of_run "$1"
	ok "each activity has its op, thread and phase" as_it_is
}

left_out() {
	ok "it is not recorded where it is not wanted" of_run_without --no-devices
	ok "nor, by itself, where the device is in use already" of_run_without
	like "which is said" "$T/err" 'times of devices in process [0-9]+ are not recorded: it uses one already'
	like "with what to do" "$T/err" '^  hint: --devices '
}

beside_others() {
	ok "a child of a fork has no part in it" of_run before fork
	like "and ends well" "$T/out" '^child 0$'
	ok "nor has it changed that of its parent" as_it_is
	ok "the program's own profiler comes first" of_run before profiler
	like "nothing is recorded then" "$T/out" '^kinds 0 profiled True$'
	like "and ditrace says so" "$T/err" "not recorded from here on: the program's own profiler"
	ok "after a killed ditrace another one records the same" again_after_kill
}

# What is special is done with one torch each.
devices() {
	! of_first_torch || is_told before
	is_told after
	like "they are in the summary" "$T/err" '^cuda:0 was busy'
	like "one whose time makes no sense is lost" "$T/err" '^ditrace: 1 activity of a device was lost: '
	if of_first_torch; then left_out; else skip "what is not recorded was with another torch: make test-long" 6; fi
	if of_other_torch; then beside_others; else skip "forks, profilers and a kill with another torch, or make test-long" 7; fi
	mkfifo "$T/in"
	exec 9<>"$T/in"
	ok "attached to a process that uses the device" attached
	"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	ok "the same activities" as_it_is
	before_long out_of_use
	echo >&9
	wait_line "$T/out" '^done'
	like "after detach CUPTI is asked for nothing" "$T/out" '^kinds 0$'
	like "nor were kernels recorded at any time without their launches" "$T/out" '^done, blind 0$'
	exec 9>&-
}

# again_after_kill: the memory that is shared may come to lie where the old one was
again_after_kill() {
	mkfifo "$T/in"
	exec 9<>"$T/in"
	start_as program "$PY" engine/devices.py "$base" before twice waits <"$T/in" >"$T/out" 2>"$T/err"
	wait_line "$T/out" '^waiting'
	start_as tracer "$DITRACE" attach --devices -o "$T/killed" "$program" >"$T/table" 2>&1
	wait_line "$T/out" '^recording True'
	kill -9 "$tracer"
	wait "$tracer" 2>/dev/null
	before_long out_of_use
	echo >&9
	start_as tracer "$DITRACE" attach --devices -o "$T/data" "$program" >"$T/table" 2>&1
	wait_line "$T/out" '^waits'
	kill -TERM "$tracer"
	wait "$tracer"
	echo >&9
	exec 9>&-
	"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	rm "$T/in"
	as_it_is
}

out_of_use() {
	"$DITRACE" ctl "$program" | grep -q 'out of use'
}

of_run_without() {
	"$DITRACE" run "$@" -o "$T/data" -- "$PY" engine/devices.py "$base" never >"$T/out" 2>"$T/err"
	"$DITRACE" script --format jsonl "$T/data" | not_in_input '"activity"' && grep -q 'recording False' "$T/out"
}

not_in_input() {
	! grep -q "$1"
}

ok "what stands in for CUPTI" build
each_torch devices
done_testing
