# Many short runs of a Python that imports PyTorch. In the short run they are forks of one that has done so, of which tests/run
# has one for all tests; under make test-long each is a new Python. To be sourced by bash after lib.sh.

# warm FUNCTION...: run it with $WARMED, which does what $PY does
warm() {
	local WARMED server
	WARMED=$(warmed)
	[ "$WARMED" = "$PY" ] && ! in_long || { "$@"; return; }
	start_as server "$PY" "$W/warm.py" "$T/warm"
	before_long [ -x "$T/warm" ] && WARMED=$T/warm
	"$@"
	kill "$server"
	wait "$server" # its CPU time is counted
}
