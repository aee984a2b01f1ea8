#!/usr/bin/env bash
# The engine ptrace, run by a user without capabilities, sees what the engine bpf sees as root: the same events, op for op and
# argument for argument.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many STEPS 1 2
how_many THROWN 100 500
how_many ROUNDS 20 50
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"
export HOME=/tmp

# plain COMMAND...: as a user without capabilities; if that user may not read the Python, with the capability to read files,
# which does not help a tracer
plain() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "${caps[@]}" /usr/bin/env "$@"
}

# by_both PROGRAM...: one process that runs them in turn, traced with both engines
by_both() {
	local engine names=("${@%% *}")
	ok "the programs run under bpf" "$DITRACE" run --engine bpf -o "$T/bpf" "$PY" in_turn.py "$@"
	ok "and under ptrace as a plain user" plain "$T/ditrace" run --engine ptrace -o "$T/open/ptrace" "$PY" in_turn.py "$@"
	"$DITRACE" script --format jsonl "$T/bpf" >"$T/bpf.jsonl"
	"$DITRACE" script --format jsonl "$T/open/ptrace" >"$T/ptrace.jsonl"
	for engine in bpf ptrace; do
		ok "each has run under $engine" python3 "$here/split_at_marks.py" "$T/$engine.jsonl" "$T/$engine" "${names[@]%.py}"
	done
}

# same_events NAME LEAST PROGRAM
same_events() {
	ok "$1: the same events" python3 "$here/compare_engines.py" --least "$2" "$T/bpf.$3.jsonl" "$T/ptrace.$3.jsonl"
}

may_read() {
	plain "$PY" -c 'import importlib.util as u; open(u.find_spec("torch").submodule_search_locations[0] + "/lib/libtorch_cpu.so").close()'
}

equal() {
	of_other_torch || { skip "with the other torch, or make test-long" 11; return; }
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	mkdir -m 777 "$T/open"
	caps=(--inh-caps=-all)
	may_read 2>/dev/null || caps=({--inh-caps,--ambient-caps}=-all,+dac_read_search)
	if ! may_read 2>"$T/err"; then
		skip "a plain user cannot run it: $(tail -n 1 "$T/err")" 10
		return
	fi
	by_both ops.py "train.py --steps $STEPS" "throws.py $THROWN" torchops.py "threads.py $ROUNDS"
	same_events "the ops" 10000 ops
	sed '0,/"dtype":"float32"/s//"dtype":"float64"/' "$T/ptrace.torchops.jsonl" >"$T/other.jsonl"
	ok "a single other dtype would be noticed" not python3 "$here/compare_engines.py" "$T/bpf.torchops.jsonl" "$T/other.jsonl"
	same_events "a training" 2000 train
	same_events "ops that throw" 100 throws
	same_events "boxed calls" 20 torchops
	same_events "threads" 1000 threads
}
each_torch equal
done_testing
