#!/usr/bin/env bash
# ditrace watch --tree on a launcher that has not started its ranks yet: they are found later.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# has_looked PID: whether it sleeps between two looks
has_looked() {
	grep -qE '^(35|230) ' "/proc/$1/syscall"
}

has_both() {
	ranks=($(cat "/proc/$launcher/task/"*/children))
	[ ${#ranks[@]} = 2 ]
}

T=$base
mkfifo "$T/go"
start sh -c 'read go <"$0"; for rank in 0 1; do RANK=$rank WORLD_SIZE=2 "$1" -c "import signal; signal.pause()" & done; wait' \
	"$T/go" "$HELPER_PYTHON"
launcher=$child
start_as watcher "$DITRACE" watch --for 1s --tree "$launcher" >"$T/out" 2>"$T/err"
before_long has_looked "$watcher"
echo >"$T/go"
ok "a hang of ranks that were not there yet is told" wait_line "$T/err" '^ditrace: .*: a hang: no change of place of rank [01] for '
before_long has_both
kill "${ranks[@]}"
finish "$watcher"
is "the watch ends with them, and tells that there was a hang" $status 3
finish "$launcher"
done_testing
