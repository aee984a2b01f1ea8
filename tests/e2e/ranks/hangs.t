#!/usr/bin/env bash
# ditrace stack on ranks that hang: it says first what they wait for and what does not match.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many ROUNDS 1 10

# says REGEX: whether stack's first line is like it
says() {
	"$DITRACE" stack "${pids[@]}" >"$T/stack" 2>"$T/err"
	head -n 1 "$T/stack" | grep -qE -e "$1"
}

# started KIND: whether it hangs in this round
started() {
	[ "$(grep -c "^$1 " "$T/out")" = "$round" ]
}

# hangs KIND REGEX: what stack says of such a hang
hangs() {
	echo "$1" >&4
	before_long started "$1"
	read -r -a pids < <(sed -n "s/^$1 //p" "$T/out" | tail -n 1)
	ok "$1" before_long says "$2"
	[ -s "$T/err" ] && sed 's/^/# /' "$T/err"
}

each_kind() {
	local sum='all_reduce #4 of group [a-z0-9_]+ \(float32 \(4,\)\) at hangs.py:[0-9]+' part='\([0-9]+,\)\) at hangs.py:[0-9]+'
	hangs skips "^ranks 0, 2 wait in $sum; rank 1 is not there: it is in pause at hangs.py:[0-9]+ "
	like "ranks at one place have one row" "$T/stack" '^ *0, 2 +[0-9]+ and 1 more +is in all_reduce +hangs.py:[0-9]+ ask: '
	like "the other has its own" "$T/stack" '^ +1 +[0-9]+ .* hangs.py:[0-9]+ pause: signal.pause\(\)'
	"$DITRACE" stack --format json "${pids[@]}" >"$T/json"
	ok "json has it, too" jq -se '.[0] | .ranks[0].groups[0].waiting[0].number == 4 and .ranks[1].groups[0].called == 3 and (.explained | test("^ranks 0, 2 wait"))' "$T/json"
	hangs locked "^ranks 0, 2 wait in $sum; rank 1 is not there: it is in locked at hangs.py:[0-9]+ "
	hangs kinds "^collectives differ: ranks 0, 2 wait in $sum; rank 1 waits in broadcast #4 of group "
	hangs shapes "^shapes differ: rank 0 waits in broadcast #4 .*\(float32 \(4,\)\) .*; rank 1 waits in .*\(float32 \(5,\)\) at .*; rank 2 is not there: it is in pause "
	hangs dtypes "^dtypes differ: rank 0 waits in broadcast #4 .*\(float32 \(4,\)\) .*; rank 1 waits in .*\(int64 \(4,\)\) "
	hangs order "^deadlock, as groups are not used in one order: rank 0 waits in all_reduce #1 of group ([^ ]+) \(float32 \(2, 2\)\) at hangs.py:[0-9]+ for rank 1, which waits in all_reduce #1 of group [^ ]+ .* for rank 0$"
	hangs pending "^rank 0 called all_reduce #4 of group [a-z0-9_]+ \\(float32 \\(4,\\)\\); ranks 1, 2 are not there: they are in pause at hangs.py:[0-9]+ "
	hangs killed "^rank 1 is none of these processes: it has ended, or runs elsewhere$"
}

all() {
	local round
	mkfifo "$T/in"
	mkdir "$T/stores"
	exec 4<>"$T/in"
	start "$PY" ranks/hangs.py "$T/stores" <&4 >"$T/out" 2>"$T/hangs.err"
	for ((round = 1; round <= ROUNDS; round++)); do each_kind; done
	echo end >&4
	finish "$child"
	exec 4>&-
}

each_torch all
done_testing
