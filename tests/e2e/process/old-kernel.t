#!/usr/bin/env bash
# What a kernel lacks that is older than ditrace needs is named, by doctor and by the commands, instead of something else.
. "$(dirname "$0")/../lib.sh"
need_tracing
[ "$(uname -m)" = x86_64 ] || skip_all "system calls have other numbers here"
openat2=437 pidfd_open=434
without=(python3 "$W/process/without.py")
"${without[@]}" $openat2 true || skip_all "no filter of system calls is permitted"

# Without the right to follow the kernel's links to what is mapped
unprivileged=(setpriv --bounding-set=-sys_admin,-checkpoint_restore --inh-caps=-sys_admin,-checkpoint_restore "${without[@]}" $openat2)

openat2() {
	ok "doctor of root without openat2 is content" "${without[@]}" $openat2 "$DITRACE" doctor
	"${without[@]}" $openat2 "$DITRACE" doctor >"$T/doctor" 2>&1
	like "but says what will not be shown" "$T/doctor" '^warn .*source line.*openat2: Function not implemented'
	start_busy
	"${without[@]}" $openat2 "$DITRACE" attach --engine ptrace --count 50 -o "$T/data" "$child" >"$T/out" 2>"$T/err"
	is "a process is traced" $? 0
	like "and the reason told why there are no lines" "$T/err" '^ditrace: .*source line.*openat2: Function not implemented'
	"${without[@]}" $openat2 "$DITRACE" stack "$child" >"$T/stack" 2>"$T/err"
	is "stacks are shown" $? 0
	like "with the same reason" "$T/err" 'openat2: Function not implemented'
	command -v setpriv >/dev/null || { skip "no setpriv to drop a right with" 3; stop_busy; return; }
	error "without the right to reach files otherwise nothing can be traced" 'openat2: Function not implemented' \
		"${unprivileged[@]}" "$DITRACE" attach --engine ptrace --count 50 -o "$T/data" "$child"
	"${unprivileged[@]}" "$DITRACE" doctor >"$T/doctor" 2>&1
	is "doctor fails" $? 1
	like "and says why" "$T/doctor" '^fail .*openat2: Function not implemented'
	stop_busy
}

pidfd() {
	error "run without pidfd_open" 'cannot follow .*: pidfd_open: Function not implemented' \
		"${without[@]}" $pidfd_open "$DITRACE" run --engine bpf -o "$T/data" -- true
	"${without[@]}" $pidfd_open "$DITRACE" doctor >"$T/doctor" 2>&1
	like "doctor says so" "$T/doctor" '^(fail|warn) .*pidfd_open: Function not implemented'
	like "and leaves the engines that do without it" "$T/doctor" '^engines:.*ptrace yes'
}

all() {
	of_first_torch || { skip "with another torch: make test-long" 12; return; }
	openat2
	pidfd
}
each_torch all
done_testing
