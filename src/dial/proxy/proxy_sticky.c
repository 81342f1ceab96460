/* SPDX-License-Identifier: Apache-2.0 */
/* The set-associative table of proxy_sticky.h. Pure. */
#include "dial/proxy/proxy_sticky.h"

static const struct sticky_slot *find_sticky_slot(const struct sticky *s, uint64_t key)
{
	const struct sticky_slot *set = s->slot[key % STICKY_SETS];

	for (size_t i = 0; i < STICKY_WAYS; i++) {
		if (key && set[i].key == key)
			return &set[i];
	}
	return NULL;
}

size_t sticky_find(const struct sticky *s, uint64_t key, uint64_t now)
{
	const struct sticky_slot *slot = find_sticky_slot(s, key);

	return slot && now < slot->until ? slot->member : STICKY_NONE;
}

void sticky_keep(struct sticky *s, uint64_t key, size_t member, uint64_t until)
{
	struct sticky_slot *set = s->slot[key % STICKY_SETS];
	struct sticky_slot *slot = (struct sticky_slot *)find_sticky_slot(s, key);

	if (!slot) {
		/* An empty slot has the earliest time of all. */
		slot = &set[0];
		for (size_t i = 1; i < STICKY_WAYS; i++)
			slot = set[i].until < slot->until ? &set[i] : slot;
	}
	*slot = (struct sticky_slot){ .key = key, .until = until, .member = member };
}

void sticky_drop(struct sticky *s, uint64_t key)
{
	struct sticky_slot *slot = (struct sticky_slot *)find_sticky_slot(s, key);

	if (slot)
		*slot = (struct sticky_slot){ 0 };
}
