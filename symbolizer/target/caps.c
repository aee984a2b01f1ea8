#include "symbolizer/target/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t caps_effective(const char *proc)
{
	char path[512], line[512];
	uint64_t mask = 0;
	snprintf(path, sizeof(path), "%s/self/status", proc);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			mask = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return mask;
}

bool caps_has(uint64_t mask, int cap)
{
	bool admin = cap == CAPS_BPF || cap == CAPS_PERFMON || cap == CAPS_CHECKPOINT_RESTORE;
	return mask & 1ULL << cap || (admin && mask & 1ULL << CAPS_SYS_ADMIN);
}

static const char *name_of(int cap)
{
	switch (cap) {
	case CAPS_SYS_PTRACE:
		return "CAP_SYS_PTRACE";
	case CAPS_SYS_ADMIN:
		return "CAP_SYS_ADMIN";
	case CAPS_PERFMON:
		return "CAP_PERFMON";
	case CAPS_BPF:
		return "CAP_BPF";
	case CAPS_CHECKPOINT_RESTORE:
		return "CAP_CHECKPOINT_RESTORE";
	default:
		return "another capability";
	}
}

const char *caps_missing(uint64_t mask, const int *caps, size_t n, char *out, size_t size)
{
	size_t len = 0;
	*out = '\0';
	for (size_t i = 0; i < n && len < size; i++)
		if (!caps_has(mask, caps[i]))
			len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "",
						name_of(caps[i]));
	return out;
}
