/* Included by every unit test. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

/* cmocka.h needs the first four before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run an array of struct CMUnitTest between `setup` and `teardown` (NULL: none), with TAP output;
 * the value is for main to return. */
#define unit_run(tests, setup, teardown)                                                           \
	(cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests(tests, setup, teardown))

#endif
