#define _GNU_SOURCE

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/target/target_files.h"

enum { USER = 54321, GROUP = 54322, OTHER = 54323 };

static char top[] = "/tmp/test_target_files.XXXXXX";

/* top/NAME, in one of several buffers. */
static const char *in_top(const char *name)
{
	static char path[4][96];
	static unsigned n;
	char *out = path[n++ % 4];
	snprintf(out, sizeof(path[0]), "%s/%s", top, name);
	return out;
}

static void make_file(const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	int fd = open(in_top(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0 || write(fd, name, strlen(name)) < 0 || (!geteuid() && fchown(fd, uid, gid)))
		abort();
	close(fd);
}

static int make_files(void **state)
{
	(void)state;
	if (!mkdtemp(top) || chmod(top, 0755))
		return -1;
	make_file("of_root", 0600, 0, 0);
	make_file("of_user", 0600, USER, USER);
	make_file("of_group", 0640, 0, GROUP);
	make_file("of_all", 0644, 0, 0);
	return symlink(in_top("of_root"), in_top("to_root")) ||
	       symlink("/of_all", in_top("to_all")) ||
	       symlink("/proc/self/fd/0", in_top("to_magic")) || mkfifo(in_top("fifo"), 0666) ||
	       chmod(in_top("fifo"), 0666);
}

static int drop_files(void **state)
{
	char command[64];
	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", top);
	return system(command);
}

struct child {
	pid_t pid;
	int go;
};

/* A process of USER (0: of root), also of `group`, that changes to `then` when told and then
 * waits. `root`: its root directory, NULL: ditrace's. */
static struct child child_start(uid_t uid, gid_t group, uid_t then, const char *root)
{
	int ready[2], go[2];
	char one;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	struct child c = {fork(), go[1]};
	if (!c.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(go[1]);
		if ((root && (chroot(root) || chdir("/"))) ||
		    (uid && (setgroups(1, &group) || setgid(uid) || setuid(uid))) ||
		    write(ready[1], "", 1) != 1 || read(go[0], &one, 1) != 1 ||
		    (then && setuid(then)) || write(ready[1], "", 1) != 1)
			_exit(1);
		while (read(go[0], &one, 1) > 0)
			;
		_exit(0);
	}
	close(go[0]);
	assert_int_equal(read(ready[0], &one, 1), 1);
	if (then) {
		assert_int_equal(write(c.go, "", 1), 1);
		assert_int_equal(read(ready[0], &one, 1), 1);
	}
	close(ready[0]);
	close(ready[1]);
	return c;
}

static void child_end(struct child *c)
{
	close(c->go);
	kill(c->pid, SIGKILL);
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
}

/* 0 when the file can be opened and is that one. */
static int opens(struct target_files *f, const char *path)
{
	char text[32] = "";
	int fd = target_files_open(f, path, true);
	if (fd < 0)
		return fd;
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	return strstr(path, "/to_") || strstr(path, text) ? 0 : -EIO;
}

static bool own_rights_are_whole(void)
{
	int fd = open(in_top("of_root"), O_RDONLY | O_CLOEXEC);
	close(fd);
	return fd >= 0;
}

static void with_the_rights_of_the_owner(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	struct child c = child_start(USER, GROUP, 0, NULL);
	struct target_files *f = target_files_new(c.pid);
	prctl(PR_SET_PDEATHSIG, SIGUSR2);
	assert_int_equal(opens(f, in_top("of_root")), -EACCES);
	assert_int_equal(opens(f, in_top("to_root")), -EACCES);
	assert_int_equal(opens(f, in_top("of_user")), 0);
	assert_int_equal(opens(f, in_top("of_group")), 0);
	assert_int_equal(opens(f, in_top("of_all")), 0);
	assert_true(own_rights_are_whole());
	int sig = 0;
	prctl(PR_GET_PDEATHSIG, &sig);
	assert_int_equal(sig, SIGUSR2);
	prctl(PR_SET_PDEATHSIG, 0);
	assert_true(target_files_trusts(f, USER) && target_files_trusts(f, 0));
	assert_false(target_files_trusts(f, OTHER));
	child_end(&c);
	/* It has ended: with what it had. */
	assert_int_equal(opens(f, in_top("of_root")), -EACCES);
	assert_int_equal(opens(f, in_top("of_user")), 0);
	target_files_free(f);
}

static void those_given_up_count_no_more(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	struct child c = child_start(0, 0, 0, NULL);
	struct target_files *f = target_files_new(c.pid);
	assert_int_equal(opens(f, in_top("of_root")), 0);
	child_end(&c);
	/* Nobody knows whether it was still root's when it ended. */
	assert_int_equal(opens(f, in_top("of_root")), -EACCES);
	assert_int_equal(opens(f, in_top("of_all")), 0);
	target_files_free(f);

	c = child_start(0, 0, USER, NULL);
	f = target_files_new(c.pid);
	assert_int_equal(opens(f, in_top("of_root")), -EACCES);
	assert_int_equal(opens(f, in_top("of_user")), 0);
	child_end(&c);
	target_files_free(f);
}

static void only_regular_files(void **state)
{
	(void)state;
	struct target_files *f = target_files_new(getpid());
	struct stat st;
	assert_int_equal(target_files_open(f, in_top("fifo"), true), -EINVAL);
	assert_int_equal(target_files_open(f, "/dev/null", true), -EINVAL);
	assert_int_equal(target_files_open(f, top, true), -EINVAL);
	assert_int_equal(target_files_open(f, "/proc/self/maps", true), -EINVAL);
	assert_int_equal(target_files_open(f, "/proc/self/exe", true), -ELOOP);
	assert_int_equal(target_files_open(f, in_top("to_magic"), true), -ELOOP);
	assert_int_equal(target_files_open(f, in_top("none"), true), -ENOENT);
	assert_int_equal(target_files_open(f, in_top("to_root"), false), -EINVAL);
	assert_int_equal(target_files_open(f, "", true), -ENOENT);
	assert_int_equal(target_files_stat(f, in_top("to_root"), false, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(target_files_stat(f, in_top("to_root"), true, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(regular_open(in_top("fifo")), -EINVAL);
	assert_int_equal(regular_open("/dev/null"), -EINVAL);
	target_files_free(f);
}

/* inotify(7) tells of opens, except of those with O_PATH. */
static void others_are_not_even_opened(void **state)
{
	(void)state;
	char event[512];
	bool device = !mknod(in_top("null"), S_IFCHR | 0666, makedev(1, 3));
	struct target_files *f = target_files_new(getpid());
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	assert_true(inotify_add_watch(watch, in_top("fifo"), IN_OPEN) >= 0);
	assert_true(!device || inotify_add_watch(watch, in_top("null"), IN_OPEN) >= 0);
	assert_int_equal(target_files_open(f, in_top("fifo"), true), -EINVAL);
	assert_true(target_files_open(f, in_top("null"), true) < 0);
	assert_true(regular_open(in_top("fifo")) < 0 && regular_open(in_top("null")) < 0);
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	int fd = open(in_top("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(read(watch, event, sizeof(event)) > 0);
	close(fd);
	close(watch);
	target_files_free(f);
}

static void below_its_root(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	struct child c = child_start(USER, GROUP, 0, top);
	struct target_files *f = target_files_new(c.pid);
	assert_int_equal(opens(f, "/of_user"), 0);
	assert_int_equal(opens(f, "of_user"), 0);
	assert_int_equal(opens(f, "/to_all"), 0);
	assert_int_equal(opens(f, "../../of_user"), 0);
	assert_int_equal(opens(f, "/to_root"), -ENOENT);
	assert_int_equal(opens(f, in_top("of_all")), -ENOENT);
	child_end(&c);
	target_files_free(f);
}

/* As when a user's process executes a set-user-ID program of root's. */
static void a_gain_of_rights_does_not_count(void **state)
{
	(void)state;
	int ready[2], go[2];
	char one;
	if (geteuid())
		skip();
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (seteuid(USER) || write(ready[1], "", 1) != 1 || read(go[0], &one, 1) != 1 ||
		    seteuid(0) || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &one, 1), 1);
	struct target_files *f = target_files_new(pid);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(read(ready[0], &one, 1), 1);
	assert_int_equal(opens(f, in_top("of_root")), -EACCES);
	assert_int_equal(opens(f, in_top("of_user")), 0);
	target_files_free(f);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void rights_of_a_status_file(void **state)
{
	(void)state;
	struct rights r, other;
	assert_int_equal(rights_parse("Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n"
				      "CapEff:\t0000000000200007\n",
				      &r),
			 0);
	assert_true(r.uid == 4 && r.gid == 8 && r.ngroups == 2 && r.groups[1] == 10);
	assert_true(r.caps == (1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH));
	assert_int_equal(
	    rights_parse("Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t11\nGroups:\t8 \nCapEff:\t0\n", &other),
	    0);
	assert_false(rights_within(&other, &r)); /* another group */
	other.gid = 9;
	assert_false(rights_within(&other, &r) && rights_within(&r, &other));
	other.gid = 8;
	assert_true(rights_within(&other, &r));
	assert_false(rights_within(&r, &other));
	other.uid = 0;
	assert_false(rights_within(&other, &r));
	rights_free(&r);
	rights_free(&other);
	assert_int_equal(rights_parse("Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 1", &r),
			 -EPROTO);
	assert_int_equal(rights_parse("", &r), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(with_the_rights_of_the_owner),
	    cmocka_unit_test(those_given_up_count_no_more),
	    cmocka_unit_test(only_regular_files),
	    cmocka_unit_test(others_are_not_even_opened),
	    cmocka_unit_test(below_its_root),
	    cmocka_unit_test(a_gain_of_rights_does_not_count),
	    cmocka_unit_test(rights_of_a_status_file),
	};
	return unit_run(tests, make_files, drop_files);
}
