#!/usr/bin/env bash
# The live view of a training: its figures are those of the trace that it saves, and whatever happens to the view, the training
# runs on with the same losses.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../tmux.sh"
need_tracing

# The view of a process ends, and its trace is not kept.
quits() {
	keys q
	shows '^keep the trace, .* y/n|^status' # not asked between two files of --trace-limit
	! screen_has '^keep the trace' || keys n
	ok "quits" shows '^status 0'
}

traces() {
	shows ' in ops [0-9]+ %' && shows '^[0-9]+ steps'
}

agrees() {
	screen >"$T/screen"
	"$DITRACE" report --percent-limit 0 --columns self_percent,total_percent,calls,mean,p99,max,op,where "$T"/ditrace-top-*.data >"$T/report" && "$PY" "$here/compare_top.py" "$T/screen" "$T/report"
}

start_training() {
	start "$PY" "$W/slowly.py" --seconds 100000 >"$T/training"
	wait_line "$T/training" '^pid '
}

attached() {
	cd "$T" || return
	terminal 240x40 "$DITRACE" top "$child" # wide enough for the longest paths
	cd "$W" || return
	ok "attached" traces
	ok "what is traced" shows "^ditrace top  pid $child .*torch ${TORCH%%+*}.* CPython .* engine "
	ok "what tracing costs" shows '  probes ([0-9]+( |\+)%|most of the time)'
	ok "processor, memory, threads" shows '  CPU [0-9]+ %  RSS [0-9.]+ .iB  [0-9]+ threads?'
	keys e
	ok "the trace so far" shows 'saved to ditrace-top-.*without its end'
	ok "can be read" eval '"$DITRACE" report "$T"/ditrace-top-*.data 2>&1 | grep -q "aten::"'
	rm -f "$T"/ditrace-top-*.data
	keys d
	ok "detached" shows 'detached from process'
	ok "all was read" before_long not screen_has 'detached, behind'
	keys e
	ok "saved" shows 'saved to ditrace-top-[0-9]*.data \([0-9.]* .iB\); u removes it$'
	is "for its user alone" "$(stat -c %a "$T"/ditrace-top-*.data)" 600
	ok "the figures are those of ditrace report" agrees
	keys a
	ok "attached again" shows 'attached to process .*, counting anew'
	ok "events come again" traces
	keys Enter
	ok "details of a call" shows 'Time of a call'
	keys q
	stop_busy
	is "the training ended well" "$status" 0
	ok "its end is told" shows 'process [0-9]* has ended; this is its last state'
	ok "and its last state stays" shows '^[0-9]+ steps'
	quits
	ok "the terminal is as it was" same_settings
}

# Traced with each engine, one after the other.
training() {
	start_training
	by_engine # before eBPF: while another test has probes there, the kernel takes breakpoints for its own (engine/ptrace-life.t)
	stacks_and_captures
	attached
}

# killed HOW: the view ends in the middle of a training that it started, which still ends with the same result
killed() {
	rm -f "$T/out" "$T/go"
	terminal 120x30 bash -c 'echo $$ >"$0"; exec "$@"' "$T/pid" env GO="$T/go" \
		"$DITRACE" top -o "$T/out" -- "$PY" "$W/slowly.py" --steps 30
	ok "$1: started" traces
	"$1"
	touch "$T/go"
	ok "$1: the training runs on to its end" before_long grep -q '^29 ' "$T/out"
	ok "$1: with the same losses" same_losses "$T/out"
	ok "$1: the tracing has ended" before_long not pgrep -f "^$DITRACE top -o $T/out"
}

by_kill() {
	kill -KILL "$(cat "$T/pid")"
}

by_signal() {
	kill -TERM "$(cat "$T/pid")"
	ok "by_signal: the view ends" shows '^status 143'
	ok "by_signal: the terminal is as it was" same_settings
}

by_hangup() {
	tm kill-server
}

by_quitting() {
	keys q n
	ok "by_quitting: the view ends" shows '^status 0'
	ok "by_quitting: and that the program runs on" shows '^ditrace: process [0-9]+ runs on'
	ok "by_quitting: and says where the program's output is" shows "^ditrace: what the program printed is in"
}

stacks_and_captures() {
	cd "$T" || return
	terminal 80x24 "$DITRACE" top "$child"
	ok "traced" traces
	keys s
	for size in 80x24 120x40 200x50; do
		resize "$size"
		ok "what all threads do, at $size" shows "^thread $child \"python.*train\.py|^ +(python  +)?train\.py:[0-9]+ +"
	done
	keys Escape
	ok "Esc leads back" shows '^  Self%'
	keys S ">" ">" / 'aten::mm' Enter Home # that of the most calls: what began before the attach has no line, and may be slow
	ok "rows of the backward" shows '^b .* aten::mm '
	keys / Escape / AddmmBackward0 Enter Home
	ok "a row of a node" shows '^b .* AddmmBackward0 '
	pressed_says c 'its forward op aten::addmm is selected now'
	keys / 'aten::mm' Enter Home
	ok "rows of the backward again" shows '^b .* aten::mm '
	keys c
	ok "c captures a call of the backward" shows 'captured a call of aten::mm in the backward'
	keys u
	ok "u removes it" before_long not ls -d ditrace-top-*-capture
	keys Escape S
	keys / aten::linear Enter
	ok "a row of the forward" shows ' aten::linear '
	keys c
	ok "c waits for a call" shows 'waiting for the next call of aten::|captured a call'
	ok "and captures it" shows 'captured a call of aten::.*[2-9] files\); u removes'
	if of_first_torch; then
		ok "which can be run again" "$DITRACE" replay --python "$PY" ditrace-top-*-capture
	else
		skip "run again with another torch: make test-long"
	fi
	keys u
	ok "u removes it" before_long not ls -d ditrace-top-*-capture
	keys Escape
	keys g g
	pressed_says f 'of many ops'
	keys g
	pressed_says c 'cannot be chosen by their module'
	ok "the modules" shows ' blocks\.0\.'
	keys g g g / my::nothing Enter
	pressed_says c 'no row is chosen'
	keys Escape
	keys / aten::native_layer_norm Enter
	ok "a row of an op within another" shows ' aten::native_layer_norm '
	pressed_says f 'is called by another op'
	keys Escape
	keys / aten::linear Enter
	ok "a row of an op" shows ' aten::linear '
	agreed_says f 'calls of linear .* computed on the CPU'
	ok "f is in force" before_long in_force 'fallback +linear$'
	agreed_says C 'calls of linear .* compared with'
	ok "C is in force" before_long in_force 'compare +linear$'
	pressed_says u 'no longer compared'
	ok "u takes C back" before_long in_force 'compare +off$'
	pressed_says u 'no longer computed'
	ok "what was done is told" shows '^[^/]*linear'
	ok "u takes f back" before_long not in_force 'fallback'
	keys q
	quits
	cd "$W" || return
}

in_force() {
	"$DITRACE" ctl "$child" | grep -qE "^functions: $1"
}

agreed_says() {
	keys "$1"
	ok "$1 asks first" shows '^(compute linear on|compare each call of linear with) the CPU[?] y/n'
	keys n
	ok "n: nothing is changed" shows 'nothing was changed'
	keys "$1"
	ok "$1 asks again" shows 'y/n$'
	keys y
	ok "$1: $2" shows "$2"
}

pressed_says() {
	keys "$1"
	ok "$1 says why not: $2" shows "$2"
}

# No other tracer can attach while the engine ptrace traces; changes that were made before can still be undone.
beside_ptrace() {
	pressed_says c 'd detaches, then c'
	keys / aten::linear Enter
	ok "a row of an op" shows ' aten::linear '
	for key in f C; do
		pressed_says "$key" "lets nothing else in: d detaches, then $key, then a"
	done
	pressed_says u 'nothing to undo'
	keys d
	ok "detached" shows 'detached from process'
	agreed_says f 'calls of linear .* computed on the CPU'
	ok "f is in force" before_long in_force 'fallback +linear$'
	pressed_says a 'attached to process'
	ok "traced again" shows ' aten::linear '
	agreed_says C 'calls of linear .* compared with'
	ok "C is in force" before_long in_force 'compare +linear$'
	pressed_says u 'no longer compared'
	pressed_says u 'no longer computed'
	ok "what was done is told" shows '^ditrace: fallback: '
	ok "u takes f back" before_long not in_force 'fallback'
	keys Escape
}

# The other engines.
by_engine() {
	cd "$T" || return
	for engine in ptrace shim; do
		terminal 240x30 "$DITRACE" top --engine "$engine" "$child"
		ok "$engine: traced" traces
		ok "$engine: it is said" shows " engine $engine "
		keys s
		ok "$engine: what all threads do" shows "^ +train\.py:[0-9]+ +|python +train\.py"
		keys q
		if [ "$engine" = ptrace ]; then
			beside_ptrace
		fi
		keys d
		ok "$engine: detached" shows 'detached from process'
		quits
	done
	cd "$W" || return
}

share() {
	screen | sed -nE "s/.*  $1 ([0-9]+) %.*/\1/p"
}

more_than() {
	[ "$(share "$1")" -gt "$(share "$2")" ]
}

# What threads do between ops; and the next call at a line, with given shapes, in a thread.
between_ops() {
	of_first_torch || { skip "between ops with another torch: make test-long"; return; }
	cd "$T" || return
	start "$PY" "$W/tui/between_ops.py" "$T/go" >"$T/running"
	wait_line "$T/running" '^pid '
	for how in runs waits; do
		[ "$how" = runs ] || touch "$T/go.waits"
		terminal 120x30 "$DITRACE" top "$child"
		ok "$how: the shares" shows '  in ops [0-9]+ %  Python [0-9]+ %  waits [0-9]+ %'
		if [ "$how" = runs ]; then
			ok "it runs Python" before_long more_than Python waits
			quits
		fi
	done
	ok "it waits" before_long more_than waits Python
	half=$(grep -n '# mark: half' "$W/tui/between_ops.py" | cut -d: -f1)
	next_call '' "aten::relu at between_ops.py:$half" "(8, 16)" "$half" "<" / aten::relu Enter j
	next_call 'g g' "an op at between_ops.py:$half" '' "$half" Escape / 'x[:8]' Enter
	next_call 'g g' "an op in thread $child" '' '' Escape
	next_call g 'aten::relu \[8,16\]' "(8, 16)" "$half" / 'relu [8' Enter
	quits
	terminal 120x30 "$DITRACE" top --ops aten::relu "$child"
	ok "ops that are left out are not taken for Python" shows '  in ops [0-9]+ %  not in these [0-9]+ %  waits [0-9]+ %'
	quits
	still_stacks
	cd "$W" || return
}

# next_call GROUP-KEYS WHAT SHAPE LINE [KEY...]: after the keys, c captures a call of the row
next_call() {
	local group=$1 what=$2 shape=$3 line=$4 files
	shift 4
	[ -z "$group" ] || keys $group
	[ $# = 0 ] || keys "$@"
	ok "there is a row" shows '^[b ]  [ 0-9.]{5}'
	keys c
	ok "c captures $what" shows "captured a call of $what"
	files=$(find ditrace-top-*-capture -name 'input*.json')
	is "once" "$(grep -c . <<<"$files")" 1
	[ -z "$line" ] || like "at the line" "$files" "\"line\": $line,"
	[ -z "$shape" ] || ok "of the shape" grep -qF "\"shape\": \"$shape\"" "$files"
	keys u
	ok "u removes it" before_long not ls -d ditrace-top-*-capture
}

# The stacks of the sleeping process: the same at each size, except for its pid and program.
still_stacks() {
	terminal 80x24 "$DITRACE" top "$child"
	ok "traced" shows ' in ops [0-9]+ %'
	touch "$T/go.stands"
	until_stands() {
		keys s
		sleep 1
		screen_has 'sleeps for a time' && screen_has '  python +between_ops.py:[0-9]+ +third: time.sleep'
	}
	ok "it stands still" before_long until_stands
	for size in 80x24 120x40 200x50 80x24; do
		resize "$size"
		ok "stacks at $size" before_long stacks_are "stacks-$size"
	done
	keys q
	quits
	kill -9 "$child"
}

# stacks_are NAME: the screen below the head is that of the file golden/NAME; GOLDEN=write writes the file
stacks_are() {
	[ "${GOLDEN:-}" != write ] || sleep 2 # it is drawn anew after a resize
	screen | tail -n +5 | sed -E 's/^pid .*/pid .../; s/^thread [0-9]+ "[^"]*"/thread TID NAME/' >"$T/stacks"
	[ "${GOLDEN:-}" != write ] || cp "$T/stacks" "$here/golden/$1"
	diff "$here/golden/$1" "$T/stacks"
}

# Half of them with each PyTorch.
started() {
	local hows=(by_kill by_signal)
	[ "$tried" = 0 ] || hows=(by_hangup by_quitting)
	! in_long || hows=(by_kill by_signal by_hangup by_quitting)
	tried=1
	for how in "${hows[@]}"; do
		killed "$how"
	done
	in_long || skip "the others: with the other PyTorch, or make test-long"
}

# The process on the line that is shown inverse, other than the first line.
selected() {
	tm capture-pane -pe | sed -nE $'2,$ s/^(\e\\[[0-9;]*m)*\e\\[(0;)?7m(\e\\[[0-9;]*m)*[ -]*([0-9]+) .*/\\4/p'
}

selected_is() {
	[ "$(selected)" = "$1" ]
}

has_mark() {
	screen | grep -qE "^ +- $child  $1 .* slowly.py"
}

# ditrace alone: the list of processes, from which top is opened.
listed() {
	terminal 80x24 "$DITRACE"
	ok "ditrace alone lists the process" shows "^ +$child  root +[0-9]+ +[0-9]+ s  python[0-9.]* slowly.py --seconds"
	resize 40x24
	ok "in 40 columns, too" shows "^ +$child +[0-9]+ +[0-9]+ (s|min)  py"
	resize 80x24
	keys Home
	while at=$(selected) && [ "$at" != "$child" ]; do
		keys Down
		before_long not selected_is "$at" || break
	done
	keys Enter
	ok "Enter opens top" shows "^ditrace top  pid $child "
	ok "which traces" traces
	quits
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	terminal 80x24 setpriv --reuid "$plain_uid" --clear-groups "$T/ditrace"
	ok "to another user it is dimmed" before_long has_mark root
	ok "with the reason" shows 'whether it runs PyTorch is not seen'
	keys q
	ok "q quits" shows '^status 0'
	terminal 80x24 unshare --pid --fork --mount-proc "$DITRACE"
	ok "where there is none, that is said" shows 'no process seen here runs PyTorch'
	ok "with a hint" shows '^  hint: .*ditrace run'
	keys q
	ok "q quits" shows '^status 0'
	"$DITRACE" >"$T/out" 2>"$T/err" </dev/null
	is "not on a terminal: status 2" "$?" 2
	like "and the usage" "$T/err" '^usage: ditrace COMMAND'
}

kept() {
	start_training
	listed
	terminal 120x30 "$DITRACE" top --trace "$T/kept" "$child"
	ok "a trace to keep" traces
	keys q
	ok "quits" shows '^ditrace: trace written to .*kept'
	ok "it is whole" eval '"$DITRACE" report "$T/kept" | grep -q train.py'
	terminal 120x30 "$DITRACE" top --trace-limit 200k "$child"
	ok "a full file" shows 'goes on in a new file, counting anew'
	ok "goes on" traces
	quits
	is "no file" "$(find "$T" -name 'ditrace-top-*')" ''
	cd "$T" || return
	terminal 120x30 "$DITRACE" top "$child"
	ok "one that will be kept" traces
	keys q
	ok "it may be kept" shows '^keep the trace, [0-9.]+ .iB[?] y/n'
	keys x
	ok "or one goes on" shows '^[?] help'
	keys q y
	ok "kept" shows "^ditrace: trace written to ditrace-top-$child.data .*; see: ditrace report"
	ok "whole" eval '"$DITRACE" report "$T/ditrace-top-$child.data" | grep -q train.py'
	cd "$W" || return
	stop_busy
}

each_torch training
each_torch between_ops
tried=0
each_torch started
first_torch
export TMPDIR=$T
kept
terminal 80x24 "$DITRACE" top 999999999
ok "no such process" shows '^ditrace: .*999999999'
terminal 80x24 "$DITRACE" top -o "$T/out" -- /no/such/program
ok "no such program" shows '^ditrace: cannot run /no/such/program'
ok "it ends" shows '^status 1'
terminal 80x24 "$DITRACE" top -o "$T/out" -- echo hello
ok "a program without PyTorch" shows 'no process of this program loaded PyTorch'
is "its output is kept" "$(cat "$T/out")" hello
is "for its user alone" "$(stat -c %a "$T/out")" 600
done_testing
