/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of breaks that verify found (finding.h): adding, identifying and sorting out accepted ones. Pure.
 */

#include "audit/finding.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>

static const char *const names[] = {
	[AUDIT_EDIT] = "edit", [AUDIT_DELETE] = "delete", [AUDIT_REORDER] = "reorder",
	[AUDIT_CUT] = "cut",   [AUDIT_ANCHOR] = "anchor", [AUDIT_HEAD] = "head",
	[AUDIT_KEY] = "key",
};

static_assert(ARRAY_SIZE(names) == AUDIT_BREAK_COUNT, "a name for each kind of break");

const char *audit_break_name(enum audit_break kind)
{
	return names[kind];
}

/* The first half of an id, from the contents; finding_settle() adds kind and range. */
static void content_id(const char *want, const char *found, char ret[33])
{
	char text[2 * HASH_HEX_LEN + 64], hex[HASH_HEX_LEN + 1];
	int n = snprintf(text, sizeof(text), "%.*s|%.*s", HASH_HEX_LEN, want ? want : "", HASH_HEX_LEN,
			 found ? found : "");

	hash_sha256_hex(text, (size_t)n, hex);
	memcpy(ret, hex, 32);
	ret[32] = '\0';
}

struct audit_finding *finding_add(struct audit_verdict *v, const struct finding_what *w, const char *fmt, ...)
{
	struct audit_finding *f;
	va_list ap;

	if (VEC_DOUBLE(v->findings, v->n_findings, AUDIT_FINDINGS_MAX) < 0) {
		v->more++;
		return NULL;
	}
	f = &v->findings[v->n_findings++];
	*f = (struct audit_finding){ .kind = w->kind, .from = w->from, .to = w->to };
	content_id(w->want, w->found, f->id);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return f;
}

static bool kind_from_name(const char *name, enum audit_break *ret)
{
	for (int i = 0; name && i < AUDIT_BREAK_COUNT; i++) {
		if (str_eq(names[i], name)) {
			*ret = (enum audit_break)i;
			return true;
		}
	}
	return false;
}

int finding_accept(struct accepted_list *l, uint64_t seq, const json_t *event)
{
	const json_t *breaks = json_object_get(event, "breaks");

	for (size_t i = 0; i < json_array_size(breaks); i++) {
		const json_t *b = json_array_get(breaks, i);
		const char *id = jsonget_text_or_null(b, "id");
		const char *text = jsonget_text_or_null(b, "text");
		struct accepted a = { .f = { .accepted_by = seq } };

		if (!id || strlen(id) != sizeof(a.f.id) - 1 || !text || l->n >= AUDIT_FINDINGS_MAX ||
		    !kind_from_name(jsonget_text_or_null(b, "kind"), &a.f.kind))
			continue;
		memcpy(a.f.id, id, sizeof(a.f.id));
		a.f.from = jsonget_u64(b, "from");
		a.f.to = jsonget_u64(b, "to");
		snprintf(a.f.text, sizeof(a.f.text), "%s", text);
		if (VEC_DOUBLE(l->v, l->n, AUDIT_FINDINGS_MAX) < 0)
			return -ENOMEM;
		l->v[l->n++] = a;
	}
	return 0;
}

/* Makes the id from kind, range and contents. */
static void complete_id(struct audit_finding *f)
{
	char text[128], hex[HASH_HEX_LEN + 1];
	int n = snprintf(text, sizeof(text), "%s|%llu|%llu|%s", names[f->kind], (unsigned long long)f->from,
			 (unsigned long long)f->to, f->id);

	hash_sha256_hex(text, (size_t)n, hex);
	memcpy(f->id, hex, 32);
}

/* Drops findings that turned out not to be breaks. */
static void drop_resolved(struct audit_verdict *v)
{
	size_t kept = 0;

	for (size_t i = 0; i < v->n_findings; i++) {
		struct audit_finding *f = &v->findings[i];

		/* A gap whose events all occur elsewhere is a reordering, which has its own findings. */
		if (f->dropped || (f->kind == AUDIT_DELETE && f->elsewhere > f->to - f->from))
			continue;
		if (f->elsewhere) {
			size_t n = strlen(f->text);

			snprintf(f->text + n, sizeof(f->text) - n, " (%llu of them are elsewhere)",
				 (unsigned long long)f->elsewhere);
		}
		v->findings[kept++] = *f;
	}
	v->n_findings = kept;
}

int finding_settle(struct audit_verdict *v, struct accepted_list *l)
{
	drop_resolved(v);
	for (size_t i = 0; i < v->n_findings; i++) {
		struct audit_finding *f = &v->findings[i];

		complete_id(f);
		for (size_t k = 0; k < l->n; k++) {
			if (!str_eq(f->id, l->v[k].f.id))
				continue;
			f->accepted_by = l->v[k].f.accepted_by;
			l->v[k].matched = true;
		}
	}
	v->ok = v->more == 0;
	for (size_t i = 0; i < v->n_findings; i++)
		v->ok = v->ok && v->findings[i].accepted_by;
	for (size_t k = 0; k < l->n; k++) {
		int r;

		if (l->v[k].matched)
			continue;
		r = VEC_DOUBLE(v->findings, v->n_findings, AUDIT_FINDINGS_MAX);
		if (r < 0)
			return r == -E2BIG ? 0 : r;
		v->findings[v->n_findings++] = l->v[k].f;
	}
	return 0;
}

void finding_format(const struct audit_verdict *v, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_arr(&j, "breaks");
	for (size_t i = 0; i < v->n_findings; i++) {
		const struct audit_finding *f = &v->findings[i];

		if (f->accepted_by)
			continue;
		json_obj(&j, NULL);
		json_str(&j, "kind", names[f->kind]);
		json_u64(&j, "from", f->from);
		json_u64(&j, "to", f->to);
		json_str(&j, "id", f->id);
		json_str(&j, "text", f->text);
		json_end_obj(&j);
	}
	json_end_arr(&j);
}
