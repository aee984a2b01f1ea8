# A real terminal for the tests, with tmux. To be sourced after lib.sh.

command -v tmux >/dev/null || skip_all "no tmux here"
terminals=0
tm() {
	TMUX_TMPDIR=$base tmux -u -L "t$terminals" -f /dev/null "$@"
}

# A server told to exit still accepts connections for a moment, so the next one gets another socket.
next_server() {
	[ "$terminals" = 0 ] || tm kill-server 2>/dev/null
	terminals=$((terminals + 1))
}

trap 'tm kill-server 2>/dev/null; cleanup' EXIT

# terminal WIDTHxHEIGHT COMMAND...: run it in a new terminal, which then shows "status N". The terminal's settings before and
# after are in $T/before and $T/after.
terminal() {
	local size=$1
	shift
	next_server
	rm -f "$T/before" "$T/after"
	tm new-session -d -x "${size%x*}" -y "${size#*x}" -- env LC_ALL="${LANGUAGE_OF_TERMINAL:-C.UTF-8}" bash -c \
		'stty -a >"$0/before"; "$@"; s=$?; stty -a >"$0/after"; echo "status $s"; exec sleep 1000' "$T" "$@" &&
		tm set-option -g remain-on-exit on
}

keys() {
	tm send-keys "$@"
}

resize() {
	tm resize-window -x "${1%x*}" -y "${1#*x}"
}

screen() {
	tm capture-pane -p
}

screen_has() {
	screen | grep -qE -e "$1"
}

# shows REGEX: the screen has such a line now or soon
shows() {
	before_long screen_has "$1" || { echo "the screen does not show '$1':" && screen && return 1; }
}

screen_is() {
	screen | cmp -s - "$1"
}

# golden NAME: the screen is that of the file golden/NAME now or soon; GOLDEN=write writes the file
golden() {
	local file=$here/golden/$1
	if [ "${GOLDEN:-}" = write ]; then
		sleep 2
		screen >"$file"
	fi
	before_long screen_is "$file" || { screen | diff "$file" - | head -60 && return 1; }
}

same_settings() {
	before_long test -s "$T/after" && diff <(sed 's/rows.*columns [0-9]*//' "$T/before") <(sed 's/rows.*columns [0-9]*//' "$T/after")
}
