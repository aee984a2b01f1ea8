# Root in the folder of another user. To be sourced by bash after lib.sh.

command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"

# A program that calls an op, for $PY
add=(-c 'import torch; torch.ones(2).add(1)')

as_user() {
	setpriv --reuid="$plain_uid" --regid="$plain_uid" --clear-groups "$@"
}

# theirs: a folder of the user, as the current one, and one of root, which is only root's
theirs() {
	rm -rf "$T/theirs" "$T/safe"
	mkdir "$T/theirs" "$T/safe"
	chmod 755 "$base" "$T" "$T/theirs"
	chmod 700 "$T/safe"
	echo precious >"$T/safe/precious"
	chown "$plain_uid" "$T/theirs"
	cd "$T/theirs" || exit 1
}
