#!/usr/bin/env bash
# A rank that holds the others up is named, with its line; where none does, none is named.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many RUNS 1 20
kinds="none work loading collective"
in_long && kinds+=" loader core" # a busy machine hides the waits of the first, and the second makes it one
export GROUP=/sys/fs/cgroup/cpu/ditrace-test-$$
if in_long && mkdir "$GROUP" 2>/dev/null; then
	echo 8000 >"$GROUP/cpu.cfs_quota_us" && kinds+=" quota"
fi

# What report --skew says, in its first lines, of each kind of ranks/straggler.py.
named='^rank %d comes last in [0-9,]+ of the [0-9,]+ collectives '
declare -A lines=(
	[work]='^meanwhile it is in aten::mm straggler.py:[0-9]+ planted: x @ x, '
	[loader]='^meanwhile it waits for data at straggler.py:[0-9]+ train: for x in loader'
	[loading]='^meanwhile it is in no op, up to aten::full straggler.py:[0-9]+ Data.__getitem__: '
	[collective]='^meanwhile it is in no op, up to c10d::allreduce_ straggler.py:[0-9]+ reduce_all: '
	[core]='^its main thread waits for a processor [0-9]+ % of the time, '
	[quota]='^its main thread waits for a processor .*: its control group has used up its CPU quota [0-9]+ % of the time'
)

# said KIND RANK: whether $T/skew says what it should. Where others of the machine's programs need processors, those are named.
said() {
	local line=${lines[$1]:-}
	if [ "$1" = none ]; then
		grep -qE '^no rank holds the others up: |^its main thread waits for a processor ' "$T/skew"
	else
		# shellcheck disable=SC2059
		head -n 1 "$T/skew" | grep -qE "$(printf "$named" "$2")" && grep -qE "$line" "$T/skew"
	fi
}

# one KIND RANKS RANK: a training, whose loss is that of the others
one() {
	rm -rf "$T/data" "$T/store"
	RANKS=$2 "$DITRACE" run -o "$T/data/" -- "$PY" ranks/launch.py ranks/straggler.py "$1" "$3" "$T/store" >"$T/out" 2>"$T/err" || return 1
	grep -o 'loss .*' "$T/out" >>"$T/losses"
	"$DITRACE" report --skew --pager never "$T/data" >"$T/skew"
	said "$1" "$3" || { echo "# $1, $2 ranks, rank $3 is slow:" && sed 's/^/# /' "$T/skew"; return 1; }
}

all() {
	local kind i good ranks
	of_first_torch || kinds=work
	for kind in ${KINDS:-$kinds}; do
		good=0
		for ((i = 0; i < RUNS; i++)); do
			ranks=$((i % 3 == 2 ? 3 : 2))
			[[ $kind != core && $kind != quota ]] || ranks=2 # which then have a processor each
			one "$kind" $ranks $((i % 2)) >"$T/missed" && good=$((good + 1))
			cat "$T/missed"
		done
		is "$kind: what is so is said, in all runs" "$good" "$RUNS"
	done
	RANKS=2 "$PY" ranks/launch.py ranks/straggler.py none 0 "$T/untraced" >"$T/out" 2>/dev/null
	is "all losses are that of the untraced run" "$(sort -u "$T/losses")" "$(grep -o 'loss .*' "$T/out")"
}

each_torch all
! [ -d "$GROUP" ] || rmdir "$GROUP"
done_testing
