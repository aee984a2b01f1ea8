#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolizer/target/process.h"
#include "tracer/doctor/checks.h"

/* A simulated machine: files below a temporary directory, and results of self-tests. */
struct machine {
	char root[32], proc[64], sys[64];
	struct check_env env;
	struct checks found;
};

static struct machine machine;

static void put(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", machine.root, name);
	for (char *p = path + strlen(machine.root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		mkdir(path, 0700);
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_caps(uint64_t mask)
{
	char text[64];
	snprintf(text, sizeof(text), "CapEff:\t%016llx\nSeccomp:\t0\n", (unsigned long long)mask);
	put("proc/self/status", text);
}

static const uint64_t all_caps = 0x1ffffffffff;

static int setup(void **state)
{
	(void)state;
	strcpy(machine.root, "/tmp/test_checks.XXXXXX");
	if (!mkdtemp(machine.root))
		return -1;
	snprintf(machine.proc, sizeof(machine.proc), "%s/proc", machine.root);
	snprintf(machine.sys, sizeof(machine.sys), "%s/sys", machine.root);
	machine.env = (struct check_env){
	    .proc = machine.proc, .sys = machine.sys, .bpf = {.first = 1, .other = 1}};
	put("proc/sys/kernel/osrelease", "6.18.3-test\n");
	put("proc/sys/kernel/perf_event_paranoid", "2\n");
	put("proc/self/uid_map", "         0          0 4294967295\n");
	put("proc/self/mounts", "proc /proc proc rw,nosuid 0 0\n");
	put("sys/kernel/btf/vmlinux", "x");
	put_caps(all_caps);
	return 0;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	checks_free(&machine.found);
	return nftw(machine.root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

typedef void check_fn(const struct check_env *env, struct checks *c);

/* Run the check: its first line must have that status and contain `text`; failures must suggest a
 * remedy. */
static void expect(check_fn *fn, enum check_status status, const char *text)
{
	checks_free(&machine.found);
	fn(&machine.env, &machine.found);
	assert_true(machine.found.n >= 1);
	const struct check *x = &machine.found.list[0];
	if (x->status != status || !strstr(x->text, text))
		fail_msg("%d: %s", x->status, x->text);
	assert_true(status == CHECK_OK || *x->fix);
	assert_int_equal(machine.found.failed, status == CHECK_FAIL);
}

static void expect_nothing(check_fn *fn)
{
	checks_free(&machine.found);
	fn(&machine.env, &machine.found);
	assert_int_equal(machine.found.n, 0);
}

static void test_kernel(void **state)
{
	(void)state;
	expect(check_kernel, CHECK_OK, "kernel 6.18");
	put("proc/sys/kernel/osrelease", "5.10.0-13-amd64\n");
	expect(check_kernel, CHECK_OK, "kernel 5.10"); /* the self-test passed: backported */
	machine.env.bpf.link = -EINVAL;
	expect(check_kernel, CHECK_FAIL, "5.10 is too old");
	put("proc/sys/kernel/osrelease", "6.5.0\n");
	expect(check_kernel, CHECK_FAIL, "6.5 is too old");
	put("proc/sys/kernel/osrelease", "6.6.0\n");
	expect(check_kernel, CHECK_OK, "6.6");
	put("proc/sys/kernel/osrelease", "what\n");
	expect(check_kernel, CHECK_WARN, "not known");
	put("proc/sys/kernel/osrelease", "6.6.0\n");
	machine.env.sys = "/nonexistent";
	expect(check_kernel, CHECK_FAIL, "no BTF");
}

static void test_capabilities(void **state)
{
	(void)state;
	uint64_t bpf = 1ULL << CAPS_BPF, perfmon = 1ULL << CAPS_PERFMON,
		 ptrace = 1ULL << CAPS_SYS_PTRACE;
	expect(check_capabilities, CHECK_OK, "CAP_BPF, CAP_PERFMON");
	assert_int_equal(machine.found.n, 1);
	put_caps(1ULL << CAPS_SYS_ADMIN | ptrace);
	expect(check_capabilities, CHECK_OK, "CAP_BPF");
	put_caps(0);
	put("proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
	expect(check_capabilities, CHECK_FAIL, "missing CAP_BPF, CAP_PERFMON");
	assert_non_null(strstr(machine.found.list[0].text, "unprivileged_bpf_disabled is 2"));
	put_caps(bpf | ptrace);
	expect(check_capabilities, CHECK_FAIL, "missing CAP_PERFMON:");
	put_caps(bpf | perfmon);
	expect(check_capabilities, CHECK_OK, "CAP_BPF");
	assert_int_equal(machine.found.n, 2);
	assert_int_equal(machine.found.list[1].status, CHECK_WARN);
	put_caps(all_caps);
	put("proc/self/uid_map", "0 1000 1\n");
	expect(check_capabilities, CHECK_FAIL, "user namespace");
}

static void test_probes(void **state)
{
	(void)state;
	struct bpf_selftest *t = &machine.env.bpf;
	expect(check_probes, CHECK_OK, "two threads");
	t->other = 0;
	expect(check_probes, CHECK_FAIL, "all threads but the first");
	t->first = 0;
	expect(check_probes, CHECK_FAIL, "not hit");
	t->link = -EINVAL;
	expect(check_probes, CHECK_FAIL, "uprobe_multi link: Invalid argument");
	t->load = -EPERM;
	expect(check_probes, CHECK_FAIL, "seccomp");
	put_caps(0);
	expect_nothing(check_probes); /* reported by check_capabilities */
}

static void test_perf_events(void **state)
{
	(void)state;
	expect(check_perf_events, CHECK_OK, "is 2");
	put_caps(0);
	expect(check_perf_events, CHECK_OK, "is 2");
	put("proc/sys/kernel/perf_event_paranoid", "1\n");
	expect(check_perf_events, CHECK_OK, "is 1");
	put("proc/sys/kernel/perf_event_paranoid", "3\n");
	machine.env.perf = -EACCES;
	expect(check_perf_events, CHECK_FAIL, "Permission denied");
	assert_non_null(strstr(machine.found.list[0].fix, "perf_event_paranoid=2"));
}

static void test_system_calls(void **state)
{
	(void)state;
	expect_nothing(check_pidfd);
	expect_nothing(check_files);
	machine.env.pidfd = -ENOSYS;
	expect(check_pidfd, CHECK_FAIL, "pidfd_open: Function not implemented");
	err_set(&machine.env.files, -ENOSYS, "openat2: %s", strerror(ENOSYS));
	err_hint(&machine.env.files, "boot another kernel");
	expect(check_files, CHECK_WARN, "openat2: Function not implemented");
	put_caps(0);
	expect(check_files, CHECK_FAIL, "openat2: Function not implemented");
}

static void test_yama(void **state)
{
	(void)state;
	expect_nothing(check_yama);
	put("proc/sys/kernel/yama/ptrace_scope", "1\n");
	expect(check_yama, CHECK_OK, "is 1");
	put_caps(0);
	expect(check_yama, CHECK_WARN, "a plain user cannot attach");
	machine.env.attach = true;
	expect(check_yama, CHECK_FAIL, "a plain user cannot attach");
	machine.env.attach = false;
	put("proc/sys/kernel/yama/ptrace_scope", "0\n");
	expect(check_yama, CHECK_OK, "is 0");
	put("proc/sys/kernel/yama/ptrace_scope", "2\n");
	expect(check_yama, CHECK_FAIL, "only root");
	put_caps(all_caps);
	expect(check_yama, CHECK_OK, "is 2");
	put("proc/sys/kernel/yama/ptrace_scope", "3\n");
	expect(check_yama, CHECK_FAIL, "nobody");
}

static void test_seccomp(void **state)
{
	(void)state;
	expect_nothing(check_seccomp);
	put("proc/self/status", "CapEff:\t0\nSeccomp:\t2\n");
	expect(check_seccomp, CHECK_OK, "lets through");
	machine.env.perf = -EPERM;
	expect(check_seccomp, CHECK_WARN, "may be what refuses");
}

static void test_container(void **state)
{
	(void)state;
	char path[128];
	expect_nothing(check_container);
	put("proc/self/ns/none", "");
	snprintf(path, sizeof(path), "%s/self/ns/pid", machine.proc);
	assert_int_equal(symlink("pid:[4026531836]", path), 0);
	expect_nothing(check_container);
	unlink(path);
	assert_int_equal(symlink("pid:[4026532777]", path), 0);
	expect(check_container, CHECK_WARN, "in a container");
}

static void test_lockdown(void **state)
{
	(void)state;
	expect_nothing(check_lockdown);
	put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	expect(check_lockdown, CHECK_OK, "[integrity]");
	put("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	expect(check_lockdown, CHECK_FAIL, "confidentiality");
}

static void test_ptrace(void **state)
{
	(void)state;
	expect(check_ptrace, CHECK_OK, "that of any process");
	put_caps(0);
	expect(check_ptrace, CHECK_OK, "of this user");
	machine.env.ptrace = -EPERM;
	expect(check_ptrace, CHECK_WARN, "Operation not permitted");
}

/* What only eBPF lacks is ignored where ptrace works; the rest counts. */
static void test_spare_bpf(void **state)
{
	struct checks c = {.of_bpf = true};
	(void)state;
	checks_add(&c, CHECK_FAIL, "no BTF", "f");
	checks_add(&c, CHECK_OK, "fine", "");
	assert_true(c.failed);
	checks_spare_bpf(&c);
	assert_false(c.failed);
	assert_int_equal(c.list[0].status, CHECK_WARN);
	assert_int_equal(c.list[1].status, CHECK_OK);
	c.of_bpf = false;
	checks_add(&c, CHECK_FAIL, "no such process", "f");
	checks_spare_bpf(&c);
	assert_true(c.failed);
	assert_int_equal(c.list[2].status, CHECK_FAIL);
	checks_free(&c);
}

static void test_hidepid(void **state)
{
	(void)state;
	expect_nothing(check_hidepid);
	put("proc/self/mounts",
	    "sysfs /sys sysfs rw 0 0\nproc /proc proc rw,hidepid=invisible,gid=5 0 0\n");
	expect_nothing(check_hidepid); /* allowed with CAP_SYS_PTRACE */
	put_caps(0);
	expect(check_hidepid, CHECK_WARN, "mounted with hidepid=invisible:");
	put("proc/self/mounts", "proc /proc proc rw,hidepid=0 0 0\n");
	expect_nothing(check_hidepid);
}

static void test_list(void **state)
{
	(void)state;
	struct checks c = {0};
	char text[32];
	for (int i = 0; i < 100; i++)
		checks_addf(&c, i == 70 ? CHECK_FAIL : CHECK_OK, "f", "line %d", i);
	assert_int_equal(c.n, 100);
	assert_true(c.failed);
	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "line %d", i);
		assert_string_equal(c.list[i].text, text);
	}
	checks_free(&c);
	assert_false(c.failed);
	checks_add(&c, CHECK_WARN, "w", "");
	assert_false(c.failed);
	checks_free(&c);
}

static bool says(const struct checks *c, enum check_status status, const char *text)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].status == status && strstr(c->list[i].text, text))
			return true;
	return false;
}

static void test_process(void **state)
{
	(void)state;
	struct check_env env = {.proc = "/proc", .sys = "/sys"};
	struct checks c = {0};
	char pid[32];
	assert_false(checks_process(&env, getpid(), &c));
	snprintf(pid, sizeof(pid), "process %d", getpid());
	assert_true(says(&c, CHECK_OK, pid));
	assert_true(says(&c, CHECK_FAIL, "has not loaded PyTorch"));
	checks_free(&c);
	assert_false(checks_process(&env, 0x7ffffffe, &c));
	assert_true(says(&c, CHECK_FAIL, "no such process"));
	assert_int_equal(c.n, 1);
	checks_free(&c);
}

/* The self-test agrees with the capabilities. */
static void test_selftest(void **state)
{
	(void)state;
	struct check_env env;
	check_env_init(&env);
	bool may = caps_has(caps_effective("/proc"), CAPS_BPF);
	if (!may)
		assert_int_equal(env.bpf.load, -EPERM);
	else if (!env.bpf.load && !env.bpf.link)
		assert_int_equal(env.bpf.first, 1);
	else
		assert_true(env.bpf.first == 0 && env.bpf.other == 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_kernel),	    TEST(test_capabilities), TEST(test_probes),
	    TEST(test_perf_events), TEST(test_system_calls), TEST(test_yama),
	    TEST(test_seccomp),	    TEST(test_container),    TEST(test_lockdown),
	    TEST(test_ptrace),	    TEST(test_spare_bpf),    TEST(test_hidepid),
	    TEST(test_list),	    TEST(test_process),	     TEST(test_selftest),
	};
	return unit_run(tests, NULL, NULL);
}
