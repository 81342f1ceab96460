/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory file of egress_names.h and the tables over it. The file comes from an earlier, possibly compromised
 * process: every record is checked on load (egress_names.N4), and names in use are copied out of it. An
 * inconsistent file is refused.
 */
#include "egress/account/egress_names.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x31656d614e666f43ULL
#define HOSTS_PER_BLOCK 253 /* .2 to .254 of a /24: egress_names.N5 */

struct egress_names_counter_slot {
	uint64_t key; /* 0: free, except in slot 0 */
	uint64_t value;
};

struct egress_names_file {
	uint64_t magic;
	uint32_t base, blocks,
		start;	/* the range: its first address, number of /24s, and index of the first slot to use */
	uint32_t n;	/* records */
	uint64_t conns; /* last connection number */
	struct egress_names_counter_slot counters[EGRESS_NAMES_COUNTERS];
	unsigned char records[];
};

/* A record is the length of a name and the name; its address follows from its position. */
#define RECORDS_MAX (EGRESS_NAMES_FILE_SIZE - sizeof(struct egress_names_file))

static uint32_t slot_addr(const struct egress_names *n, uint32_t index)
{
	uint32_t slot = (uint32_t)(((uint64_t)n->start + index) % n->slots);

	return n->base + slot / HOSTS_PER_BLOCK * 256 + 2 + slot % HOSTS_PER_BLOCK;
}

static uint64_t egress_names_hash(const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3ULL;
	return h ^ (h >> 29);
}

static uint32_t *egress_names_bucket(const struct egress_names *n, const char *text, size_t len)
{
	uint32_t at = (uint32_t)(egress_names_hash(text, len) ^ n->start) & n->mask;

	for (;; at = (at + 1) & n->mask) {
		const struct egress_name *found = n->buckets[at] ? n->by_index[n->buckets[at] - 1] : NULL;

		if (!found || (found->len == len && memcmp(found->text, text, len) == 0))
			return &n->buckets[at];
	}
}

/* The tables grow with their content: a sandbox that looks up ten names costs a few KiB. Not by
 * base/vec.h: the three have one capacity. */
static int egress_names_grow(struct egress_names *n)
{
	uint32_t cap = n->cap ? n->cap * 2 : 256;
	const struct egress_name **by_index;
	uint64_t *logged;
	uint32_t *buckets;

	if (n->n < n->cap)
		return 0;
	by_index = reallocarray(n->by_index, cap, sizeof(const struct egress_name *));
	if (!by_index)
		return -ENOMEM;
	n->by_index = by_index;
	logged = reallocarray(n->logged, cap, sizeof(*logged));
	if (!logged)
		return -ENOMEM;
	memset(logged + n->cap, 0, (cap - n->cap) * sizeof(*logged));
	n->logged = logged;
	buckets = calloc((size_t)cap * 2, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(n->buckets);
	n->buckets = buckets;
	n->cap = cap;
	n->mask = cap * 2 - 1;
	for (uint32_t i = 0; i < n->n; i++)
		*egress_names_bucket(n, n->by_index[i]->text, n->by_index[i]->len) = i + 1;
	return 0;
}

static int egress_names_index_new(struct egress_names *n, const char *text, size_t len)
{
	struct egress_name *name;
	int r = egress_names_grow(n);

	if (r < 0)
		return r;
	name = malloc(sizeof(*name) + len + 1);
	if (!name)
		return -ENOMEM;
	name->addr = slot_addr(n, n->n);
	name->len = (uint8_t)len;
	memcpy(name->text, text, len);
	name->text[len] = '\0';
	n->by_index[n->n] = name;
	*egress_names_bucket(n, text, len) = ++n->n;
	return 0;
}

/* egress_names.N4: accepts only a canonical name that is not in the table yet. */
static int egress_names_load_record(struct egress_names *n, struct err *e)
{
	const unsigned char *p = n->file->records + n->used;
	struct host h;

	if (n->used + 1 > RECORDS_MAX || n->used + 1 + p[0] > RECORDS_MAX)
		return err_set(e, -EBADMSG, "the table of names is inconsistent");
	if (host_canon((const char *)p + 1, p[0], &h, NULL) < 0 || h.kind != HOST_NAME || h.len != p[0] ||
	    memcmp(h.text, p + 1, h.len) != 0)
		return err_set(e, -EBADMSG, "the table of names holds an invalid name");
	if (egress_names_find(n, &h))
		return err_set(e, -EBADMSG, "the table of names holds a name twice");
	n->used += 1u + p[0];
	return egress_names_index_new(n, h.text, h.len) < 0
		       ? err_sys(e, -ENOMEM, "cannot load the table of names")
		       : 0;
}

static int egress_names_load(struct egress_names *n, struct err *e)
{
	const struct egress_names_file *f = n->file;
	uint32_t count = f->n;
	int r = 0;

	if (f->magic != MAGIC || count > EGRESS_NAMES_MAX || f->blocks == 0 || f->blocks > (1u << 24) ||
	    (f->base & 0xff) != 0 || f->base > UINT32_MAX - (f->blocks * 256ULL - 1))
		return err_set(e, -EBADMSG, "the table of names is inconsistent");
	n->base = f->base;
	n->slots = f->blocks >= (1u << 16) ? (1u << 16) * HOSTS_PER_BLOCK : f->blocks * HOSTS_PER_BLOCK;
	n->start = f->start % n->slots;
	if (count > n->slots)
		return err_set(e, -EBADMSG, "the table of names is inconsistent");
	while (r == 0 && n->n < count)
		r = egress_names_load_record(n, e);
	return r;
}

static int egress_names_begin_file(struct egress_names *n, const struct addr_range *range, uint32_t random,
				   struct err *e)
{
	uint64_t count = addr_range_count(range);
	struct egress_names_file *f = n->file;

	if (!addr_is_v4(&range->base) || count < 256)
		return err_set(e, -EINVAL, "the range of synthetic addresses must be IPv4, of 256 or more");
	f->base = addr_v4(&range->base);
	f->blocks = (uint32_t)(count / 256);
	f->start = random;
	f->magic = MAGIC;
	return egress_names_load(n, e);
}

static int egress_names_map_file(struct egress_names *n, int fd, bool *ret_new, struct err *e)
{
	struct stat st = { 0 };
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p;

	if (fd >= 0 && fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot get the size of the table of names");
	*ret_new = st.st_size == 0;
	if (fd >= 0 && *ret_new && ftruncate(fd, EGRESS_NAMES_FILE_SIZE) < 0)
		return err_sys(e, -errno, "cannot make the table of names");
	if (!*ret_new && st.st_size != EGRESS_NAMES_FILE_SIZE)
		return err_set(e, -EBADMSG, "the table of names has a wrong size");
	p = mmap(NULL, EGRESS_NAMES_FILE_SIZE, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, -errno, "cannot map the table of names");
	n->file = p;
	return 0;
}

int egress_names_open(struct egress_names *n, int fd, const struct addr_range *range, uint32_t random,
		      struct err *e)
{
	bool is_new = false;
	int r;

	*n = (struct egress_names){ 0 };
	r = egress_names_map_file(n, fd, &is_new, e);
	if (r == 0)
		r = is_new ? egress_names_begin_file(n, range, random, e) : egress_names_load(n, e);
	if (r < 0)
		egress_names_close(n);
	return r;
}

void egress_names_close(struct egress_names *n)
{
	for (uint32_t i = 0; i < n->n; i++)
		free((void *)n->by_index[i]);
	free(n->by_index);
	free(n->logged);
	free(n->buckets);
	if (n->file)
		munmap(n->file, EGRESS_NAMES_FILE_SIZE);
	*n = (struct egress_names){ 0 };
}

const struct egress_name *egress_names_find(const struct egress_names *n, const struct host *h)
{
	uint32_t at = n->n ? *egress_names_bucket(n, h->text, h->len) : 0;

	return at ? n->by_index[at - 1] : NULL;
}

int egress_names_add(struct egress_names *n, const struct host *h, const struct egress_name **ret)
{
	const struct egress_name *found = egress_names_find(n, h);
	int r;

	if (!found) {
		if (n->n >= EGRESS_NAMES_MAX || n->n >= n->slots || n->used + 1u + h->len > RECORDS_MAX)
			return -ENOSPC;
		r = egress_names_index_new(n, h->text, h->len);
		if (r < 0)
			return r;
		n->file->records[n->used] = h->len;
		memcpy(n->file->records + n->used + 1, h->text, h->len);
		n->used += 1u + h->len;
		/* Last: a process that dies before this has handed out no address. */
		__atomic_store_n(&n->file->n, n->n, __ATOMIC_RELEASE);
		found = n->by_index[n->n - 1];
	}
	*ret = found;
	return 0;
}

bool egress_names_in_range(const struct egress_names *n, const struct addr *a)
{
	return addr_is_v4(a) && addr_v4(a) - n->base < n->file->blocks * 256ULL;
}

const struct egress_name *egress_names_at(const struct egress_names *n, const struct addr *a)
{
	uint32_t off, slot, index;

	if (!egress_names_in_range(n, a))
		return NULL;
	off = addr_v4(a) - n->base;
	if ((off & 0xff) < 2 || (off & 0xff) == 255)
		return NULL;
	slot = off / 256 * HOSTS_PER_BLOCK + (off & 0xff) - 2;
	if (slot >= n->slots)
		return NULL;
	index = (uint32_t)(((uint64_t)slot + n->slots - n->start) % n->slots);
	return index < n->n ? n->by_index[index] : NULL;
}

uint32_t egress_names_index(const struct egress_names *n, const struct egress_name *name)
{
	uint32_t at = *egress_names_bucket(n, name->text, name->len);

	BUG_ON(at == 0);
	return at - 1;
}

struct addr egress_names_own(const struct egress_names *n)
{
	return addr_from_v4(n->base + 1);
}

uint64_t egress_names_next_conn(struct egress_names *n)
{
	return ++n->file->conns;
}

uint64_t *egress_names_counter(struct egress_names *n, uint64_t key)
{
	for (unsigned i = 0; i < EGRESS_NAMES_COUNTERS; i++) {
		struct egress_names_counter_slot *s = &n->file->counters[i];

		if (s->key == key)
			return &s->value;
		if (i > 0 && s->key == 0) {
			s->key = key;
			return &s->value;
		}
	}
	return NULL;
}
