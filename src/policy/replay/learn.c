/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums up the destinations of a recorded run and writes them as a policy file (learn.h). Pure; every name
 * comes from a log that a sandbox influenced, so all output is quoted or made harmless.
 */

#include "policy/replay/learn.h"

#include "base/str.h"
#include "base/vec.h"
#include "policy/method.h"
#include "policy/pathpat.h"

#include <errno.h>
#include <stdlib.h>

#define MANY_NAMES 20	      /* below one registrable domain: a sign of a tunnel over DNS */
#define LONG_LABEL 20	      /* bytes; people and CDNs use shorter ones, encoded data longer */
#define BIG_UPLOAD (1u << 20) /* bytes, to a host that was hardly used */
#define RARE_OPENS 3
#define ENTROPY_MILLIBITS 3400 /* per character; English host names have less than 3000 */

static uint32_t dest_hash(const char *name, uint16_t port)
{
	uint32_t h = 2166136261u ^ port;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return h;
}

/* Doubles the list and rebuilds its index. Not by base/vec.h: the list and the index have one capacity. */
static int grow_dests(struct learn *l)
{
	size_t cap = l->cap ? l->cap * 2 : 64;
	struct learn_dest *d = realloc(l->dests, cap * sizeof(*d));
	uint32_t *index;

	if (!d)
		return -ENOMEM;
	l->dests = d;
	index = calloc(cap * 2, sizeof(*index));
	if (!index)
		return -ENOMEM;
	free(l->index);
	l->index = index;
	l->n_index = cap * 2;
	l->cap = cap;
	for (size_t i = 0; i < l->n; i++) {
		size_t at = dest_hash(d[i].name, d[i].port) & (l->n_index - 1);

		while (index[at])
			at = (at + 1) & (l->n_index - 1);
		index[at] = (uint32_t)i + 1;
	}
	return 0;
}

/* The index slot of a destination: its own, or the empty one where it belongs. */
static size_t dest_slot(const struct learn *l, const char *name, uint16_t port)
{
	size_t at = dest_hash(name, port) & (l->n_index - 1);

	while (l->index[at]) {
		const struct learn_dest *d = &l->dests[l->index[at] - 1];

		if (d->port == port && str_eq(d->name, name))
			break;
		at = (at + 1) & (l->n_index - 1);
	}
	return at;
}

/* NULL with *full: the maximum is reached. */
static struct learn_dest *find_or_add_dest(struct learn *l, const struct learn_seen *s, bool *full)
{
	struct learn_dest *d;
	size_t at;

	*full = false;
	if (l->n * 2 >= l->n_index && grow_dests(l) < 0)
		return NULL;
	at = dest_slot(l, s->name, s->port);
	if (l->index[at])
		return &l->dests[l->index[at] - 1];
	if (l->n == LEARN_MAX) {
		*full = true;
		return NULL;
	}
	d = &l->dests[l->n];
	*d = (struct learn_dest){ .name = strdup(s->name), .port = s->port, .first = s->t };
	if (!d->name)
		return NULL;
	l->index[at] = (uint32_t)++l->n;
	return d;
}

/* Counts a request; stores method and path while there is room. */
static int add_dest_request(struct learn_dest *d, const char *method, const char *path)
{
	struct learn_request *r;

	d->requests++;
	for (size_t i = 0; i < d->n_reqs; i++) {
		if (str_eq(d->reqs[i].method, method) && str_eq(d->reqs[i].path, path)) {
			d->reqs[i].count++;
			return 0;
		}
	}
	if (d->n_reqs == LEARN_REQUESTS_MAX) {
		d->reqs_cut = true;
		return 0;
	}
	if (VEC_MORE(d->reqs, d->n_reqs, LEARN_REQUESTS_MAX) < 0)
		return -ENOMEM;
	r = &d->reqs[d->n_reqs++];
	*r = (struct learn_request){ .method = strdup(method), .path = strdup(path), .count = 1 };
	return r->method && r->path ? 0 : -ENOMEM;
}

int learn_add(struct learn *l, const struct learn_seen *s, struct err *e)
{
	bool full;
	struct learn_dest *d = find_or_add_dest(l, s, &full);
	int r = 0;

	if (!d && full) {
		l->others++;
		return 0;
	}
	if (!d)
		return err_set(e, -ENOMEM, "out of memory");
	d->literal |= s->literal;
	d->tunnel |= s->tunnel && s->kind == LEARN_OPEN;
	d->lookups += s->kind == LEARN_LOOKUP;
	d->opens += s->kind == LEARN_OPEN;
	d->inspected += s->kind == LEARN_OPEN && s->inspected;
	d->denied += s->kind == LEARN_DENIED;
	d->up += s->up;
	d->down += s->down;
	d->first = s->t < d->first ? s->t : d->first;
	d->last = s->t > d->last ? s->t : d->last;
	if (s->kind == LEARN_REQUEST && s->method && s->path)
		r = add_dest_request(d, s->method, s->path);
	return r < 0 ? err_set(e, r, "out of memory") : 0;
}

void learn_release(struct learn *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->dests[i].n_reqs; k++) {
			free(l->dests[i].reqs[k].method);
			free(l->dests[i].reqs[k].path);
		}
		free(l->dests[i].reqs);
		free(l->dests[i].name);
	}
	free(l->dests);
	free(l->index);
	*l = LEARN_INIT;
}

/* Binary logarithm in thousandths, for 1 to 255: precise enough to tell words from encoded data. */
static unsigned log2_milli(unsigned n)
{
	unsigned whole = 0, scaled = n * 1000;

	while (scaled >= 2000) {
		scaled /= 2;
		whole += 1000;
	}
	/* Linear between two powers of two: the error is at most 86 thousandths. */
	return whole + (scaled - 1000);
}

/* Shannon entropy per character, in millibits. */
static unsigned entropy_milli(const char *s, size_t len)
{
	unsigned count[256] = { 0 }, sum = 0;

	for (size_t i = 0; i < len; i++)
		count[(uint8_t)s[i]]++;
	for (size_t c = 0; c < 256; c++)
		sum += count[c] ? count[c] * log2_milli(count[c]) : 0;
	return len ? log2_milli((unsigned)len) - sum / (unsigned)len : 0;
}

/* Does a label look like encoded data: long, and of high entropy? */
static bool has_odd_label(const char *name)
{
	while (*name) {
		size_t n = strcspn(name, ".");

		if (n >= LONG_LABEL && n < 256 && entropy_milli(name, n) > ENTROPY_MILLIBITS)
			return true;
		name += n + (name[n] == '.');
	}
	return false;
}

/* The registrable domain of a name; the name itself if there is none. */
static const char *registrable_of(const char *name, const struct learn_opts *o)
{
	const char *d = o->registrable ? o->registrable(name) : NULL;

	return d ? d : name;
}

/* Destinations are sorted by domain, so only neighbours need to be examined. */
static bool has_many_siblings(const struct learn *l, const struct learn_dest *d, const struct learn_opts *o)
{
	const char *domain = registrable_of(d->name, o);
	const struct learn_dest *first = d, *end = d + 1;

	while (first > l->dests && d - first <= MANY_NAMES &&
	       str_eq(registrable_of(first[-1].name, o), domain))
		first--;
	while (end < l->dests + l->n && end - first <= MANY_NAMES &&
	       str_eq(registrable_of(end->name, o), domain))
		end++;
	return end - first > MANY_NAMES;
}

static bool is_all_inspected(const struct learn_dest *d)
{
	return d->opens && d->inspected == d->opens;
}

size_t learn_odd(const struct learn *l, const struct learn_dest *d, const struct learn_opts *o,
		 const char *ret[LEARN_ODD_MAX])
{
	size_t n = 0;

	if (d->literal)
		ret[n++] = "an address instead of a name: its owner is unknown";
	if (!d->literal && has_odd_label(d->name))
		ret[n++] = "a label that looks like encoded data";
	if (!d->literal && has_many_siblings(l, d, o))
		ret[n++] = "one of very many names below one domain";
	if (d->opens && d->opens < RARE_OPENS && d->up >= BIG_UPLOAD && d->up / 4 > d->down)
		ret[n++] = "hardly used, and much was sent there";
	if (d->opens && d->port != 80 && d->port != 443)
		ret[n++] = "an uncommon port";
	if (d->tunnel)
		ret[n++] = "neither TLS nor HTTP: the server's identity is not checked";
	else if (o->http && d->opens && !d->n_reqs && !is_all_inspected(d))
		ret[n++] =
			"its connections were not inspected, so no request is known and this rule allows any: "
			"add http:, or run with depth: inspect and learn again";
	return n;
}

static int compare_strings(const char *a, const char *b)
{
	int c = strcmp(a, b);

	return c < 0 ? -1 : c > 0;
}

/* By registrable domain, then name, then port. */
static int compare_dests(const void *va, const void *vb, void *opts)
{
	const struct learn_dest *a = va, *b = vb;
	int c = compare_strings(registrable_of(a->name, opts), registrable_of(b->name, opts));

	if (c == 0)
		c = compare_strings(a->name, b->name);
	return c ? c : a->port < b->port ? -1 : a->port > b->port;
}

static int compare_requests(const void *va, const void *vb)
{
	const struct learn_request *a = va, *b = vb;
	int c = compare_strings(a->method, b->method);

	return c ? c : compare_strings(a->path, b->path);
}

/* In double quotes. Only characters of canonical hosts and paths are expected; others are escaped. */
static void add_yaml_quoted(struct buf *out, const char *s)
{
	buf_addc(out, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_addc(out, '\\');
		if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
			buf_addf(out, "\\x%02x", (unsigned)(unsigned char)*s);
		else
			buf_addc(out, *s);
	}
	buf_addc(out, '"');
}

/* For comments: replaces characters that could end the comment or control a terminal. */
static void add_comment_text(struct buf *out, const char *s)
{
	for (; *s; s++)
		buf_addc(out, (char)((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e ? '?' : *s));
}

static void add_time_range(struct buf *out, const struct learn_dest *d, const struct learn_opts *o)
{
	char first[32] = "", last[32] = "";

	if (!o->format_time)
		return;
	o->format_time(d->first, first);
	o->format_time(d->last, last);
	if (str_eq(first, last))
		buf_addf(out, ", %s", first);
	else
		buf_addf(out, ", %s to %s", first, last);
}

static void add_dest_counts(struct buf *out, const struct learn_dest *d, const struct learn_opts *o)
{
	char up[16], down[16];

	buf_addf(out, "%llu connection%s", (unsigned long long)d->opens, d->opens == 1 ? "" : "s");
	if (d->requests)
		buf_addf(out, ", %llu requests", (unsigned long long)d->requests);
	buf_addf(out, ", %s up, %s down", str_from_size(d->up, up), str_from_size(d->down, down));
	add_time_range(out, d, o);
}

/* NULL if a rule can name exactly this request; otherwise the reason why not. */
static const char *why_unnameable(const struct learn_request *r)
{
	method_set set;

	if (str_eq(r->method, "*") || method_parse(r->method, strlen(r->method), &set, NULL) < 0)
		return "rules do not support that method";
	if (strchr(r->path, '*'))
		return "a rule would read the * in its path as a pattern";
	return pathpat_check(r->path, strlen(r->path), NULL) < 0 ? "the path is not valid in a rule" : NULL;
}

#define PATHS_EACH 12	/* of one method; more are replaced by their common directory */
#define UNNAMED_TOLD 10 /* requests that no rule can name, listed as comments */

/* The length of the directory that all of these share, as "/a/b/" or "/". */
static size_t common_directory(const struct learn_request *r, size_t n)
{
	size_t len = strlen(r[0].path);

	for (size_t i = 1; i < n; i++) {
		size_t k = 0;

		while (k < len && r[i].path[k] == r[0].path[k])
			k++;
		len = k;
	}
	while (len > 1 && (r[0].path[len - 1] != '/' || len + 2 > PATHPAT_MAX))
		len--;
	return len;
}

static void add_learned_entry(struct buf *out, const char *method, const char *path, size_t len,
			      const char *tail)
{
	autobuf struct buf rule = BUF_INIT;

	buf_addf(&rule, "%s %.*s%s", method, (int)len, path, tail);
	buf_adds(out, "        - allow: ");
	add_yaml_quoted(out, buf_cstr(&rule));
}

/* Lists requests that no rule can name, and moves them after the others. Returns the number of the others. */
static size_t list_unnameable(struct learn_dest *d, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_reqs; i++) {
		const char *why = why_unnameable(&d->reqs[i]);

		if (why && i - n < UNNAMED_TOLD) {
			autobuf struct buf text = BUF_INIT;

			buf_addf(&text, "%.64s %.200s", d->reqs[i].method, d->reqs[i].path);
			buf_adds(out, "        # left out: ");
			add_comment_text(out, buf_cstr(&text));
			buf_addf(out, " (%s)\n", why);
		}
		if (!why) {
			struct learn_request named = d->reqs[i];

			d->reqs[i] = d->reqs[n];
			d->reqs[n++] = named;
		}
	}
	if (d->n_reqs - n > UNNAMED_TOLD)
		buf_addf(out, "        # left out: %zu more\n", d->n_reqs - n - UNNAMED_TOLD);
	return n;
}

/* Writes " http:" and a line for each path, or one line for a method with many paths. */
static void add_learned_requests(struct buf *out, struct learn_dest *d)
{
	size_t named;

	if (d->n_reqs)
		qsort(d->reqs, d->n_reqs, sizeof(*d->reqs), compare_requests);
	buf_adds(out, "      http:\n");
	if (!d->n_reqs)
		buf_adds(out,
			 "        # no request was logged: the connection is allowed, and nothing in it\n");
	named = list_unnameable(d, out);
	if (named)
		qsort(d->reqs, named, sizeof(*d->reqs), compare_requests);
	else
		buf_adds(out, "        - deny: \"*,WEBSOCKET /**\"\n");
	for (size_t i = 0, n; i < named; i += n) {
		for (n = 0; i + n < named && str_eq(d->reqs[i + n].method, d->reqs[i].method); n++)
			;
		if (n > PATHS_EACH || d->reqs_cut) {
			add_learned_entry(out, d->reqs[i].method, d->reqs[i].path,
					  common_directory(d->reqs + i, n), "**");
			buf_addf(out, " # %zu paths\n", n);
			continue;
		}
		for (size_t k = i; k < i + n; k++) {
			add_learned_entry(out, d->reqs[k].method, d->reqs[k].path, strlen(d->reqs[k].path),
					  "");
			buf_addc(out, '\n');
		}
	}
}

/* Writes the rule of one destination, with its counts and warnings as comments. */
static void add_dest_rule(const struct learn *l, struct learn_dest *d, const struct learn_opts *o,
			  struct buf *out)
{
	const char *odd[LEARN_ODD_MAX];
	size_t n = learn_odd(l, d, o, odd);

	buf_adds(out, "    # ");
	add_dest_counts(out, d, o);
	buf_addc(out, '\n');
	for (size_t i = 0; i < n; i++)
		buf_addf(out, "    # LOOK: %s\n", odd[i]);
	buf_adds(out, d->literal ? "    - address: " : "    - domain: ");
	add_yaml_quoted(out, d->name);
	buf_addf(out, "\n      port: %u\n", d->port);
	if (o->ways)
		o->ways(o->ctx, d, out);
	if (d->tunnel)
		buf_adds(out, "      depth: tunnel\n");
	else if (o->http && (d->n_reqs || is_all_inspected(d)))
		add_learned_requests(out, d);
}

/* Each domain with more than one name gets a heading. */
static void add_domain_head(const struct learn *l, size_t at, const struct learn_opts *o, struct buf *out)
{
	const char *domain = registrable_of(l->dests[at].name, o);
	size_t names = 0;

	if (l->dests[at].literal || (at && str_eq(registrable_of(l->dests[at - 1].name, o), domain)))
		return;
	for (size_t i = at; i < l->n && str_eq(registrable_of(l->dests[i].name, o), domain); i++)
		names += l->dests[i].opens > 0;
	if (names < 2)
		return;
	buf_adds(out, "    # --- ");
	add_comment_text(out, domain);
	buf_addf(out, ": %zu destinations\n", names);
}

/* Lists destinations without a rule, with the reason. */
static void list_left_out(const struct learn *l, struct buf *out)
{
	size_t shown = 0, n = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct learn_dest *d = &l->dests[i];

		if (d->opens || (!d->denied && !d->lookups))
			continue;
		/* A lookup is a destination of its own, without a port; its connections are separate ones. */
		if (!d->denied && i + 1 < l->n && str_eq(l->dests[i + 1].name, d->name))
			continue;
		if (n++ >= 200)
			continue;
		if (!shown++)
			buf_adds(out, "# Left out:\n");
		buf_adds(out, "#   ");
		add_comment_text(out, d->name);
		if (d->port)
			buf_addf(out, ":%u", d->port);
		if (d->denied)
			buf_addf(out, "  denied %llu time%s\n", (unsigned long long)d->denied,
				 d->denied == 1 ? "" : "s");
		else
			buf_adds(out, "  looked up, never connected to\n");
	}
	if (n > 200)
		buf_addf(out, "#   and %zu more\n", n - 200);
	if (l->others)
		buf_addf(out,
			 "#   and %llu events of destinations past the first %d: too many to be one job\n",
			 (unsigned long long)l->others, LEARN_MAX);
}

void learn_write(struct learn *l, const struct learn_opts *o, struct buf *out)
{
	size_t rules = 0;

	if (l->n)
		qsort_r(l->dests, l->n, sizeof(*l->dests), compare_dests, (void *)o);
	/* The index refers to positions, which have changed. */
	free(l->index);
	l->index = NULL;
	l->n_index = 0;
	buf_adds(out, "# Learned by `coffer net learn` from ");
	add_comment_text(out, o->source ? o->source : "the log");
	buf_adds(
		out,
		".\n# Read it before you use it: it allows what was done, not what should be done.\nversion: 1\n"
		"egress:\n  mode: enforce\n  allow:");
	for (size_t i = 0; i < l->n; i++)
		rules += l->dests[i].opens > 0;
	buf_adds(out, rules ? "\n" : " []\n");
	for (size_t i = 0; i < l->n; i++) {
		if (!l->dests[i].opens)
			continue;
		add_domain_head(l, i, o, out);
		add_dest_rule(l, &l->dests[i], o, out);
	}
	list_left_out(l, out);
}
