#!/usr/bin/env bash
# Invalid arguments: a clear error with a hint, and a nonzero exit status.
. "$(dirname "$0")/../lib.sh"
need_tracing
first_torch

error "no such PID" 'no (such )?process|does not exist' "$DITRACE" attach 4194303
error "not a PID" . "$DITRACE" attach abc
error "PID 0" . "$DITRACE" attach 0
error "a negative PID" . "$DITRACE" attach -- -5
error "a PID out of range" . "$DITRACE" attach 99999999999999999999
error "no PID" . "$DITRACE" attach
error "an unknown command" . "$DITRACE" frobnicate
error "an unknown option" . "$DITRACE" run --frobnicate -- true
error "nothing to run" . "$DITRACE" run
error "a program that is not there" 'nothing/here' "$DITRACE" run -o "$T/data" -- /nothing/here
error "a time that is none" 'soon' "$DITRACE" attach $$ --for soon
error "a negative time" . "$DITRACE" attach $$ --for -3s
error "a count that is none" 'many' "$DITRACE" attach $$ --count many
error "a depth that is none" 'deep' "$DITRACE" run --depth deep -o "$T/data" -- true
error "depth 0" . "$DITRACE" run --depth 0 -o "$T/data" -- true
error "a phase that is none" 'sideways' "$DITRACE" run --phase sideways -o "$T/data" -- true
error "a format that is none" 'xml' "$DITRACE" script --format xml "$T/data"
error "an export that is none" 'nowhere' "$DITRACE" export "$T/data" --to nowhere
error "an output in a folder that is not there" 'nothing' "$DITRACE" run -o /nothing/here/data -- true
error "an output that is a folder" . "$DITRACE" run -o "$T" -- true
error "an output on a read-only filesystem" . "$DITRACE" run -o /proc/ditrace.data -- true

start sleep 60
error "attach to a program without PyTorch" '[Tt]orch' "$DITRACE" attach "$child" -o "$T/data"
ok "the hint speaks of --wait" found "$T/error" 'hint: .*--wait'
error "a kernel thread" . "$DITRACE" attach 2 -o "$T/data"
start "$PY" -c 'import time; print("ready", flush=True); time.sleep(60)' >"$T/ready"
ok "a Python runs" wait_line "$T/ready" ready
error "a Python without PyTorch" '[Tt]orch' "$DITRACE" attach "$child" -o "$T/data"

mkdir "$T/unknown"
echo 'int torch_of_nobody(void) { return 1; }' >"$T/unknown.c"
if gcc -shared -fPIC -s -o "$T/unknown/libtorch_cpu.so" "$T/unknown.c" 2>/dev/null; then
	start "$PY" -c "import ctypes, time; ctypes.CDLL('$T/unknown/libtorch_cpu.so'); print('loaded', flush=True); time.sleep(60)" >"$T/loaded"
	ok "one with a libtorch of nobody runs" wait_line "$T/loaded" loaded
	error "a libtorch without ops" 'libtorch_cpu' "$DITRACE" attach "$child" -o "$T/data"
	head -c 3000 "$T/unknown/libtorch_cpu.so" >"$T/broken.so"
	ok "the target lives on" kill -0 "$child"
else
	skip "no C compiler to make an unknown libtorch with" 3
fi
done_testing
