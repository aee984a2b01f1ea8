#!/usr/bin/env bash
# Who stops ditrace, by Ctrl-Z (SIGTSTP) or by SIGSTOP, or one of its helper processes, does not stop the program: it goes on
# counting, and ditrace goes on tracing when it is continued. Under make test-long in more ways than one for each engine.
. "$(dirname "$0")/../lib.sh"
need_tracing

ways=("--engine bpf" "--engine ptrace" "--engine shim" "--engine ptrace --stats" "--engine shim --stats" "--engine bpf --capture=$base/saved --ops add --every 50"
	"--fallback add" "--compare add" "--overflow")
waiting=("--engine ptrace --stats" "--engine shim --stats" "--fallback add")
in_long || ways=("--engine bpf" "--engine ptrace --stats" "--engine shim --stats")

# further: the program has counted on since now
further() {
	local from
	from=$(tail -n 2 "$T/out" | head -n 1)
	before_long beyond "$((from + 50))"
}

beyond() {
	[ "$(tail -n 2 "$T/out" | head -n 1)" -ge "$1" ]
}

# in_state PID STATE: it is in that state of proc(5)
in_state() {
	[ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat")" = "$2" ]
}

# helper NAME: the PID of ditrace's helper process of that name
helper() {
	local p
	for p in $(cat "/proc/$tracer/task/"*/children); do
		[ "$(cat "/proc/$p/comm")" != "$1" ] || echo "$p"
	done
}

# begun: ditrace traces, and the program counts
begun() {
	# shellcheck disable=SC2086 # words
	start_as tracer "$DITRACE" attach "$program" $1 $( [ "${1#--engine}" = "$1" ] || echo "-o $T/data") 2>"$T/err"
	before_long has_begun "$1"
	further
}

# Probes, or a library.
has_begun() {
	case $1 in
	*ptrace*) [ -n "$(helper ditrace-tracer)" ] && [ "$(sed -n 's/^TracerPid:\t//p' "/proc/$program/status")" != 0 ] ;;
	*bpf*) [ -s "$T/data" ] ;;
	*) "$DITRACE" ctl "$program" 2>/dev/null | grep -qE 'recording for|in use|changes|fallback|compare|overflow' ;;
	esac
}

each_way() {
	in_long || of_first_torch || { skip "with another torch: make test-long" 28; return; }
	start "$PY" run/counts.py >"$T/out" 2>"$T/program.err"
	program=$child
	wait_line "$T/out" '^100$'
	of_first_torch || ways=("${waiting[@]}")
	for way in "${ways[@]}"; do
		label="torch $TORCH: $way: "
		one_way "$way"
	done
	label="torch $TORCH: "
	kill -TERM "$program"
	finish "$program"
	is "the program ends well" "$status $(tail -n 1 "$T/out")" "0 ended well"
	ok "and has counted right" same "$(grep -E '^[0-9]+$' "$T/out" | md5sum)" "$(seq 1 "$(tail -n 2 "$T/out" | head -n 1)" | md5sum)"
}

one_way() {
	local name
	ok "ditrace attaches" begun "$1"
	kill -TSTP "$tracer"
	ok "it stops at Ctrl-Z" before_long in_state "$tracer" T
	ok "the program goes on" further
	kill -CONT "$tracer"
	ok "it says that it did not see all" wait_line "$T/err" '^ditrace: goes on after .* in which it was stopped'
	ok "the program goes on" further
	kill -STOP "$tracer"
	ok "it goes on though ditrace was stopped by SIGSTOP" further
	kill -CONT "$tracer"
	for name in ditrace-tracer ditrace-probes; do
		[ -n "$(helper $name)" ] || continue
		kill -STOP "$(helper $name)"
		ok "and though $name was" further
		kill -CONT "$(helper $name)"
	done
	kill -INT "$tracer"
	finish "$tracer"
	is "ditrace ends well" "$status" 0
	unlike "and complains of nothing" "$T/err" 'killed|cannot|not captured'
}

each_torch each_way
done_testing
