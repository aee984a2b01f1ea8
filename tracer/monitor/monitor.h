/* What the files of this folder share. */
#ifndef TRACER_MONITOR_MONITOR_H
#define TRACER_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Memory that a process uses on devices, as the vendor's tool tells. */

/* Whether there is a tool on PATH whose output is understood: nvidia-smi, npu-smi, cnmon. The first
 * of them is asked. */
bool device_usage_there(void);

/* Ask it for process `pid`, as the tool sees processes: in a container its numbers may be others. 0
 * and the bytes on all devices, 0 for a process that uses none; -ETIMEDOUT when it does not answer
 * within ten seconds, -EPROTO when it fails or says what is not understood, -errno. */
int device_usage_read(pid_t pid, uint64_t *bytes);

/* Sum up the lines "PID, MIB" of `text`, what nvidia-smi
 * --query-compute-apps=pid,used_memory --format=csv,noheader,nounits prints (driver 470 to 580),
 * for `pid`. 0, or -EPROTO for any other line and for a process whose memory it does not know. */
int device_usage_parse(const char *text, pid_t pid, uint64_t *bytes);

/* The same of the table of processes that `npu-smi info` prints last (Ascend, npu-smi 23 and 24),
 * and of that of `cnmon` (Cambricon), as their manuals show them. */
int device_usage_parse_npu(const char *text, pid_t pid, uint64_t *bytes);
int device_usage_parse_mlu(const char *text, pid_t pid, uint64_t *bytes);

/* How many operators a process dispatches: counted by an eBPF program at the function of PyTorch
 * that each call of the dispatcher asks for its observers (at::getStepCallbacksUnlessEmpty,
 * ATen/record_function.h). Costs the process less than a microsecond an operator. */

struct op_rate;

/* Begin to count in process `pid`. 0 and *out (free with op_rate_close); -ENODATA: it has not
 * loaded PyTorch (yet); -errno with *e: that is not permitted, or not known of this PyTorch. */
int op_rate_open(pid_t pid, struct op_rate **out, struct err *e);
void op_rate_close(struct op_rate *r); /* NULL allowed */

/* The operators since op_rate_open, those that others called included. 0; -ESTALE when the process
 * runs another PyTorch now, or none: begin anew. */
int op_rate_read(struct op_rate *r, uint64_t *ops);

#endif
