#!/usr/bin/env bash
# Other builds and places of Python: libpython in the program or as a shared library, a virtual environment whose torch is
# reached by symbolic links, a torch that does not report its version, another mount and PID namespace.
. "$(dirname "$0")/../lib.sh"
need_tracing

# lines_are_right: the marks of events/lines.py are on their lines
lines_are_right() {
	same "$(cat "$T/out")" "done" && events && "$PY" "$here/compare_lines.py" "$T/events" "$W/events/lines.py"
}

# packages: the folder of $PY's torch, found without importing it, which takes seconds
packages() {
	"$PY" -c 'import importlib.util as i, os; print(os.path.dirname(os.path.dirname(i.find_spec("torch").origin)))'
}

# shared: the same Python with a shared libpython
shared() {
	local library dir
	read -r dir library < <("$PY" -c 'import sysconfig as s; v = s.get_config_var; print(v("LIBDIR"), v("INSTSONAME"))')
	for d in "$dir" "$dir/$(gcc -print-multiarch 2>/dev/null)"; do [ -e "$d/$library" ] && dir=$d; done
	echo 'int Py_BytesMain(int, char **); int main(int c, char **v) { return Py_BytesMain(c, v); }' >"$T/main.c"
	if ldd "$PY" | grep -q libpython; then
		skip "$PY has libpython as a shared library already: the other tests show it"
	elif ! gcc -o "$T/python" "$T/main.c" -L"$dir" -Wl,-rpath,"$dir" "-l:$library" 2>"$T/err"; then
		skip "no shared libpython for $PY: $(head -n 1 "$T/err")"
	else
		PYTHONPATH=$(packages) PYTHONHOME=$("$PY" -c 'import sys; print(sys.base_prefix)') trace -- "$T/python" events/lines.py
		ok "libpython as a shared library" lines_are_right
	fi
}

linked_venv() {
	local site
	"$PY" -m venv --without-pip "$T/venv" || { skip "$PY cannot make virtual environments"; return; }
	site=$(echo "$T"/venv/lib/python3*/site-packages)
	for p in "$(packages)"/*; do ln -s "$p" "$site/"; done
	rm "$site/torch"
	cp -rs "$(packages)/torch" "$site/torch"
	trace -- "$T/venv/bin/python" events/lines.py
	ok "a virtual environment of symbolic links" lines_are_right
}

# in_namespace COMMANDS: the workload in a new mount and PID namespace, after these commands
in_namespace() {
	unshare -m true 2>/dev/null || return 1
	echo "mount --make-rprivate / && $1 && exec \"\$@\"" >"$T/enter"
}

hidden_version() {
	local file
	file=$(packages)/torch/version.py
	sed "s/^__version__ = .*/__version__ = '9.99.0'/; s/^git_version = .*/git_version = 'none'/" "$file" >"$T/version.py"
	: >"$T/empty"
	in_namespace "mount --bind $T/version.py $file && for m in $(packages)/torch-*/METADATA; do
		[ -e \$m ] && mount --bind $T/empty \$m || true; done" || { skip "no mount namespaces here"; return; }
	"$(warmed)" ops.py --log "$T/truth" >/dev/null 2>&1
	trace -- unshare -m sh "$T/enter" "$PY" ops.py
	is "it runs" "$(cat "$T/out")" "done"
	events
	ok "a torch that hides its version" "$PY" "$here/compare_truth.py" --min-ops 9000 "$T/events" "$T/truth"
}

container() {
	local site=$(packages)
	# Debian's torch finds its libraries by relative links, which break at another place.
	[ -L "$site/torch/lib/libtorch_cpu.so" ] && site=$T
	in_namespace "mount -t tmpfs none /mnt && mkdir /mnt/site /mnt/work && mount --bind $site /mnt/site &&
		mount --bind $W /mnt/work && cd /mnt/work" || { skip "no mount namespaces here"; return; }
	PYTHONPATH=/mnt/site trace -- unshare -m -p -f sh "$T/enter" "$PY" /mnt/work/events/lines.py
	ok "in a container: files that exist only there" lines_are_right
}

# Finding files does not depend on the torch: one for a virtual environment, another for a container.
kinds() {
	shared
	hidden_version
	if in_long || [ -z "${linked:-}" ]; then
		linked_venv
		linked=$PY
	else
		skip "a virtual environment was of another torch: make test-long"
	fi
	if in_long || [ "$linked" != "$PY" ]; then
		container
		contained=$PY
	else
		skip "the container has another torch: make test-long"
	fi
}
each_torch kinds
[ -n "${contained:-}" ] || container
done_testing
