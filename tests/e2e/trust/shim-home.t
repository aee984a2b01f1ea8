#!/usr/bin/env bash
# Nothing is loaded into a program from where another user can write, and nobody else says what happens in it: the places of the
# engine shim's library and of its socket.
. "$(dirname "$0")/../lib.sh"
need_tracing
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"
home_of "$plain_uid"
cp "$DITRACE" "$home/ditrace"
chmod 755 "$base" "$home/ditrace"
user=(setpriv --reuid="$plain_uid" --regid="$plain_uid" --clear-groups --inh-caps=-all /usr/bin/env -u XDG_RUNTIME_DIR -u XDG_CACHE_HOME)
unset XDG_RUNTIME_DIR XDG_CACHE_HOME

# path_in VARIABLE FILE: its value in what env(1) has printed or the kernel keeps, without the link that glibc puts for $LIB
path_in() {
	tr '\0' '\n' <"$2" | sed -n 's|/\$LIB/|/|; '"s/^$1=//p"
}

# owners_alone PATH UID: it is there, and only root and that user can write to it and to each folder above
owners_alone() {
	local at=$1 owner mode
	[ -f "$at" ] || { echo "no $at" && return 1; }
	while read -r owner mode < <(stat -c '%u %a' "$at"); do
		[ "$owner" = 0 ] || [ "$owner" = "$2" ] || { echo "$at is of $owner" && return 1; }
		[ $((0$mode & 022)) = 0 ] || { echo "$at has mode $mode" && return 1; }
		[ "$at" != / ] || return 0
		at=$(dirname "$at")
	done
}

# made_by_others PATH: another user makes it again
made_by_others() {
	"${user[@]}" sh -c 'mkdir -p "${1%/*}" && echo >"$1.new" && mv -f "$1.new" "$1"' sh "$1"
}

left_running() {
	"$DITRACE" run --engine shim -o "$T/data" sh -c 'sleep 36000 & echo $!' >"$T/pid" 2>"$T/err" </dev/null
	children+=("$(cat "$T/pid")")
	library=$(path_in LD_PRELOAD "/proc/$(cat "$T/pid")/environ")
	ok "what a program left running still has its library, where only root can write" owners_alone "$library" 0
	ok "and nobody else can make it" not made_by_others "$library"
	ok "nor the socket's folder" not made_by_others "$(path_in DITRACE_SHIM "/proc/$(cat "$T/pid")/environ")"
}

# places UID COMMAND...: the library and the socket of what is run so in $T/env
places() {
	"${@:2}" run --engine shim -o "$T/open/$1" -- env >"$T/env" 2>"$T/err" || { cat "$T/err" && return 1; }
	library=$(path_in LD_PRELOAD "$T/env")
	owners_alone "$library" "$1" && not_found <(grep -E '^(LD_PRELOAD|DITRACE_)' "$T/env") "=$T/"
}

others_folders() {
	mkdir -m 777 "$T/open" "$T/theirs"
	mkdir -m 700 "$T/own"
	chown "$plain_uid" "$T/own"
	ok "root's is in no folder of another user" places 0 \
		env XDG_RUNTIME_DIR="$home" TMPDIR="$T/own" XDG_CACHE_HOME="$home" HOME="$home" "$DITRACE"
	ok "nor in one of all" places 0 env {XDG_RUNTIME_DIR,TMPDIR,XDG_CACHE_HOME,HOME}="$T/theirs" "$DITRACE"
	for where in theirs own; do
		error "a user's is not in one of all, nor below: $where" 'can be written by others' \
			"${user[@]}" {XDG_RUNTIME_DIR,TMPDIR,XDG_CACHE_HOME,HOME}="$T/$where" "$home/ditrace" run --engine shim -o "$T/open/data" true
	done
	error "nor in root's" 'cannot be used: Permission denied' \
		"${user[@]}" HOME=/run "$home/ditrace" run --engine shim -o "$T/open/data" true
}

users_own() {
	local was
	ok "a user's is in the home" places "$plain_uid" "${user[@]}" HOME="$home" "$home/ditrace"
	is "there" "${library%/shim/*}" "$home/.cache/ditrace"
	was=$(stat -c %i "$library")
	ok "the next program" places "$plain_uid" "${user[@]}" HOME="$home" "$home/ditrace"
	is "has the same" "$(stat -c %i "$library")" "$was"
	chmod 755 "$library" && echo >>"$library"
	ok "one that was changed" places "$plain_uid" "${user[@]}" HOME="$home" "$home/ditrace"
	ok "is made anew" [ "$(stat -c %i "$library")" != "$was" ]
	mkdir -m 700 "$home/a b" "$home/cache"
	ln -s cache "$home/linked"
	chown -h "$plain_uid" "$home"/{a\ b,cache,linked}
	ok "a folder that LD_PRELOAD would split" places "$plain_uid" "${user[@]}" HOME="$home" XDG_CACHE_HOME="$home/a b" "$home/ditrace"
	is "is passed over" "${library%/shim/*}" "$home/.cache/ditrace"
	ok "of a link" places "$plain_uid" "${user[@]}" HOME="$home" XDG_CACHE_HOME="$home/linked" "$home/ditrace"
	is "the folder is taken" "${library%/shim/*}" "$home/cache/ditrace"
}

# in_tmp COMMAND...: with a /tmp of its own
in_tmp() {
	unshare -m --propagation private sh -c 'mount -t tmpfs none /tmp && cd / && exec "$@"' sh "$@"
}

nothing_in_tmp() {
	in_tmp sh -c '"$1" run --engine shim -o "$2" ls -A /tmp && ls -A /tmp' sh "$home/ditrace" "$home/data" >"$T/tmp" 2>"$T/err"
	is "a run ends well" $? 0
	is "nothing is in /tmp meanwhile or after" "$(cat "$T/tmp")" ""
}

# elsewhere DESCRIPTION FOLDER: attaching to $child is refused, and nothing is made in the folder that its own lead to
elsewhere() {
	touch -d @0 "$2"
	error "$1" 'no directory of process .* for the library' "$DITRACE" attach --engine shim -o "$T/data" "$child"
	is "and nothing was made there" "$(stat -c %Y "$2")" 0
}

inside() {
	nsenter -t "$child" -m "$@"
}

linked() {
	local p
	mkdir "$T/victim"
	start unshare -m --propagation private "$PY" paced.py >"$T/busy" 2>/dev/null
	wait_line "$T/busy" '^pid '
	for p in /dev/shm /tmp; do inside mount -t tmpfs -o noexec none $p; done
	inside mount -t tmpfs none /var
	inside ln -s "$T/victim" /var/tmp
	elsewhere "a link is not followed" "$T/victim"
	inside rm /var/tmp
	inside mkdir /var/tmp
	inside chmod 1777 /var/tmp
	ok "a folder in its place will do" "$DITRACE" attach --engine shim --count 100 -o "$T/data" "$child"
	is "and is left empty" "$(inside ls -A /var/tmp)" ""
	stop_busy
}

# The target of another user has bound a folder of root's in the place of each that all can write to.
bound() {
	local p
	start unshare -m --propagation private "${user[@]}" HOME=/ "$PY" paced.py >"$T/busy" 2>"$T/busy.err"
	if ! before_long begun_or_ended || ! grep -q '^pid ' "$T/busy"; then
		skip "a plain user cannot run it: $(tail -n 1 "$T/busy.err")" 2
		return
	fi
	for p in /dev/shm /tmp /var/tmp; do inside mount --bind "$home/victim" $p; done
	elsewhere "a folder of root's is not for a user's process" "$home/victim"
	stop_busy
}

begun_or_ended() {
	grep -q '^pid ' "$T/busy" || ! kill -0 "$child" 2>/dev/null
}

# told VARIABLE [COMMAND...]: how many bytes a stranger, started by COMMAND, hears at that socket from a program with the library
told() {
	rm -f "$home/open/socket"
	start "${@:2}" python3 - "$home/open/socket" <"$here/trust/stranger.py" >"$T/stranger"
	wait_line "$T/stranger" '^listening' >&2
	env LD_PRELOAD="$BUILD/tracer/shim/libditrace_shim.so" "$1=$home/open/socket" "$PY" -c 'import torch; print(torch.ones(2).sum().item())' >"$T/out" 2>"$T/err"
	wait_line "$T/stranger" '^told' >&2
	sed -n 's/^told //p' "$T/stranger"
}

# strangers VARIABLE...
strangers() {
	local name
	for name in "$@"; do
		is "$name: another user at the socket is told nothing" "$(told $name "${user[@]}")" 0
		is "and the program runs" "$(cat "$T/out")" 2.0
		ok "root is" [ "$(told $name)" -gt 0 ]
		is "and the program runs on" "$(cat "$T/out")" 2.0
	done
}

# Each socket with one torch
all() {
	if of_first_torch; then
		linked
		bound
		strangers DITRACE_SHIM
		in_long || return
	else
		skip "folders, and the library's other socket were with another torch: make test-long" 13
	fi
	strangers DITRACE_MODES
}

T=$base
left_running
others_folders
users_own
if unshare -m --propagation private true 2>"$T/err"; then
	nothing_in_tmp
	mkdir -m 755 "$home/victim"
	mkdir -m 777 "$home/open"
	chmod 755 "$home"
	chown root "$home"
	each_torch all
else
	skip "no mount namespaces: $(tail -n 1 "$T/err")"
fi
done_testing
