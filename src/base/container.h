/* SPDX-License-Identifier: Apache-2.0 */
/* From a member to the struct that holds it: for callbacks that are handed the member, such as a timer or a task. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

/* `type` *, of the struct whose `member` this points to. The compiler refuses a pointer to something else. */
#define CONTAINER_OF(ptr, type, member)                                     \
	({                                                                  \
		__typeof__(((type *)NULL)->member) *member_ = (ptr);        \
		(type *)(void *)((char *)member_ - offsetof(type, member)); \
	})

#endif
