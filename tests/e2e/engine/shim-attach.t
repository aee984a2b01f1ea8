#!/usr/bin/env bash
# The engine shim injected into a running process: the same events; removed again INJECTIONS times, and when ditrace is killed
# (KILLS); closed to other users.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many INJECTIONS 5 50
how_many KILLS 2 25

# state PID STATE: wait until the shim in it reports this state
state() {
	before_long says "$@" || { "$DITRACE" ctl "$1"; return 1; }
}

says() {
	"$DITRACE" ctl --format json "$1" 2>/dev/null | grep -q "\"state\": \"$2\""
}

# on_line [BYTES]: start on_line.py; its input is descriptor 9, its output $T/lines
on_line() {
	rm -f "$T/in"
	mkfifo "$T/in"
	exec 9<>"$T/in"
	start "$PY" on_line.py "$@" <"$T/in" >"$T/lines" 2>/dev/null
	wait_line "$T/lines" '^pid '
}

# attached COMMAND...: run it while $child is traced with the shim
attached() {
	start_as tracer "${enter[@]}" "$child" >"$T/attached" 2>&1
	state "$child" recording && "$@"
	local r=$?
	kill -TERM "$tracer"
	wait "$tracer" && [ $r = 0 ] || { cat "$T/attached" && return 1; }
}

# A record of a process that waits is never made shorter for want of room.
within() {
	local enter=("${enter[@]}" --no-loss)
	attached one_line within
}

# one_line WORD [NUMBER]
one_line() {
	echo "$*" >&9
	wait_line "$T/lines" "^$1 "
}

# losses FILE: the distinct losses printed by on_line.py
losses() {
	grep -vE '^pid |^ended well$' "$1" | cut -d' ' -f2- | sort -u
}

by_bpf() {
	start_as tracer "$DITRACE" attach --engine bpf -o "$T/bpf" "$child" >"$T/attached" 2>&1
	wait_line "$T/attached" '^ditrace: attached to ' && one_line last
	kill -TERM "$tracer"
	wait "$tracer"
}

the_same() {
	on_line 65536
	one_line before
	ok "bpf sees it" by_bpf
	"$DITRACE" script --format jsonl "$T/bpf" >"$T/all.jsonl"
	verify engine/between_marks "$T/all.jsonl" >"$T/bpf.jsonl"
	mapped >"$T/mapped"
	open >"$T/fds"
	ok "entered while it is blocked in read()" within
	one_line after
	ok "by jumps, whose stubs are in several small parts of memory" in_parts
	"$DITRACE" script --format jsonl "$T/data" >"$T/all.jsonl"
	verify engine/between_marks "$T/all.jsonl" >"$T/shim.jsonl"
	ok "the same events as bpf" python3 "$here/compare_engines.py" --observed --least 2000 "$T/bpf.jsonl" "$T/shim.jsonl"
	ok "a second one is refused" attached refused
	ok "so are uprobes, which would end the program where there are jumps" attached refused_to_bpf
	ok "taken out from outside, ditrace ends" taken_out
	like "ctl says that" "$T/ctl" 'out of use'
	ok "and in again" attached one_line again
	ok "it has open what it had before" diff "$T/fds" <(open)
	ok "it has mapped what it had before" as_before
	ok "its code is that of the file" verify code_unchanged "$child"
	one_line threads 64
	ok "64 threads" attached one_line many
	killed
	is "the same losses all the time" "$(losses "$T/lines")" "$(losses <(grep '^before ' "$T/lines"))"
	exec 9>&-
}

# The memory for jumps is not writable.
in_parts() {
	[ "$(grep -c ' r-xp 00000000 .*/libditrace_stubs.so' "/proc/$child/maps")" -gt 4 ] && not_found "$T/attached" 'no jumps'
}

# Of a process that was entered before, the file of the library is gone.
debugged() {
	of_first_torch || { skip "gdb was with another torch: make test-long"; return; }
	command -v gdb >/dev/null || { skip "no gdb"; return; }
	on_line
	ok "gdb sees whole stacks in the recorder and in stubs" attached in_gdb
	exec 9>&-
}

in_gdb() {
	! grep 'no jumps' "$T/attached" || return 0
	timeout -s INT "$PATIENCE" gdb -batch -p "$child" -ex 'set pagination off' -ex 'tbreak *on_exit_window' -ex "shell echo gdb >$T/in" -ex continue -ex bt \
		-ex 'tbreak **(unsigned long *)$rsp' -ex continue -ex bt -ex detach >"$T/gdb" 2>&1
	wait_line "$T/lines" '^gdb ' && is_whole_twice "$T/gdb"
}

# is_whole_twice FILE: two stacks, of the handler and of a stub, both called by a function of PyTorch
is_whole_twice() {
	[ "$(grep -cE '^#[0-9]+ .* _start \(\)' "$1")" = 2 ] &&
		[ "$(grep -A1 -E '^#0 .*(on_exit_window|ditrace_stub) ' "$1" | grep -cE '^#1 .* (at|torch)::')" = 2 ] || { cat "$1"; false; }
}

refused() {
	"$DITRACE" attach --engine shim -o "$T/other" "$child" 2>"$T/error"
	[ $? = 1 ] && found "$T/error" 'is recorded by another ditrace' && found "$T/error" '^  hint: ditrace ctl'
}

refused_to_bpf() {
	"$DITRACE" attach --engine bpf -o "$T/other" "$child" 2>"$T/error"
	[ $? = 1 ] && found "$T/error" 'another tool has put jumps into it' && found "$T/error" '^  hint: '
}

taken_out() {
	start_as tracer "${enter[@]}" "$child" >"$T/attached" 2>&1
	state "$child" recording && "$DITRACE" ctl "$child" off >"$T/ctl" && wait "$tracer"
}

# The files it has mapped, except those that come and go by themselves.
mapped() {
	sed -n 's/.* \(\/[^ ]*\).*/\1/p' "/proc/$child/maps" | grep -vE '^/dev/shm/|libditrace_' | sort -u
}

open() {
	readlink "/proc/$child/fd/"* | sort
}

as_before() {
	diff "$T/mapped" <(mapped)
}

# Mappings for data sent by its workers come and go.
few_mappings() {
	[ "$(wc -l <"/proc/$child/maps")" -lt $(($(cat "$T/first") + INJECTIONS * 2 / 5)) ]
}

in_and_out() {
	local i
	for ((i = 0; i < INJECTIONS; i++)); do
		"${enter[@]}" --count 100 "$child" >"$T/attached" 2>&1 || { cat "$T/attached" && return 1; }
		[ "$i" -gt 0 ] || wc -l <"/proc/$child/maps" >"$T/first"
	done
	before_long few_mappings
	i=$?
	echo "# mappings: $(cat "$T/first") after the first, $(wc -l <"/proc/$child/maps") after $INJECTIONS"
	return $i
}

crowd() {
	start "$PY" crowd.py >"$T/crowd" 2>"$T/crowd.err"
	wait_line "$T/crowd" '^3 '
	mapped >"$T/mapped"
	ok "in and out of a crowd of threads $INJECTIONS times" in_and_out
	ok "the files that it has mapped are those of before" as_before
	is "the library is mapped once" "$(grep -c 'r-xp.*libditrace_shim' "/proc/$child/maps")" 1
	unlike "its thread is gone" <(cat "/proc/$child/task/"*/comm) ditrace
	kill -TERM "$child"
	finish "$child"
	is "it ends well" "$status" 0
	ok "its losses are those of an untraced one" same_losses "$T/crowd"
}

# Killed within a second: alternately during startup and while recording.
kill_often() {
	local i tracer
	RANDOM=1
	for ((i = 0; i < KILLS; i++)); do
		start_as tracer "$DITRACE" attach --engine shim "$child" -o "$T/killed" >/dev/null 2>"$T/killed.err"
		[ $((i % 2)) = 0 ] || state "$child" recording || { cat "$T/killed.err"; return 1; }
		sleep "0.$(printf %03d $((RANDOM % 1000)))"
		kill -9 "$tracer" 2>/dev/null
		wait "$tracer" 2>/dev/null
		kill -0 "$child" || return 1
	done
}

killed() {
	one_line always
	ok "a training outlives $KILLS killed ditraces" kill_often
	ok "the library in it is out of use" state "$child" 'out of use'
	ok "no jump is left in its code" before_long verify code_unchanged "$child"
	ok "one can still attach" "${enter[@]}" --count 1000 "$child"
	become_user && error "a plain user does not enter root's" 'belongs to user' \
		"${user[@]}" "$T/ditrace" attach --engine shim -o "$T/open/data" "$child"
	kill -TERM "$child"
	finish "$child"
	is "it ends well" "$status $(tail -n 1 "$T/lines")" "0 ended well"
}

# become_user: give a plain user ditrace at $T/ditrace and the folder $T/open
become_user() {
	command -v setpriv >/dev/null || { skip "no setpriv to become another user with" && return 1; }
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	mkdir -p -m 777 "$T/open"
	user=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)
}

# A third user tries the socket, the descriptors and the memory of a traced process of another user.
closed() {
	local door
	door=$(readlink "/proc/$tracer/fd/"* | grep -m 1 '/ditrace-[^/]*$') || return 1
	[ -S "$door/socket" ] || { echo "no socket in $door" && return 1; }
	setpriv --reuid=65533 --regid=65533 --clear-groups --inh-caps=-all "$PY" - "$door" "$child" "$tracer" \
		<"$here/engine/closed.py" # on standard input, as that user may not be able to open it
}

users() {
	become_user || return
	start "${user[@]}" env HOME=/tmp "$PY" paced.py >"$T/busy" 2>"$T/err"
	if ! before_long pid_or_end || ! has_pid; then
		skip "a plain user cannot run it: $(tail -n 1 "$T/err")" 4
		return
	fi
	ok "root enters a plain user's" "${enter[@]}" --count 1000 "$child"
	ok "a plain user enters the own" "${user[@]}" "$T/ditrace" attach --engine shim --count 1000 -o "$T/open/data" "$child"
	ok "socket and memory are closed to a third user" attached closed
	stop_busy
	is "it ends well" "$status" 0
}

has_pid() {
	grep -q '^pid ' "$T/busy"
}

pid_or_end() {
	has_pid || ! kill -0 "$child" 2>/dev/null
}

# far_c10: as between CUDA's libraries, which are large
far_c10() {
	local enter=("${enter[@]}" --memory)
	rm -f "$T/in"
	mkfifo "$T/in"
	exec 9<>"$T/in"
	start "$PY" engine/far_c10.py <"$T/in" >"$T/lines" 2>/dev/null
	wait_line "$T/lines" '^far$'
	ok "libc10 is far from libtorch_cpu" attached one_line "x"
	unlike "no jump has no memory" "$T/attached" 'no jumps|too little memory|no memory is free'
	like "blocks are seen" <("$DITRACE" report --group block "$T/data") '  a block  '
	like "and memory" <("$DITRACE" script --only memory "$T/data") ' 12 B allocated .* by aten::mul'
	echo end >&9
	exec 9>&-
	finish "$child"
	is "it ends well" "$status" 0
}

all() {
	enter=("$DITRACE" attach --engine shim -o "$T/data")
	the_same
	debugged
	far_c10
	crowd
	users
}
each_torch all
done_testing
