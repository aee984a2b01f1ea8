/* CPython as it is in the process: functions of its stable ABI (Doc/data/stable_abi.dat), the same
 * since 3.8, found by name; libpython is not linked. All need the GIL except Py_AddPendingCall,
 * Py_IsInitialized and PyGILState_Ensure. */
#ifndef TRACER_SHIM_EXTENSION_PYTHON_H
#define TRACER_SHIM_EXTENSION_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef void object;

/* PyMethodDef and the flags of ml_flags (Include/methodobject.h). */
enum { METH_VARARGS = 1, METH_KEYWORDS = 2, METH_NOARGS = 4, METH_O = 8 };
struct method {
	const char *name;
	object *(*call)(object *self, object *arg);
	int flags;
	const char *doc;
};
typedef object *method_with_keywords(object *self, object *args, object *keywords);

/* PyType_Slot, PyType_Spec (Include/object.h) and slots of Include/typeslots.h. */
struct type_slot {
	int slot;
	void *value;
};
struct type_spec {
	const char *name;
	int size, item_size;
	unsigned flags;
	struct type_slot *slots;
};
enum { TP_GETATTRO = 58 };

/* Py_TPFLAGS_*_SUBCLASS (Include/object.h). */
enum {
	LONG_SUBCLASS = 1 << 24,
	LIST_SUBCLASS = 1 << 25,
	TUPLE_SUBCLASS = 1 << 26,
	TEXT_SUBCLASS = 1 << 28,
	DICT_SUBCLASS = 1 << 29
};

enum { FILE_INPUT = 257 /* Py_file_input, Include/compile.h */, PY_EQUAL = 2 /* Py_EQ */ };

/* clang-format off */
#define PYTHON_FUNCTIONS(F)                                                                        \
	F(int, Py_AddPendingCall, (int (*)(void *), void *))                                       \
	F(int, Py_IsInitialized, (void))                                                           \
	F(int, PyGILState_Ensure, (void))                                                          \
	F(void, PyGILState_Release, (int))                                                         \
	F(object *, Py_CompileString, (const char *, const char *, int))                           \
	F(object *, PyEval_EvalCode, (object *, object *, object *))                               \
	F(object *, PyEval_GetBuiltins, (void))                                                    \
	F(object *, PyEval_GetFrame, (void))                                                       \
	F(void, Py_IncRef, (object *))                                                             \
	F(void, Py_DecRef, (object *))                                                             \
	F(object *, PyErr_Occurred, (void))                                                        \
	F(void, PyErr_Clear, (void))                                                               \
	F(void, PyErr_Fetch, (object **, object **, object **))                                    \
	F(void, PyErr_Restore, (object *, object *, object *))                                     \
	F(void, PyErr_SetInterrupt, (void))                                                        \
	F(void, PyErr_SetString, (object *, const char *))                                         \
	F(void, PyErr_SetObject, (object *, object *))                                             \
	F(int, PyException_SetTraceback, (object *, object *))                                     \
	F(int, PyErr_GivenExceptionMatches, (object *, object *))                                  \
	F(void, PyErr_NormalizeException, (object **, object **, object **))                       \
	F(object *, PyObject_Call, (object *, object *, object *))                                 \
	F(object *, PyObject_CallObject, (object *, object *))                                     \
	F(object *, PyObject_CallFunctionObjArgs, (object *, ...))                                 \
	F(object *, PyObject_GetAttrString, (object *, const char *))                              \
	F(object *, PyObject_GetAttr, (object *, object *))                                        \
	F(ssize_t, PyObject_Hash, (object *))                                                      \
	F(int, PyObject_RichCompareBool, (object *, object *, int))                                \
	F(object *, PyObject_Str, (object *))                                                      \
	F(int, PyObject_IsTrue, (object *))                                                        \
	F(object *, PySequence_Tuple, (object *))                                                  \
	F(int, PySequence_Contains, (object *, object *))                                          \
	F(object *, PyBool_FromLong, (long))                                                       \
	F(object *, PyObject_GenericGetAttr, (object *, object *))                                 \
	F(object *, PyType_FromSpecWithBases, (struct type_spec *, object *))                      \
	F(unsigned long, PyType_GetFlags, (object *))                                              \
	F(int, PyType_IsSubtype, (object *, object *))                                             \
	F(int, PyUnicode_CompareWithASCIIString, (object *, const char *))                         \
	F(object *, PyDict_New, (void))                                                            \
	F(void, PyDict_Clear, (object *))                                                          \
	F(ssize_t, PyDict_Size, (object *))                                                        \
	F(int, PyDict_SetItem, (object *, object *, object *))                                     \
	F(int, PyDict_SetItemString, (object *, const char *, object *))                           \
	F(object *, PyDict_GetItemString, (object *, const char *))                                \
	F(object *, PyDict_GetItemWithError, (object *, object *))                                 \
	F(int, PyDict_Next, (object *, ssize_t *, object **, object **))                           \
	F(object *, PyTuple_New, (ssize_t))                                                        \
	F(ssize_t, PyTuple_Size, (object *))                                                       \
	F(object *, PyTuple_GetItem, (object *, ssize_t))                                          \
	F(int, PyTuple_SetItem, (object *, ssize_t, object *))                                     \
	F(object *, PyTuple_Pack, (ssize_t, ...))                                                  \
	F(object *, PyList_New, (ssize_t))                                                         \
	F(int, PyList_Append, (object *, object *))                                                \
	F(ssize_t, PyList_Size, (object *))                                                        \
	F(object *, PyList_GetItem, (object *, ssize_t))                                           \
	F(void *, PyCapsule_GetPointer, (object *, const char *))                                  \
	F(object *, PyImport_ImportModule, (const char *))                                         \
	F(object *, PyFloat_FromDouble, (double))                                                  \
	F(double, PyFloat_AsDouble, (object *))                                                    \
	F(object *, PyUnicode_AsUTF8String, (object *))                                            \
	F(char *, PyBytes_AsString, (object *))                                                    \
	F(object *, PyUnicode_DecodeFSDefault, (const char *))                                     \
	F(object *, PyUnicode_FromString, (const char *))                                          \
	F(object *, PyUnicode_InternFromString, (const char *))                                    \
	F(object *, PyLong_FromLong, (long))                                                       \
	F(long, PyLong_AsLong, (object *))                                                         \
	F(void *, PyLong_AsVoidPtr, (object *))                                                    \
	F(object *, PyCFunction_NewEx, (struct method *, object *, object *))

#define PYTHON_DATA(F)                                                                             \
	F(_Py_NoneStruct)                                                                          \
	F(_Py_TrueStruct)                                                                          \
	F(PyFloat_Type)                                                                            \
	F(_Py_FalseStruct)                                                                         \
	F(PyDict_Type)                                                                             \
	F(PyTuple_Type)                                                                            \
	F(PyExc_Exception)                                                                         \
	F(PyExc_RuntimeError)                                                                      \
	F(PyExc_TypeError)
/* clang-format on */

#define PYTHON_POINTER(type, name, arguments) type(*name) arguments;
#define PYTHON_ADDRESS(name) object *name;
struct python {
	PYTHON_FUNCTIONS(PYTHON_POINTER)
	PYTHON_DATA(PYTHON_ADDRESS)
};
#undef PYTHON_POINTER
#undef PYTHON_ADDRESS

extern struct python py;

/* Clear an error raised in a function of ours; a KeyboardInterrupt among them is raised again. */
void python_forget(void);

/* The end of PyObject_CallFunctionObjArgs' arguments. */
#define PY_END ((object *)NULL)

/* Drop a reference, which may be NULL. */
static inline void python_drop(object *o)
{
	if (o)
		py.Py_DecRef(o);
}

/* Take a reference; returns `o`. */
static inline object *python_kept(object *o)
{
	py.Py_IncRef(o);
	return o;
}

/* Py_TYPE, the second word of an object except in free-threaded builds; borrowed. */
static inline object *python_type(object *o)
{
	return ((object **)o)[1];
}

/* Whether an attribute is this very object, which must be kept alive by others. An error stays set.
 */
static inline bool python_has(object *o, object *attribute, object *wanted)
{
	object *found = py.PyObject_GetAttr(o, attribute);
	python_drop(found);
	return found == wanted;
}

static inline object *python_none(void)
{
	return python_kept(py._Py_NoneStruct);
}

#endif
