#!/usr/bin/env bash
# ditrace stack: threads that wait at known places are shown there, with their wait reasons, and run on.
. "$(dirname "$0")/../lib.sh"
. "$here/forked.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# stuck PLACE...: start the workload as $child and wait until it reports the first place
stuck() {
	start "$PY" "$W/process/stuck.py" "$@" >"$T/out" 2>&1
	wait_line "$T/out" "^ready .* $1\$"
}

# the same with PyTorch
stuck_in_torch() {
	begin "^ready .* $1\$" "$W/process/stuck.py" "$@"
	child=$target
}

# now PLACE: send it to its next place
now() {
	kill -USR1 "$child"
	wait_line "$T/out" "^ready .* $1\$"
}

unstick() {
	kill -9 "$child"
	wait "$child" 2>/dev/null
}

line_of() {
	grep -n "# mark: $1\$" "$W/process/stuck.py" | cut -d: -f1
}

# says EXPRESSION: of process/stack_says.py, on the last snapshot; called often, so Python starts isolated and without site
says() {
	python3 -IS "$here/process/stack_says.py" "$T/look" "$W/process/stuck.py" "$1"
}

look() {
	"$DITRACE" stack --format json "$@" >"$T/look" 2>"$T/err" || { cat "$T/err"; return 1; }
}

# until_says EXPRESSION OPTIONS...: take snapshots until it holds, while there is patience
until_says() {
	local expr=$1 end=$((SECONDS + PATIENCE))
	shift
	while [ $SECONDS -lt $end ]; do
		look "$@" "$child" || return 1
		says "$expr" >"$T/says" && return 0
		nap 0.2
	done
	echo "in vain: $expr"
	head -c 4000 "$T/says"
	return 1
}

# until_text REGEX: the same for the text format
until_text() {
	local end=$((SECONDS + PATIENCE))
	while [ $SECONDS -lt $end ]; do
		"$DITRACE" stack "$child" >"$T/text" || return 1
		grep -qE -e "$1" "$T/text" && return 0
		nap 0.2
	done
	echo "in vain: $1"
	head -n 40 "$T/text"
	return 1
}

deadlock() {
	stuck deadlock
	ok "two threads wait for locks at their lines" until_says \
		"len(at('locked')) == 2 and kinds(at('locked')) == ['python lock'] and first['kind'] == 'sleep'"
	ok "with the text of the line" says "all(t['python'][0]['text'].startswith('locks[1') for t in at('locked'))"
	ok "and the function" says "all('worker' in t['python'][0]['function'] for t in at('locked'))"
	ok "read while the threads stood still" says "{t['python_read'] for t in threads} == {'exact'}"
	ok "native stacks to the outermost frame" until_says "all(t['native_whole'] and t['native'] for t in threads)"
	ok "the first thread's lies in main" says "'__libc_start' in first['native'][-1]['symbol'] or first['native'][-1]['symbol'] == '_start'"
	ok "nobody holds the GIL" says "not any(t['holds_gil'] for t in threads)"
	ok "one look does not tell who moves" says "all(t['still'] is None for t in threads)"
	ok "three looks do: nobody" until_says "look['looks'] == 3 and all(t['still'] for t in threads)" \
		--count 3 --interval 200ms
	look --no-native "$child"
	ok "without stopping anything" says \
		"len(at('locked')) == 2 and len(at('asleep')) == 1 and not any(t['native'] for t in threads)"
	ok "the text form: equal threads are shown once" until_text '^threads [0-9]+ "[^"]+", [0-9]+ "[^"]+": each waits for a lock of Python'
	like "and where they are" "$T/text" "^  python +stuck.py:$(line_of locked) +.*worker: locks\[1 - number\]"
	kill -STOP "$child"
	ok "a stopped process" until_says "first['state'] == 'T' and kinds(threads) == ['stopped'] and len(at('locked')) == 2"
	ok "stays stopped" wait_line "/proc/$child/status" '^State:.T'
	like "with nobody tracing it" "/proc/$child/status" '^TracerPid:.0'
	unstick
}

in_ops() {
	local alone looker places=(compute)
	! in_long || places=(compute compute compute)
	stuck_in_torch matmul backward call calls "${places[@]}"
	ok "a thread in a matrix product, with native frames from the kernel of the library to main" until_says \
		"first['op'] == 'aten::mm' and first in at('matmul') and first['native_whole'] and any(f['symbol'] and 'gemm' in f['symbol'] for f in first['native'])"
	now backward
	ok "in its backward, at the line of backward()" until_says \
		"first['op'] == 'aten::mm' and first['node'] == 'MmBackward0' and first in at('backward')"
	now call
	arguments
	now calls
	how_many OPS 200 500
	"$DITRACE" attach --count "$OPS" -o "$T/data" "$child" >/dev/null 2>&1
	"$DITRACE" script --format jsonl "$T/data" >"$T/truth"
	ok "of many ops" verify process/stack_arguments "$DITRACE" "$child" "$T/truth"
	start_as looker "$DITRACE" stack --count 1000000 --interval 1ms "$child" >/dev/null 2>&1
	before_long grep -q '^TracerPid:.[1-9]' "/proc/$child/status"
	now compute
	the_end
	alone=$(alone process/stuck.py compute)
	is "a training that is looked at all the time ends" $status 0
	is "with the same number" "$(tail -n 1 "$T/out")" "$(tail -n 1 <<<"$alone")"
	finish "$looker"
}

waits() {
	stuck pipe
	ok "a pipe" until_says "first['kind'] == 'io' and first['syscall'] == 'read' and 'pipe:' in first['doing'] and first in at('read')"
	unstick
	stuck gil
	ok "who holds the GIL, and who wants it" until_says \
		"first['holds_gil'] and first in at('holder') and kinds(t for t in threads if t is not first) == ['gil']"
	ok "a thread that runs has moved" until_says "first['still'] is False" --count 2 --interval 500ms
	unstick
	stuck mutex
	ok "a mutex, and who holds it" until_says \
		"kinds(at('mutex')) == ['mutex'] and at('mutex')[0]['lock_holder'] == first['tid']"
	unstick
	stuck many
	ok "200 threads" until_says "len(threads) == 201 and len(at('many')) == 200 and kinds(threads) == ['python lock']"
	ok "shown once" until_text ' and 192 more: each waits'
	how_many KILLS 3 5
	for ((i = 0; i < KILLS; i++)); do
		local looker
		start_as looker "$DITRACE" stack --count 1000000 --interval 1ms "$child" >/dev/null 2>&1
		look "$child" # in the middle of the other's snapshots
		kill -9 "$looker"
		wait "$looker" 2>/dev/null
	done
	ok "ditrace killed leaves nobody stopped" until_says "kinds(threads) == ['python lock']"
	unstick
}

# These involve other processes.
waits_of_torch() {
	local places=(loader)
	alone -c 'import torch.distributed as d; getattr(d, "is_gloo_available", bool)() or d.ProcessGroupGloo' &&
		places+=(collective)
	stuck_in_torch "${places[@]}"
	ok "a DataLoader's batch" until_says "first['kind'] == 'dataloader' and first in at('batch')"
	if [ ${#places[@]} = 2 ]; then
		now collective
		ok "a collective that nobody else takes part in" until_says \
			"first['kind'] == 'collective' and first in at('reduce') and 'Work::wait' in first['doing']"
	else
		skip "this PyTorch has no gloo"
	fi
	unstick
}

arguments() {
	ok "an op that is not done" until_says "first['op'] == 'aten::mm' and first in at('call')"
	ok "with what it was called with" says \
		"[(a['name'], a['shape'], a['dtype']) for a in first['args']] == [('self', [2, 3], 'float32'), ('mat2', [3, 4], 'float32')]"
	local least="10**9 <= first['op_ns_least'] < look['span_ns'] + 10**11" # less if others had taken the breakpoint meanwhile
	until_says "first['op_ns_least'] is None or $least" --count 2 --interval 1s >/dev/null
	if says "first['op_ns_least'] is not None" >/dev/null; then
		ok "and for how long at least" says "$least"
	else
		skip "no breakpoint of the processor is to be had here"
	fi
	ok "as text" until_text '^  args +self +\(2, 3\) float32 cpu$'
}

with_torch() {
	in_ops
	waits_of_torch
}

all() {
	MEET=$T/meet forking with_torch
}
each_torch all

T=$(mktemp -d "$base/t.XXXXXX")
PY=python3
deadlock
waits
pythons=0
for PY in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
	"$PY" -c 'import sys; assert (3, 8) <= sys.version_info[:2] <= (3, 13)' 2>/dev/null || continue
	pythons=$((pythons + 1))
	label="CPython $("$PY" -c 'import platform; print(platform.python_version())'): "
	stuck deadlock
	ok "stacks" until_says "len(at('locked')) == 2 and kinds(at('locked')) == ['python lock'] and first in at('asleep')"
	look --no-native "$child"
	ok "without stopping anything" says "len(at('locked')) == 2 and first in at('asleep')"
	unstick
	stuck gil
	ok "the GIL" until_says "first['holds_gil'] and kinds(t for t in threads if t is not first) == ['gil']"
	unstick
done
label=""
[ $pythons -gt 0 ] || skip "no CPython of pyenv's here"

start sleep 36000
ok "a process without Python" until_says "look['cpython'] is None and first['kind'] == 'sleep' and first['python'] == []"
ok "its native stack" until_says "first['native'] and 'nanosleep' in first['native'][0]['symbol'] and first['native_whole']"
unstick

PY=python3
stuck deadlock
start_as tracer python3 "$W/debugger.py" "$child" >"$T/tracer"
wait_line "$T/tracer" tracing
ok "a debugger is there: Python alone" until_says "first in at('asleep') and 'is tracing it' in look['native_note']"
kill -9 $tracer
unstick

error "no such process" 'no such process' "$DITRACE" stack 4194303
error "no process ID" 'is not a process ID' "$DITRACE" stack abc
error "no look" '--count' "$DITRACE" stack --count 0 $$
error "an unknown option" 'unknown|no option' "$DITRACE" stack --frobnicate $$

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)
	chmod 755 "$base" "$T"
	cp "$DITRACE" "$T/ditrace"
	start sleep 36000
	error "another user's process" 'belongs to user root' "${nobody[@]}" "$T/ditrace" stack "$child"
	start "${nobody[@]}" /usr/bin/python3 -c 'import time
time.sleep(36000)'
	DITRACE_KEPT=$DITRACE DITRACE=$T/plain
	printf '#!/bin/sh\nexec %s %s/ditrace "$@"\n' "${nobody[*]}" "$T" >"$T/plain"
	chmod 755 "$T/plain"
	if [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ]; then
		ok "a plain user's own process" until_says \
			"first['kind'] == 'sleep' and first['python'][0]['file'] == '<string>' and first['native_whole']"
	else
		error "Yama forbids it" 'Yama' "$DITRACE" stack "$child"
	fi
	DITRACE=$DITRACE_KEPT
else
	skip "other users need root and setpriv" 2
fi
done_testing
