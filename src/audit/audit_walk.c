/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the chain of the log line by line and names every break (audit_walk.h). Pure: it sees lines, never
 * files. Lines may have been forged, so memory is bounded and every text is parsed strictly.
 */

#include "audit/audit_walk.h"

#include "audit/segment.h"
#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

typedef unsigned long long ull; /* for %llu */

void walk_init(struct walk *w, struct audit_verdict *v)
{
	*w = (struct walk){ .v = v, .start_gap = -1, .run = -1 };
	memcpy(w->top.hash, LINE_HASH_NONE, sizeof(w->top.hash));
	w->last = w->top;
}

void walk_release(struct walk *w)
{
	free(w->accepted.v);
	free(w->heads);
}

void walk_set_anchor(struct walk *w, const char *text, size_t len)
{
	if (!text)
		w->anchor_state = WALK_ANCHOR_MISSING;
	else
		w->anchor_state =
			anchor_parse(text, len, &w->anchor) < 0 ? WALK_ANCHOR_BAD : WALK_ANCHOR_GOOD;
}

/* The name of the file being read, for messages. */
static const char *current_file_name(const struct walk *w, char out[SEGMENT_NAME_LEN])
{
	if (w->segment)
		segment_name(w->segment, out);
	else
		snprintf(out, SEGMENT_NAME_LEN, "%s", SEGMENT_CURRENT);
	return out;
}

/* The index of a key; -1 if there are too many. named: the log itself names it. */
static int find_or_add_key(struct walk *w, const char *pub, bool named)
{
	size_t i = 0;

	while (i < w->n_keys && !str_eq(w->keys[i].pub, pub))
		i++;
	if (i == WALK_KEYS_MAX)
		return -1;
	if (i == w->n_keys) {
		snprintf(w->keys[i].pub, sizeof(w->keys[i].pub), "%s", pub);
		w->n_keys++;
	}
	w->keys[i].named = w->keys[i].named || named;
	return (int)i;
}

static int compare_heads(const void *a, const void *b)
{
	const struct walk_head *x = a, *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Parses one line of the heads file and checks its signature. */
static int add_signed_head(struct walk *w, const char *text, size_t len)
{
	struct head h;
	int key = -1;

	if (head_parse(text, len, &h) < 0) {
		char found[HASH_HEX_LEN + 1];

		hash_sha256_hex(text, len, found);
		finding_add(w->v, &(struct finding_what){ .kind = AUDIT_HEAD, .found = found },
			    "a line in the file of signed heads is not a head");
		return 0;
	}
	if (head_is_signed(&h))
		key = find_or_add_key(w, h.key, false);
	if (key < 0) {
		finding_add(w->v, &(struct finding_what){ AUDIT_HEAD, h.seq, h.seq, h.hash, h.sig },
			    "the signed head of event %llu has a wrong signature", (ull)h.seq);
		return 0;
	}
	if (VEC_DOUBLE(w->heads, w->n_heads, VEC_NO_MAX) < 0)
		return -ENOMEM;
	w->heads[w->n_heads] = (struct walk_head){ .seq = h.seq, .key = key };
	memcpy(w->heads[w->n_heads++].hash, h.hash, sizeof(h.hash));
	return 0;
}

int walk_read_heads(struct walk *w, struct lines *in)
{
	enum lines_state state;
	const char *text;
	size_t len;
	int r;

	while ((r = lines_next(in, &text, &len, &state)) > 0) {
		if (state == LINES_TORN) /* left by a crash; the next head replaces it */
			continue;
		if (state == LINES_LONG)
			len = 0;
		if (w->n_heads == WALK_HEADS_MAX) {
			finding_add(w->v, &(struct finding_what){ .kind = AUDIT_HEAD },
				    "there are more than %d signed heads", WALK_HEADS_MAX);
			break;
		}
		r = add_signed_head(w, text ? text : "", len);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (w->n_heads)
		qsort(w->heads, w->n_heads, sizeof(w->heads[0]), compare_heads);
	return 0;
}

/* Checks all heads of this event: a crash may have left two. */
static void check_heads_of(struct walk *w, uint64_t seq, const char *hash)
{
	struct walk_head key = { .seq = seq };
	struct walk_head *h =
		w->n_heads ? bsearch(&key, w->heads, w->n_heads, sizeof(key), compare_heads) : NULL;

	if (!h)
		return;
	while (h > w->heads && h[-1].seq == seq)
		h--;
	for (; h < w->heads + w->n_heads && h->seq == seq; h++) {
		h->seen = true;
		if (str_eq(h->hash, hash)) {
			w->v->heads++;
			w->v->last_head = seq > w->v->last_head ? seq : w->v->last_head;
		} else {
			finding_add(w->v, &(struct finding_what){ AUDIT_HEAD, seq, seq, h->hash, hash },
				    "event %llu is not the one that was signed", (ull)seq);
		}
	}
}

/* The next line does not continue the top event: that event was changed. */
static void report_edited_top(struct walk *w, const char *want)
{
	if (w->top.reported)
		return;
	finding_add(w->v, &(struct finding_what){ AUDIT_EDIT, w->top.seq, w->top.seq, want, w->top.hash },
		    "event %llu was changed after it was written (its hash is not what event %llu continues)",
		    (ull)w->top.seq, (ull)w->top.seq + 1);
}

/* Events are missing between two lines; returns the index of the finding, -1 if it was not stored. */
static int report_gap(struct walk *w, uint64_t from, uint64_t to, const char *want)
{
	struct finding_what what = { AUDIT_DELETE, from, to, want, w->last.hash };
	struct audit_finding *f;
	char file[SEGMENT_NAME_LEN];

	if (from == to)
		f = finding_add(w->v, &what, "event %llu is missing (before line %llu of %s)", (ull)from,
				(ull)w->line_no, current_file_name(w, file));
	else
		f = finding_add(w->v, &what, "events %llu to %llu are missing (before line %llu of %s)",
				(ull)from, (ull)to, (ull)w->line_no, current_file_name(w, file));
	return f ? (int)(f - w->v->findings) : -1;
}

/* An event with a number that was passed already: it belongs into a gap, or occurs twice. */
static void report_misplaced(struct walk *w, uint64_t seq, const char *hash)
{
	struct audit_finding *run = w->run < 0 ? NULL : &w->v->findings[w->run];
	struct finding_what what = { AUDIT_REORDER, seq, seq, w->last.hash, hash };
	bool missed = false;

	for (size_t i = 0; i < w->v->n_findings; i++) {
		struct audit_finding *f = &w->v->findings[i];

		if (f->kind == AUDIT_DELETE && seq >= f->from && seq <= f->to) {
			f->elsewhere++;
			missed = true;
			break;
		}
	}
	if (run && run->to + 1 == seq) { /* continues the previous run: one finding for all of them */
		run->to = seq;
		snprintf(run->text, sizeof(run->text),
			 "events %llu to %llu come after event %llu: they were moved or copied",
			 (ull)run->from, (ull)run->to, (ull)w->top.seq);
		return;
	}
	run = missed ? finding_add(w->v, &what, "event %llu comes after event %llu: they were reordered",
				   (ull)seq, (ull)w->top.seq)
		     : finding_add(w->v, &what, "event %llu occurs twice, again after event %llu", (ull)seq,
				   (ull)w->top.seq);
	w->run = run ? (int)(run - w->v->findings) : -1;
}

/* Handles the first readable line: before it there is nothing, or pruned events. */
static void walk_first_line(struct walk *w, const struct line *l)
{
	uint64_t missing = l->seq - 1;
	bool fresh = memcmp(l->prev, LINE_HASH_NONE, HASH_HEX_LEN) == 0;

	w->v->first_seq = l->seq;
	if (w->start_unknown)
		missing = missing ? missing - 1 : 0;
	else if (fresh && (l->seq == 1 || line_is_type(l, "audit.accept")))
		return;
	if (missing == 0) {
		if (!w->start_unknown)
			finding_add(
				w->v, &(struct finding_what){ AUDIT_EDIT, 1, 1, LINE_HASH_NONE, l->prev },
				"event 1 was changed after it was written (it continues an event before it)");
		return;
	}
	if (!w->start_unknown)
		memcpy(w->start_want, l->prev, HASH_HEX_LEN);
	w->start_gap = report_gap(w, 1, missing, w->start_want);
}

/*
 * Relates one line to those before it. `seq` may differ from the line's own number: a line whose hash is in
 * place and whose number is not had its number changed. False: it is misplaced, and `top` stays.
 */
static bool link_to_previous(struct walk *w, const struct line *l, const char *hash, struct walk_point *now)
{
	bool to_top = memcmp(l->prev, w->top.hash, HASH_HEX_LEN) == 0;
	bool to_last = memcmp(l->prev, w->last.hash, HASH_HEX_LEN) == 0;
	bool in_order = w->last.seq == w->top.seq;

	if (l->seq == w->top.seq + 1) {
		if (!to_top && !to_last)
			report_edited_top(w, l->prev);
		return true;
	}
	if (to_last && l->seq > w->top.seq && line_is_type(l, "audit.accept"))
		return true; /* a new section of the log: the event itself says what was lost */
	if (to_last && in_order) {
		now->seq = w->top.seq + 1;
		now->reported = true;
		finding_add(w->v, &(struct finding_what){ AUDIT_EDIT, now->seq, now->seq, l->prev, hash },
			    "event %llu was changed after it was written (its number is now %llu)",
			    (ull)now->seq, (ull)l->seq);
		return true;
	}
	if (l->seq > w->top.seq) {
		report_gap(w, w->top.seq + 1, l->seq - 1, l->prev);
		return true;
	}
	report_misplaced(w, l->seq, hash);
	return false;
}

/* Events before the first one were pruned, as this event says: the gap at the start is no break. */
static void note_pruned_events(struct walk *w, const json_t *event)
{
	json_int_t through = json_integer_value(json_object_get(event, "through"));
	const char *hash = jsonget_text_or_null(event, "hash");
	struct audit_finding *f = w->start_gap < 0 ? NULL : &w->v->findings[w->start_gap];

	if (!f || !hash || through <= 0 || (uint64_t)through != f->to)
		return;
	if (!w->start_want[0] || str_eq(hash, w->start_want)) {
		f->dropped = true;
		w->v->pruned_through = f->to;
	}
}

/* The log's own events name the signing key, the pruned events and the accepted breaks. */
static int take_own_event(struct walk *w, const struct line *l, const char *text, size_t len)
{
	json_t *event = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *key = jsonget_text_or_null(event, "key");
	const char *log = jsonget_text_or_null(event, "log");
	unsigned char raw[SIGN_PUB_LEN];
	int r = 0;

	static_assert(ANCHOR_LOG_LEN / 2 <= SIGN_PUB_LEN, "an id fits where a key does");
	if (line_is_type(l, "audit.prune"))
		note_pruned_events(w, event);
	if (line_is_type(l, "audit.accept"))
		r = finding_accept(&w->accepted, l->seq, event);
	if (key && strlen(key) == HEADS_PUB_HEX && hash_unhex(key, sizeof(raw), raw) == 0) {
		find_or_add_key(w, key, true);
		memcpy(w->v->key, key, sizeof(w->v->key));
	}
	if (log && strlen(log) == ANCHOR_LOG_LEN && hash_unhex(log, ANCHOR_LOG_LEN / 2, raw) == 0)
		memcpy(w->v->log, log, sizeof(w->v->log));
	json_decref(event);
	return r;
}

/* A whole line that is not an event. It takes the place of the next event. */
static void report_unreadable(struct walk *w, struct walk_point *now)
{
	char file[SEGMENT_NAME_LEN];
	struct finding_what what = { .kind = AUDIT_EDIT, .found = now->hash };

	if (w->v->events == 0) {
		w->start_unknown = true;
		finding_add(w->v, &what, "the first line of %s is not an event: it was changed",
			    current_file_name(w, file));
	} else {
		now->seq = w->top.seq + 1;
		what.from = what.to = now->seq;
		finding_add(w->v, &what, "event %llu was changed: line %llu of %s is not an event",
			    (ull)now->seq, (ull)w->line_no, current_file_name(w, file));
	}
	now->reported = true;
}

/* Handles one line: its hash, its link to the line before, its heads, and whether the anchor names it. */
static int walk_one_line(struct walk *w, const char *text, size_t len, uint64_t end)
{
	struct walk_point now = { 0 };
	bool first = w->v->events == 0, in_place = true;
	struct line l;
	int r = 0;

	if (text)
		hash_sha256_hex(text, len, now.hash);
	else /* too long to be stored; identified by its end offset instead of a hash */
		snprintf(now.hash, sizeof(now.hash), "long %llu %u", (ull)end, w->segment);
	if (!text || line_parse(text, len, &l) < 0) {
		report_unreadable(w, &now);
		if (first) {
			w->last = w->top = now;
			return 0;
		}
	} else {
		now.seq = l.seq;
		if (first)
			walk_first_line(w, &l);
		else
			in_place = link_to_previous(w, &l, now.hash, &now);
		memcpy(w->boot_id, l.boot_id, LINE_BOOT_ID_LEN);
		if (l.type_len > 6 && memcmp(l.type, "audit.", 6) == 0)
			r = take_own_event(w, &l, text, len);
	}
	w->v->events++;
	w->last = now;
	if (in_place) {
		w->top = now;
		w->run = -1;
		w->behind_anchor++;
	}
	if (now.seq == w->anchor.seq) {
		w->anchor_seen = true;
		memcpy(w->anchor_hash, now.hash, sizeof(now.hash));
		w->anchor_segment = w->segment;
		w->anchor_end = end;
		w->behind_anchor = 0;
	}
	check_heads_of(w, now.seq, now.hash);
	return r;
}

int walk_segment(struct walk *w, uint32_t number, struct lines *in)
{
	char file[SEGMENT_NAME_LEN];
	enum lines_state state;
	const char *text;
	size_t len;
	int r;

	w->segment = number;
	w->line_no = 0;
	w->findings_before = w->v->n_findings;
	w->has_current = w->has_current || number == 0;
	while ((r = lines_next(in, &text, &len, &state)) > 0) {
		w->line_no++;
		w->lines_current += number == 0 && state != LINES_TORN;
		if (state != LINES_TORN) {
			r = walk_one_line(w, text, len, lines_offset(in));
			if (r < 0)
				return r;
		} else if (number == 0) {
			w->torn = len ? len : 1;
		} else {
			char found[HASH_HEX_LEN + 1];

			hash_sha256_hex(text, len, found);
			finding_add(w->v,
				    &(struct finding_what){ .kind = AUDIT_CUT,
							    .from = w->top.seq + 1,
							    .to = w->top.seq + 1,
							    .found = found },
				    "%s ends with an incomplete line, after event %llu",
				    current_file_name(w, file), (ull)w->top.seq);
		}
	}
	return r;
}

static void add_anchor_finding(struct walk *w, enum audit_break kind, uint64_t from, uint64_t to,
			       const char *text)
{
	finding_add(w->v, &(struct finding_what){ kind, from, to, w->anchor.hash, w->top.hash }, "%s", text);
}

static void set_note(struct walk *w, const char *text)
{
	snprintf(w->v->note, sizeof(w->v->note), "%s", text);
}

/* Do the bytes end where the anchor says, in the right file? */
static bool ends_at_anchor(const struct walk *w)
{
	const struct anchor *an = &w->anchor;

	if (an->size == 0) /* a segment that was just started */
		return w->has_current && (an->seq == 0 || w->anchor_segment != 0);
	if (w->anchor_end != an->size)
		return false;
	return w->anchor_segment == 0 || (w->anchor_segment == an->segment && w->lines_current == 0);
}

/* The anchor names an event after the last one: the end of the log is missing. */
static void report_cut_tail(struct walk *w, const char *boot_id)
{
	const struct anchor *an = &w->anchor;
	uint64_t from = w->top.seq + 1;
	bool rebooted = boot_id && w->boot_id[0] && !str_eq(boot_id, w->boot_id);
	char what[64], text[256];

	if (w->v->events == 0)
		snprintf(what, sizeof(what), "all events up to %llu are missing", (ull)an->seq);
	else if (from == an->seq)
		snprintf(what, sizeof(what), "event %llu is missing", (ull)from);
	else
		snprintf(what, sizeof(what), "events %llu to %llu are missing", (ull)from, (ull)an->seq);
	snprintf(text, sizeof(text), "%s at the end: the tail was cut%s%s", what,
		 w->torn ? ", in the middle of a line" : "",
		 rebooted ? " (the machine was restarted since: a power failure can do this too)" : "");
	add_anchor_finding(w, AUDIT_CUT, from, an->seq, text);
}

/* The anchor names the last event, or an earlier one. */
static void check_anchored_event(struct walk *w)
{
	const struct anchor *an = &w->anchor;
	const char *hash = an->seq ? w->anchor_hash : LINE_HASH_NONE;
	bool is_last = an->seq == w->top.seq;
	char text[256];

	if ((an->seq && !w->anchor_seen) || !str_eq(hash, an->hash)) {
		snprintf(
			text, sizeof(text),
			is_last ? "the last event, %llu, was changed after it was written, or the anchor was replaced"
				: "the anchor was replaced: it names another event %llu than the log has",
			(ull)an->seq);
		if (!is_last || !w->top.reported)
			add_anchor_finding(w, is_last ? AUDIT_EDIT : AUDIT_ANCHOR, an->seq, an->seq, text);
	} else if (w->behind_anchor > 1 || (w->behind_anchor && (w->torn || an->seq + 1 != w->top.seq))) {
		snprintf(
			text, sizeof(text),
			"the anchor stops at event %llu, but the log goes on to %llu: an older copy was put back, "
			"or a power failure kept the anchor from the disk",
			(ull)an->seq, (ull)w->top.seq);
		add_anchor_finding(w, AUDIT_ANCHOR, an->seq, w->top.seq, text);
	} else if (!ends_at_anchor(w)) {
		/* A change within this file has its own finding; that everything after it has shifted is not
		 * another one. */
		if (w->v->n_findings == w->findings_before)
			add_anchor_finding(w, AUDIT_ANCHOR, an->seq, an->seq,
					   "the events are in other files or places than the anchor records");
	} else if (w->torn) {
		set_note(w, "a crash left an incomplete line at the end; the next event removes it");
	} else if (w->behind_anchor) {
		set_note(w, "a crash left one event ahead of the anchor; the next event updates the anchor");
	} else if (an->size && w->lines_current == 0) {
		set_note(w, "a crash interrupted the start of a new file; the next event continues there");
	}
}

/* Compares the end of the log with the anchor. */
static void check_anchor(struct walk *w, const char *boot_id)
{
	if (w->anchor_state == WALK_ANCHOR_MISSING && (w->touched || w->v->events || w->torn))
		add_anchor_finding(w, AUDIT_ANCHOR, 0, 0, "the anchor is missing");
	else if (w->anchor.seq == 0 && w->v->events == 0 && !w->torn && w->anchor_state != WALK_ANCHOR_BAD)
		set_note(w, "nothing has been logged yet");
	else if (w->anchor_state == WALK_ANCHOR_BAD)
		add_anchor_finding(w, AUDIT_ANCHOR, 0, 0,
				   "the anchor was replaced or damaged: it is not one that coffer wrote");
	else if (w->v->log[0] && !str_eq(w->v->log, w->anchor.log))
		add_anchor_finding(w, AUDIT_ANCHOR, 0, 0,
				   "the anchor was replaced: it belongs to another log");
	else if (w->anchor.seq > w->top.seq)
		report_cut_tail(w, boot_id);
	else
		check_anchored_event(w);
}

/* Do the key files match the key that the log names? */
static void check_key_files(struct walk *w)
{
	if (!w->check_key || !w->v->key[0])
		return;
	if (!w->key_pub || !str_eq(w->key_pub, w->v->key))
		finding_add(w->v, &(struct finding_what){ AUDIT_KEY, 0, 0, w->v->key, w->key_pub },
			    "the signing key is %s",
			    w->key_pub ? "not the one that the log names" : "missing or damaged");
	if (!w->pub || !str_eq(w->pub, w->v->key))
		finding_add(w->v, &(struct finding_what){ AUDIT_KEY, 0, 0, w->v->key, w->pub },
			    "key.pub is not the public key that the log names");
}

/* Heads without an event, or with an unknown key; and the last head, which must exist. */
static void check_lost_heads(struct walk *w)
{
	bool has_last = w->anchor.head == 0;

	for (size_t i = 0; i < w->n_heads; i++) {
		const struct walk_head *h = &w->heads[i];

		has_last = has_last || h->seq == w->anchor.head;
		if (!w->keys[h->key].named && w->v->key[0])
			finding_add(w->v,
				    &(struct finding_what){ AUDIT_HEAD, h->seq, h->seq, "key", h->hash },
				    "the head of event %llu is signed with a key that the log does not name",
				    (ull)h->seq);
		if (!h->seen && h->seq >= w->v->first_seq)
			finding_add(
				w->v, &(struct finding_what){ AUDIT_HEAD, h->seq, h->seq, "lost", h->hash },
				"a signed head proves an event %llu, which is not in the log", (ull)h->seq);
	}
	if (!has_last && w->anchor_state == WALK_ANCHOR_GOOD)
		finding_add(
			w->v,
			&(struct finding_what){ AUDIT_HEAD, w->anchor.head, w->anchor.head, "head", NULL },
			"the signed head of event %llu is missing", (ull)w->anchor.head);
}

int walk_end(struct walk *w, const char *boot_id)
{
	w->v->last_seq = w->top.seq;
	memcpy(w->v->last_hash, w->last.hash, sizeof(w->v->last_hash));
	check_anchor(w, boot_id);
	check_lost_heads(w);
	check_key_files(w);
	return finding_settle(w->v, &w->accepted);
}
