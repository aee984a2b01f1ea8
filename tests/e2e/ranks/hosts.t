#!/usr/bin/env bash
# Two hosts, as namespaces: each has its own network, name and clock, and two of four ranks.
. "$(dirname "$0")/../lib.sh"
need_tracing
hosts=("ditrace-$$-a" "ditrace-$$-b")
trap 'for h in "${hosts[@]}"; do ip netns del "$h" 2>/dev/null; done; cleanup' EXIT

network() {
	local i
	for h in "${hosts[@]}"; do ip netns add "$h" && ip -n "$h" link set lo up || return 1; done
	ip link add ditrace0 netns "${hosts[0]}" type veth peer name ditrace0 netns "${hosts[1]}" || return 1
	for i in 0 1; do ip -n "${hosts[i]}" addr add "10.77.0.$((i + 1))/24" dev ditrace0 && ip -n "${hosts[i]}" link set ditrace0 up || return 1; done
	unshare --time --monotonic 5000 --uts --fork true
}
network 2>/dev/null || skip_all "no right to make namespaces of the network and of time"

# on HOST COMMAND...: the clock of host 1 is 5000 s ahead
on() {
	exec ip netns exec "${hosts[$1]}" unshare --uts --time --monotonic $((5000 * $1)) --fork sh -c 'hostname "node$0" && exec "$@"' "$1" "${@:2}"
}

# trained NAME FOLDER FOLDER: where each host writes
trained() {
	local i pids=()
	for i in 0 1; do
		(FIRST=$((2 * i)) RANKS=2 WORLD_SIZE=4 GLOO_SOCKET_IFNAME=ditrace0 on $i "$DITRACE" run -o "${@:i+2:1}/" -- "$PY" ranks/launch.py ranks/mesh.py "$T/$1-store" >"$T/out$i" 2>"$T/err$i") &
		pids+=($!)
	done
	wait "${pids[0]}" && wait "${pids[1]}"
}

clocks='^the clock of node1 is [0-9.]+ [mun]?s (ahead of|behind) that of node0, which is corrected: [0-9]+ collectives tell it, .*; it is off by [0-9.]+ [mun]?s at most$'
late='^in group [0-9] \(ranks (0, 2|2, 3)\) rank 2 comes last in [0-9]+ of the [0-9]+ collectives '

all() {
	ok "both write into one folder" trained one "$T/shared" "$T/shared"
	is "each rank its file" "$(cd "$T/shared" && echo *)" "rank0.data rank1.data rank2.data rank3.data"
	"$DITRACE" report --skew --pager never "$T/shared" >"$T/skew"
	like "the late rank is named" "$T/skew" "$late"
	like "and how the clocks differ" "$T/skew" "$clocks"
	"$DITRACE" report --skew --format json "$T/shared" >"$T/json"
	ok "which is as exact as is said, as the clocks of the day are one" jq -e '.clocks[0] | (.behind_ns | fabs) <= .off_at_most_ns' "$T/json"
	"$DITRACE" report --collectives --pager never "$T/shared" >"$T/report"
	like "collectives of both are matched" "$T/report" ' allreduce SUM float32 .* [0-9] \(ranks (0, 2|1, 3)\) gloo '
	of_first_torch || { skip "what each has written was merged with another torch: make test-long" 3; return; }
	ok "each into its own" trained two "$T/a" "$T/b"
	is "are merged" "$("$DITRACE" merge -o "$T/both" "$T/a" "$T/b" 2>"$T/err" && cd "$T/both" && echo *)" "rank0.data rank1.data rank2.data rank3.data"
	"$DITRACE" report --skew --pager never "$T/both" >"$T/skew"
	like "and say the same" "$T/skew" "$late"
}

each_torch all
done_testing
