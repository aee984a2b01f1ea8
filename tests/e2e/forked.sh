# Many short programs under ditrace run, each with different options. In the short run they are forked from one process that has
# imported PyTorch (a fork of tests/run's, if it has one), and ditrace attaches before their first line; under make test-long,
# and without the right to attach, each is started on its own. To be sourced by bash after lib.sh.

# forking FUNCTION...: run it with the forking process, which has imported PyTorch and $WARM, in the background
forking() {
	local forker to from order=0.0 forked=
	mkfifo "$T/orders" "$T/answers"
	exec {to}<>"$T/orders" {from}<>"$T/answers"
	start_as forker "$(warmed)" "$W/forked.py" "$T/order" ${WARM:-} <"$T/orders" >"$T/answers" {to}<&- {from}<&-
	"$@"
	exec {to}<&- {from}<&- # which ends one of tests/run's
	kill "$forker"
	wait "$forker" 2>/dev/null # its CPU time is counted
}

may_fork() {
	[ "$(id -u)" = 0 ] && ! in_long
}

# answered WORD: the answer of this kind to the last order, in $REPLY. A child that does not end, nor does anything, is killed,
# after printing what it was doing.
answered() {
	local word number had=- has=
	until [ "$had" = "$has" ]; do
		while read -r -t "$PATIENCE" -u "$from" word number REPLY; do
			[ "$word $number" != "$1 $order" ] || return 0
		done
		had=$has has=$(cut -d' ' -f14,15 "/proc/${forked:-none}/stat" 2>/dev/null) # its processor time
	done
	[ -z "$forked" ] || { "$DITRACE" stack "$forked" >&2; kill -9 "$forked"; }
	return 1
}

# forked OUT ERR go|wait PROGRAM ARGUMENT...: fork it in the current folder; its pid in $REPLY
forked() {
	printf '%s\0' "$PWD" "$@" >"$T/order"
	forked=
	order=$BASHPID.$((${order#*.} + 1))
	(echo "$order" >&"$to") # in a subshell: the child may be opening this shell's 1 for writing
	answered pid && forked=$REPLY
}

# alone PROGRAM ARGUMENT...: the output of $PY with it, without ditrace
alone() {
	may_fork || { "$PY" "$@" 2>/dev/null; return; }
	forked "/proc/$BASHPID/fd/1" /dev/null go "$@" && answered ended && return "$REPLY"
}

# ditraced OPTION... -- PROGRAM ARGUMENT...: ditrace run OPTION... $PY PROGRAM ARGUMENT..., its output in $T/out, ditrace's and
# its standard error in $T/err
ditraced() {
	local options=()
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	may_fork || { "$DITRACE" run "${options[@]}" "$PY" "$@" >"$T/out" 2>"$T/err"; return; }
	: >"$T/out" >"$T/err"
	forked "$T/out" "$T/err" wait "$@" || return
	"$DITRACE" attach "${options[@]}" "$REPLY" >>"$T/out" 2>>"$T/err" || kill -9 "$REPLY"
	answered ended && return "$REPLY"
}

# begin REGEX PROGRAM ARGUMENT...: start it in the background, without ditrace, as $target with its output in $T/out, and wait
# until it has printed such a line
begin() {
	if may_fork; then
		: >"$T/out" >"$T/out.err"
		forked "$T/out" "$T/out.err" go "${@:2}" || return
		target=$REPLY
		children+=("$target")
	else
		start "$PY" "${@:2}" >"$T/out" 2>"$T/out.err"
		target=$child
	fi
	wait_line "$T/out" "$1"
}

# the_end: wait for $target to end; its exit status in $status
the_end() {
	may_fork || { finish "$target"; return; }
	status=none
	answered ended && status=$REPLY
}

# watched SEEN COMMAND... -- PROGRAM ARGUMENT...: ditrace COMMAND PID -o $T/data, of a forked child that has PyTorch loaded
# already and calls relu until SEEN succeeds, which shows that ditrace is there
watched() {
	local seen=$1 command=()
	shift
	while [ "$1" != -- ]; do command+=("$1") && shift; done
	rm -f "$T/word" "$T/data"
	: >"$T/out"
	forked "$T/out" "$T/out.err" go "$W/at_word.py" "$T/word" "${@:2}" || return
	start "$DITRACE" "${command[@]}" "$REPLY" -o "$T/data" >/dev/null 2>"$T/err"
	before_long "$seen"
	touch "$T/word"
	finish "$child"
	answered ended && [ "$status,$REPLY" = 0,0 ] || { cat "$T/err" "$T/out.err"; return 1; }
}

has_relu() {
	"$DITRACE" script "$T/data" 2>/dev/null | grep -q relu
}
