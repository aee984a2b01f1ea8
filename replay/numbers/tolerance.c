#include "replay/numbers/tolerance.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "AUTOCOMPARE_ERROR_TOLERANCE"

extern char **environ;

static const struct {
	int dtype;
	const char *name;
	double tolerance;
} defaults[] = {
    {5, "FLOAT16", 1e-4}, {15, "BFLOAT16", 1e-3}, {6, "FLOAT32", 1e-5}, {7, "FLOAT64", 1e-8}};

/* "ADD" of "torch.Tensor.add", "aten::add.Tensor" and "torch.ops.aten.add.Tensor". */
static void op_part(const char *op, char *out, size_t size)
{
	const char *colons = strstr(op, "::"), *dot = strrchr(op, '.');
	const char *in_torch = colons ? colons + 2 : NULL;
	if (!strncmp(op, "torch.ops.", 10) && strchr(op + 10, '.'))
		in_torch = strchr(op + 10, '.') + 1;
	const char *s = in_torch ? in_torch : dot ? dot + 1 : op;
	size_t n = 0;
	for (; *s && !(in_torch && *s == '.') && n + 1 < size; s++)
		out[n++] = (char)toupper((unsigned char)*s);
	out[n] = '\0';
}

/* 1: taken, 0: not set. */
static int tolerance_read_variable(const char *variable, struct tolerance *out, struct err *e)
{
	const char *text = getenv(variable);
	char *end, *end2;
	if (!text)
		return 0;
	double atol = strtod(text, &end);
	if (end != text && *end == ',') {
		double rtol = strtod(end + 1, &end2);
		while (isspace((unsigned char)*end2))
			end2++;
		if (end2 != end + 1 && !*end2 && atol >= 0 && rtol >= 0) {
			*out = (struct tolerance){atol, rtol, true};
			return 1;
		}
	}
	err_set(e, -EINVAL, "%s=%s is not two numbers", variable, text);
	return err_hint(e, "write atol,rtol: %s=1e-4,1e-5", variable);
}

int tolerance_of(const char *op, int dtype, struct tolerance *out, struct err *e)
{
	char part[256], variable[384];
	int r = 0;
	*out = (struct tolerance){1e-3, 1e-3, false};
	op_part(op, part, sizeof(part));
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
		if (defaults[i].dtype != dtype)
			continue;
		out->atol = out->rtol = defaults[i].tolerance;
		snprintf(variable, sizeof(variable), "%s_" VARIABLE "_%s", part, defaults[i].name);
		r = tolerance_read_variable(variable, out, e);
		if (!r)
			r = tolerance_read_variable(strstr(variable, VARIABLE), out, e);
	}
	if (!r)
		r = tolerance_read_variable(VARIABLE, out, e);
	return r < 0 ? r : 0;
}

bool tolerance_in_env(void)
{
	for (char **v = environ; *v; v++) {
		const char *found = strstr(*v, VARIABLE), *equals = strchr(*v, '=');
		if (found && equals && found < equals && (found == *v || found[-1] == '_'))
			return true;
	}
	return false;
}
