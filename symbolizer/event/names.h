/* Text for events: PyTorch's names for the codes of its C++ side (dtypes, devices, layouts, memory
 * formats), and values. */
#ifndef SYMBOLIZER_EVENT_NAMES_H
#define SYMBOLIZER_EVENT_NAMES_H

#include <stddef.h>
#include <stdio.h>

#include "symbolizer/event/event.h"

/* All names are as Python prints them without "torch.": "float32", "strided", "channels_last".
 * Sources, read for PyTorch 2.13.0:
 * torch/headeronly/core/{ScalarType,DeviceType,Layout,MemoryFormat}.h; for 1.13.1:
 * c10/core/{ScalarType,DeviceType,Layout,MemoryFormat}.h. Codes are stable across versions except
 * as noted below. Static strings; NULL for an unknown code. */

/* c10::ScalarType, 0 .. 45. 1.13.1 ends at 17; its 18 is Undefined, which no defined tensor has. */
const char *names_dtype(int code);

/* Codes by name; -1 if unknown. Dtypes may also be given by torch's aliases: "half", "float",
 * "double", "int", "long", "short", "chalf", "cfloat", "cdouble". */
int names_dtype_code(const char *name);
int names_layout_code(const char *name);
int names_memory_format_code(const char *name);

/* Bytes of one element of a dtype (c10::elementSize; sub-byte types count as stored: one byte), 0
 * for an unknown code. */
int names_itemsize(int code);

/* Elements of a dtype that share one byte: 2 for quint4x2, 4 for quint2x4 (the byte count of their
 * storages, ATen/quantized/Quantizer.cpp, get_sub_byte_tensor_size), 1 for all others. */
int names_elements_per_byte(int code);

/* c10::DeviceType, 0 .. 20, as in 2.13.0. 1.13.1 differs: 8 is "ort" (now "maia") and 19 is
 * PrivateUse1 (now "mtia", PrivateUse1 moved to 20); translate codes of such a target with
 * names_device_code first. */
const char *names_device_type(int code);

/* The 2.13.0 code for the device code of a library whose COMPILE_TIME_MAX_DEVICE_TYPES is
 * `ndevice_types` (20: before MTIA was added; 21: as in 2.13.0). */
int names_device_code(int code, int ndevice_types);

/* "cpu", "cuda:0", "device 57:0" for an unknown type, as str(torch.device) does; index -1: none.
 * Returns out. 32 bytes are always enough. */
const char *names_device(char *out, size_t size, int type, int index);

/* c10::Layout, 0 .. 7: "strided", "sparse_coo". */
const char *names_layout(int code);

/* c10::MemoryFormat, 0 .. 3: "contiguous_format", "channels_last". */
const char *names_memory_format(int code);

/* Values of an event as text. */

/* A value as Python would show it: "1e-05", "True", "None", "'sum'", "torch.float32", "[1, 2]",
 * "(1+2j)", "not decoded: why"; a tensor is "Tensor(2, 3)". Truncated with "..." when it does not
 * fit. Control characters are not escaped: print it with text_print_safe. Returns out. */
const char *value_text(char *out, size_t size, const struct value *v);

/* `n` numbers as a Python tuple: "(2, 3)", "(5,)", "()". Returns out. */
const char *value_dims(char *out, size_t size, const int64_t *dims, unsigned n);

/* Whether `v` is a tensor or a list that contains one. */
bool value_has_tensor(const struct value *v);

#endif
