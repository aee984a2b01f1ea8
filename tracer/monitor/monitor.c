#define _GNU_SOURCE
#include "tracer/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/target/maps.h"
#include "tracer/engine/engine.h"

extern char **environ;

typedef int parse_fn(const char *text, pid_t pid, uint64_t *bytes);

static const struct tool {
	char *const argv[5];
	parse_fn *parse;
} tools[] = {
    {{"nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits", NULL},
     device_usage_parse},
    {{"npu-smi", "info", NULL}, device_usage_parse_npu},
    {{"cnmon", NULL}, device_usage_parse_mlu},
};

enum { OUTPUT_MOST = 1 << 16, PATIENCE_MS = 10000 };

static bool on_path(const char *name)
{
	const char *path = getenv("PATH");
	char file[4096];
	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, name);
		if (n && !access(file, X_OK))
			return true;
	}
	return false;
}

/* The first tool found on PATH; NULL: none. */
static const struct tool *find_tool(void)
{
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (on_path(tools[i].argv[0]))
			return &tools[i];
	return NULL;
}

bool device_usage_there(void)
{
	return find_tool();
}

int device_usage_parse(const char *text, pid_t pid, uint64_t *bytes)
{
	*bytes = 0;
	while (*text) {
		char *end;
		errno = 0;
		long who = strtol(text, &end, 10);
		if (end == text || *end != ',')
			return -EPROTO;
		const char *number = end + 1 + strspn(end + 1, " ");
		unsigned long long mib = strtoull(number, &end, 10);
		bool known = end != number && *number >= '0' && *number <= '9' && !errno;
		size_t rest = strcspn(end, "\n");
		if (known ? rest : who == pid)
			return -EPROTO;
		if (who == pid)
			*bytes += mib << 20;
		text = end + rest + (end[rest] == '\n');
	}
	return 0;
}

/* Sum up the rows after the line that contains `title`. `row` parses a line: 1: a row, process *who
 * with *mib; 0: a line between rows, or one that says there are none; -errno. */
static int parse_table(const char *text, const char *title, pid_t pid, uint64_t *bytes,
		       int (*row)(const char *line, int *who, unsigned long long *mib))
{
	*bytes = 0;
	text = strstr(text, title);
	if (!text)
		return -EPROTO;
	text += strcspn(text, "\n");
	while (*text) {
		char line[256];
		int who;
		unsigned long long mib;
		text += *text == '\n';
		size_t n = strcspn(text, "\n");
		if (n >= sizeof(line))
			return -EPROTO;
		memcpy(line, text, n);
		line[n] = '\0';
		text += n;
		int r = row(line, &who, &mib);
		if (r < 0)
			return r;
		if (r && who == pid)
			*bytes += (uint64_t)mib << 20;
	}
	return 0;
}

static bool is_rule(const char *line)
{
	return !line[strspn(line, "+-=| \r")];
}

/* "| 0       0                 | 1234          | python                   | 512 |"
 */
static int npu_row(const char *line, int *who, unsigned long long *mib)
{
	int npu, chip, end = 0;
	if (is_rule(line) || strstr(line, "No running processes found"))
		return 0;
	sscanf(line, "| %d %d | %d | %*[^|]| %llu |%n", &npu, &chip, who, mib, &end);
	return end ? 1 : -EPROTO;
}

int device_usage_parse_npu(const char *text, pid_t pid, uint64_t *bytes)
{
	return parse_table(text, "Process memory(MB)", pid, bytes, npu_row);
}

/* "|  0     /   1234   python train.py                              512 MiB |" */
static int mlu_row(const char *line, int *who, unsigned long long *mib)
{
	int card, end = 0;
	const char *unit = NULL, *number;
	for (const char *s = line; (s = strstr(s, " MiB")); s++)
		unit = s; /* the last one: the command may contain " MiB", too */
	number = unit;
	if (is_rule(line) || strstr(line, "No running processes found"))
		return 0;
	while (number && number > line && number[-1] >= '0' && number[-1] <= '9')
		number--;
	if (!unit || number == unit || sscanf(number, "%llu MiB |%n", mib, &end) < 1 || !end)
		return -EPROTO;
	end = 0;
	sscanf(line, "| %d %*s %d %n", &card, who, &end);
	return end ? 1 : -EPROTO;
}

int device_usage_parse_mlu(const char *text, pid_t pid, uint64_t *bytes)
{
	return parse_table(text, "MLU Memory Usage", pid, bytes, mlu_row);
}

static int tool_start(const struct tool *tool, pid_t *child, int *out)
{
	posix_spawn_file_actions_t act;
	int fd[2];
	if (pipe2(fd, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_addopen(&act, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&act, fd[1], 1);
	posix_spawn_file_actions_addopen(&act, 2, "/dev/null", O_WRONLY, 0);
	int r = posix_spawnp(child, tool->argv[0], &act, NULL, tool->argv, environ);
	posix_spawn_file_actions_destroy(&act);
	close(fd[1]);
	*out = fd[0];
	if (r)
		close(fd[0]);
	return -r;
}

/* Read all that the tool prints. */
static int collect(int fd, char *text)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * 1000000ull;
	size_t len = 0;
	ssize_t n = 1;
	while (n > 0 && len < OUTPUT_MOST - 1) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((end - now) / 1000000) + 1) < 1)
			continue;
		n = read(fd, text + len, OUTPUT_MOST - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	text[len] = '\0';
	return n ? -EPROTO : 0;
}

int device_usage_read(pid_t pid, uint64_t *bytes)
{
	pid_t child;
	const struct tool *tool = find_tool();
	int fd = -1, status = 0, r = tool ? tool_start(tool, &child, &fd) : -ENOENT;
	char *text = r ? NULL : malloc(OUTPUT_MOST);
	if (r)
		return r;
	r = text ? collect(fd, text) : -ENOMEM;
	close(fd);
	if (r)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!r)
		r = status ? -EPROTO : tool->parse(text, pid, bytes);
	free(text);
	return r;
}

struct op_rate {
	pid_t pid;
	uint64_t inode; /* of its libtorch */
	struct engine *engine;
};

static int torch_of(pid_t pid, char *path, uint64_t *inode, struct err *e)
{
	struct maps maps;
	struct libraries l;
	int r = maps_read(pid, &maps, e);
	if (r)
		return r;
	libraries_find(&maps, &l);
	*inode = l.torch ? l.torch->inode : 0;
	r = !l.torch ? -ENODATA : path ? maps_open_path(pid, l.torch, path, PATH_MAX, e) : 0;
	maps_free(&maps);
	return r;
}

static int find_place(const char *path, uint64_t *offset, struct err *e)
{
	struct elf_file *elf;
	int r = elf_file_open(path, &elf, e);
	if (r)
		return r;
	uint64_t at = elf_find_dynamic(elf, ops_dispatched, NULL);
	int64_t off = at ? elf_offset(elf, at) : -1;
	elf_file_close(elf);
	*offset = (uint64_t)off;
	return off > 0 ? 0
		       : err_set(e, -ENOTSUP,
				 "this PyTorch lacks the function at which they are counted");
}

static int begin(struct op_rate *r, struct err *e)
{
	char path[PATH_MAX];
	struct probe_site site = {.kind = SITE_DISPATCH};
	struct probe_file f = {.path = path, .sites = &site, .nsites = 1};
	int code = torch_of(r->pid, path, &r->inode, e);
	code = code ? code : find_place(path, &site.offset, e);
	code = code ? code : engine_bpf_open(&(struct engine_wanted){.nplans = 1}, &r->engine, e);
	if (code)
		return code;
	r->engine->count_dispatch(r->engine, 1);
	return r->engine->attach(r->engine, r->pid, 0, &f, e);
}

int op_rate_open(pid_t pid, struct op_rate **out, struct err *e)
{
	struct op_rate *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, -ENOMEM, "no memory");
	r->pid = pid;
	int code = begin(r, e);
	if (code)
		op_rate_close(r);
	else
		*out = r;
	return code;
}

void op_rate_close(struct op_rate *r)
{
	if (!r)
		return;
	if (r->engine)
		r->engine->close(r->engine);
	free(r);
}

int op_rate_read(struct op_rate *r, uint64_t *ops)
{
	struct engine_counters c;
	uint64_t inode;
	if (torch_of(r->pid, NULL, &inode, NULL) || inode != r->inode)
		return -ESTALE;
	r->engine->counters(r->engine, &c);
	*ops = c.dispatched;
	return 0;
}
