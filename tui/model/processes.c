#include "tui/model/top.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"

static struct listed_process *find_process(struct processes *p, pid_t pid, uint64_t start_ticks)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].pid == pid && p->list[i].start_ticks == start_ticks)
			return &p->list[i];
	if (array_grow(&p->list, &p->room, p->n + 1, sizeof(*p->list)))
		return NULL;
	struct listed_process *x = &p->list[p->n++];
	*x = (struct listed_process){.pid = pid, .start_ticks = start_ticks, .cpu_percent = -1};
	return x;
}

/* PyTorch names the threads of its processes pt_... */
static bool is_python(const char *comm)
{
	return !strncmp(comm, "python", 6) || !strncmp(comm, "pt_", 3);
}

/* Remove the folder from the path that is the word at `word`, if it is one. */
static void drop_folder(char *word)
{
	size_t len = strcspn(word, " ");
	const char *from = word + len;
	while (from > word && from[-1] != '/')
		from--;
	memmove(word, from, strlen(from) + 1);
}

/* "python3 -u train.py --lr 0.1": the program and its script without their folders. */
static void read_command(struct listed_process *x)
{
	char *word = x->command;
	process_cmdline(x->pid, x->command, sizeof(x->command));
	drop_folder(word);
	do {
		bool with_value = !strncmp(word, "-W ", 3) || !strncmp(word, "-X ", 3);
		for (int words = with_value ? 2 : 1; words; words--) {
			word += strcspn(word, " ");
			word += *word == ' ';
		}
	} while (*word == '-' && strncmp(word, "-c ", 3) != 0 && strncmp(word, "-m ", 3) != 0);
	if (*word != '-')
		drop_folder(word);
	text_drop_part(x->command);
}

static void read_facts(struct listed_process *x)
{
	struct process facts;
	struct maps maps;
	struct libraries libraries;
	if (process_read(x->pid, &facts, NULL))
		return;
	x->uid = facts.status.uid;
	int r = maps_read(x->pid, &maps, NULL);
	x->hidden = r == -EACCES || r == -EPERM;
	libraries_find(&maps, &libraries);
	x->torch = x->hidden ? is_python(facts.comm) : libraries.torch != NULL;
	maps_free(&maps);
	if (!x->torch)
		return;
	read_command(x);
	x->why = (struct err){0};
	process_check(x->pid, &x->why);
}

static void take_usage(struct listed_process *x, const struct usage *u)
{
	uint64_t booted = clock_ns(CLOCK_BOOTTIME);
	uint64_t began = u->start_ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
	if (x->at_ns && u->at_ns > x->at_ns && u->cpu_ns >= x->cpu_ns)
		x->cpu_percent =
		    100.0 * (double)(u->cpu_ns - x->cpu_ns) / (double)(u->at_ns - x->at_ns);
	x->age_ns = booted > began ? booted - began : 0;
	x->cpu_ns = u->cpu_ns;
	x->at_ns = u->at_ns;
	x->seen = true;
}

/* What a process maps changes its size: only then its mappings are read again. */
static uint64_t pages_of(pid_t pid)
{
	char text[128];
	process_file(pid, "statm", text, sizeof(text));
	return strtoull(text, NULL, 10);
}

static int look_at(struct processes *p, pid_t pid)
{
	struct usage u;
	uint64_t pages = pages_of(pid);
	if (!pages || !usage_read_stat(pid, &u)) /* a thread of the kernel, or it has ended */
		return 0;
	struct listed_process *x = find_process(p, pid, u.start_ticks);
	if (!x)
		return -ENOMEM;
	if (pages != x->pages)
		read_facts(x);
	x->pages = pages;
	take_usage(x, &u);
	return 0;
}

static int compare_age(const void *a, const void *b)
{
	const struct listed_process *x = a, *y = b;
	if (x->start_ticks != y->start_ticks)
		return x->start_ticks < y->start_ticks ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void drop_ended(struct processes *p)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].seen)
			p->list[kept++] = p->list[i];
	p->n = kept;
}

int processes_look(struct processes *p)
{
	DIR *d = opendir("/proc");
	int r = 0;
	if (!d)
		return -errno;
	for (size_t i = 0; i < p->n; i++)
		p->list[i].seen = false;
	for (struct dirent *x; !r && (x = readdir(d));) {
		uint64_t pid;
		if (text_number(x->d_name, &pid) && pid <= INT32_MAX && (pid_t)pid != getpid())
			r = look_at(p, (pid_t)pid);
	}
	closedir(d);
	drop_ended(p);
	if (p->n)
		qsort(p->list, p->n, sizeof(*p->list), compare_age);
	return r;
}

void processes_free(struct processes *p)
{
	free(p->list);
	*p = (struct processes){0};
}

bool proc_figures_read(struct proc_figures *f, pid_t pid, struct top_process *out)
{
	enum { SECOND = 1000000000 };
	struct usage u;
	if (!usage_read_stat(pid, &u))
		return false;
	uint64_t now = u.at_ns, cpu_ns = u.cpu_ns;
	out->threads = (unsigned)u.threads;
	out->rss_bytes = u.rss;
	if (!f->read_ns)
		f->percent = -1;
	else if (now - f->read_ns >= SECOND && cpu_ns >= f->cpu_ns)
		f->percent = 100.0 * (double)(cpu_ns - f->cpu_ns) / (double)(now - f->read_ns);
	if (!f->read_ns || now - f->read_ns >= SECOND) {
		f->read_ns = now;
		f->cpu_ns = cpu_ns;
	}
	out->cpu_percent = f->percent;
	return true;
}
