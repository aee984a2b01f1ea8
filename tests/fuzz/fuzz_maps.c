/* Fuzzes the readers of maps files, status files and torch/version.py. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct process_status status;
	struct libraries libraries;
	struct maps m;
	char version[32], *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	process_parse_status(text, &status);
	library_parse_version(text, version, sizeof(version));
	if (maps_parse(text, &m))
		return 0;
	for (size_t i = 0; i < m.n; i++)
		if (maps_find(&m, m.map[i].start) != &m.map[i] ||
		    maps_find(&m, m.map[i].end - 1) != &m.map[i])
			abort();
	for (const struct mapping *x = NULL; (x = maps_next_exec(&m, x));)
		library_is_needed(x->path);
	libraries_find(&m, &libraries);
	maps_free(&m);
	return 0;
}
