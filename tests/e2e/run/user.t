#!/usr/bin/env bash
# A plain user: what is missing is named, and another engine is used instead. Another user's process.
. "$(dirname "$0")/../lib.sh"
need_tracing
first_torch
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"
cp "$DITRACE" "$T/ditrace"
chmod 755 "$base" "$T" "$T/ditrace"
mkdir -m 777 "$T/open"
cd "$T/open" || exit 1
home_of 65534

nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all /usr/bin/env HOME="$home" "$T/ditrace")

"${nobody[@]}" --version >/dev/null 2>"$T/err" || skip_all "another user cannot run $T/ditrace: $(head -n 1 "$T/err")"
error "run with eBPF names the capability" 'CAP_(BPF|PERFMON|SYS_ADMIN)|root' "${nobody[@]}" run --engine bpf -- true
"${nobody[@]}" run -- /bin/sh -c 'exit 3' >"$T/out" 2>"$T/err"
is "run without rights runs the program" $? 3
like "and says which engine it took" "$T/err" '^ditrace: engine shim$'
(ulimit -v 8000000 && "${nobody[@]}" run -- /bin/true) >"$T/out" 2>"$T/err"
like "where there is no room for the library, another, and why" "$T/err" '^ditrace: engine ptrace: its library .*ulimit -v.*CAP_BPF'
(ulimit -v 8000000 && "$DITRACE" run -o "$T/data" -- /bin/true) >"$T/out" 2>"$T/err"
like "or, for root, eBPF" "$T/err" '^ditrace: engine bpf: its library .*ulimit -v'
start sleep 36000
error "attach to root's process" 'permi|belongs|root|CAP_' "${nobody[@]}" attach "$child"
"${nobody[@]}" doctor >"$T/doctor" 2>&1
is "doctor says that tracing will work" $? 0
like "by its library" "$T/doctor" 'bpf no, shim yes, ptrace yes; --engine auto takes shim'
like "and names the capability that eBPF needs" "$T/doctor" '^warn .*(CAP_BPF|CAP_PERFMON)'
trace -- setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/env sh -c 'id -u'
is "root traces what runs as another user" "$(cat "$T/out")" 65534
done_testing
