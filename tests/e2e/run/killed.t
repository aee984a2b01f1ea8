#!/usr/bin/env bash
# A ditrace that is killed at any moment leaves nothing behind: no socket, folder or file, with every engine and intervention.
. "$(dirname "$0")/../lib.sh"
need_tracing
home_of 0
how_many KILLS 3 30
mkdir -m 700 "$home/run" "$home/tmp"
export XDG_RUNTIME_DIR=$home/run TMPDIR=$home/tmp

ways=("--engine bpf -o $home/data" "--engine ptrace -o $home/data" "--engine shim -o $home/data" "--engine shim --stats -o $home/data"
	"--fallback add" "--compare add" "--overflow")

# left: what is in the folders
left() {
	find "$XDG_RUNTIME_DIR" "$TMPDIR" -mindepth 1
}

nothing_left() {
	[ -z "$(left)" ]
}

nothing_stays() {
	before_long nothing_left || { left && return 1; }
}

# under OPTIONS: run a program that counts, as $tracer
under() {
	rm -f "$T/out"
	# shellcheck disable=SC2086 # words
	start_as tracer "$DITRACE" run $1 -- "$PY" run/counts.py >"$T/out" 2>"$T/err"
}

# killed: kill ditrace; what it has started as $started
killed() {
	local p
	kill -STOP "$tracer"
	started=""
	for p in $(cat "/proc/$tracer/task/"*/children); do
		grep -q '^ditrace-' "/proc/$p/comm" || started+=" $p"
	done
	kill -9 "$tracer"
	wait "$tracer"
} 2>/dev/null

at_random() {
	local i
	for ((i = 0; i < KILLS; i++)); do
		under "$1"
		sleep "0.$(printf %03d $((RANDOM % 150)))"
		killed
		nothing_stays || return
		# shellcheck disable=SC2086 # words
		[ -z "$started" ] || kill -9 $started 2>/dev/null
	done
}

at_work() {
	under "$1"
	wait_line "$T/out" '^100$' || { cat "$T/err" && return 1; }
	killed
	nothing_stays || return
	# shellcheck disable=SC2086 # words
	kill -TERM $started && before_long grep -q '^ended well' "$T/out"
}

with_helpers() {
	local all
	under "--engine shim -o $home/data"
	wait_line "$T/out" '^100$' || return
	all=$(family "$tracer")
	# shellcheck disable=SC2086 # words: all stand first, else one cleans up for another that has died
	kill -STOP $all && kill -9 $all
	wait "$tracer" 2>/dev/null
	[ -n "$(left)" ] || { echo "nothing would be left anyway" && return 1; }
	"$DITRACE" run --engine shim -o "$home/data" -- true 2>/dev/null
	nothing_stays
}

each_way() {
	RANDOM=1
	of_first_torch || ways=("${ways[2]}")
	for way in "${ways[@]}"; do
		label="torch $TORCH: ${way% -o*}: "
		ok "killed as it starts, it leaves nothing" at_random "$way"
		ok "nor as it works, and the program runs on" at_work "$way"
	done
	label="torch $TORCH: "
	of_first_torch || { skip "its helpers were killed with another torch: make test-long"; return; }
	ok "what is left by one that is killed with its helpers, the next one removes" with_helpers
}

inside() {
	nsenter -t "$child" -m "$@"
}

target_is_clean() {
	[ -z "$(inside ls -A /tmp /dev/shm /var/tmp | grep -v ':$')" ]
}

# The library goes by itself.
attached() {
	local p
	unshare -m --propagation private true 2>/dev/null || { skip "no mount namespaces" 2 && return; }
	start unshare -m --propagation private "$PY" run/counts.py >"$T/out" 2>"$T/err"
	wait_line "$T/out" '^100$'
	for p in /dev/shm /var/tmp /tmp; do inside mount -t tmpfs none $p; done
	ok "attach, killed at any moment, leaves nothing in the folders of the program" attach_often
	kill -TERM "$child"
	finish "$child"
	is "which ends well" "$status $(tail -n 1 "$T/out")" "0 ended well"
}

attach_often() {
	local i
	for ((i = 0; i < 2 * KILLS; i++)); do
		start_as tracer "$DITRACE" attach "$child" --engine shim -o "$home/data" 2>/dev/null
		sleep "0.$(printf %03d $((RANDOM % 700)))"
		kill -9 "$tracer"
		wait "$tracer" 2>/dev/null
		before_long target_is_clean || { inside ls -AR /tmp /dev/shm /var/tmp && return 1; }
	done
}

all() {
	each_way
	attached
}

each_torch all
done_testing
