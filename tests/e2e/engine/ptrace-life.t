#!/usr/bin/env bash
# The engine ptrace leaves a program unchanged: attached and detached, killed at any time (KILLS times), stopped, and with
# another tracer already there. Signals, children and exec: run/children.t.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many KILLS 2 20

is_traced() {
	cat /proc/"$1"/task/*/status 2>/dev/null | grep -q '^TracerPid:	[1-9]'
}

# let_go PID: wait until no thread of it is traced
let_go() {
	before_long not is_traced "$1" || { echo "still traced" && return 1; }
}

left_alone() {
	let_go "$child" && python3 "$here/code_unchanged.py" "$child"
}

# recording FILE: whether it has ops
recording() {
	[ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -gt 4096 ]
}

# Killed within a second: alternately during startup and after the first ops were recorded.
kill_often() {
	local i tracer alive=0
	RANDOM=1
	for ((i = 0; i < KILLS; i++)); do
		rm -f "$T/killed"
		start_as tracer "$DITRACE" attach --engine ptrace "$child" -o "$T/killed" >/dev/null 2>"$T/killed.err"
		[ $((i % 2)) = 0 ] || before_long recording "$T/killed" || return 1
		sleep "0.$(printf %03d $((RANDOM % 1000)))"
		kill -0 "$tracer" 2>/dev/null && alive=$((alive + 1))
		kill -9 "$tracer" 2>/dev/null
		wait "$tracer" 2>/dev/null
		left_alone >/dev/null || return 1
	done
	echo "# $alive of $KILLS were running when killed"
	[ "$alive" -ge $(((KILLS * 9 + 5) / 10)) ] || { cat "$T/killed.err" && return 1; }
}

# attach_until_told ENGINE PID FILE: attach in the background, $tracer, and wait until it has recorded ops
attach_until_told() {
	start_as tracer env --default-signal=INT "$DITRACE" attach --engine "$1" "$2" -o "$3" >"$3.out" 2>&1
	before_long recording "$3"
}

# Copies of PyTorch's libraries, in which no other test has probes.
own_libraries() {
	local module
	module=$("$PY" -c 'import glob, importlib.util as u; print(*glob.glob(u.find_spec("torch").submodule_search_locations[0] + "/_C.*.so"))')
	readelf -d "$module" | grep -q '(RPATH)' && return # that of CUDA has one, which comes before LD_LIBRARY_PATH
	mkdir "$T/lib"
	ldd "$module" |
		awk '/libtorch|libc10/ { print $3 }' | xargs cp -Lt "$T/lib"
	export LD_LIBRARY_PATH=$T/lib
}

# A process that had eBPF probes, while another one still has some: the kernel takes ptrace's breakpoints for its own uprobes,
# and removes them along with the others.
taken_out() {
	local other both
	start_as other bash -c 'exec "$0" on_line.py <<<always' "$PY" >"$T/other"
	wait_line "$T/other" '^always '
	ok "nobody else has probes there" grep -q "$T/lib/libtorch_cpu" "/proc/$other/maps"
	ok "another process has eBPF probes" attach_until_told bpf "$other" "$T/o"
	both=$tracer
	ok "this one had some" "$DITRACE" attach --engine bpf --count 100 "$child" -o "$T/h"
	start_as tracer env --default-signal=INT "$DITRACE" attach --engine ptrace "$child" -o "$T/p" >"$T/p.out" 2>&1
	ok "breakpoints go in" before_long not python3 "$here/code_unchanged.py" "$child"
	kill -INT "$both"
	finish "$both"
	ok "breakpoints that are taken out come in again" before_long recording "$T/p"
	kill -INT "$tracer"
	finish "$tracer"
	is "it ends well" "$status" 0
	like "and it is told" "$T/p.out" '^ditrace: the kernel removed [0-9]+ breakpoints from process'
	ok "the code is as in the file" left_alone
	kill -TERM "$other"
	finish "$other"
}

# A training that repeats the same few steps, the first time before it is traced.
attached() {
	! of_first_torch || own_libraries
	start "$PY" on_line.py <<<always >"$T/lines" 2>"$T/lines.err"
	ok "a training runs" wait_line "$T/lines" '^always '
	ok "attach for a second" "$DITRACE" attach --engine ptrace "$child" --for 1s -o "$T/a"
	ok "the code is as in the file" left_alone
	start_as tracer env --default-signal=INT "$DITRACE" attach --engine ptrace "$child" -o "$T/b" >"$T/b.out" 2>&1
	ok "and until told otherwise" before_long recording "$T/b"
	error "a second one is told who traces" 'traces it already' "$DITRACE" attach --engine ptrace "$child" -o "$T/c"
	kill -INT "$tracer"
	wait "$tracer"
	is "Ctrl-C ends it well" $? 0
	ok "the table is shown" found "$T/b.out" 'engine ptrace'
	ok "the code is as in the file" left_alone
	kill -STOP "$child"
	ok "attach to a stopped program" "$DITRACE" attach --engine ptrace "$child" --for 1s -o "$T/d"
	like "it is still stopped" "/proc/$child/status" '^State:	T'
	ok "the code is as in the file" left_alone
	kill -CONT "$child"
	if [ -d "$T/lib" ]; then taken_out; else skip "breakpoints are taken out with another torch: make test-long" 8; fi
	ok "the training outlives $KILLS killed ditraces" kill_often
	ok "one can still attach, for a number of ops" "$DITRACE" attach --engine ptrace "$child" --count 300 -o "$T/e"
	ok "and it is left alone then" left_alone
	start_as tracer "$DITRACE" attach --engine ptrace "$child" -o "$T/f" >"$T/f.out" 2>&1
	ok "attach until it ends" before_long recording "$T/f"
	kill -TERM "$child"
	finish "$child"
	is "the program ends well" "$status $(tail -n 1 "$T/lines")" "0 ended well"
	wait "$tracer"
	is "ditrace ends with it" $? 0
	is "all its losses are those from before it was traced" "$(grep '^always ' "$T/lines" | sort -u)" "$(grep -m 1 '^always ' "$T/lines")"
}

each_torch attached
done_testing
