#!/usr/bin/env bash
# The kernels that inductor, the compiler of torch.compile, generates.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../attached.sh"
need_tracing
WARM="torch._dynamo torch._inductor.compile_fx torch._inductor.codegen.cpp"
export TORCHINDUCTOR_COMPILE_THREADS=1 # processes of its own would outlive a fork

# Known of PyTorch 2.11 and 2.13
has_compile_times() { printf '%s\n' 2.11 "$TORCH" | sort -CV; }

# kernels ENGINE: each call is a row, by the name that the generated module has for it
kernels() {
	ok "what inductor compiles runs under $1" attached --engine "$1" -o "$T/data" -- engine/inductor.py
	cp "$T/out" "$T/out.$1"
	unlike "no kernel is missing" "$T/err" 'inductor in process'
	events
	sed -n 's/.*"phase":"\([a-z]*\)","op":"cpp_fused_[a-z_]*[0-9]".*/\1/p' "$T/events" | sort | uniq -c | tr -s ' \n' ' ' >"$T/kernels"
	ok "each call of a kernel is a row" [ "$(cat "$T/kernels")" = ' 4 backward 4 forward ' ]
	"$DITRACE" script "$T/data" >"$T/script"
	ok "at the line that calls it" [ "$(grep -cE '^(cpp_fused_[a-z_]*[0-9]) .*\.py:[0-9]+ [A-Za-z.]*call: \1\(' "$T/script")" = 8 ]
}

# The second and the third run find in inductor's cache what the first has compiled.
compiled() {
	kernels shim
	kernels ptrace
	alone engine/inductor.py >"$T/alone"
	for engine in shim ptrace; do
		ok "the sum under $engine is that of an untraced run" cmp "$T/alone" <(grep '^sum ' "$T/out.$engine")
	done
}

inductor() {
	has_compile_times || { skip "this PyTorch does not tell when it compiles" 10; return; }
	command -v g++ >/dev/null || { skip "inductor needs a g++" 10; return; }
	export TORCHINDUCTOR_CACHE_DIR=$T/inductor
	forking compiled
}
each_torch inductor
done_testing
