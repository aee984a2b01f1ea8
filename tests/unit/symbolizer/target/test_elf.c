#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/target/elf.h"

/* To be looked up by name in this program's file. */
__attribute__((noinline, used)) int elf_test_marker(int x);
int elf_test_marker(int x)
{
	return x * 3 + 1;
}

static const char elf_test_text[] = "a text in read-only data that no other file has: 5b1e";

static struct elf_file *own(void)
{
	struct elf_file *f;
	struct err e = {0};
	if (elf_file_open("/proc/self/exe", &f, &e))
		fail_msg("%s", e.what);
	return f;
}

static uint64_t own_bias(struct elf_file *f, uintptr_t addr)
{
	struct maps m;
	uint64_t bias;
	assert_int_equal(maps_read(getpid(), &m, NULL), 0);
	const struct mapping *x = maps_find(&m, addr);
	assert_non_null(x);
	assert_int_equal(elf_bias(f, x, &bias), 0);
	maps_free(&m);
	return bias;
}

static void test_own_symbol(void **state)
{
	(void)state;
	struct elf_file *f = own();
	uint64_t size = 0, vaddr = elf_find(f, "elf_test_marker", &size);
	assert_true(vaddr && size);
	uint64_t bias = own_bias(f, (uintptr_t)elf_test_marker);
	assert_true(vaddr + bias == (uintptr_t)elf_test_marker);
	assert_memory_equal(elf_bytes(f, vaddr, size), (const void *)elf_test_marker, size);
	int64_t off = elf_offset(f, vaddr);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint8_t first;
	assert_true(off > 0 && pread(fd, &first, 1, off) == 1);
	assert_int_equal(first, *(const uint8_t *)elf_test_marker);
	close(fd);
	elf_file_drop(f);
	assert_memory_equal(elf_bytes(f, vaddr, size), (const void *)elf_test_marker, size);
	assert_true(elf_find(f, "no such symbol", &size) == 0 && size == 0);
	elf_file_close(f);
}

/* The load bias is the same from each of the file's mappings, or unknown. */
static void test_bias_of_all_mappings(void **state)
{
	(void)state;
	struct elf_file *f = own();
	struct maps m;
	uint64_t want = own_bias(f, (uintptr_t)elf_test_marker);
	assert_int_equal(maps_read(getpid(), &m, NULL), 0);
	const struct mapping *code = maps_find(&m, (uintptr_t)elf_test_marker);
	int n = 0;
	for (size_t i = 0; i < m.n; i++) {
		uint64_t bias;
		/* Far from the image: a reader of debug information has mapped the file, too. */
		if (m.map[i].inode != code->inode || m.map[i].start - want > 1 << 30)
			continue;
		int r = elf_bias(f, &m.map[i], &bias);
		/* A page shared by two segments: unknown is fine, a wrong bias is not. */
		assert_true(r ? r == -EINVAL && !m.map[i].exec : bias == want);
		n++;
		n++;
	}
	assert_true(n >= 3);
	maps_free(&m);
	elf_file_close(f);
}

/* Two segments that share a page of the file: permissions of the mapping distinguish them. */
static void test_bias_shared_page(void **state)
{
	(void)state;
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p[2];
		uint8_t rest[0x2000];
	} *file = calloc(1, sizeof(*file));
	memcpy(file->h.e_ident, ELFMAG, SELFMAG);
	file->h.e_ident[EI_CLASS] = ELFCLASS64;
	file->h.e_ident[EI_DATA] = ELFDATA2LSB;
	file->h.e_type = ET_DYN;
	file->h.e_phoff = sizeof(Elf64_Ehdr);
	file->h.e_phentsize = sizeof(Elf64_Phdr);
	file->h.e_phnum = 2;
	file->p[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x1240};
	file->p[1] = (Elf64_Phdr){.p_type = PT_LOAD,
				  .p_flags = PF_R | PF_X,
				  .p_offset = 0x1240,
				  .p_vaddr = 0x2240,
				  .p_filesz = 0x100};
	struct elf_file *f;
	uint64_t bias = 0;
	assert_int_equal(elf_file_open_memory(file, sizeof(*file), &f), 0);
	struct mapping m = {
	    .start = 0x700000002000, .end = 0x700000003000, .offset = 0x1000, .exec = true};
	assert_int_equal(elf_bias(f, &m, &bias), 0);
	assert_true(bias == 0x700000000000);
	m = (struct mapping){.start = 0x700000000000, .end = 0x700000002000, .offset = 0};
	assert_int_equal(elf_bias(f, &m, &bias), 0);
	assert_true(bias == 0x700000000000);
	m.offset = 0x5000;
	assert_int_equal(elf_bias(f, &m, &bias), -ENOENT);
	assert_true(elf_offset(f, 0x2240) == 0x1240);
	assert_true(elf_offset(f, 0x2340) == -1);
	elf_file_close(f);
	free(file);
}

static void test_rodata(void **state)
{
	(void)state;
	struct elf_file *f = own();
	uint64_t vaddr;
	size_t size;
	const uint8_t *p = elf_section(f, ".rodata", &vaddr, &size);
	assert_non_null(p);
	assert_non_null(memmem(p, size, elf_test_text, sizeof(elf_test_text)));
	assert_ptr_equal(elf_bytes(f, vaddr, size), p);
	assert_null(elf_bytes(f, vaddr, (uint64_t)-1));
	assert_null(elf_bytes(f, (uint64_t)-8, 16));
	assert_null(elf_section(f, ".no.such", &vaddr, &size));
	assert_null(elf_section(f, ".bss", &vaddr, &size));
	elf_file_close(f);
}

struct counted {
	size_t n, from_symtab;
	uint64_t marker;
};

static int count(const struct elf_symbol *s, void *arg)
{
	struct counted *c = arg;
	c->n++;
	c->from_symtab += s->from_symtab;
	if (!strcmp(s->name, "elf_test_marker") && s->is_function)
		c->marker = s->vaddr;
	return 0;
}

static int stop(const struct elf_symbol *s, void *arg)
{
	(void)s;
	++*(int *)arg;
	return 42;
}

/* As a library that is overwritten in place while ditrace reads it. */
static void test_overwritten(void **state)
{
	(void)state;
	char path[] = "/tmp/test_elf.XXXXXX";
	struct elf_file *f = own(), *cut;
	struct counted all = {0};
	uint64_t size, vaddr = elf_find(f, "elf_test_marker", &size);
	int fd = mkstemp(path), exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	assert_true(fd >= 0 && exe >= 0 && !fstat(exe, &st));
	while (st.st_size > lseek(fd, 0, SEEK_CUR))
		assert_true(sendfile(fd, exe, NULL, (size_t)st.st_size) > 0);
	unlink(path);
	bus_guard(NULL);
	assert_int_equal(elf_file_open_fd(fd, path, &cut, NULL), 0);
	assert_true(elf_find(cut, "elf_test_marker", NULL) == vaddr);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_true(elf_find(cut, "elf_test_marker", NULL) == 0);
	assert_int_equal(elf_each_symbol(cut, true, count, &all), 0);
	assert_int_equal(all.marker, 0);
	assert_int_equal(*elf_bytes(cut, vaddr, size), 0);
	assert_true(bus_read_zeros());
	elf_file_close(cut);
	elf_file_close(f);
	close(fd);
	close(exe);
}

static void test_each(void **state)
{
	(void)state;
	struct elf_file *f = own();
	struct counted dynamic = {0}, all = {0};
	int calls = 0;
	assert_int_equal(elf_each_symbol(f, false, count, &dynamic), 0);
	assert_int_equal(elf_each_symbol(f, true, count, &all), 0);
	assert_int_equal(dynamic.from_symtab, 0);
	assert_int_equal(all.n - all.from_symtab, dynamic.n);
	assert_true(all.marker == elf_find(f, "elf_test_marker", NULL));
	assert_int_equal(elf_each_symbol(f, true, stop, &calls), 42);
	assert_int_equal(calls, 1);
	elf_file_close(f);
}

/* The C library: symbols found by the hash table equal those of the symbol table. */
static struct elf_file *libc_file(uint64_t *bias)
{
	Dl_info info;
	struct elf_file *f;
	assert_true(dladdr((void *)(uintptr_t)strtoull, &info));
	assert_int_equal(elf_file_open(info.dli_fname, &f, NULL), 0);
	*bias = (uintptr_t)info.dli_fbase;
	return f;
}

static void test_library(void **state)
{
	(void)state;
	uint64_t bias, at[3];
	struct elf_file *f = libc_file(&bias);
	assert_true(elf_find_dynamic(f, "getpid", NULL) + bias ==
		    (uintptr_t)dlsym(RTLD_DEFAULT, "getpid"));
	static const char *const names[] = {"malloc", "no such symbol", "getppid"};
	assert_int_equal(elf_find_all(f, names, 3, at, NULL), 2);
	assert_true(at[0] && !at[1] && at[2] + bias == (uintptr_t)dlsym(RTLD_DEFAULT, "getppid"));
	elf_file_close(f);
}

static int check_found(const struct elf_symbol *s, void *arg)
{
	/* Symbol versions give a name several addresses: any one of them. */
	return s->vaddr && !elf_find_dynamic(arg, s->name, NULL) ? -1 : 0;
}

static void test_hash_finds_all(void **state)
{
	(void)state;
	uint64_t bias;
	struct elf_file *f = libc_file(&bias);
	assert_int_equal(elf_each_symbol(f, false, check_found, f), 0);
	elf_file_close(f);
}

static void test_no_elf(void **state)
{
	(void)state;
	struct elf_file *f = NULL;
	struct err e = {0};
	assert_int_equal(elf_file_open("/no/such/file", &f, &e), -ENOENT);
	assert_non_null(strstr(e.what, "/no/such/file"));
	assert_int_equal(elf_file_open("/proc/self/maps", &f, &e), -ENOEXEC);
	assert_int_equal(elf_file_open("/dev/null", &f, &e), -ENOEXEC);
	assert_int_equal(elf_file_open("/", &f, &e), -ENOEXEC);
	elf_file_close(NULL);
}

static uint64_t elf_find_in(const char *file, size_t n)
{
	struct elf_file *f;
	assert_int_equal(elf_file_open_memory(file, n, &f), 0);
	uint64_t at = elf_find(f, "elf_test_marker", NULL);
	elf_file_close(f);
	return at;
}

/* This program's file, truncated at every length up to the end of its headers and at many beyond:
 * rejected, or read within bounds. */
static void test_cut(void **state)
{
	(void)state;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	assert_true(fd >= 0 && !fstat(fd, &st));
	char *whole = malloc((size_t)st.st_size);
	assert_true(read(fd, whole, (size_t)st.st_size) == st.st_size);
	close(fd);
	uint64_t marker = elf_find_in(whole, (size_t)st.st_size);
	assert_true(marker);
	for (size_t n = 0; n < (size_t)st.st_size; n += n < 1024 ? 1 : (size_t)st.st_size / 50) {
		struct counted c = {0};
		struct elf_file *f;
		char *cut =
		    malloc(n ? n : 1); /* a block of its own, so that sanitizers see its end */
		memcpy(cut, whole, n);
		if (!elf_file_open_memory(cut, n, &f)) {
			assert_true(n >= sizeof(Elf64_Ehdr));
			elf_each_symbol(f, true, count, &c);
			uint64_t found = elf_find(f, "elf_test_marker", NULL);
			assert_true(!found || found == marker);
			elf_file_close(f);
		}
		free(cut);
	}
	free(whole);
}

/* A file of one segment, 0x1000 before its addresses, with a function of 32 bytes by its unwind
 * table, which is `shift` bytes off its alignment. */
struct small {
	Elf64_Ehdr head;
	Elf64_Phdr load;
	Elf64_Shdr sections[3];
	uint8_t bytes[64];
	char names[32];
};

static struct small small_file(unsigned shift)
{
	const uint64_t at = offsetof(struct small, bytes);
	struct small s = {
	    .head = {.e_type = ET_DYN,
		     .e_phoff = offsetof(struct small, load),
		     .e_phentsize = sizeof(Elf64_Phdr),
		     .e_phnum = 1,
		     .e_shoff = offsetof(struct small, sections),
		     .e_shentsize = sizeof(Elf64_Shdr),
		     .e_shnum = 3,
		     .e_shstrndx = 2},
	    .load = {.p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = 0x1000, .p_filesz = sizeof(s)},
	    .sections = {[1] = {.sh_name = 1,
				.sh_type = SHT_PROGBITS,
				.sh_addr = 0x1000 + at + shift,
				.sh_offset = at + shift,
				.sh_size = 40},
			 [2] = {.sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct small, names),
				.sh_size = sizeof(s.names)}},
	};
	/* The code is at 100, the entry for it behind the table, relative to its own place. */
	const int32_t table[] = {0x3b031b01, 0, 1, 100, 20, 16, 0, 100 - 28, 32};
	memcpy(s.head.e_ident, ELFMAG, SELFMAG);
	s.head.e_ident[EI_CLASS] = ELFCLASS64;
	s.head.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(s.bytes + shift, table, sizeof(table));
	strcpy(s.names + 1, ".eh_frame_hdr");
	return s;
}

static void test_unwind_table(void **state)
{
	(void)state;
	for (unsigned shift = 0; shift < 2; shift++) {
		_Alignas(8) struct small s = small_file(shift);
		struct elf_file *f;
		assert_int_equal(elf_file_open_memory(&s, sizeof(s), &f), 0);
		uint64_t code = 0x1000 + offsetof(struct small, bytes) + shift + 100;
		assert_int_equal(elf_function_size(f, code), shift ? 0 : 32);
		elf_file_close(f);
	}
}

/* Names of sections without an end. */
static void test_names(void **state)
{
	(void)state;
	_Alignas(8) struct small s = small_file(0);
	struct elf_file *f;
	uint64_t at;
	size_t n;
	memset(s.names + sizeof(".eh_frame_hdr"), 'x', sizeof(s.names) - sizeof(".eh_frame_hdr"));
	assert_int_equal(elf_file_open_memory(&s, sizeof(s), &f), 0);
	assert_null(elf_section(f, ".eh_frame_hdr", &at, &n));
	elf_file_close(f);
}

static void test_demangle(void **state)
{
	(void)state;
	static const char digits[] = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char bomb[512] = "_Z1fI1AIiiE", *text = elf_demangle("_ZN2at4_ops3add4callEi", 0);
	assert_string_equal(text, "at::_ops::add::call");
	free(text);
	assert_null(elf_demangle("main", 0));
	/* each argument twice the one before: 2^30 times int */
	for (unsigned i = 0; i < 30; i++)
		sprintf(bomb + strlen(bomb), "S0_IS%c_S%c_E", digits[i], digits[i]);
	assert_null(elf_demangle(strcat(bomb, "Evv"), 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_own_symbol),
	    cmocka_unit_test(test_bias_of_all_mappings),
	    cmocka_unit_test(test_bias_shared_page),
	    cmocka_unit_test(test_rodata),
	    cmocka_unit_test(test_each),
	    cmocka_unit_test(test_overwritten),
	    cmocka_unit_test(test_library),
	    cmocka_unit_test(test_hash_finds_all),
	    cmocka_unit_test(test_no_elf),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_unwind_table),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_demangle),
	};
	return unit_run(tests, NULL, NULL);
}
