# Shared by all tests: TAP output, the Pythons to test with, running ditrace. To be sourced by bash. A test is a function that
# runs once for each PyTorch (each_torch), with $PY, $TORCH (its version), $T (an empty folder) and the folder of the workloads
# as the current one.

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
W=$top/tests/workloads
BUILD=${BUILD:-$top/build}
case $BUILD in /*) ;; *) BUILD=$top/$BUILD ;; esac
DITRACE=${DITRACE:-$BUILD/ditrace}
. "$here/environment.sh"
export BUILD DITRACE
# A Python of pyenv takes ten times as long to start.
export HELPER_PYTHON=${HELPER_PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
hash -p "$HELPER_PYTHON" python3
count=0 failed=0
label=""

# A user id of this test alone: the limit on locked memory counts all processes of a user.
plain_uid=$((200000 + $$))
base=$(mktemp -d "${TMPDIR:-/tmp}/ditrace-test.XXXXXX")
mkfifo "$base/nothing" # which nobody writes
T=$base
home="" # of home_of
children=() # killed at the end, along with the jobs still running

cleanup() {
	children+=($(jobs -rp))
	disown -a
	for p in "${children[@]}"; do kill -9 "$p" 2>/dev/null; done
	for m in "$base"/*/full "$base"/full; do mountpoint -q "$m" 2>/dev/null && umount "$m"; done
	rm -rf "$base" ${home:+"$home"}
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# ok DESCRIPTION COMMAND...: passes if the command does
ok() {
	local what=$1
	shift
	count=$((count + 1))
	if "$@" >"$base/ok.out" 2>&1; then
		echo "ok $count - $label$what"
		[ ! -s "$base/ok.out" ] || grep '^#' "$base/ok.out"
	else
		echo "not ok $count - $label$what"
		echo "#   failed: $*" | head -c 400 | head -n 1
		sed 's/^#*/#   /' "$base/ok.out" | tail -n 60
		failed=1
	fi
	return 0
}

# is DESCRIPTION SEEN WANTED
is() {
	ok "$1" same "$2" "$3"
}

same() {
	[ "$1" = "$2" ] || { printf 'seen:\n%s\nwanted:\n%s\n' "$1" "$2" | head -n 40; false; }
}

# like DESCRIPTION FILE REGEX (extended), unlike
like() {
	ok "$1" found "$2" "$3"
}

unlike() {
	ok "$1" not_found "$2" "$3"
}

found() {
	grep -qE -e "$2" "$1" || { echo "no line of $1 is like: $2" && tail -n 30 "$1"; false; }
}

not_found() {
	! grep -nE -e "$2" "$1"
}

not() {
	! "$@"
}

# skip REASON [N]
skip() {
	local i
	for ((i = 0; i < ${2:-1}; i++)); do
		count=$((count + 1))
		echo "ok $count # skip $label$1"
	done
}

skip_all() {
	echo "1..0 # skip $1"
	exit 0
}

done_testing() {
	echo "1..$count"
	exit $failed
}

# how_many NAME N LONG: set NAME, a number of repetitions, unless the environment does: N, or LONG under make test-long
how_many() {
	local n=$2
	! in_long || n=$3
	printf -v "$1" %s "${!1:-$n}"
}

in_long() {
	[ -n "${LONG:-}" ]
}

# warmed: the path of an interpreter that does what $PY does: one of tests/run's that has imported PyTorch, if there is one
warmed() {
	local py=${WARM_PYTHONS:-/none}/${PY//\//_}
	[ -x "$py" ] && [ -z "${OMP_NUM_THREADS:-}${PYTHONPATH:-}" ] && ! in_long || py=$PY # which are read at the start
	echo "$py"
}

# untraced PROGRAM ARGUMENT...: the output of $PY PROGRAM, in tests/workloads, without a tracer. It runs once for all tests that
# ask, so only use it for output that depends on nothing else.
untraced() {
	local kept
	kept=$BUILD/tests/untraced/$(cat "$W/$1" <(echo "$PY $TORCH $*") | sha1sum | cut -d' ' -f1)
	if [ ! -e "$kept" ]; then
		mkdir -p "${kept%/*}"
		(cd "$W" && "$(warmed)" "$@" 2>/dev/null) >"$kept.$$" && mv "$kept.$$" "$kept" || return 1
	fi
	cat "$kept"
}

# same_losses FILE: the output of tests/workloads/train.py in it is the same as without a tracer
same_losses() {
	local n
	n=$(grep -vc '^pid ' "$1")
	cmp <(grep -v '^pid ' "$1") <(untraced train.py --steps $(((n / 200 + 1) * 200)) | grep -v '^pid ' | head -n "$n")
}

# All tracing tests need root and a built ditrace.
need_tracing() {
	[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }
	[ "$(id -u)" = 0 ] || skip_all "tracing with eBPF needs root"
}

# each_torch FUNCTION...: run it for each Python; those that are not available are skipped with the reason
each_torch() {
	local py version reason
	while read -r -u 3 py version reason; do
		label="torch $version: ${ENGINE:+$ENGINE: }"
		if [ "$version" = - ]; then
			label=""
			skip "$*: $reason"
			continue
		fi
		PY=$py TORCH=$version T=$(mktemp -d "$base/t.XXXXXX")
		cd "$W" || exit 1
		"$@"
		cd "$top" || exit 1
	done 3< <("$here/pythons")
	label=""
}

# each_engine FUNCTION: run it with each $ENGINE in turn, in the same $T
each_engine() {
	local all=$label ENGINE
	for ENGINE in bpf ptrace shim; do
		label="$all$ENGINE: "
		"$1"
	done
	label=$all
}

# by_turns FUNCTION ENGINE...: run it with the next of the engines with each torch, with all of them under make test-long
by_turns() {
	local all=$label ENGINE engines=("${@:2}")
	if ! in_long; then
		engines=("${engines[turn++ % ${#engines[@]}]}")
		skip "by other engines: with the other torch, or make test-long"
	fi
	for ENGINE in "${engines[@]}"; do
		label="$all$ENGINE: "
		"$1"
	done
	label=$all
}
turn=0

# of_first_torch: whether to do, with this PyTorch, what the short run does with only one of each_torch
of_first_torch() {
	in_long || [ "$PY" = "${FIRST:=$PY}" ]
}

# of_other_torch: the same, with another one than of_first_torch if there is one
of_other_torch() {
	in_long || ! of_first_torch || [ "$("$here/pythons" | awk '$2 != "-"' | wc -l)" = 1 ]
}

first_torch() {
	read -r PY TORCH _ < <("$here/pythons" | awk '$2 != "-"')
	[ -n "${PY:-}" ] || skip_all "no Python with torch: $("$here/pythons" | cut -d' ' -f3- | paste -sd';')"
	T=$(mktemp -d "$base/t.XXXXXX")
	cd "$W" || exit 1
}

# trace OPTIONS... -- PROGRAM...: ditrace run, with $ENGINE if set, into $T/data; the program's output in $T/out, ditrace's in
# $T/err
trace() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	"$DITRACE" run ${ENGINE:+--engine "$ENGINE"} -o "$T/data" "${options[@]}" "$@" >"$T/out" 2>"$T/err"
}

# events [FILE]: write the recorded events as JSON lines to $T/events
events() {
	"$DITRACE" script --format jsonl "${1:-$T/data}" >"$T/events"
}

# count_of FEATURE: the number of calls it was applied to, as in "ditrace: fallback: 2 calls of ..."
count_of() {
	sed -nE "s/^ditrace: $1: ([0-9,]+) calls? .*/\1/p" "$T/err"
}

# verify FOLDER/PROGRAM ARGUMENT...: a program of tests/e2e, without its .py, that checks output; it may import modules of
# tests/e2e
verify() {
	PYTHONPATH=$here python3 "$here/$1.py" "${@:2}"
}

# speedscope_schema FILE: whether it is valid by the JSON schema of speedscope's file format
speedscope_schema() {
	local p
	for p in python3 /usr/bin/python3; do
		"$p" -c 'import jsonschema' 2>/dev/null || continue
		ok "the file format's schema allows the speedscope" "$p" "$here/speedscope/valid.py" "$here/speedscope/file-format-schema.json" "$1"
		return
	done
	skip "no Python here has jsonschema: tests/deps test"
}

# home_of UID: make $home, a folder of that user's alone, as a home is; below /tmp, which all can write to, there is none
home_of() {
	home=$(mktemp -d /var/lib/ditrace-test.XXXXXX) && chown "$1:$1" "$home"
}

# start_as NAME COMMAND...: start it in the background, its pid in $NAME. The call's redirections have truncated its files when
# this returns; with "COMMAND >FILE &" they may not have.
start_as() {
	local name=$1
	shift
	"$@" &
	printf -v "$name" %d $!
}

# start COMMAND...: the same, with the pid in $child
start() {
	start_as child "$@"
}

# nap SECONDS: sleep without a process of its own
nap() {
	read -rt "$1" <>"$base/nothing"
	return 0
}

# before_long COMMAND...: repeat it until it succeeds, while there is patience
before_long() {
	local end=$((SECONDS + PATIENCE))
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		nap 0.1
	done
}

# family PID: it and all below it
family() {
	local p
	echo "$1"
	for p in $(cat "/proc/$1/task/"*/children 2>/dev/null); do family "$p"; done
}

# has_line FILE REGEX: whether it has such a line; of a short file without a process of its own
has_line() {
	local line lines=()
	[ -r "$1" ] && mapfile -tn 300 lines <"$1"
	[ ${#lines[@]} -lt 300 ] || { grep -qE -e "$2" "$1"; return; }
	for line in "${lines[@]}"; do
		if [[ $line =~ $2 ]]; then return 0; fi
	done
	return 1
}

# wait_line FILE REGEX: wait until the file has such a line; in vain, what all do that could have written it
wait_line() {
	before_long has_line "$1" "$2" && return 0
	echo "waited for '$2' in $1 in vain"
	tail -n 5 "$1"
	[ ! -s "$1.err" ] || tail -n 20 "$1.err"
	ps -L -o pid,lwp,stat,etime,time,wchan:32,args -p "$(family $$ | paste -sd,)" | cut -c -160
	return 1
}

# finish PID: wait for a child; its exit status in $status
finish() {
	wait "$1"
	status=$?
}

# start_busy: start a training that runs until SIGTERM, as $child, with its output in $T/busy. start_paced: the same, asleep
# for most of the time but under make test-long
start_busy() {
	start "$PY" "$W/${1:-busy.py}" >"$T/busy" 2>"$T/busy.err"
	wait_line "$T/busy" '^pid '
}

start_paced() {
	in_long && start_busy || start_busy paced.py
}

stop_busy() {
	kill -TERM "$child"
	finish "$child"
}

# error DESCRIPTION REGEX COMMAND...: the command fails (other than by a signal), prints an error that matches, and gives a hint
error() {
	local what=$1 regex=$2
	shift 2
	timeout "$PATIENCE" "$@" >"$T/error.out" 2>"$T/error"
	status=$?
	ok "$what" error_is_good "$regex"
}

error_is_good() {
	[ "$status" -ne 0 ] && { [ "$status" -lt 124 ] || [ "$status" = 127 ] || [ "$status" = 126 ]; } || { echo "exit status $status" && cat "$T/error" && return 1; }
	found "$T/error" "^ditrace: .*($1)" && found "$T/error" '^  hint: .' && not_found "$T/error" "Sanitizer"
}
