/* What comes before any of ditrace's eBPF programs is loaded. */
#ifndef TRACER_ENGINE_BPF_BPF_BEGIN_H
#define TRACER_ENGINE_BPF_BPF_BEGIN_H

#include <stdint.h>

/* The PID namespace of this process, by whose numbers the programs tell threads, as
 * bpf_get_ns_current_pid_tgid wants it (st_dev and st_ino of /proc/self/ns/pid: bpf-helpers(7));
 * and libbpf prints nothing from here on, unless DITRACE_LIBBPF_LOG is set. 0 or -errno. */
int bpf_begin(uint64_t *ns_dev, uint64_t *ns_ino);

#endif
