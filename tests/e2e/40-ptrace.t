#!/usr/bin/env bash
# The engine ptrace, for a user without any capability, sees what the engine bpf sees as root: the same
# events, op for op and argument for argument.
. "$(dirname "$0")/lib.sh"
need_tracing
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"
export HOME=/tmp

# plain COMMAND...: as a user without capabilities; where that one may not read the Python, with the right
# to read files, which is of no use to a tracer
plain() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "${caps[@]}" /usr/bin/env "$@"
}

# both NAME LEAST PROGRAM...: traced by both engines
both() {
	local name=$1 least=$2
	shift 2
	ok "$name under bpf" "$DITRACE" run --engine bpf -o "$T/bpf" "$@"
	ok "$name under ptrace as a plain user" plain "$T/ditrace" run --engine ptrace -o "$T/open/ptrace" "$@"
	"$DITRACE" script --format jsonl "$T/bpf" >"$T/bpf.jsonl"
	"$DITRACE" script --format jsonl "$T/open/ptrace" >"$T/ptrace.jsonl"
	ok "$name: the same events" python3 "$here/compare_engines.py" --least "$least" "$T/bpf.jsonl" "$T/ptrace.jsonl"
}

equal() {
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	mkdir -m 777 "$T/open"
	caps=(--inh-caps=-all)
	plain "$PY" -c 'import torch' 2>/dev/null || caps=({--inh-caps,--ambient-caps}=-all,+dac_read_search)
	if ! plain "$PY" -c 'import torch' 2>"$T/err"; then
		skip "a plain user cannot run it: $(tail -n 1 "$T/err")" 16
		return
	fi
	both "the ops" 10000 "$PY" ops.py
	sed '0,/"dtype":"float32"/s//"dtype":"float64"/' "$T/ptrace.jsonl" >"$T/other.jsonl"
	ok "a single other dtype would be noticed" not python3 "$here/compare_engines.py" "$T/bpf.jsonl" "$T/other.jsonl"
	both "a training" 5000 "$PY" train.py --steps 5
	both "ops that throw" 100 "$PY" throws.py 500
	both "boxed calls" 20 "$PY" torchops.py
	both "threads" 1000 "$PY" threads.py 50
}
each_torch equal
done_testing
