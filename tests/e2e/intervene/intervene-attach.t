#!/usr/bin/env bash
# Changing functions of a running process, and the changes while they are in force: attach --fallback, --cast and --compare,
# ctl. Afterwards it computes as before, after SWITCHES times and after a kill. What one ditrace has left in a graph does not
# end what the next one changes; a fork follows an order given before it.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
need_tracing
how_many SWITCHES 10 100

# trains ARGUMENT...: start the target; untouched ends it
trains() {
	begin '^other 5 ' intervene/switched.py "$@"
	wait_line "$T/out" '^main 5 '
	fds >"$T/fds"
}

fds() {
	readlink "/proc/$target/fd/"* | sort
}

# changing OPTION...: a ditrace, $tracer, that changes functions of the target; returns once both threads have its modes
changing() {
	local met
	before_long plain_again
	met=$(grep -c '^stack of' "$T/out")
	start "$DITRACE" attach "$target" "$@" 2>"$T/err"
	tracer=$child
	before_long have_met $((met + 2))
}

have_met() {
	[ "$(grep -c '^stack of' "$T/out")" -ge "$1" ]
}

is_in() {
	"$DITRACE" ctl "$target" status 2>&1 | grep -q '^functions'
}

is_out() {
	not is_in
}

# further: both threads make more steps
further() {
	local m o
	m=$(grep -c '^main' "$T/out") o=$(grep -c '^other' "$T/out")
	wait_line "$T/out" "^main $((m + 2)) " && wait_line "$T/out" "^other $((o + 2)) "
}

finished() {
	kill -INT "$tracer"
	wait "$tracer"
}

untouched() {
	kill -TERM "$target"
	the_end
	is "it ends well" "$status" 0
	alone intervene/switched.py "$@" --steps "$(grep -c '^main' "$T/out")" >"$T/plain"
	is "no mode is left on its threads" "$(modes_in out)" "$(modes_in plain)"
	ok "it computed what it computes alone" the_same_losses
}

modes_in() {
	grep -E '^(modes of|and then)' "$T/$1" | sort
}

the_same_losses() {
	local name
	for name in main other; do
		cmp <(grep "^$name" "$T/out" | head -n "$(grep -c "^$name" "$T/plain")") <(grep "^$name" "$T/plain" | head -n "$(grep -c "^$name" "$T/out")") || return 1
	done
}

each_feature() {
	changing --cast 'float32->float64' --ops relu
	ok "both threads go on" further
	ok "the modes go with ditrace" finished
	like "the functions are told" "$T/err" '\| torch.nn.functional.relu \|  input'
	ok "of two threads" [ "$(count_of cast | tr -d ,)" -ge 4 ]
	ok "it has open what it had before" before_long same_fds
	changing --compare add
	ok "compared, both go on" further
	ok "and are left" finished
	like "nothing is wrong" "$T/err" '^ditrace: compare: (all|none of) [1-9]'
	changing --fallback-all --for 1s
	wait "$tracer"
	like "what is on the CPU is left alone" "$T/err" ' torch.nn.functional.linear +is on the CPU'
}

same_fds() {
	diff "$T/fds" <(fds)
}

# stack WHICH NAME FIELD: from the first or last line on which the thread reports its modes: their number or the time
stack() {
	grep "^stack of $2 " "$T/out" | "$1" -n 1 | cut -d ' ' -f "$3"
}

plain_again() {
	[ "$(stack tail main 4)" = "$(stack head main 4)" ] && [ "$(stack tail other 4)" = "$(stack head other 4)" ]
}

# since TIME THREAD: seconds from that time until the thread last saw its stack change
since() {
	awk -v from="$1" -v to="$(stack tail "$2" 5)" 'BEGIN { printf "%.3f s", to - from }'
}

killed() {
	local at
	changing --compare all
	further
	at=$(date +%s.%N)
	kill -9 "$tracer"
	wait "$tracer" 2>/dev/null
	ok "its threads see their modes go with a killed ditrace" before_long plain_again
	echo "# after $(since "$at" main) and $(since "$at" other)"
	ok "nothing of them is left" before_long is_out
	ok "and it goes on" further
	ok "with nothing open of that" before_long same_fds
}

# order WORD...: by ditrace ctl
order() {
	"$DITRACE" ctl "$target" "$@" >"$T/ctl" 2>&1 || { cat "$T/ctl" && return 1; }
}

switch() {
	local i
	for ((i = 0; i < SWITCHES; i++)); do
		order cast off && order compare add 'torch.add,linear' && order fallback all && order cast add relu &&
			order compare off && order fallback off || return 1
	done
}

switches() {
	changing --cast 'float32->float64' --ops relu
	ok "each is switched on and off $SWITCHES times" switch
	like "what is in force is told" "$T/ctl" '^functions: cast +relu, float32->float64$'
	like "and what is not" "$T/ctl" '^functions: fallback +off$'
	order compare add torch.add
	ok "with what was added, both go on" further
	order compare remove torch.add
	like "the last that is removed" "$T/ctl" '^functions: compare +off$'
	error "what it cannot do is said" 'is nothing that ctl can do' "$DITRACE" ctl "$target" compare never
	like "and how a function is added" "$T/error" 'hint: .*: compare add never; '
	error "a function that the process does not have is refused" 'has no function "torch.ad"' "$DITRACE" ctl "$target" compare add torch.ad
	error "so are wrong lists" 'is not a regular expression' "$DITRACE" ctl "$target" compare add '('
	ok "and left" finished
	like "all that was on is in the summary" "$T/err" '^ditrace: compare: [1-9][0-9,]* calls? of '
}

through() {
	trains
	each_feature
	switches
	killed
	untouched
}

# the program's own modes were there before, and stay
under() {
	trains --under
	changing --cast 'float32->float64' --ops relu
	ok "under modes of its own, both threads go on" further
	ok "beneath them" finished
	ok "of two threads" [ "$(count_of cast | tr -d ,)" -ge 4 ]
	like "are their functions changed" "$T/err" '\| torch.nn.functional.relu \|  input'
	changing --compare all
	ok "compared, both go on" further
	ok "and are left" finished
	like "nothing is wrong" "$T/err" '^ditrace: compare: (all|none of) [1-9]'
	ok "the modes are out before those of the program" before_long is_out
	untouched --under
}

# graphs made under a ditrace run backward under another
later() {
	begin '^ready' intervene/later.py
	start_as tracer "$DITRACE" attach "$target" --compare mul 2>"$T/err"
	wait_line "$T/out" '^kept'
	finished
	wait_line "$T/out" '^plain'
	start_as tracer "$DITRACE" attach "$target" --compare relu 2>"$T/err"
	wait_line "$T/out" '^called'
	finished
	the_end
	like "what one left in a graph does not end the next" "$T/err" '^ +20 +20 +0 +torch.relu'
}

forks() {
	begin '^ready' intervene/forks_later.py "$T"
	start_as tracer "$DITRACE" attach "$target" --compare mul 2>"$T/err"
	wait_line "$T/out" '^met'
	order compare add relu
	touch "$T/fork"
	the_end
	wait "$tracer"
	rm "$T/fork"
	like "a fork does what was ordered before" "$T/err" '^ +40 +40 +0 +torch.relu'
}

attach() {
	later
	forks
	through
	under
}
each_torch forking attach
done_testing
