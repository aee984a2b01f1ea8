#!/usr/bin/env bash
# report --columns flops: what PyTorch's own counter counts.
. "$(dirname "$0")/../lib.sh"
need_tracing

counted() {
	"$(warmed)" -c 'import torch.utils.flop_counter' 2>/dev/null || { skip "this torch has no flop_counter" 1; return; }
	"$(warmed)" trace/flops.py count >"$T/counted" 2>/dev/null
	"$DITRACE" run -o "$T/data" -- "$PY" trace/flops.py 2>/dev/null >/dev/null
	"$DITRACE" report --group op --columns flops --format json "$T/data" >"$T/report"
	ok "each op has as many" python3 "$here/trace/flops.py" "$T/counted" "$T/report"
	"$DITRACE" report --group op --sort flops --format json --columns flops "$T/data" >"$T/sorted"
	ok "--sort flops sorts by them" python3 -c '
import json, sys
flops = [r["flops"] for r in json.load(sys.stdin)["rows"]]
assert flops == sorted(flops, reverse=True) and flops[0] > flops[1] > 0, flops' <"$T/sorted"
	like "and shows them" <("$DITRACE" report --group op --sort flops "$T/data") '  FLOPs v  '
	like "as their rate" <("$DITRACE" report --group op --sort flop_rate "$T/data") '  FLOP/s v  '
}

each_torch counted
done_testing
