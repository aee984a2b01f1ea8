/* Where the library lies for programs that `run` starts. Whatever they leave running loads it again
 * by its path, so nobody else may ever be able to make that path: each folder of it belongs to root
 * or to this user and is writable by its owner alone, and the library is never removed. Not even a
 * folder with the sticky bit will do, as /tmp is: what has been removed from there, by age or at
 * boot, anyone can make again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/home.h"
#include "tracer/engine/shim/internal.h"
#include "tracer/engine/shim/jumps.h"

enum { LIBRARY_MODE = 0555, HOME_FILES = 2 };

static struct home_file home_file(unsigned i, struct stub_image *image)
{
	struct home_file f = {.name = SHIM_LIBRARY};
	if (i) {
		stub_image_make(image, 0, STUB_IMAGE_MOST);
		return (struct home_file){STUB_IMAGE_FILE, image, sizeof(*image), STUB_IMAGE_MOST};
	}
	f.bytes = shim_library(&f.n);
	f.size = (off_t)f.n;
	return f;
}

int shim_home_write(int dir)
{
	struct stub_image image;
	int r = 0;
	for (unsigned i = 0; i < HOME_FILES && !r; i++) {
		const struct home_file f = home_file(i, &image);
		r = home_write(dir, f.name, &f);
	}
	return r;
}

static int ensure_all(int dir)
{
	struct stub_image image;
	int r = 0;
	for (unsigned i = 0; i < HOME_FILES && !r; i++) {
		const struct home_file f = home_file(i, &image);
		r = home_keep(dir, &f, LIBRARY_MODE);
	}
	return r;
}

/* What ld.so(8) would not take for one path in LD_PRELOAD. */
static bool is_loadable(const char *path)
{
	return !path[strcspn(path, " :$")];
}

/* LD_PRELOAD names the library below $LIB, which glibc alone replaces, by one of these: other
 * dynamic linkers find nothing there, and would end the program if they found a library of glibc's.
 */
static int link_names(int dir)
{
	static const char *const names[] = {"lib", "lib64", "x86_64-linux-gnu"};
	int r = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !r; i++)
		r = symlinkat(".", dir, names[i]) && errno != EEXIST ? -errno : 0;
	return r;
}

static int fit(int dir, const char *path, struct home_why *why)
{
	struct statvfs fs;
	if (fstatvfs(dir, &fs) || fs.f_flag & ST_NOEXEC)
		home_say(why, path, "is mounted noexec");
	else if (!is_loadable(path))
		home_say(why, path, "has a blank, a colon or a $ in its name");
	else {
		int r = ensure_all(dir);
		r = r ? r : link_names(dir);
		return r ? home_refuse(why, path, r) : 0;
	}
	return -EACCES;
}

int shim_home(char path[PATH_MAX], bool for_other, struct err *e)
{
	const struct {
		const char *base, *sub;
	} places[] = {
	    {geteuid() ? NULL : "/var/lib", NULL},
	    {for_other ? NULL : getenv("XDG_CACHE_HOME"), NULL},
	    {for_other ? NULL : getenv("HOME"), ".cache"},
	};
	struct home_why why = {0};
	char name[32];
	size_t n;
	int r = -ENOENT;
	const void *bytes = shim_library(&n);
	snprintf(name, sizeof(name), "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
	const char *const names[] = {"ditrace", "shim", name, NULL};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int dir = home_make(places[i].base, places[i].sub, names, path, &why);
		r = dir < 0 ? dir : fit(dir, path, &why);
		if (!r)
			return dir;
		if (dir >= 0)
			close(dir);
	}
	err_set(e, r, "no folder for the library that goes into the program: %s",
		*why.text ? why.text : "neither HOME nor XDG_CACHE_HOME is set");
	if (for_other)
		return err_hint(e, "make /var/lib one in which and above which only root can "
				   "write, not mounted noexec; or trace with --engine bpf or "
				   "ptrace");
	return err_hint(e, "set XDG_CACHE_HOME to a folder of yours, not mounted noexec, in which "
			   "and above which only you and root can write; or trace with --engine "
			   "ptrace");
}
