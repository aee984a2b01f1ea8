#!/usr/bin/env bash
# run --cast of integers and complex numbers: results and gradients keep the dtypes they have without it. Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"

# cast DTYPES [OPTION...]: nothing changes
cast() {
	ditraced --cast "$@" -- intervene/dtypes.py lazy
	ok "$*: as it was" cmp "$T/plain" "$T/out"
}

# done_to FUNCTION, not_done_to FUNCTION REASON
done_to() {
	like "$1 is computed in it" "$T/err" "^ {0,8}[0-9,]+ .* $1( |$)"
}

not_done_to() {
	like "$1 is left alone: it $2" "$T/err" "^ .*[0-9]  $1 +(.*, )?([0-9]+ )?$2"
}

kinds() {
	alone intervene/dtypes.py lazy >"$T/plain"
	like "the workload works" "$T/plain" '^gradients'
	"$DITRACE" run --cast 'torch.int64->torch.int32' "$PY" intervene/dtypes.py lazy >"$T/out" 2>"$T/err"
	ok "as it was" cmp "$T/plain" "$T/out"
	like "integers" "$T/err" '\| torch.sort \| +input\[0\] +\| torch.int64 -> torch.int32 \|'
	like "and back" "$T/err" '\| torch.sort \| output\[0\] \| torch.int32 -> torch.int64 \|'
	unlike "but for indices" "$T/err" '\| torch.sort \| output\[1\] \|'
	done_to torch.nn.functional.embedding
	not_done_to torch.index_select 'has integers of several dtypes'
	not_done_to torch.bucketize 'has integers of several dtypes'
	not_done_to torch.Tensor.int 'is a cast'
	not_done_to torch.gather 'has integers beside what wants a gradient'
	not_done_to torch.nn.functional.cross_entropy 'has integers on a device that computes later'
	cast 'int32->int16,long->int'
	cast 'int16->int8'
	done_to torch.sum
	cast 'complex64->complex128'
	like "complex numbers" "$T/err" '\| +torch.abs \| +input\[0\] +\| torch.complex64 -> torch.complex128 \|'
	like "and the real ones of them, back" "$T/err" '\| +torch.abs \| output\[0\] \| +torch.float64 -> torch.float32 +\|'
	cast 'float32->float64'
	like "complex ones of real ones" "$T/err" '\| +torch.fft.fft \| output\[0\] \| torch.complex128 -> torch.complex64 \|'
	cast 'complex64->complex128,int64->int32' --level aten
	like "operators" "$T/err" '^ditrace: cast: [1-9][0-9]* calls'
	[ "$(alone -c 'import torch; print(hasattr(torch, "float8_e4m3fn"))')" = True ] || {
		cast 'float32->float8_e4m3fn'
		not_done_to torch.mul 'is to be cast to a dtype that this PyTorch lacks'
	}
}
each_torch forking kinds
T=$base
error "of two kinds" 'int64 and float32 are numbers of two kinds' "$DITRACE" run --cast 'int64->float32' true
error "no numbers" 'is not FROM->TO of two dtypes of numbers' "$DITRACE" run --cast 'bool->int8' true
error "nothing to do" 'float32 is float32 already' "$DITRACE" run --cast 'torch.float->torch.float32' true
error "sums of integers" 'sums and indices are int64 by themselves' "$DITRACE" run --cast 'int32->int64' true
error "masks" 'uint8 is a mask' "$DITRACE" run --cast 'uint8->int32' true
done_testing
