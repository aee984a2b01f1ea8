#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/target/maps.h"

static const char sample[] =
    "55d0c0a00000-55d0c0a01000 r--p 00000000 fe:01 123 /usr/bin/a b (deleted)\n"
    "55d0c0a01000-55d0c0a02000 r-xp 00001000 fe:01 123                        /usr/bin/a b "
    "(deleted)\n"
    "7f0000000000-7f0000001000 rwxs 00000000 00:1f 18446744073709551615       /tmp/new\\012line\n"
    "7f0000001000-7f0000002000 ---p 00000000 00:00 0 \n"
    "7f0000003000-7f0000004000 r-xp 00000000 fe:01 7 /x/libtorch_cpu.so.1.13\n"
    "7f0000004000-7f0000005000 r-xp 00000000 fe:01 8 /x/libtorch_cpu_extra.so\n"
    "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]";

static void test_parse(void **state)
{
	(void)state;
	struct maps m;
	assert_int_equal(maps_parse(strdup(sample), &m), 0);
	assert_int_equal(m.n, 8);
	assert_string_equal(m.map[0].path, "/usr/bin/a b");
	assert_true(m.map[0].deleted && m.map[0].read && !m.map[0].exec && !m.map[0].write);
	assert_int_equal(m.map[0].inode, 123);
	assert_int_equal(m.map[0].dev_major, 0xfe);
	assert_int_equal(m.map[0].dev_minor, 1);
	assert_int_equal(m.map[1].offset, 0x1000);
	assert_true(m.map[1].exec);
	assert_string_equal(m.map[2].path, "/tmp/new\nline");
	assert_true(m.map[2].inode == UINT64_MAX && m.map[2].shared && m.map[2].write);
	assert_string_equal(m.map[3].path, "");
	assert_true(!m.map[3].inode && !m.map[3].read);
	assert_string_equal(m.map[6].path, "[stack]");
	assert_true(m.map[7].start == 0xffffffffff600000);
	maps_free(&m);
}

static void test_find(void **state)
{
	(void)state;
	struct maps m;
	assert_int_equal(maps_parse(strdup(sample), &m), 0);
	assert_null(maps_find(&m, 0x55d0c09fffff));
	assert_ptr_equal(maps_find(&m, 0x55d0c0a00000), &m.map[0]);
	assert_ptr_equal(maps_find(&m, 0x55d0c0a01fff), &m.map[1]);
	assert_null(maps_find(&m, 0x55d0c0a02000));
	assert_null(maps_find(&m, 0x7f0000002000));
	assert_ptr_equal(maps_find(&m, 0xffffffffff600fff), &m.map[7]);
	const struct mapping *x = maps_next_exec(&m, NULL);
	assert_ptr_equal(x, &m.map[1]);
	assert_ptr_equal(x = maps_next_exec(&m, x), &m.map[2]);
	assert_ptr_equal(x = maps_next_exec(&m, x), &m.map[4]);
	assert_ptr_equal(x = maps_next_exec(&m, x), &m.map[5]);
	assert_null(maps_next_exec(&m, x));
	assert_string_equal(mapping_name(&m.map[4]), "libtorch_cpu.so.1.13");
	maps_free(&m);
}

static void test_bad_lines(void **state)
{
	(void)state;
	static const char *const bad[] = {
	    "",
	    "\n\n",
	    "1000",
	    "2000-1000 r--p 0 0:0 0",
	    "1000-1000 r--p 0 0:0 0",
	    "11111111111111111-2 r--p 0 0:0 0",
	    "1000-2000 r--",
	    "1000-2000 r--p",
	    "1000-2000 r--p 0 0:0",
	    "1000-2000 r--p 0 0:0 ",
	    "1000-2000 r--p 0 0:0 x",
	    "1000-2000 r--p 0 0:0 18446744073709551616",
	    "1000-2000 r--p 0 100000000:0 1 /a",
	    "1000-2000 r--p  0:0 1 /a",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct maps m;
		assert_int_equal(maps_parse(strdup(bad[i]), &m), 0);
		if (m.n)
			fail_msg("taken: %s", bad[i]);
		maps_free(&m);
	}
}

static void test_out_of_order(void **state)
{
	(void)state;
	struct maps m;
	char *text =
	    strdup("3000-5000 r--p 0 0:0 0\n1000-2000 r--p 0 0:0 0\n4000-6000 r--p 0 0:0 0\n"
		   "5000-6000 r--p 0 0:0 0\n");
	assert_int_equal(maps_parse(text, &m), 0);
	assert_int_equal(m.n, 2);
	assert_int_equal(m.map[1].start, 0x5000);
	maps_free(&m);
}

static void test_own(void **state)
{
	(void)state;
	struct maps m;
	assert_int_equal(maps_read(getpid(), &m, NULL), 0);
	const struct mapping *x = maps_find(&m, (uintptr_t)test_own);
	assert_non_null(x);
	assert_true(x->exec && x->inode);
	assert_non_null(maps_find(&m, (uintptr_t)&m));
	int fd = maps_open(getpid(), x, NULL);
	struct stat a, b;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(stat("/proc/self/exe", &b), 0);
	assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	close(fd);
	maps_free(&m);
}

static void test_no_process(void **state)
{
	(void)state;
	struct maps m;
	struct err e = {0};
	assert_int_equal(maps_read(0x7ffffffe, &m, &e), -3 /* ESRCH */);
	assert_int_equal(m.n, 0);
	assert_non_null(strstr(e.what, "no such process"));
	assert_true(*e.hint);
}

/* Create a file with `content` and map it; returns the address. */
static void *map_file(const char *path, const char *content)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(p != MAP_FAILED);
	close(fd);
	return p;
}

/* Another file has taken the name of the mapped one: opens the old file or none, never the new one.
 */
static void test_replaced_file(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_maps.XXXXXX", path[64], other[64], text[8] = "";
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	void *old = map_file(path, "old"), *fresh = map_file(other, "new");
	assert_int_equal(rename(other, path), 0);

	struct maps m;
	struct err e = {0};
	assert_int_equal(maps_read(getpid(), &m, NULL), 0);
	const struct mapping *x = maps_find(&m, (uintptr_t)old);
	assert_true(x && x->deleted);
	assert_string_equal(x->path, path);
	int fd = maps_open(getpid(), x, &e);
	if (fd >= 0) {
		assert_int_equal(read(fd, text, 7), 3);
		assert_string_equal(text, "old");
		close(fd);
	} else {
		assert_int_equal(fd, -2 /* ENOENT */);
		assert_non_null(strstr(e.what, "replaced or deleted"));
	}
	munmap(old, 4096);
	munmap(fresh, 4096);
	maps_free(&m);
	unlink(path);
	rmdir(dir);
}

static void test_odd_name(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_maps.XXXXXX", path[64], found[4096];
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a b\n(deleted)", dir);
	void *p = map_file(path, "odd");
	struct maps m;
	assert_int_equal(maps_read(getpid(), &m, NULL), 0);
	const struct mapping *x = maps_find(&m, (uintptr_t)p);
	assert_non_null(x);
	assert_string_equal(x->path, path);
	assert_false(x->deleted);
	assert_int_equal(maps_open_path(getpid(), x, found, sizeof(found), NULL), 0);
	struct stat a, b;
	assert_int_equal(stat(found, &a), 0);
	assert_int_equal(stat(path, &b), 0);
	assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	munmap(p, 4096);
	maps_free(&m);
	unlink(path);
	rmdir(dir);
}

static void test_libraries(void **state)
{
	(void)state;
	static const char text[] =
	    "1000-2000 r-xp 0 1:1 1 /opt/app/python3.11\n"
	    "2000-3000 r-xp 0 1:1 2 /l/libtorch.so.1.13\n"
	    "3000-4000 r-xp 0 1:1 3 /l/libtorch_cpu-0a1b2c3d.so\n"
	    "4000-5000 r-xp 0 1:1 4 /l/libtorch_python.so\n"
	    "5000-6000 r-xp 0 1:1 5 /l/libc10.so\n"
	    "6000-7000 r-xp 0 1:1 6 /p/torch/_C.cpython-311-x86_64-linux-gnu.so\n";
	struct libraries l;
	struct torch_package package;
	struct maps m;
	assert_int_equal(maps_parse(strdup(text), &m), 0);
	libraries_find(&m, &l);
	torch_package_find(getpid(), &m, &package);
	assert_ptr_equal(l.torch, &m.map[2]);
	assert_ptr_equal(l.torch_python, &m.map[3]);
	assert_ptr_equal(l.c10, &m.map[4]);
	assert_ptr_equal(l.python, &m.map[0]);
	assert_string_equal(package.dir, "/p/torch");
	assert_string_equal(package.version, "");
	maps_free(&m);
	assert_true(library_is_needed("/l/libtorch_cpu.so.2"));
	assert_true(library_is_needed("libtorch_cpu-1a2b3c.so"));
	assert_true(library_is_needed("/l/libc10.so"));
	assert_true(library_is_needed("/l/libc10-1a2b3c.so"));
	assert_false(library_is_needed("/l/libc10_cuda.so"));
	assert_false(library_is_needed("/l/libtorch.so"));
	assert_false(library_is_needed("/l/libtorch_python.so"));
	assert_false(library_is_needed("/l/libtorch_cpu.sox"));
	assert_false(library_is_needed("/libc10.so/x"));
}

static void test_version(void **state)
{
	(void)state;
	char v[16];
	assert_true(library_parse_version("x = 1\n__version__ = '2.13.0+cpu'\ny", v, sizeof(v)));
	assert_string_equal(v, "2.13.0+cpu");
	assert_true(library_parse_version("__version__: str = \"1.9\"", v, sizeof(v)));
	assert_string_equal(v, "1.9");
	assert_false(library_parse_version("__all__ = ['__version__']\n", v, sizeof(v)));
	assert_false(library_parse_version("__version__ = '1.2\n'", v, sizeof(v)));
	assert_false(library_parse_version("__version__ = ''", v, sizeof(v)));
	assert_false(library_parse_version("__version__ = '12345678901234567890'", v, sizeof(v)));
	assert_false(library_parse_version("__version__", v, sizeof(v)));
}

/* Read repeatedly while the process calls execve. */
static void test_execve(void **state)
{
	const char *again = "exec sh -c \"$0\" \"$0\"";
	pid_t pid = fork();
	(void)state;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", again, again, NULL);
		_exit(1);
	}
	for (unsigned i = 0; i < 3000; i++) {
		struct maps m;
		assert_int_equal(maps_read(pid, &m, NULL), 0);
		maps_free(&m);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parse),	  cmocka_unit_test(test_find),
	    cmocka_unit_test(test_bad_lines),	  cmocka_unit_test(test_out_of_order),
	    cmocka_unit_test(test_own),		  cmocka_unit_test(test_no_process),
	    cmocka_unit_test(test_replaced_file), cmocka_unit_test(test_odd_name),
	    cmocka_unit_test(test_libraries),	  cmocka_unit_test(test_version),
	    cmocka_unit_test(test_execve),
	};
	return unit_run(tests, NULL, NULL);
}
