#!/usr/bin/env bash
# A program survives the tracing process of the engine ptrace, ditrace-tracer, being killed at any time, alone or along with all
# else of ditrace (KILLS times while it is attached, STARTS times from its start), and computes the same.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many KILLS 4 100
how_many STARTS 1 10

is_traced() {
	cat /proc/"$1"/task/*/status 2>/dev/null | grep -q '^TracerPid:	[1-9]'
}

# parts PID: what ditrace consists of, the tracing process first
parts() {
	pgrep -P "$1" -x ditrace-tracer
	pgrep -P "$1" -x ditrace-keeper
	echo "$1"
}

# is_whole PID: whether all of it have begun; they are in `all`
is_whole() {
	mapfile -t all < <(parts "$1")
	[ ${#all[@]} = 3 ]
}

# kill_some PID HOW: the tracing process, alone or along with ditrace, before it or after; or all, its keeper, too
kill_some() {
	local all
	before_long is_whole "$1" || return 1
	case $2 in
	0) kill -9 "${all[0]}" ;;
	1) kill -9 "${all[0]}" && kill -9 "${all[2]}" ;;
	2) kill -9 "${all[2]}" && kill -9 "${all[0]}" ;;
	3) kill -9 "${all[@]}" ;;
	esac
	wait "$1"
	before_long not is_traced "$child"
}

# has_steps N: whether the program has printed more than N lines of losses
has_steps() {
	[ "$(grep -c '^always ' "$T/lines")" -gt "$1" ]
}

goes_on() {
	before_long has_steps $(($(grep -c '^always ' "$T/lines") + 1))
}

recording() {
	[ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -gt 4096 ]
}

# Within a second of when the first thread is traced, alternately of when ops were recorded. Without the keeper a breakpoint is
# restored when it is hit, the others when somebody attaches again.
kill_often() {
	local i tracer left=
	RANDOM=1
	for ((i = 0; i < KILLS; i++)); do
		rm -f "$T/killed"
		start_as tracer "$DITRACE" attach --engine ptrace "$child" -o "$T/killed" >/dev/null 2>"$T/killed.err"
		if [ $(((i + i / 4) % 2)) = 1 ]; then
			before_long recording "$T/killed" || { cat "$T/killed.err" && return 1; }
			left=
		else
			before_long is_traced "$child" || { cat "$T/killed.err" && return 1; }
		fi
		sleep "0.$(printf %03d $((RANDOM % 1000)))"
		kill_some "$tracer" $((i % 4)) || { cat "$T/killed.err" && return 1; }
		goes_on || { echo "after $i: $(tail -n 3 "$T/lines.err")" && return 1; }
		[ $((i % 4)) != 3 ] || left=1
		[ "$left" ] || before_long python3 "$here/code_unchanged.py" "$child" >/dev/null || { echo "changed after $i" && return 1; }
	done
}

attached() {
	start "$PY" on_line.py <<<"ops 3"$'\n'"always" >"$T/lines" 2>"$T/lines.err"
	ok "a training with several threads runs" wait_line "$T/lines" '^always '
	ok "it outlives $KILLS killed tracing processes" kill_often
	ok "one can still attach" "$DITRACE" attach --engine ptrace "$child" --count 300 -o "$T/e"
	ok "and it is left alone then" python3 "$here/code_unchanged.py" "$child"
	like "without a handler of SIGTRAP" "/proc/$child/status" '^SigCgt:	[0-9a-f]*[02468ace][0-9a-f]$'
	kill -TERM "$child"
	finish "$child"
	is "it ends well" "$status $(tail -n 1 "$T/lines")" "0 ended well"
	is "with the losses from before it was traced" "$(grep '^always ' "$T/lines" | sort -u)" "$(grep -m 1 '^always ' "$T/lines")"
}

# started_by PID: set $child to the program that ditrace has started
started_by() {
	child=$(pgrep -P "$1" | grep -vxf <(parts "$1"))
	[ -n "$child" ] && is_traced "$child"
}

# A program that ditrace has started is not a child of this shell: its last line tells that it has ended well. It is killed
# before, while or after it loads PyTorch.
started() {
	local i tracer
	RANDOM=2
	for ((i = 0; i < STARTS; i++)); do
		start_as tracer "$DITRACE" run --engine ptrace -o "$T/killed" -- "$PY" train.py --steps 200 >"$T/started" 2>"$T/killed.err"
		before_long started_by "$tracer" || { cat "$T/killed.err" && return 1; }
		sleep "$((RANDOM % 4)).$(printf %03d $((RANDOM % 1000)))"
		kill_some "$tracer" $((1 + i % 3)) || { cat "$T/killed.err" && return 1; }
		wait_line "$T/started" '^199 ' || { cat "$T/killed.err" && return 1; }
		same_losses "$T/started" || return 1
	done
}

starts() {
	ok "so does one that ditrace started, $STARTS times" started
}

each_torch attached
each_torch starts
done_testing
