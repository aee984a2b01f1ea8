#!/usr/bin/env bash
# run --user: the program has another user's rights and environment, ditrace keeps its own, with every engine.
. "$(dirname "$0")/../lib.sh"
need_tracing
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"
chmod 755 "$base"

# Who it is, and whether it could be root again.
who='import os; print(os.getresuid(), os.getresgid(), sorted(os.getgroups()), *(os.environ.get(v) for v in ("HOME", "USER", "LOGNAME", "SHELL", "KEPT")))
try: os.setuid(0); print("root again")
except OSError: pass'

each_one() {
	is "it runs to its end" "$(tail -n 1 "$T/out")" shown
	events
	ok "and is traced, with its lines" grep -q '"file": *"[^"]*show.py"' "$T/events"
	is "what is recorded is root's" "$(stat -c '%u %a' "$T/data")" "0 600"
}

# bpf with each torch, the other engines with one each
engines() {
	for ENGINE in bpf ptrace shim; do
		[ $ENGINE = bpf ] || [ $ENGINE = $other ] || in_long || { skip "$ENGINE: with the other torch, or make test-long" 4; continue; }
		trace --user "$plain_uid" -- sh -c 'id -u && exec "$@"' sh "$PY" run/show.py
		is "$ENGINE: the program is that user's" "$? $(head -n 1 "$T/out")" "0 $plain_uid"
		each_one
	done
	unset ENGINE
}

changed() {
	"$DITRACE" run --user "$plain_uid" --fallback linear "$PY" intervene/device.py --steps 1 >"$T/out" 2>"$T/err"
	is "--fallback changes its functions" "$? $(count_of fallback)" "0 2"
}

stops() {
	trace --user "$plain_uid" --engine "$1" --stats -- "$PY" run/show.py
	is "--stats with $1: the program ends well" $? 0
	each_one
}

imports_torch() {
	setpriv --reuid="$plain_uid" --regid="$plain_uid" --clear-groups --inh-caps=-all /usr/bin/env "$PY" -c "import torch; assert torch.__version__ == '$TORCH'" 2>"$T/no"
}

# A Python in root's home is for root alone; that of the system may do for its PyTorch.
may_run() {
	imports_torch && return
	local -x PYTHONPATH
	PYTHONPATH=$("$PY" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
	PY=/usr/bin/python3
	imports_torch && packages=$PYTHONPATH
}

all() {
	chmod 755 "$T"
	packages=""
	may_run || { skip "another user cannot run it: $(tail -n 1 "$T/no")" 21 && return; }
	local -x PYTHONPATH=$packages
	engines
	changed
	[ $other = shim ] || in_long && stops ptrace || skip "--stats with ptrace: with the other torch, or make test-long" 4
	[ $other = ptrace ] || in_long && stops shim || skip "--stats with shim: with the other torch, or make test-long" 4
	other=shim
}

# as NAME: what a program started with --user NAME says of itself
as() {
	HOME=/root KEPT=kept "$DITRACE" run --user "$1" -o "$T/data" -- /usr/bin/python3 -c "$who" 2>"$T/err"
}

in_database() {
	mkdir "$T/etc"
	sed '/^tester:/d' /etc/passwd >"$T/etc/passwd"
	sed '/^tester/d' /etc/group >"$T/etc/group"
	echo "tester:x:$plain_uid:$((plain_uid + 1)):a tester:/home/of/tester:/bin/tester" >>"$T/etc/passwd"
	printf '%s\n' "tester:x:$((plain_uid + 1)):" "tester-more:x:$((plain_uid + 2)):tester" >>"$T/etc/group"
	mount --bind "$T/etc/passwd" /etc/passwd && mount --bind "$T/etc/group" /etc/group || return
	as tester
	as "$plain_uid"
}

names() {
	local u=$plain_uid
	is "a number without a name" "$(as "$u")" "($u, $u, $u) ($u, $u, $u) [] / $u $u /bin/sh kept"
	export -f in_database as
	export DITRACE T plain_uid who
	unshare -m --propagation private bash -c in_database >"$T/out" 2>"$T/ns" || { skip "no mount namespaces: $(cat "$T/ns")" 2 && return; }
	is "a name, with its groups and environment" "$(head -n 1 "$T/out")" \
		"($u, $u, $u) ($((u + 1)), $((u + 1)), $((u + 1))) [$((u + 1)), $((u + 2))] /home/of/tester tester tester /bin/tester kept"
	is "its number" "$(sed -n 2p "$T/out")" "$(head -n 1 "$T/out")"
}

refused() {
	error "no such user" 'there is no user of that name' "$DITRACE" run --user no-such-user -- true
	error "no such number" 'there is no user of that name' "$DITRACE" run --user 4294967295 -- true
	mkdir -m 700 "$T/closed"
	cp /bin/true "$T/closed/true"
	error "a program he cannot reach" "cannot run $T/closed/true as user $plain_uid: Permission" \
		"$DITRACE" run --user "$plain_uid" -o "$T/data" -- "$T/closed/true"
	is "has the status of a shell" "$status" 126
	error "root without the right to change" 'cannot become user .*: Operation not permitted' \
		setpriv --bounding-set=-setuid --inh-caps=-setuid "$DITRACE" run --user "$plain_uid" --engine bpf -o "$T/data" -- true
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$T/ditrace"
	error "a plain user" 'only root can start' setpriv --reuid="$plain_uid" --clear-groups "$T/ditrace" run --user root -- true
}

other=ptrace
each_torch all
T=$base
names
refused
done_testing
