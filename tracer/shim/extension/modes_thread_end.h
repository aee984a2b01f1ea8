/* Threads of the program that end with the mode on them. */
#ifndef TRACER_SHIM_EXTENSION_MODES_THREAD_END_H
#define TRACER_SHIM_EXTENSION_MODES_THREAD_END_H

/* Look up what is needed; `torch`: libtorch_cpu of dlopen. */
void modes_thread_end_find(void *torch);

/* This thread, which is not the main one, has the mode on it: when it ends, its stacks of modes are
 * left without it. PyTorch would take the GIL to give it back, where whoever waits for the end of
 * the thread may hold that. */
void modes_thread_end_watch(void);

#endif
