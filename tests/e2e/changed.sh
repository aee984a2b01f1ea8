# Programs whose functions are changed or judged, and what is said of it. To be sourced after lib.sh.

# run OPTION... PROGRAM...: ditrace run itself; the program's output in $T/out, ditrace's in $T/err
run() {
	"$DITRACE" run "$@" >"$T/out" 2>"$T/err"
}

# is_headed TITLE WHERE: two successive lines, the first of which is TITLE and the second of which ends with WHERE
is_headed() {
	grep -A 1 -xF -e "$1" "$T/err" | tail -n 1 | grep -E -e "$2\$"
}

# was_recorded fallback|compare: the ops of device.py that ran, and nothing of ditrace's own
was_recorded() {
	events && verify intervene/recorded "$1" "$T/events"
}
