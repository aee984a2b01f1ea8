#!/usr/bin/env bash
# doctor reports what is available; its exit status is 0 only if tracing will work.
. "$(dirname "$0")/../lib.sh"
need_tracing

ok "doctor without a PID" "$DITRACE" doctor
start sleep 36000
ok "doctor of a program without PyTorch fails" not "$DITRACE" doctor "$child"
"$DITRACE" doctor "$child" >"$T/out" 2>&1
like "and says so" "$T/out" 'PyTorch|libtorch'
ok "doctor of nothing fails" not "$DITRACE" doctor 4194303

doctor() {
	start_paced
	ok "doctor" "$DITRACE" doctor "$child"
	"$DITRACE" doctor "$child" >"$T/out" 2>&1
	like "it names the kernel" "$T/out" "kernel $(uname -r | cut -d. -f1,2)"
	like "and the PyTorch" "$T/out" "[Tt]orch.* ${TORCH%%[a+]*}"
	like "and the CPython" "$T/out" "CPython $("$PY" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')"
	like "and the number of ops" "$T/out" '[23],[0-9]{3} ops'
	like "and the tensor layout" "$T/out" 'layout'
	like "and the engine" "$T/out" 'bpf'
	unlike "nothing fails" "$T/out" '^fail'
	stop_busy
}
each_torch doctor
done_testing
