#!/usr/bin/env bash
# What a process names is opened with the rights of its user alone, though root traces it; nothing but files is opened.
. "$(dirname "$0")/../lib.sh"
need_tracing
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"

as_user=(setpriv --reuid="$plain_uid" --regid="$plain_uid" --clear-groups --inh-caps=-all)
other_uid=$((plain_uid + 1))

# open_to_all: $T/open, where every user may write; $T/secret, a file of root's
open_to_all() {
	chmod 755 "$base" "$T"
	mkdir -m 777 "$T/open"
	(umask 077 && echo 'a line that root alone may read' >"$T/secret")
	ln -s "$T/secret" "$T/open/link.py"
}

all_told() {
	grep -q 'link\.py' "$1" && grep -q '/secret' "$1" && grep -q 'own\.py' "$1"
}

# tells DESCRIPTION FILE: it has all three names, the text of the user's file, and not that of root's
tells() {
	ok "$1 has the names" all_told "$2"
	unlike "$1 has no line of root's file" "$2" 'root alone may read'
	like "$1 has the line of the user's own file" "$2" 'line of the user'
}

lines() {
	open_to_all
	"${as_user[@]}" bash -c 'umask 077; echo "x.relu() # a line of the user" >"$1"' - "$T/open/own.py"
	cp trust/names_files.py "$T/open/run.py"
	cd "$T/open" || return
	start "${as_user[@]}" "$PY" run.py "$T/secret" "$T/open/link.py" "$T/open/own.py" ../secret >"$T/busy" 2>"$T/busy.err"
	ok "a user's program runs" wait_line "$T/busy" '^pid '
	ok "root attaches" "$DITRACE" attach "$child" --count 300 --print -o "$T/data"
	cp "$base/ok.out" "$T/printed"
	tells "what attach prints" "$T/printed"
	"$DITRACE" script "$T/data" >"$T/script"
	tells "script" "$T/script"
	"$DITRACE" report "$T/data" >"$T/report"
	unlike "report has no line of root's file" "$T/report" 'root alone may read'
	ok "the trace has no line of root's file" not grep -qa 'root alone may read' "$T/data"
	"$DITRACE" stack "$child" >"$T/stack"
	unlike "stack has no line of root's file" "$T/stack" 'root alone may read'
	kill -TERM "$child"
	wait "$child"
	cd "$W" || return
}

# The library of the code that runs was deleted, and a FIFO has the name that /proc then shows for it.
instead_of_a_library() {
	T=$(mktemp -d "$base/t.XXXXXX")
	open_to_all
	echo '#include <unistd.h>
		void held_here(int fd) { char c; for (;;) { if (write(fd, "held\n", 5)) {} if (read(0, &c, 1)) {} } }' |
		cc -shared -fPIC -O1 -o "$T/open/x.so" -x c -
	mkfifo "$T/never"
	start "${as_user[@]}" /usr/bin/python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1]).held_here(1)' "$T/open/x.so" \
		<>"$T/never" >"$T/out" 2>&1
	ok "a library's code runs" wait_line "$T/out" '^held'
	rm "$T/open/x.so"
	mkfifo "$T/open/x.so (deleted)"
	ok "a FIFO in place of a deleted library does not stop stack" timeout "$PATIENCE" "$DITRACE" stack "$child"
	cp "$base/ok.out" "$T/stack"
	like "which knows the code" "$T/stack" 'held_here'
	kill -9 "$child"
	wait "$child" 2>/dev/null
}

# A JIT's map is read from where every user may write.
map_of_another() {
	T=$(mktemp -d "$base/t.XXXXXX")
	open_to_all
	echo 'void late_spin(long n) { while (n--) __asm__ volatile(""); }' | cc -shared -fPIC -O1 -o "$T/open/x.so" -x c -
	"$DITRACE" record -F 997 -o "$T/data" -- "${as_user[@]}" "$PY" sample/without_names.py "$T/open/x.so" >"$T/map" 2>"$T/err"
	is "a user's program with code that has no names is recorded" $? 0
	local map names
	read -r map names < <(tail -n 1 "$T/map")
	echo "$names" >"$map"
	touch -r "$T/data" "$map"
	chown "$other_uid" "$map"
	"$DITRACE" report --group symbol --format csv "$T/data" >"$T/symbols"
	like "code without a name was seen" "$T/symbols" '\[anon\]'
	unlike "the map of another user gives it none" "$T/symbols" 'made_late'
	chown 0 "$map"
	"$DITRACE" report --group symbol --format csv "$T/data" >"$T/symbols"
	like "root's does" "$T/symbols" 'made_late.*\[JIT\]'
	rm -f "$map"
}

of_a_user() {
	"${as_user[@]}" "$PY" -c 'import torch' 2>/dev/null || { skip "another user cannot run $PY" && return; }
	lines
	map_of_another
}

each_torch of_a_user
if [ -x /usr/bin/python3 ]; then
	instead_of_a_library
else
	skip "no /usr/bin/python3"
fi
done_testing
