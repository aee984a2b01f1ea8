/* Fuzzes the messages of a program whose functions are changed: what is printed of them cannot
 * drive a terminal, and files are made below the folder of captures alone. The input is lines of
 * JSON up to a NUL byte; what follows is the memory that tensors are in. */
#define _GNU_SOURCE
#include <dirent.h>
#include <ftw.h>
#include <limits.h>

#include "base/text.h"
#include "tracer/intervene/intervene.c"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const struct intervene_opts options = {
    .fallback = "torch.add",
    .cast = "torch.float16->torch.float32",
    .compare = "all",
    .budget = "10%",
    .overflow = true,
    .capture = "",
    .apply = {{"torch.mul:fallback:self.dtype == float16",
	       "torch.sum:print:any(t.shape[0] == 2 for t in inputs)", "torch.exp:measure_op_time"},
	      3},
    .max_bytes = 1 << 16};

static int memory_of(const void *data, size_t size)
{
	int fd = worker_arena();
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	return fd;
}

static struct intervene_peer *a_peer(const unsigned char *data, size_t size)
{
	const unsigned char *end = memchr(data, 0, size);
	size_t lines = end ? (size_t)(end - data) : size;
	struct intervene_peer *p = calloc(1, sizeof(*p));
	if (!p)
		abort();
	p->link = (struct worker){.requests = open("/dev/null", O_WRONLY | O_CLOEXEC),
				  .replies = memory_of(data, lines),
				  .arena = memory_of(data + lines + !!end, size - lines - !!end)};
	p->pid = getpid();
	return p;
}

static void check_text(const char *s, size_t len)
{
	while (len) {
		uint32_t c;
		size_t n = text_utf8(s, len, &c);
		if (!n || (c != '\n' && !text_is_safe(c)))
			abort();
		s += n;
		len -= n;
	}
}

static char folder[] = "/dev/shm/ditrace-fuzz.XXXXXX";

static void leave_folder(void)
{
	if (!chdir(folder) && !rmdir("own"))
		rmdir(folder);
}

static void enter_folder(void)
{
	if (!mkdtemp(folder) || chdir(folder) || mkdir("own", 0700) || chdir("own") ||
	    atexit(leave_folder))
		abort();
}

static int erase(const char *path, const struct stat *st, int what, struct FTW *at)
{
	(void)st, (void)what, (void)at;
	return remove(path);
}

static void check_count(const char *path, unsigned most)
{
	DIR *d = opendir(path);
	unsigned n = 0;
	for (struct dirent *x; d && (x = readdir(d));)
		n += strcmp(x->d_name, ".") && strcmp(x->d_name, "..");
	if (!d || n > most)
		abort();
	closedir(d);
}

/* Have messages heard and the summary printed, and take what is printed. */
static void run(struct intervene *v)
{
	FILE *own = stderr;
	char *text = NULL;
	size_t len = 0;
	stderr = open_memstream(&text, &len);
	if (!stderr)
		abort();
	while (v->npeers)
		hear(v, 0);
	print_all(v);
	fclose(stderr);
	stderr = own;
	check_text(text, len);
	free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static bool entered;
	struct modes_control control = {0};
	struct intervene_rules rules;
	struct intervene v = {.rules = &rules, .control = &control};
	if (!entered)
		enter_folder();
	entered = true;
	if (intervene_rules_read(&options, &rules, NULL))
		abort();
	v.save.files = (struct capture_files){.root = rules.folder, .max_bytes = rules.max_bytes};
	v.peers[v.npeers++] = a_peer(data, size);
	run(&v);
	intervene_totals_free(&v.totals);
	intervene_compare_free(&v.compare);
	intervene_times_free(&v.times);
	intervene_rules_free(&rules);
	nftw("op_tools_results", erase, 8, FTW_DEPTH | FTW_PHYS);
	check_count(".", 0);
	check_count("..", 1);
	return 0;
}
