#!/usr/bin/env bash
# With only --nth and --every the engine bpf picks the calls, and only these are stopped: the files equal those of the engine
# ptrace, and no harm is done.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../attached.sh"
need_tracing
how_many DITRACE_TEST_KILLS 2 8
kills=$DITRACE_TEST_KILLS
WARM=torch._dynamo # imported by optimizers

# by ENGINE OPS OPTIONS... -- PROGRAM...: capture with that engine into $T/ENGINE
by() {
	local engine=$1 ops=$2 status
	shift 2
	! may_fork || ops+=,relu
	attached --engine "$engine" --capture="$T/$engine" -o "$T/$engine.data" --ops "$ops" "$@"
	status=$?
	rm -rf "$T/$engine"/op_tools_results/op_capture_results/*.relu
	cp "$T/out" "$T/$engine.out"
	return $status
}

# both NAME OPS OPTIONS... -- PROGRAM...: capture with both engines
both() {
	local name=$1
	shift
	rm -rf "$T/bpf" "$T/ptrace"
	ok "$name, by bpf" by bpf "$@"
	ok "$name, by ptrace" by ptrace "$@"
	ok "$name: the same calls and numbers, none in one alone" python3 "$here/same_captures.py" "$T/bpf" "$T/ptrace"
	{ [ "$name" = "both ways to call an op" ] && of_first_torch; } || in_long || { skip "diff says so, too: make test-long"; return; }
	"$DITRACE" diff "$T/bpf" "$T/ptrace" >"$T/diff" 2>&1
	like "$name: the same for diff" "$T/diff" 'the two runs are equal, bit by bit'
	like "$name: none in one alone" "$T/diff" "^[1-9][0-9]* op calls in both, 0 only in the first, 0 only in the second"
}

killed() {
	local i
	ok "a training runs" begin '^always ' -c 'import io, sys; sys.stdin = io.StringIO("always\n"); import on_line'
	"$DITRACE" attach --engine bpf --capture="$T/first" -o "$T/data" --ops linear --nth 2,3 --max-calls 2 --phase forward --for "${PATIENCE}s" "$target" >"$T/err" 2>&1
	like "attach: the first calls that are counted are captured" "$T/err" '^ditrace: captured 2 calls'
	for ((i = 1; i <= kills; i++)); do
		ok "killed for the ${i}th time, the training goes on" kill_once
	done
	kill -TERM "$target"
	the_end
	is "it ends well" "$status $(tail -n 1 "$T/out")" "0 ended well"
	is "with the losses that it had before" "$(grep '^always ' "$T/out" | sort -u)" "$(grep -m 1 '^always ' "$T/out")"
}

rounds() {
	grep -c '^always ' "$T/out"
}

kill_once() {
	local tracer before
	start_as tracer "$DITRACE" attach --engine bpf --capture="$T/killed" -o "$T/data" --ops linear,addmm --every 3 "$target" \
		>/dev/null 2>"$T/kill.err"
	wait_line "$T/kill.err" 'saved' || return 1
	sleep "0.$(printf %03d $((RANDOM % 300)))"
	kill -9 "$tracer"
	wait "$tracer" 2>/dev/null
	before=$(rounds)
	before_long go_on
}

go_on() {
	[ "$(rounds)" -ge $((before + 2)) ]
}

picks() {
	both "a training" addmm,add,mul,gelu,native_layer_norm --nth 3,7-9,40,400-401 --every 2 -- train.py --steps 8
	ok "which learnt the same" cmp <(grep -E '^[0-9]+ ' "$T/bpf.out") <(grep -E '^[0-9]+ ' "$T/ptrace.out")
	both "a condition" gelu,add --nth 1- --when 'phase == forward and len(inputs) == 1' -- train.py --steps 2
	both "both ways to call an op" add --nth 2-4,10-20,200-201 --every 2 -- capture/ways_to_add.py
	is "are counted together" "$(python3 "$here/picked_calls.py" "$T/bpf")" "2 4 11 13 15 17 19"
	is "a SIGURG of its own arrives" "$(cat "$T/bpf.out")" "caught 6"
	rm -rf "$T/bpf"
	of_first_torch && ok "threads, of a program that ditrace runs" trace --engine bpf --capture="$T/bpf" --nth 5- --ops linear -- "$PY" threads.py 10 ||
		ok "threads" by bpf linear --nth 5- -- threads.py 10
	ok "of each call its own numbers" verify capture/fours "$T/bpf" 36
	by bpf add --nth 2- -- capture/blocks_sigurg.py
	like "a thread that cannot be stopped is told of" "$T/err" 'blocks SIGURG: chosen calls on it are not captured'
	killed
}
each_torch forking picks
done_testing
