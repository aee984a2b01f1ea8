/* What a process has mapped, and what code it had mapped before: from /proc/PID/maps, and from
 * records of mappings as they were made. */
#ifndef TRACER_SAMPLE_KNOWN_MAPS_H
#define TRACER_SAMPLE_KNOWN_MAPS_H

#include "base/arena.h"
#include "symbolizer/target/maps.h"

/* Zero-initialise. */
struct known_maps {
	struct maps maps; /* code that is no longer mapped stays where nothing has replaced it */
	size_t room;
	struct arena arena;
};

/* Read what is mapped now. 0 or as maps_read. */
int known_maps_read(struct known_maps *k, pid_t pid);

/* Whether code of something else is known where `m` is. */
bool known_maps_replaces(const struct known_maps *k, const struct mapping *m);

/* Take in a mapping that process `pid` has made (copied): one with a build id gets the inode of the
 * file at its path, if that has the same. 1; 0 when it is known already; or -ENOMEM. */
int known_maps_add(struct known_maps *k, pid_t pid, const struct mapping *m);

/* Take in the code that `from` has mapped, as a process that was forked has. 0 or -ENOMEM. */
int known_maps_inherit(struct known_maps *k, const struct known_maps *from);

void known_maps_free(struct known_maps *k);

#endif
