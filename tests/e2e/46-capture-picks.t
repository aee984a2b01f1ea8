#!/usr/bin/env bash
# With --nth and --every alone the engine bpf picks the calls, and only these stand still: the same files as the
# engine ptrace writes, and no harm.
. "$(dirname "$0")/lib.sh"
need_tracing
how_many DITRACE_TEST_KILLS 2 8
kills=$DITRACE_TEST_KILLS

# by ENGINE OPTIONS...: captured by that engine into $T/ENGINE
by() {
	local engine=$1
	shift
	"$DITRACE" run --engine "$engine" --capture="$T/$engine" -o "$T/$engine.data" "$@" >"$T/$engine.out" 2>"$T/$engine.err"
}

# both NAME OPTIONS... -- PROGRAM: captured by both engines
both() {
	local name=$1
	shift
	rm -rf "$T/bpf" "$T/ptrace"
	ok "$name, by bpf" by bpf "$@"
	ok "$name, by ptrace" by ptrace "$@"
	"$DITRACE" diff "$T/bpf" "$T/ptrace" >"$T/diff" 2>&1
	like "$name: the same calls and numbers" "$T/diff" 'the two runs are equal, bit by bit'
	like "$name: none in one alone" "$T/diff" "^[1-9][0-9]* op calls in both, 0 only in the first, 0 only in the second"
}

# The fours of threads.py: each result is four times the weight, whichever threads ran meanwhile.
results() {
	"$PY" - "$@" <<-'EOF'
		import glob, sys, torch
		folders = glob.glob(sys.argv[1] + "/op_tools_results/op_capture_results/*linear/*/*/*/")
		for f in folders:
		    _, weight = torch.load(f + "input.pth")["args"][:2]
		    assert (torch.load(f + "output.pth")["args"][0] == 4 * weight[0, 0]).all(), f
		assert len(folders) == int(sys.argv[2]), len(folders)
	EOF
}

killed() {
	local i
	start "$PY" train.py --seconds 3000 >"$T/train"
	wait_line "$T/train" '^1 '
	for ((i = 1; i <= kills; i++)); do
		ok "killed for the ${i}th time, the training goes on" kill_once
	done
	kill -TERM "$child"
	finish "$child"
	is "it ends well" "$status" 0
	ok "with the losses of an untraced one" same_losses "$T/train"
}

kill_once() {
	local tracer steps
	start_as tracer "$DITRACE" attach --engine bpf --capture="$T/killed" -o "$T/data" --ops linear,addmm --every 3 "$child" \
		>/dev/null 2>"$T/kill.err"
	wait_line "$T/kill.err" 'saved' || return 1
	sleep "0.$(printf %03d $((RANDOM % 300)))"
	kill -9 "$tracer"
	wait "$tracer" 2>/dev/null
	steps=$(grep -Ec '^[0-9]+ ' "$T/train")
	wait_line "$T/train" "^$((steps + 3)) "
}

picks() {
	both "a training" --nth 3,7-9,40 --every 2 --ops addmm,add,mul,gelu,native_layer_norm -- "$PY" train.py --steps 8
	ok "which learnt the same" cmp <(grep -E '^[0-9]+ ' "$T/bpf.out") <(grep -E '^[0-9]+ ' "$T/ptrace.out")
	both "a condition" --nth 1- --when 'phase == forward and len(inputs) == 1' --ops gelu,add -- "$PY" train.py --steps 2
	both "both ways to call an op" --nth 2-4,10-20 --every 2 --ops add -- "$PY" ways_to_add.py
	is "are counted together" "$(python3 "$here/picked_calls.py" "$T/bpf")" "2 4 11 13 15 17 19"
	is "a SIGURG of its own arrives" "$(cat "$T/bpf.out")" "caught 6"
	rm -rf "$T/bpf"
	ok "threads" by bpf --nth 5- --ops linear -- "$PY" threads.py 10
	ok "of each call its own numbers" results "$T/bpf" 36
	by bpf --nth 2 --ops add -- "$PY" -c "import signal, torch; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG]); [torch.add(torch.ones(2), 1) for i in range(3)]"
	like "a thread that cannot be stopped is told of" "$T/bpf.err" 'blocks SIGURG: such calls are not captured'
	killed
}
each_torch picks
done_testing
