#include "tracer/sample/sampler.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "symbolizer/target/process.h"

static void note(struct record_samples *r, int code)
{
	if (code && !r->code)
		r->code = code;
}

static void name_thread(struct record_samples *r, const struct sample *s)
{
	char file[64], name[64];
	int32_t *slot = &r->named[(uint32_t)s->tid % RECORD_NAMED];
	if (*slot == s->tid)
		return;
	*slot = s->tid;
	snprintf(file, sizeof(file), "task/%d/comm", s->tid);
	if (process_file(s->pid, file, name, sizeof(name)) <= 0)
		return;
	name[strcspn(name, "\n")] = '\0';
	note(r, trace_write_thread(r->writer, s->pid, s->tid, name));
}

static void on_sample(const struct sample *s, void *arg)
{
	struct record_samples *r = arg;
	name_thread(r, s);
	note(r, trace_write_sample(r->writer, s));
}

static void on_lost(uint64_t time_ns, uint64_t count, void *arg)
{
	struct record_samples *r = arg;
	note(r, trace_write_samples_lost(r->writer, time_ns, count));
}

static void on_build(const char *file, const void *id, size_t len, void *arg)
{
	struct record_samples *r = arg;
	note(r, trace_write_build(r->writer, file, id, len));
}

static void forget(void *arg)
{
	struct record_samples *r = arg;
	if (r->writer)
		trace_writer_forget(r->writer);
}

struct sampler_sink record_samples_sink(struct record_samples *r)
{
	return (struct sampler_sink){
	    .arg = r, .sample = on_sample, .lost = on_lost, .build = on_build, .forget = forget};
}

void record_samples_tell_rate(const struct sampler *s, uint64_t hz)
{
	const uint64_t within = sampler_how(s)->frequency;
	if (within < hz)
		fprintf(stderr,
			"ditrace: %" PRIu64 " samples a second instead of %" PRIu64
			": kernel.perf_event_max_sample_rate, which the kernel has lowered if "
			"samples took long\n",
			within, hz);
}

void record_samples_summary(const struct sampler *s)
{
	const struct sampler_counts c = sampler_counts(s);
	const struct sampling *how = sampler_how(s);
	char n[40], lost[27], moved[27], once[27], at_once[64] = "";
	if (c.at_once)
		snprintf(at_once, sizeof(at_once), "; %s read at once by eBPF",
			 text_count(once, sizeof(once), c.at_once));
	fprintf(stderr, "ditrace: %s of %s at %llu Hz%s, %s lost\n",
		text_counted(n, sizeof(n), c.samples, "sample"), how->event,
		(unsigned long long)how->frequency, how->kernel ? "" : " in user space",
		text_count(lost, sizeof(lost), c.lost));
	fprintf(stderr, "ditrace: of %s the Python frames had moved on%s\n",
		text_count(moved, sizeof(moved), c.mismatched), at_once);
	if (c.unnamed)
		fprintf(stderr,
			"ditrace: of %s a Python function, \"?\", was freed before it was read\n",
			text_count(n, sizeof(n), c.unnamed));
	if (c.throttled)
		fprintf(stderr,
			"the kernel throttled sampling %s: kernel.perf_cpu_time_max_percent\n",
			text_counted(n, sizeof(n), c.throttled, "time"));
}
