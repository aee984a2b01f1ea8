#include "tracer/session/load_ops.h"

#include <limits.h>

#include "symbolizer/target/maps.h"

int load_ops(pid_t pid, const struct libraries *l, bool lazy, struct op_table **out, struct err *e)
{
	char path[OPS_FILES][PATH_MAX];
	const char *paths[OPS_FILES] = {NULL};
	for (unsigned i = 0; i < OPS_FILES; i++) {
		const struct mapping *m = ops_mapping(l, i);
		if (!m)
			continue;
		int r = maps_open_path(pid, m, path[i], sizeof(path[i]), e);
		if (r)
			return r;
		paths[i] = path[i];
	}
	return lazy ? op_table_load_lazy(paths, out, e) : op_table_load(paths, out, e);
}
