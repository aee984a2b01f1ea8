/* What `ditrace monitor` measures beyond /proc: device memory and the rate of operators. */
#ifndef TRACER_MONITOR_MONITOR_H
#define TRACER_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <signal.h>
#include <stdio.h>

#include "base/err.h"
#include "tracer/observe/observer.h"

/* Device memory of a process, as reported by the vendor's tool. */

/* Whether PATH has a tool whose output is understood: nvidia-smi, npu-smi, cnmon. The first one is
 * used. */
bool device_usage_there(void);

/* Ask the tool for process `pid`; inside a container its numbers may be of another PID namespace. 0
 * and the bytes on all devices, 0 for a process that uses none; -ETIMEDOUT when it does not answer
 * within ten seconds; -EPROTO when it fails or its output is not understood; -errno. */
int device_usage_read(pid_t pid, uint64_t *bytes);

/* Sum up the lines "PID, MIB" of `text`, the output of nvidia-smi
 * --query-compute-apps=pid,used_memory --format=csv,noheader,nounits (driver 470 to 580), for
 * `pid`. 0, or -EPROTO for any other line, or if the memory of `pid` is not given. */
int device_usage_parse(const char *text, pid_t pid, uint64_t *bytes);

/* The same for the process table that `npu-smi info` prints last (Ascend, npu-smi 23 and 24), and
 * for that of `cnmon` (Cambricon), as in their manuals. */
int device_usage_parse_npu(const char *text, pid_t pid, uint64_t *bytes);
int device_usage_parse_mlu(const char *text, pid_t pid, uint64_t *bytes);

/* The number of operators that a process dispatches, counted by an eBPF program at the
 * function that each dispatcher call asks for observers (at::getStepCallbacksUnlessEmpty,
 * ATen/record_function.h). Costs the process less than a microsecond per operator. */

struct op_rate;

/* Start counting in process `pid`. 0 and *out (free with op_rate_close); -ENODATA: PyTorch is not
 * loaded (yet); -errno with *e: not permitted, or not supported with this PyTorch. */
int op_rate_open(pid_t pid, struct op_rate **out, struct err *e);
void op_rate_close(struct op_rate *r); /* NULL allowed */

/* The operators since op_rate_open, nested ones included. 0; -ESTALE when the process has another
 * PyTorch loaded now, or none: open again. */
int op_rate_read(struct op_rate *r, uint64_t *ops);

/* Metrics served over HTTP, for Prometheus: of a session as an observer of it, or of a trace. */

/* The server. It does its work when it is called, in the caller's thread, and never waits. */

struct metrics_server;

/* Write all that is known now. 0 or -errno. */
typedef int metrics_server_fn(void *arg, FILE *f);

/* Whether `where` is [HOST:]PORT, a HOST of IPv6 in brackets. 0, or -EINVAL with *e. */
int metrics_server_check(const char *where, struct err *e);

/* Listen there, on 127.0.0.1 without HOST; port 0: any that is free. 0 or -errno with *e. */
int metrics_server_open(const char *where, metrics_server_fn *text, void *arg,
			struct metrics_server **out, struct err *e);

/* "http://127.0.0.1:9101/metrics" */
const char *metrics_server_url(const struct metrics_server *s);

/* Answer who has asked, with what was known at most a tenth of a second before. */
void metrics_server_turn(struct metrics_server *s);

void metrics_server_close(struct metrics_server *s); /* NULL allowed */

/* An observer that serves the metrics of its session, and says on stderr where, listening from now
 * on. `chosen`: the options that leave ops out, "": none. NULL with *e. */
struct observer *observer_of_metrics(const char *where, const char *chosen, struct err *e);

/* Serve the metrics of the trace at `path`, file or folder, also while it is being written, until
 * `stop` is set, or for_ns have passed (0: no limit). 0 or -errno with *e. */
int metrics_serve_trace(const char *path, const char *where, uint64_t for_ns,
			const volatile sig_atomic_t *stop, struct err *e);

#endif
