#!/usr/bin/env bash
# A process in a frozen control group: attach says so, waits until it is thawed, and obeys signals meanwhile.
. "$(dirname "$0")/../lib.sh"
need_tracing

# mounted TYPE [OPTION]: where control groups of that kind are
mounted() {
	awk -v type="$1" -v option="${2:-}" '$3 == type && $4 ~ option { print $2; exit }' /proc/mounts
}

group() {
	echo "$1/ditrace-test-$$"
}

# freeze_v2, thaw_v2, and the same of version 1
freeze_v2() { echo 1 >"$(group "$place")/inner/cgroup.freeze" && before_long grep -q 'frozen 1' "$(group "$place")/inner/cgroup.events"; }
thaw_v2() { echo 0 >"$(group "$place")/inner/cgroup.freeze"; }
freeze_v1() { echo FROZEN >"$(group "$place")/freezer.state" && before_long grep -q FROZEN "$(group "$place")/inner/freezer.state"; }
thaw_v1() { echo THAWED >"$(group "$place")/freezer.state"; }

# remove: the groups, whose processes have ended
remove() {
	thaw_v1 || thaw_v2
	kill -9 "$child"
	before_long rmdir "$(group "$place")/inner" && rmdir "$(group "$place")"
} 2>/dev/null

obeys() {
	# shellcheck disable=SC2086 # words
	start_as tracer "$DITRACE" attach $1 "$child" 2>"$T/err"
	ok "$1: attach says that it is frozen" wait_line "$T/err" "^ditrace: process $child is frozen"
	like "$1: and how to thaw it" "$T/err" "^  hint: .*echo $2 > .*ditrace-test-$$/"
	kill "-$3" "$tracer"
	ok "$1: it ends at SIG$3" before_long ended "$tracer"
	finish "$tracer"
	is "$1: with an error" "$status" 1
}

ended() {
	! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"
}

frozen() {
	local version=$1 word=$2
	place=$3
	if [ -z "$place" ] || ! mkdir -p "$(group "$place")/inner" 2>/dev/null; then
		skip "no control groups of version $version can be made here" 20
		return
	fi
	label="torch $TORCH: cgroup v$version: "
	start_paced
	trap 'remove; cleanup' EXIT
	echo "$child" >"$(group "$place")/inner/cgroup.procs"
	ok "the process is frozen" "freeze_v$version"
	obeys "--engine bpf -o $T/data" "$word" TERM
	obeys "--engine ptrace -o $T/data" "$word" INT
	obeys "--engine shim -o $T/data" "$word" TERM
	obeys "--fallback add" "$word" INT
	start_as tracer "$DITRACE" attach "$child" --engine shim --count 100 -o "$T/data" 2>"$T/err"
	wait_line "$T/err" "^ditrace: process $child is frozen"
	"thaw_v$version"
	finish "$tracer"
	is "when it is thawed, it is traced" "$status" 0
	stop_busy
	is "and ends well" "$status $(tail -n 1 "$T/busy")" "0 ended well True"
	ok "the group can be removed" before_long rmdir "$(group "$place")/inner" "$(group "$place")"
	trap cleanup EXIT
}

first_torch
frozen 1 THAWED "$(mounted cgroup '(^|,)freezer(,|$)')"
frozen 2 0 "$(mounted cgroup2)"
done_testing
