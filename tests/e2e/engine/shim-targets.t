#!/usr/bin/env bash
# Processes that the engine shim is injected into: it works, or is refused with the reason, and the process is unharmed.
. "$(dirname "$0")/../lib.sh"
need_tracing

# python ARGUMENT...: start $PY and wait until it says that it is ready
python() {
	start "$PY" "$@" >"$T/python" 2>/dev/null
	wait_line "$T/python" '^ready'
}

gone() {
	kill -9 "$child" 2>/dev/null
	wait "$child" 2>/dev/null
}

# refuses WHAT REGEX [PID]: attaching is refused, and the process is unchanged
refuses() {
	local pid=${3:-$child} was
	was=$(cut -d' ' -f3 "/proc/$pid/stat")
	error "$1" "$2" "${enter[@]}" "$pid"
	ok "$1: it is not harmed" unharmed "$pid" "$was"
}

unharmed() {
	not_found "/proc/$1/maps" libditrace_shim && not_found "/proc/$1/status" '^TracerPid:.*[1-9].*ditrace' &&
		case $2 in [TZ]) found "/proc/$1/status" "^State:	$2" ;; *) found "/proc/$1/status" '^State:	[RSD]' ;; esac
}

# Its threads may be stopped anywhere: a library can be loaded there, or that is the reason given.
enter_stopped() {
	"${enter[@]}" --for 1s "$child" 2>"$T/err" || found "$T/err" 'no thread of it was at a place where a library can be loaded'
}

# One process in long ops, refused at first, and a child of it whose seccomp filter forbids what ditrace needs.
in_ops() {
	python engine/long_ops.py
	wait_line "$T/python" '^child'
	forbidden=$(sed -n 's/^child //p' "$T/python")
	children+=("$forbidden")
	refuses "under a seccomp filter of its own" 'seccomp' "$forbidden"
	kill -9 "$forbidden"
	# Of a process that is traced, even an ignored SIGCHLD would be a stop.
	before_long grep -q '^State:	Z' "/proc/$forbidden/status"
	debugged
	ok "in long C++ ops" "${enter[@]}" --count 3 "$child"
	kill -STOP "$child"
	ok "stopped" enter_stopped
	like "it is still stopped" "/proc/$child/status" '^State:	T'
	kill -CONT "$child"
	ok "and runs on" "${enter[@]}" --count 3 "$child"
	gone
}

# A lock of Python is waited for in a function of the C library that has no symbol.
in_locks() {
	python engine/in_locks.py
	ok "all of whose threads wait for locks" "${enter[@]}" --for 1s "$child"
	gone
}

debugged() {
	start_as debugger python3 "$W/debugger.py" "$child" >"$T/debugger"
	wait_line "$T/debugger" tracing
	refuses "being debugged" 'traces it already'
	kill -9 "$debugger"
	wait "$debugger" 2>/dev/null
}

# Its workers wait until the file exists.
in_a_dataloader() {
	rm -f "$T/go"
	python engine/waits_for_workers.py "$T/go"
	ok "it has workers" before_long has_children 2
	ok "waiting for a DataLoader, without memory for jumps" no_jumps
	start_as tracer "${enter[@]}" "$child" 2>"$T/attached"
	ok "and again" before_long grep -q '^ditrace: attached to ' "$T/attached"
	touch "$T/go"
	finish "$child"
	wait "$tracer"
	like "report says what is missing" <("$DITRACE" report "$T/data") '^ditrace: of 1 process blocks of record_function could not be recorded: '
	like "gets its data" "$T/python" '^sum 12$'
	is "and ends well" "$status" 0
}

no_jumps() {
	"${enter[@]}" --for 1s "$child" 2>"$T/err" && found "$T/err" 'no jumps into process .*: no memory is free within 2 GiB of libtorch_cpu$'
}

# has_children N [STATE]
has_children() {
	[ "$(ps --ppid "$child" -o state= | grep -c "${2:-.}")" -ge "$1" ]
}

# Independent of PyTorch.
other_programs() {
	python -c 'import time; print("ready", flush=True); time.sleep(36000)'
	refuses "without PyTorch" 'no PyTorch'
	error "nothing is inside" 'is not in process' "$DITRACE" ctl "$child"
	gone
	python -c 'import os, sys, time; os.fork() or sys.exit(); print("ready", flush=True); time.sleep(36000)'
	ok "a child has ended" before_long has_children 1 Z
	refuses "a zombie" 'zombie' "$(ps --ppid "$child" -o pid= | tr -d " ")"
	gone
}

has_ops() {
	"$DITRACE" script "$T/data" 2>/dev/null | grep -q aten::full
}

late() {
	local go late
	rm -f "$T/data"
	mkfifo "$T/tells"
	exec {go}<>"$T/tells"
	start_as late "$PY" late_import.py told <&"$go" >"$T/late"
	wait_line "$T/late" '^pid '
	start "${enter[@]}" --wait "$late" 2>"$T/err"
	wait_line "$T/err" 'waiting for process'
	echo >&"$go"
	before_long has_ops
	echo >&"$go"
	finish "$child"
	is "torch is imported later" "$status" 0
	exec {go}>&-
	finish "$late"
	is "by a program that ends well" "$status $(tail -n 1 "$T/late")" "0 done"
}

# compiled WHAT REGEX COMPILER...: a small program built with it
compiled() {
	local what=$1 regex=$2
	shift 2
	command -v "$1" >/dev/null || skip "no $1" 2 || return
	if ! echo 'int main(void) { return pause(); }' | "$@" -x c -include unistd.h -o "$T/program" -; then
		skip "$* cannot make a program" 2
		return
	fi
	start "$T/program"
	refuses "$what" "$regex"
	gone
}

# inside COMMAND...: in the mount namespace of the process
inside() {
	nsenter -t "$child" -m "$@"
}

mounts() {
	if ! unshare -m --propagation private true 2>"$T/err"; then
		skip "no mount namespaces: $(tail -n 1 "$T/err")" 6
		return
	fi
	start unshare -m --propagation private "$PY" paced.py >"$T/busy" 2>/dev/null
	wait_line "$T/busy" '^pid '
	inside mount -t tmpfs none /tmp
	ok "another mount namespace, with a /tmp of its own" "${enter[@]}" --count 1000 "$child"
	is "which is as before" "$(inside ls -A /tmp)" ""
	inside mount -o remount,noexec /tmp
	ok "and noexec" "${enter[@]}" --count 1000 "$child"
	inside mount -t tmpfs -o noexec none /dev/shm
	inside mount -t tmpfs -o noexec none /var/tmp
	error "no place for a library" 'no directory of process .* for the library' "${enter[@]}" "$child"
	is "nothing is left" "$(inside ls -A /tmp /dev/shm /var/tmp | grep -v '^/\|^$')" ""
	stop_busy
	is "it ends well" "$status" 0
}

targets() {
	enter=("$DITRACE" attach --engine shim -o "$T/data")
	in_ops
	in_locks
	in_a_dataloader
	late
	mounts
}
each_torch targets
T=$base PY=python3 enter=("$DITRACE" attach --engine shim -o "$base/data")
other_programs
enter+=(--wait)
compiled "a static program" 'linked statically' gcc -static
compiled "another C library" 'not the GNU one' musl-gcc
done_testing
