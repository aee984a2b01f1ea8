/* A Python that runs captures: the sandbox that it may be in, and what is sent to it and back. */
#define _GNU_SOURCE
#include "replay/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/run_python.h"
#include "replay/internal.h"

/* The sandbox. */

static void sandbox_word(struct sandbox *s, const char *word)
{
	char *copy = strdup(word);
	if (!copy || array_grow(&s->argv, &s->size, s->n + 2, sizeof(*s->argv))) {
		free(copy);
		s->failed = true;
		return;
	}
	s->argv[s->n++] = copy;
	s->argv[s->n] = NULL;
}

static void sandbox_words(struct sandbox *s, const char *const *words)
{
	while (*words)
		sandbox_word(s, *words++);
}

/* Show a folder under the name that it has outside. */
static void sandbox_show(struct sandbox *s, const char *folder)
{
	char cwd[PATH_MAX], name[2 * PATH_MAX], real[PATH_MAX];
	if (!realpath(folder, real) || !getcwd(cwd, sizeof(cwd)))
		return; /* whoever reads it says so */
	snprintf(name, sizeof(name), "%s%s%s", *folder == '/' ? "" : cwd, *folder == '/' ? "" : "/",
		 folder);
	sandbox_words(s, (const char *[]){"--ro-bind", real, name, NULL});
}

/* The virtual environment of an interpreter, where /tmp or /run has it. */
static void sandbox_show_python(struct sandbox *s, const char *python)
{
	char folder[PATH_MAX];
	snprintf(folder, sizeof(folder), "%s", python);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(folder, '/');
		if (!slash || slash == folder)
			return;
		*slash = '\0';
	}
	if (strncmp(folder, "/tmp/", 5) == 0 || strncmp(folder, "/run/", 5) == 0)
		sandbox_show(s, folder);
}

/* The devices that ops are run on. */
static void sandbox_devices(struct sandbox *s)
{
	static const char *const kinds[] = {
	    "/dev/nvidia*",  "/dev/dri",       "/dev/kfd",	   "/dev/davinci*",
	    "/dev/hisi_hdc", "/dev/devmm_svm", "/dev/cambricon_*", NULL};
	for (int i = 0; kinds[i]; i++) {
		glob_t found;
		if (glob(kinds[i], 0, NULL, &found))
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++)
			sandbox_words(s, (const char *[]){"--dev-bind", found.gl_pathv[k],
							  found.gl_pathv[k], NULL});
		globfree(&found);
	}
}

int sandbox_make(struct sandbox *s, const char *bwrap, const char *python, char *const *folders,
		 size_t n)
{
	*s = (struct sandbox){0};
	sandbox_words(s,
		      (const char *[]){bwrap, "--unshare-all", "--die-with-parent", "--new-session",
				       "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
				       "--tmpfs", "/tmp", "--tmpfs", "/run", NULL});
	sandbox_devices(s);
	sandbox_show_python(s, python);
	sandbox_show(s, ".");
	for (size_t i = 0; i < n; i++)
		sandbox_show(s, folders[i]);
	sandbox_word(s, "--");
	if (!s->failed)
		return 0;
	sandbox_free(s);
	return -ENOMEM;
}

static bool sandbox_program(char *out, size_t size)
{
	const char *path = getenv("PATH");
	for (const char *s = path ? path : "/usr/bin"; *s;) {
		size_t n = strcspn(s, ":");
		if (*s == '/' && (size_t)snprintf(out, size, "%.*s/bwrap", (int)n, s) < size &&
		    !access(out, X_OK))
			return true;
		s += n + (s[n] == ':');
	}
	return false;
}

int sandbox_open(struct sandbox *s, const char *python, char *const *folders, size_t n,
		 struct err *e)
{
	char bwrap[PATH_MAX];
	if (!sandbox_program(bwrap, sizeof(bwrap))) {
		err_set(e, -ENOENT, "--sandbox needs bwrap (bubblewrap), which is not on the PATH");
		return err_hint(e, "on Debian: apt install bubblewrap");
	}
	return sandbox_make(s, bwrap, python, folders, n)
		   ? err_set(e, -ENOMEM, "no memory for the sandbox")
		   : 0;
}

void sandbox_free(struct sandbox *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->argv[i]);
	free(s->argv);
	*s = (struct sandbox){0};
}

json_t *request_with(json_t *request, const struct caution *c)
{
	json_object_set_new(request, "trust", json_boolean(c->trust));
	json_object_set_new(request, "max_bytes", json_integer((json_int_t)c->max_bytes));
	json_object_set_new(request, "import", json_string(c->import ? c->import : ""));
	return request;
}

int caution_before(struct caution *c, const char *python, char *const *folders, size_t n,
		   char *const **before, struct err *e)
{
	int r = c->sandboxed ? sandbox_open(&c->sandbox, python, folders, n, e) : 0;
	*before = c->sandbox.argv;
	return r;
}

/* The Python. */

extern char **environ;
extern const char _binary_runner_py_start[], _binary_runner_py_end[];

/* File descriptor numbers in the runner. */
enum { FD_SCRIPT = 10, FD_REQUESTS, FD_REPLIES, FD_ARENA };

/* Seconds to wait for a runner: told to stop, and dying by itself, perhaps writing a core file. */
enum { STOPPING_S = 1, DYING_S = 60 };

static void close_all(int *fds, int n)
{
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* `before`, if any, and the words; free() the list. */
static char **argv_of(char *const *before, char *const *words)
{
	size_t n = 0, m = 0;
	while (before && before[n])
		n++;
	while (words[m])
		m++;
	char **argv = malloc((n + m + 1) * sizeof(*argv));
	if (argv && n)
		memcpy(argv, before, n * sizeof(*argv));
	if (argv)
		memcpy(argv + n, words, (m + 1) * sizeof(*argv));
	return argv;
}

/* fds: script, request pipe's read end, reply pipe's write end, arena; all above FD_ARENA. */
static int spawn(struct worker *w, const struct worker_how *how, const int *fds)
{
	char script[32], requests[16], replies[16], arena[16], count[16], runners[16];
	char *words[] = {(char *)how->python,
			 "-W",
			 "ignore",
			 script,
			 requests,
			 replies,
			 arena,
			 count,
			 runners,
			 NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	snprintf(script, sizeof(script), "/proc/self/fd/%d", FD_SCRIPT);
	snprintf(requests, sizeof(requests), "%d", FD_REQUESTS);
	snprintf(replies, sizeof(replies), "%d", FD_REPLIES);
	snprintf(arena, sizeof(arena), "%d", FD_ARENA);
	snprintf(count, sizeof(count), "%u", how->threads);
	snprintf(runners, sizeof(runners), "%u", how->runners);
	char **argv = argv_of(how->before, words);
	if (!argv)
		return ENOMEM;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (int i = 0; i < 4; i++)
		posix_spawn_file_actions_adddup2(&actions, fds[i], FD_SCRIPT + i);
	posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	int r = posix_spawnp(&w->pid, argv[0], &actions, &attr, argv, environ);
	free(argv);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* Move fd above the numbers used in the runner, so that dup2 overwrites none before it is copied.
 */
static int high(int fd)
{
	int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FD_ARENA + 1) : -1;
	if (fd >= 0)
		close(fd);
	return copy;
}

int worker_arena(void)
{
	int fd = memfd_create("ditrace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL))
		return fd;
	close(fd);
	return -1;
}

int worker_start(struct worker *w, const struct worker_how *how, struct err *e)
{
	int requests[2] = {-1, -1}, replies[2] = {-1, -1};
	*w = (struct worker){.requests = -1, .replies = -1, .arena = -1};
	if (pipe2(requests, O_CLOEXEC) || pipe2(replies, O_CLOEXEC)) {
		close_all(requests, 2);
		return err_set(e, -errno, "cannot make a pipe: %s", strerror(errno));
	}
	int theirs[4] = {high(python_program(_binary_runner_py_start, _binary_runner_py_end)),
			 high(requests[0]), high(replies[1]), high(worker_arena())};
	w->requests = requests[1];
	w->replies = replies[0];
	w->arena = theirs[3] >= 0 ? fcntl(theirs[3], F_DUPFD_CLOEXEC, 0) : -1;
	int r = w->arena < 0 || theirs[0] < 0 ? errno : spawn(w, how, theirs);
	close_all(theirs, 4);
	if (!r)
		return 0;
	w->pid = 0;
	worker_stop(w, NULL, 0);
	err_set(e, -r, "cannot start %s: %s", how->python, strerror(r));
	return err_hint(e, "name the interpreter that has PyTorch: --python PATH");
}

int worker_send(struct worker *w, json_t *request)
{
	char *text = json_dumps(request, JSON_COMPACT);
	json_decref(request);
	if (!text)
		return -ENOMEM;
	size_t left = strlen(text);
	text[left++] = '\n'; /* replaces the NUL */
	for (const char *p = text; left;) {
		ssize_t n = write(w->requests, p, left);
		if (n < 0 && errno != EINTR)
			break;
		p += n > 0 ? n : 0;
		left -= n > 0 ? (size_t)n : 0;
	}
	free(text);
	return left ? -EPIPE : 0;
}

int worker_next(struct worker *w, json_t **out)
{
	char *end = w->len ? memchr(w->text, '\n', w->len) : NULL;
	if (!end)
		return 0;
	size_t n = (size_t)(end - w->text) + 1;
	*out = json_loadb(w->text, n, 0, NULL);
	w->len -= n;
	memmove(w->text, w->text + n, w->len);
	return *out ? 1 : -EPROTO;
}

int worker_receive(struct worker *w, json_t **out)
{
	int r = worker_next(w, out);
	if (r)
		return r;
	if (w->len >= WORKER_LINE_MAX)
		return -EMSGSIZE;
	if (w->size - w->len < 4096 && array_grow(&w->text, &w->size, w->size + 65536, 1))
		return -ENOMEM;
	ssize_t n = read(w->replies, w->text + w->len, w->size - w->len);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (!n)
		return -EPIPE;
	w->len += (size_t)n;
	return worker_next(w, out);
}

int worker_map(struct worker *w)
{
	struct stat st;
	if (fstat(w->arena, &st))
		return -errno;
	if ((size_t)st.st_size == w->mapped)
		return 0;
	if (w->map)
		munmap(w->map, w->mapped);
	w->map = NULL;
	w->mapped = 0;
	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, w->arena, 0);
	if (p == MAP_FAILED)
		return -errno;
	w->map = p;
	w->mapped = (size_t)st.st_size;
	return 0;
}

const void *worker_memory(const struct worker *w, size_t offset, size_t size)
{
	if (!size)
		return "";
	if (offset > w->mapped || size > w->mapped - offset)
		return NULL;
	return (const char *)w->map + offset;
}

static void say_status(int status, char *why, size_t size)
{
	if (!why)
		return;
	if (WIFSIGNALED(status))
		snprintf(why, size, "signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(why, size, "exit status %d", WEXITSTATUS(status));
}

/* Whether the process ends within so many seconds. */
static bool ended(pid_t pid, int seconds, int *status)
{
	for (int i = 0; i < 100 * seconds; i++) {
		pid_t got = waitpid(pid, status, WNOHANG);
		if (got == pid || (got < 0 && errno != EINTR))
			return true;
		usleep(10000);
	}
	return false;
}

void worker_stop(struct worker *w, char *why, size_t size)
{
	int status = 0;
	if (w->requests >= 0)
		close(w->requests);
	if (w->replies >= 0)
		close(w->replies);
	if (w->pid > 0 && ended(w->pid, why ? DYING_S : STOPPING_S, &status)) {
		say_status(status, why, size);
	} else if (w->pid > 0) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, &status, 0);
	}
	if (w->map)
		munmap(w->map, w->mapped);
	if (w->arena >= 0)
		close(w->arena);
	free(w->text);
	*w = (struct worker){.requests = -1, .replies = -1, .arena = -1};
}
