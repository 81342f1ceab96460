/* SPDX-License-Identifier: Apache-2.0 */
/* From a member to the struct that holds it: for callbacks that are handed the member, such as a timer or a task. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

/* `type` *, of the struct whose `member` this points to. The compiler refuses a pointer to something else: both sides of the colon
 * must be of one type, and the second is never evaluated. */
#define CONTAINER_OF(ptr, type, member) \
	((type *)(void *)((char *)(1 ? (ptr) : &((type *)(void *)(ptr))->member) - offsetof(type, member)))

#endif
