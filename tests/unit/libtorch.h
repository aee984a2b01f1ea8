/* The libtorch_cpu of this machine, for tests of its readers: the files in DITRACE_TEST_LIBTORCH,
 * separated by colons, or else Debian's. */
#ifndef TESTS_UNIT_LIBTORCH_H
#define TESTS_UNIT_LIBTORCH_H

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <gelf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct libtorch {
	char path[4096];
	char *map;
	size_t size;
	Elf *elf;
	const char *rodata;
	size_t rodata_len;
	const char **calls; /* mangled at::_ops::*::call */
	size_t ncalls;
};

static void libtorch_read_symbols(struct libtorch *l, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = sh->sh_size / sh->sh_entsize;
	l->calls = calloc(n, sizeof(*l->calls));
	assert_non_null(l->calls);
	for (size_t i = 0; i < n; i++) {
		GElf_Sym sym;
		if (!gelf_getsym(data, (int)i, &sym) || !sym.st_value)
			continue;
		const char *name = elf_strptr(l->elf, sh->sh_link, sym.st_name);
		if (name && !strncmp(name, "_ZN2at4_ops", 11) && strstr(name, "4callE"))
			l->calls[l->ncalls++] = name;
	}
}

static void libtorch_open(struct libtorch *l, const char *path)
{
	struct stat st;
	size_t names;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*l = (struct libtorch){0};
	snprintf(l->path, sizeof(l->path), "%s", path);
	assert_true(fd >= 0 && !fstat(fd, &st));
	l->size = (size_t)st.st_size;
	l->map = mmap(NULL, l->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_ptr_not_equal(l->map, MAP_FAILED);
	elf_version(EV_CURRENT);
	l->elf = elf_memory(l->map, l->size);
	assert_true(l->elf && !elf_getshdrstrndx(l->elf, &names));
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(l->elf, scn));) {
		GElf_Shdr sh;
		assert_non_null(gelf_getshdr(scn, &sh));
		const char *name = elf_strptr(l->elf, names, sh.sh_name);
		if (!strcmp(name, ".rodata")) {
			l->rodata = l->map + sh.sh_offset;
			l->rodata_len = sh.sh_size;
		} else if (sh.sh_type == SHT_DYNSYM) {
			libtorch_read_symbols(l, scn, &sh);
		}
	}
	assert_non_null(l->rodata);
	assert_true(l->ncalls > 0);
}

static void libtorch_close(struct libtorch *l)
{
	elf_end(l->elf);
	munmap(l->map, l->size);
	free(l->calls);
}

/* Run `test` on each library; skips with a message if there is none. */
static inline void libtorch_each(void (*test)(const struct libtorch *))
{
	const char *list = getenv("DITRACE_TEST_LIBTORCH");
	char *copy =
	    strdup(list && *list ? list : "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13");
	char *save = NULL;
	int n = 0;

	for (char *path = strtok_r(copy, ":", &save); path; path = strtok_r(NULL, ":", &save)) {
		struct libtorch l;
		if (access(path, R_OK)) {
			print_message("# no %s\n", path);
			continue;
		}
		libtorch_open(&l, path);
		test(&l);
		libtorch_close(&l);
		n++;
	}
	free(copy);
	if (!n) {
		print_message("# skipped: no libtorch_cpu.so; name one in DITRACE_TEST_LIBTORCH\n");
		skip();
	}
}

#endif
