#!/usr/bin/env bash
# The kernels that inductor, the compiler of torch.compile, generates.
. "$(dirname "$0")/../lib.sh"
need_tracing

# Known of PyTorch 2.11 and 2.13
has_compile_times() { "$PY" -c 'import sys, torch; sys.exit(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11))'; }

# kernels ENGINE: each call is a row, by the name that the generated module has for it
kernels() {
	"$DITRACE" run --engine "$1" -o "$T/data" "$PY" engine/inductor.py >"$T/out.$1" 2>"$T/err"
	ok "what inductor compiles runs under $1" grep -q '^sum ' "$T/out.$1"
	unlike "no kernel is missing" "$T/err" 'inductor in process'
	events
	sed -n 's/.*"phase":"\([a-z]*\)","op":"cpp_fused_[a-z_]*[0-9]".*/\1/p' "$T/events" | sort | uniq -c | tr -s ' \n' ' ' >"$T/kernels"
	ok "each call of a kernel is a row" [ "$(cat "$T/kernels")" = ' 4 backward 4 forward ' ]
	"$DITRACE" script "$T/data" >"$T/script"
	ok "at the line that calls it" [ "$(grep -cE '^(cpp_fused_[a-z_]*[0-9]) .*\.py:[0-9]+ [A-Za-z.]*call: \1\(' "$T/script")" = 8 ]
}

# The second and the third run find in inductor's cache what the first has compiled.
inductor() {
	has_compile_times || { skip "this PyTorch does not tell when it compiles" 10; return; }
	command -v g++ >/dev/null || { skip "inductor needs a g++" 10; return; }
	export TORCHINDUCTOR_CACHE_DIR=$T/inductor
	kernels shim
	kernels ptrace
	"$PY" engine/inductor.py >"$T/out" 2>"$T/err"
	ok "the sum is that of an untraced run" cmp "$T/out" "$T/out.shim"
	ok "under both engines" cmp "$T/out" "$T/out.ptrace"
}
each_torch inductor
done_testing
