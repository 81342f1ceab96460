/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a request for foreign credentials (foreign_cred.h). In doubt it reports one: by the rule only those
 * that coffer inserts may pass.
 */
#include "egress/credential/foreign_cred.h"

#include "codec/http/http_form.h"
#include "egress/credential/inject.h"
#include "egress/credential/inject_int.h"
#include "vault/common/shape.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <strings.h>

#define NAME_SHOWN_MAX 60
#define BESIDE_MAX 6 /* characters beside a placeholder in its segment: "bot" */

/* Names come from inside: only printable characters are shown. */
static bool report_foreign(struct foreign_cred *t, const char *where, struct slice name, const char *what)
{
	char text[NAME_SHOWN_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; i < name.len && n < NAME_SHOWN_MAX; i++)
		text[n++] = (char)(name.p[i] > ' ' && name.p[i] < 127 ? name.p[i] : '?');
	text[n] = '\0';
	snprintf(t->what, sizeof(t->what), "%s%s%s%s%s", where, n ? " " : "", text, what ? ": " : "",
		 what ? what : "");
	return true;
}

/* ---- Shapes of tokens. ---- */

/* Searches the text between placeholders. */
static const struct shape *find_token_shape(const struct foreign_cred *t, struct slice s)
{
	const struct vault_grant *g;
	struct shape_hit hit;
	size_t at = 0;

	do {
		g = t->ours ? inject_placeholder(t->ours, s, &at) : NULL;
		if (s.len && shape_find(s.p, g ? at : s.len, 0, &hit))
			return hit.shape;
		if (g) {
			s.p += at + g->placeholder_len;
			s.len -= at + g->placeholder_len;
		}
	} while (g);
	return NULL;
}

static bool has_token_shape(struct foreign_cred *t, const char *where, struct slice name, struct slice value)
{
	const struct shape *s = find_token_shape(t, value);

	return s && report_foreign(t, where, name, s->what);
}

static bool is_our_placeholder(const struct foreign_cred *t, struct slice value)
{
	return t->ours && value.len && inject_is_ours(t->ours, slice_of("x"), value);
}

/* ---- Headers. ---- */

static bool name_has_word(struct slice name, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= name.len; i++) {
		size_t k = 0;

		/* A gateway that turns names into variables (CGI) cannot tell x_api_key from x-api-key. */
		while (k < n &&
		       ((name.p[i + k] | 32) == (word[k] | 32) || (word[k] == '-' && name.p[i + k] == '_')))
			k++;
		if (k == n)
			return true;
	}
	return false;
}

static bool foreign_cred_in_field(struct foreign_cred *t, struct slice name, struct slice value)
{
	/* Services invent names for their headers; one of these words is in nearly all of them. */
	static const char *const words[] = {
		"authoriz",   "auth-",	  "-auth",  "token",	     "api-key",		 "apikey",
		"access-key", "password", "secret", "credential",    "cookie",		 "jwt",
		"auth-key",   "rapidapi", "x-key",  "functions-key", "subscription-key", "application-key",
	};

	if (t->ours && inject_is_ours(t->ours, name, value))
		return false;
	for (size_t k = 0; k < ARRAY_SIZE(words); k++) {
		if (name_has_word(name, words[k]))
			return report_foreign(t, "the header", name, NULL);
	}
	return has_token_shape(t, "the header", name, value);
}

/* ---- The target. ---- */

/* A text that cannot be decoded is searched as it is. */
static struct slice decode_or_raw(struct slice s, struct buf *tmp)
{
	return http_form_decode(s, tmp) < 0 ? s : (struct slice){ tmp->data, tmp->len };
}

static bool param_is_ours(const void *grants, struct slice value)
{
	return grants && inject_is_ours_param(grants, value);
}

static bool foreign_cred_in_query(struct foreign_cred *t, struct slice query)
{
	/* Parameters that services take a credential in. */
	static const char *const list[] = {
		"access_token",
		"access-token",
		"api_key",
		"apikey",
		"api-key",
		"key",
		"token",
		"auth_token",
		"private_token",
		"client_secret",
		"secret",
		"password",
		"auth",
		"jwt",
		"sig",
		"signature",
		"x-amz-signature",
		"x-amz-credential",
		"x-goog-signature",
		"awsaccesskeyid",
		"refresh_token",
	};
	struct slice rest = query, name, value;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (http_form_has_but(query, list[i], param_is_ours, t->ours))
			return report_foreign(t, "the parameter", slice_of(list[i]), NULL);
	}
	while (http_form_next(&rest, &name, &value)) {
		autobuf struct buf k = BUF_INIT, v = BUF_INIT;

		if (has_token_shape(t, "the parameter", SLICE_NONE, decode_or_raw(name, &k)) ||
		    has_token_shape(t, "the parameter", name, decode_or_raw(value, &v)))
			return true;
	}
	return false;
}

/* A token may follow a word: /bot123:…/send */
static bool foreign_cred_in_segment(struct foreign_cred *t, struct slice s)
{
	size_t n = 0;

	if (has_token_shape(t, "the path", SLICE_NONE, s))
		return true;
	while (n < s.len && ((s.p[n] | 32) >= 'a' && (s.p[n] | 32) <= 'z'))
		n++;
	return n && has_token_shape(t, "the path", SLICE_NONE, (struct slice){ s.p + n, s.len - n });
}

/* Is it a placeholder with next to nothing beside it? */
static bool segment_is_ours(const struct foreign_cred *t, struct slice s)
{
	size_t at;
	const struct vault_grant *g = inject_placeholder(t->ours, s, &at);

	return g && s.len - g->placeholder_len <= BESIDE_MAX;
}

/* A secret that is sent in paths of this host: another credential in its place may have any shape. */
static const struct vault_grant *secret_in_paths(const struct foreign_cred *t, struct slice path,
						 struct slice *ret_below)
{
	for (size_t i = 0; t->ours && i < t->ours->n; i++) {
		const struct vault_grant *g = &t->ours->v[i];
		const struct binding *b = grants_binding(g, t->host, t->port, path, BINDING_AS_PATH, NULL);
		size_t n = b ? strlen(b->path) : 0;

		if (!b || !g->placeholder_len)
			continue;
		*ret_below = (struct slice){ path.p + (n < path.len ? n : path.len),
					     n < path.len ? path.len - n : 0 };
		return g;
	}
	return NULL;
}

static bool foreign_cred_in_path(struct foreign_cred *t, struct slice path)
{
	struct slice rest = path, seg, below = SLICE_NONE;
	const struct vault_grant *g = secret_in_paths(t, path, &below);
	bool is_there = false;

	while (inject_next_piece(&rest, '/', &seg)) {
		autobuf struct buf plain = BUF_INIT;

		seg = decode_or_raw(seg, &plain);
		if (foreign_cred_in_segment(t, seg))
			return true;
		is_there |= g && segment_is_ours(t, seg);
	}
	while (below.len && *below.p == '/')
		below.p++, below.len--;
	return g && !is_there && below.len &&
	       report_foreign(t, "the path, which lacks the placeholder of the secret", slice_of(g->name),
			      NULL);
}

bool foreign_cred_in_head(struct foreign_cred *t, const struct http_req *q)
{
	for (unsigned i = 0; i < q->fields.n; i++) {
		if (foreign_cred_in_field(t, http_fields_name(&q->fields, i),
					  http_fields_value(&q->fields, i)))
			return true;
	}
	if (q->url.has_query && foreign_cred_in_query(t, urlpath_query(&q->target, &q->url)))
		return true;
	return q->url.path_len && foreign_cred_in_path(t, urlpath_path(&q->target, &q->url));
}

/* ---- Bodies. ---- */

static bool has_content_type(const struct http_req *q, const char *word)
{
	return name_has_word(http_fields_get(&q->fields, "content-type"), word);
}

static bool slice_ends(struct slice s, const char *text)
{
	size_t n = strlen(text);

	return s.len >= n && memcmp(s.p + s.len - n, text, n) == 0;
}

bool foreign_cred_wants_body(const struct http_req *q)
{
	struct slice path = q->url.path_len ? urlpath_path(&q->target, &q->url) : SLICE_NONE;
	bool is_git = (slice_ends(path, "/git-upload-pack") &&
		       has_content_type(q, "application/x-git-upload-pack-request")) ||
		      (slice_ends(path, "/git-receive-pack") &&
		       has_content_type(q, "application/x-git-receive-pack-request"));

	return q->has_body && !is_git;
}

const char *foreign_cred_why_not(const struct http_req *q)
{
	struct slice enc = http_fields_get(&q->fields, "content-encoding");

	if (enc.len && !slice_eq_nocase(enc, "identity"))
		return "this rule accepts only secrets that coffer inserts, and a compressed body cannot be "
		       "searched for other credentials; send it without Content-Encoding";
	if (q->has_length && q->length > EXCH_HOLD_MAX)
		return FOREIGN_CRED_TOO_LONG;
	return NULL;
}

/* In any letter case and spelling: accessToken, access_token, ACCESS-TOKEN. */
static bool is_credential_member(struct slice name)
{
	static const char *const list[] = {
		"token",
		"accesstoken",
		"refreshtoken",
		"idtoken",
		"authtoken",
		"apitoken",
		"bearertoken",
		"privatetoken",
		"sessiontoken",
		"bottoken",
		"personalaccesstoken",
		"apikey",
		"accesskey",
		"secretkey",
		"secretaccesskey",
		"privatekey",
		"authkey",
		"password",
		"passwd",
		"passphrase",
		"secret",
		"clientsecret",
		"clientassertion",
		"authorization",
		"credential",
		"jwt",
	};
	char plain[24];
	size_t n = 0;

	for (size_t i = 0; i < name.len; i++) {
		char c = name.p[i];

		if (c == '_' || c == '-' || c == '.' || c == ' ')
			continue;
		if (n == sizeof(plain))
			return false;
		plain[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (slice_eq((struct slice){ plain, n }, list[i]))
			return true;
	}
	return false;
}

static bool foreign_cred_in_member(struct foreign_cred *t, struct slice name, struct slice value)
{
	return is_credential_member(name) && value.len && !is_our_placeholder(t, value) &&
	       report_foreign(t, "the body's", name, NULL);
}

static bool foreign_cred_in_text(struct foreign_cred *t, struct slice text)
{
	return has_token_shape(t, "the body", SLICE_NONE, text);
}

static bool foreign_cred_in_form(struct foreign_cred *t, struct slice form)
{
	struct slice name, value;

	while (http_form_next(&form, &name, &value)) {
		autobuf struct buf k = BUF_INIT, v = BUF_INIT;
		struct slice n = decode_or_raw(name, &k), x = decode_or_raw(value, &v);
		/* "user[token]": the text in the last brackets. */
		const char *open = n.len && n.p[n.len - 1] == ']' ? memrchr(n.p, '[', n.len) : NULL;
		struct slice last = open ? (struct slice){ open + 1, (size_t)(n.p + n.len - open) - 2 } : n;

		if (foreign_cred_in_member(t, n, x) || foreign_cred_in_member(t, last, x) ||
		    foreign_cred_in_text(t, n) || foreign_cred_in_text(t, x))
			return true;
	}
	return false;
}

static bool foreign_cred_in_json(struct foreign_cred *t, struct slice name, const json_t *v);

/* jansson's own limit of depth bounds both. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool foreign_cred_in_object(struct foreign_cred *t, json_t *o)
{
	const char *key;
	json_t *v;

	json_object_foreach(o, key, v)
	{
		if (foreign_cred_in_text(t, slice_of(key)) || foreign_cred_in_json(t, slice_of(key), v))
			return true;
	}
	return false;
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool foreign_cred_in_json(struct foreign_cred *t, struct slice name, const json_t *v)
{
	size_t i;
	json_t *x;

	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return foreign_cred_in_object(t, (json_t *)v);
	case JSON_ARRAY:
		json_array_foreach(v, i, x)
		{
			if (foreign_cred_in_json(t, name, x))
				return true;
		}
		return false;
	case JSON_STRING: {
		struct slice s = { json_string_value(v), json_string_length(v) };

		return foreign_cred_in_member(t, name, s) || foreign_cred_in_text(t, s);
	}
	case JSON_INTEGER:
	case JSON_REAL:
		return foreign_cred_in_member(t, name, slice_of("0"));
	default:
		return false;
	}
}

/* One JSON document or several in sequence. 1: found, 0: not found, -1: not JSON. */
static int foreign_cred_in_documents(struct foreign_cred *t, struct slice s)
{
	bool is = false;

	while (!is) {
		json_error_t e;
		json_t *o;

		while (s.len && (*s.p == ' ' || *s.p == '\t' || *s.p == '\r' || *s.p == '\n' || *s.p == 0x1e))
			s.p++, s.len--;
		if (s.len == 0)
			return 0;
		o = json_loadb(s.p, s.len,
			       JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK |
				       JSON_ALLOW_NUL,
			       &e);
		if (!o)
			return -1;
		is = foreign_cred_in_json(t, SLICE_NONE, o);
		json_decref(o);
		s.p += e.position;
		s.len -= (size_t)e.position;
	}
	return 1;
}

/* The value of a part, from the blank line to the next boundary. */
static struct slice multipart_value(struct slice s)
{
	const char *from = memmem(s.p, s.len, "\r\n\r\n", 4), *to;

	if (!from)
		return SLICE_NONE;
	s = (struct slice){ from + 4, s.len - (size_t)(from + 4 - s.p) };
	to = memmem(s.p, s.len, "\r\n--", 4);
	return (struct slice){ s.p, to ? (size_t)(to - s.p) : s.len };
}

static bool foreign_cred_in_parts(struct foreign_cred *t, struct slice s)
{
	const char *at;

	while ((at = s.len ? memmem(s.p, s.len, "name=", 5) : NULL) != NULL) {
		struct slice name = { at + 5, s.len - (size_t)(at + 5 - s.p) };
		size_t n = 0;

		bool is_file = at > s.p && at[-1] == 'e'; /* filename= */

		s = name;
		if (name.len && *name.p == '"')
			name.p++, name.len--;
		while (n < name.len && n < 64 && name.p[n] != '"' && name.p[n] != ';' && name.p[n] != '\r')
			n++;
		if (!is_file && foreign_cred_in_member(t, (struct slice){ name.p, n }, multipart_value(s)))
			return true;
	}
	return false;
}

bool foreign_cred_in_body(struct foreign_cred *t, const struct http_req *q, struct slice body)
{
	int r = has_content_type(q, "multipart/") ? 0 : foreign_cred_in_documents(t, body);

	if (body.len == 0)
		return false;
	if (r < 0 && has_content_type(q, "json"))
		return report_foreign(t, "a body that claims to be JSON and is ambiguous", SLICE_NONE, NULL);
	if (r > 0 || foreign_cred_in_text(t, body))
		return true;
	if (r < 0 && (has_content_type(q, "application/x-www-form-urlencoded") ||
		      !http_fields_has(&q->fields, "content-type")))
		return foreign_cred_in_form(t, body);
	return has_content_type(q, "multipart/") && foreign_cred_in_parts(t, body);
}
