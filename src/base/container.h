/* SPDX-License-Identifier: Apache-2.0 */
/* From a member to the struct that contains it: for callbacks that get the member, such as a timer or a task. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

/* A `type` * to the struct whose `member` ptr points to. The compiler refuses a pointer of another type: both sides of the
 * colon must have one type, and the second is never evaluated. */
#define CONTAINER_OF(ptr, type, member) \
	((type *)(void *)((char *)(1 ? (ptr) : &((type *)(void *)(ptr))->member) - offsetof(type, member)))

#endif
