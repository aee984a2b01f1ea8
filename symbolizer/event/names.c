#include "symbolizer/event/names.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const struct {
	const char *name;
	int itemsize;
} dtypes[] = {
    {"uint8", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
    {"complex32", 4},
    {"complex64", 8},
    {"complex128", 16},
    {"bool", 1},
    {"qint8", 1},
    {"quint8", 1},
    {"qint32", 4},
    {"bfloat16", 2},
    {"quint4x2", 1},
    {"quint2x4", 1},
    {"bits1x8", 1},
    {"bits2x4", 1},
    {"bits4x2", 1},
    {"bits8", 1},
    {"bits16", 2},
    {"float8_e5m2", 1},
    {"float8_e4m3fn", 1},
    {"float8_e5m2fnuz", 1},
    {"float8_e4m3fnuz", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"uint1", 1},
    {"uint2", 1},
    {"uint3", 1},
    {"uint4", 1},
    {"uint5", 1},
    {"uint6", 1},
    {"uint7", 1},
    {"int1", 1},
    {"int2", 1},
    {"int3", 1},
    {"int4", 1},
    {"int5", 1},
    {"int6", 1},
    {"int7", 1},
    {"float8_e8m0fnu", 1},
    {"float4_e2m1fn_x2", 1},
};

static const char *const device_types[] = {
    "cpu",  "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
    "fpga", "maia", "xla",    "vulkan", "metal",  "xpu",   "mps",
    "meta", "hpu",  "ve",     "lazy",	"ipu",	  "mtia",  "privateuseone",
};

static const char *const layouts[] = {
    "strided",	  "sparse_coo", "sparse_csr", "_mkldnn",
    "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged",
};

static const char *const memory_formats[] = {
    "contiguous_format",
    "preserve_format",
    "channels_last",
    "channels_last_3d",
};

const char *names_dtype(int code)
{
	return code >= 0 && code < COUNT(dtypes) ? dtypes[code].name : NULL;
}

int names_itemsize(int code)
{
	return code >= 0 && code < COUNT(dtypes) ? dtypes[code].itemsize : 0;
}

int names_elements_per_byte(int code)
{
	const char *name = names_dtype(code);
	if (!name)
		return 1;
	return !strcmp(name, "quint4x2") ? 2 : !strcmp(name, "quint2x4") ? 4 : 1;
}

const char *names_device_type(int code)
{
	return code >= 0 && code < COUNT(device_types) ? device_types[code] : NULL;
}

int names_device_code(int code, int ndevice_types)
{
	enum { PRIVATE_USE_1_BEFORE_MTIA = 19, PRIVATE_USE_1 = 20 };
	return ndevice_types == 20 && code == PRIVATE_USE_1_BEFORE_MTIA ? PRIVATE_USE_1 : code;
}

const char *names_device(char *out, size_t size, int type, int index)
{
	char unknown[16];
	const char *name = names_device_type(type);
	if (!name) {
		snprintf(unknown, sizeof(unknown), "device %d", type);
		name = unknown;
	}
	if (index < 0)
		snprintf(out, size, "%s", name);
	else
		snprintf(out, size, "%s:%d", name, index);
	return out;
}

const char *names_layout(int code)
{
	return code >= 0 && code < COUNT(layouts) ? layouts[code] : NULL;
}

const char *names_memory_format(int code)
{
	return code >= 0 && code < COUNT(memory_formats) ? memory_formats[code] : NULL;
}

int names_dtype_code(const char *name)
{
	/* torch/__init__.py and torch/csrc/utils/tensor_dtypes.cpp, the same in 1.13.1 and 2.13.0.
	 */
	static const struct {
		const char *alias, *name;
	} aliases[] = {{"half", "float16"},    {"float", "float32"},	{"double", "float64"},
		       {"int", "int32"},       {"long", "int64"},	{"short", "int16"},
		       {"chalf", "complex32"}, {"cfloat", "complex64"}, {"cdouble", "complex128"}};
	for (int i = 0; i < COUNT(aliases); i++)
		if (!strcmp(name, aliases[i].alias))
			name = aliases[i].name;
	for (int i = 0; i < COUNT(dtypes); i++)
		if (!strcmp(name, dtypes[i].name))
			return i;
	return -1;
}

static int name_index(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

int names_layout_code(const char *name)
{
	return name_index(layouts, COUNT(layouts), name);
}

int names_memory_format_code(const char *name)
{
	return name_index(memory_formats, COUNT(memory_formats), name);
}
