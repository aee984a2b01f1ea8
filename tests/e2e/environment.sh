# The environment of all programs of a test. To be sourced.

# For so many seconds a test waits for an event.
export PATIENCE=${PATIENCE:-180}
export PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore TORCH_CPP_LOG_LEVEL=ERROR
# Unbuffered, each print would be several writes, between which other processes may write to the same file.
unset PYTHONUNBUFFERED
# With as many OpenMP threads as cores they spin for longer than small ops take.
export OMP_WAIT_POLICY=passive
