/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses, compares and describes bindings (binding.h): the one place where it is decided whether a host, port
 * and path are covered by one. Pure; knows no secret.
 */

#include "vault/common/binding.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "codec/http/urlpath.h"
#include "policy/psl.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>

static const char *const as_names[] = {
	[BINDING_AS_ANY] = "any",	[BINDING_AS_BEARER] = "bearer", [BINDING_AS_BASIC] = "basic",
	[BINDING_AS_HEADER] = "header", [BINDING_AS_QUERY] = "query",	[BINDING_AS_PATH] = "path",
	[BINDING_AS_BODY] = "body",	[BINDING_AS_COOKIE] = "cookie", [BINDING_AS_SSH] = "ssh",
	[BINDING_AS_PROXY] = "proxy",
};
static_assert(ARRAY_SIZE(as_names) == BINDING_AS_COUNT, "a name for each way");

/* Headers that frame a request or name its recipient: a secret may not be sent in them. */
static const char *const framing[] = {
	"connection", "content-length",	     "cookie", "expect",  "host",
	"keep-alive", "proxy-authorization", "te",     "trailer", "transfer-encoding",
	"upgrade"
};

/* Refuses wildcards and URLs with a message of their own, because people try them. */
static int refuse_pattern_or_url(const char *text, size_t len, struct err *e)
{
	if (memchr(text, '*', len))
		return err_set(
			e, -EINVAL,
			"a secret is bound to exact hosts, and '%.*s' has a '*': anybody with a name below it "
			"would get the secret",
			(int)len, text);
	if (memmem(text, len, "://", 3))
		return err_set(e, -EINVAL, "'%.*s' is a URL; a binding is HOST[:PORT][/path]", (int)len,
			       text);
	return 0;
}

/* Parses HOST[:PORT] (binding.B1). */
static int parse_host(const char *text, size_t len, unsigned flags, struct binding *b, struct err *e)
{
	struct host h;
	uint16_t port = 0;
	int r = host_port_parse(text, len, HOST_PORT_OPTIONAL, &h, &port, e);

	if (r < 0)
		return r;
	if (h.kind == HOST_ADDR && !(flags & BINDING_ADDRESS))
		return err_set(
			e, -EINVAL,
			"%s is an address; certificates and bindings are for names (use --address if it is "
			"meant)",
			h.text);
	if (h.kind == HOST_NAME && psl_is_suffix(h.text))
		return err_set(e, -EINVAL,
			       "%s is a public suffix: anybody may register a name below it; name one host",
			       h.text);
	memcpy(b->host, h.text, (size_t)h.len + 1);
	b->port = port || (flags & BINDING_ASKED) ? port : BINDING_PORT;
	return 0;
}

/* Parses and canonicalises the path (binding.B2). */
static int parse_path(const char *text, size_t len, struct binding *b, struct err *e)
{
	autobuf struct buf out = BUF_INIT;
	struct urlpath p;
	int r = urlpath_canon(text, len, 0, &out, &p, e);

	if (r < 0)
		return r;
	if (p.has_query)
		return err_set(e, -EINVAL, "a binding's path has no query: '%.*s'", (int)len, text);
	if (p.slash)
		return err_set(e, -EINVAL,
			       "servers may read the path '%.*s' in two ways; write it without %%", (int)len,
			       text);
	len = p.path_len;
	while (len > 1 && out.data[len - 1] == '/')
		len--;
	if (len > BINDING_PATH_MAX)
		return err_set(e, -EINVAL, "a binding's path has at most %d bytes", BINDING_PATH_MAX);
	memcpy(b->path, out.data, len);
	b->path[len] = '\0';
	return 0;
}

int binding_parse_host(const char *text, size_t len, unsigned flags, struct binding *b, struct err *e)
{
	const char *slash = memchr(text, '/', len);
	size_t host_len = slash ? (size_t)(slash - text) : len;
	struct binding out = *b;
	int r;

	if (len > HOST_MAX + 16 + URLPATH_MAX || memchr(text, '\0', len))
		return err_set(e, -EINVAL, "expected HOST[:PORT][/path]");
	r = refuse_pattern_or_url(text, len, e);
	if (r == 0)
		r = parse_host(text, host_len, flags, &out, e);
	if (r == 0)
		r = parse_path(slash ? slash : "/", slash ? len - host_len : 1, &out, e);
	if (r < 0)
		return r;
	*b = out;
	return 0;
}

/* A token of RFC 9110. */
static bool is_token(const char *s)
{
	for (const char *p = s; *p; p++) {
		bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');

		if (!word && !strchr("!#$%&'*+-.^_`|~", *p))
			return false;
	}
	return *s;
}

/* May a secret be sent in this header? Lower case only, and none that frames the request. */
static bool is_header_for_secret(const char *s)
{
	for (const char *p = s; *p; p++) {
		if (*p >= 'A' && *p <= 'Z')
			return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(framing); i++) {
		if (str_eq(s, framing[i]))
			return false;
	}
	return is_token(s);
}

/* The name of a query parameter, without characters that would need encoding. */
static bool is_query_parameter(const char *s)
{
	for (const char *p = s; *p; p++) {
		if (*p <= 0x20 || *p > 0x7e || strchr("&=#?%+\"<>\\^`{|}", *p))
			return false;
	}
	return *s;
}

#define ASK "ask"

/* The part after "ask" or "ask,"; the whole word when it does not begin with that. */
static const char *skip_ask_prefix(const char *word)
{
	size_t n = strlen(ASK);

	if (!str_starts(word, ASK) || (word[n] != '\0' && word[n] != ','))
		return word;
	return word[n] ? word + n + 1 : word + n;
}

static bool is_ssh_word(const char *word)
{
	const char *rest = skip_ask_prefix(word);

	/* "ask," with nothing after the comma is not valid. */
	if (!*rest)
		return !*word || str_eq(word, ASK);
	return str_eq(rest, "sshsig") || str_eq(rest, "unbound");
}

/* Is the word (header, parameter, cookie, SSH options) valid for this way of sending? */
static bool word_fits_way(unsigned as, const char *word)
{
	switch (as) {
	case BINDING_AS_HEADER:
		return is_header_for_secret(word);
	case BINDING_AS_QUERY:
		return is_query_parameter(word);
	case BINDING_AS_COOKIE:
		return !*word || is_token(word);
	case BINDING_AS_SSH:
		return is_ssh_word(word);
	default:
		return !*word;
	}
}

static int refuse_way(const char *text, size_t len, struct err *e)
{
	char quoted[SLICE_QUOTE_LEN];

	return err_set(
		e, -EINVAL,
		"'%s' is not a way to send a secret; use bearer, basic, header:NAME, query:NAME, path, body, "
		"cookie[:NAME], ssh, ssh:sshsig, ssh:unbound (with approval for each use: ssh:ask,sshsig) or proxy",
		slice_quote(text, len, quoted));
}

int binding_parse_as(const char *text, size_t len, struct binding *b, struct err *e)
{
	const char *colon = memchr(text, ':', len);
	struct slice way = { text, colon ? (size_t)(colon - text) : len };
	size_t word_len = colon ? len - way.len - 1 : 0;
	char word[BINDING_WORD_MAX + 1] = "";
	unsigned as = BINDING_AS_BEARER;

	while (as < BINDING_AS_COUNT && !slice_eq(way, as_names[as]))
		as++;
	if (as == BINDING_AS_COUNT || (colon && word_len == 0) || word_len > BINDING_WORD_MAX)
		return refuse_way(text, len, e);
	if (word_len)
		memcpy(word, colon + 1, word_len);
	for (char *p = word; as == BINDING_AS_HEADER && *p; p++)
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
	if (strlen(word) != word_len)
		return refuse_way(text, len, e);
	if (!word_fits_way(as, word)) {
		if (as == BINDING_AS_HEADER && str_eq(word, "cookie"))
			return err_set(e, -EINVAL, "use 'cookie' or 'cookie:NAME' instead of header:cookie");
		if (as == BINDING_AS_HEADER && is_token(word))
			return err_set(e, -EINVAL,
				       "the header %s frames the request; a secret cannot be sent in it",
				       word);
		return refuse_way(text, len, e);
	}
	b->as = (uint8_t)as;
	memcpy(b->word, word, sizeof(b->word));
	return 0;
}

void binding_usual_as(struct binding *b)
{
	static const struct {
		const char *host;
		enum binding_as as;
		const char *word;
	} usual[] = {
		{ "api.anthropic.com", BINDING_AS_HEADER, "x-api-key" },
		{ "api.telegram.org", BINDING_AS_PATH, "" },
		{ "generativelanguage.googleapis.com", BINDING_AS_HEADER, "x-goog-api-key" },
		{ "github.com", BINDING_AS_BASIC, "" },
		{ "gitlab.com", BINDING_AS_BASIC, "" },
	};

	b->as = BINDING_AS_BEARER;
	b->word[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		if (!str_eq(b->host, usual[i].host))
			continue;
		b->as = (uint8_t)usual[i].as;
		memcpy(b->word, usual[i].word, strlen(usual[i].word) + 1);
	}
}

bool binding_usual_other(struct binding *b)
{
	/* Anthropic accepts both its own header and a bearer token. */
	if (!str_eq(b->host, "api.anthropic.com"))
		return false;
	b->as = BINDING_AS_BEARER;
	b->word[0] = '\0';
	return true;
}

/* Can HTTP Basic carry this user name? */
static bool is_user_name(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++) {
		if (s[i] < 0x20 || s[i] > 0x7e || s[i] == ':')
			return false;
	}
	return n == 0 || (s[0] != ' ' && s[n - 1] != ' ');
}

/* Does this way of sending have a user? */
static bool takes_user(const struct binding *b)
{
	return b->as == BINDING_AS_BASIC || b->as == BINDING_AS_SSH || b->as == BINDING_AS_PROXY;
}

int binding_set_user(struct binding *b, const char *user, struct err *e)
{
	if (!takes_user(b))
		return err_set(e, -EINVAL, "only 'basic', 'ssh' and 'proxy' take a user");
	if (strlen(user) > BINDING_USER_MAX || !is_user_name(user))
		return err_set(
			e, -EINVAL,
			"a user has at most %d printable characters, no colon and no space at either end",
			BINDING_USER_MAX);
	memcpy(b->user, user, strlen(user) + 1);
	return 0;
}

static bool is_canonical_path(const char *path)
{
	struct binding b = { 0 };

	return parse_path(path, strlen(path), &b, NULL) == 0 && str_eq(b.path, path);
}

static bool is_bindable_host(const char *host)
{
	struct host h;

	return host_canon(host, strlen(host), &h, NULL) == 0 && str_eq(h.text, host) &&
	       (h.kind == HOST_ADDR || !psl_is_suffix(host));
}

bool binding_is_good(const struct binding *b, unsigned flags)
{
	bool asked = flags & BINDING_ASKED;

	if (b->as >= BINDING_AS_COUNT || (!asked && (b->as == BINDING_AS_ANY || b->port == 0)))
		return false;
	if (!word_fits_way(b->as, b->word) || !is_user_name(b->user) || (*b->user && !takes_user(b)))
		return false;
	return is_bindable_host(b->host) && is_canonical_path(b->path);
}

bool binding_eq(const struct binding *a, const struct binding *b)
{
	return a->port == b->port && a->as == b->as && str_eq(a->host, b->host) && str_eq(a->path, b->path) &&
	       str_eq(a->word, b->word) && str_eq(a->user, b->user);
}

/* Is the path the prefix itself or below it (binding.B2)? */
static bool is_path_below(const char *prefix, struct slice path)
{
	size_t n = strlen(prefix);

	if (str_eq(prefix, "/"))
		return path.len > 0 && path.p[0] == '/';
	return path.len >= n && memcmp(path.p, prefix, n) == 0 && (path.len == n || path.p[n] == '/');
}

bool binding_covers(const struct binding *b, const char *host, uint16_t port, struct slice path)
{
	autobuf struct buf other = BUF_INIT;

	if (port != b->port || !str_eq(b->host, host) || !is_path_below(b->path, path))
		return false;
	if (str_eq(b->path, "/") || !memchr(path.p, '%', path.len))
		return true;
	return urlpath_slashed(path, &other) == 0 &&
	       is_path_below(b->path, (struct slice){ buf_cstr(&other), other.len });
}

/* The value that both sides agree on; an empty one leaves the choice to the other side. */
static bool agree_on_text(char *ret, const char *own, const char *ask)
{
	if (*own && *ask && !str_eq(own, ask))
		return false;
	if (!*own)
		memcpy(ret, ask, strlen(ask) + 1);
	return true;
}

/* A person is asked if either side wants that; the rest is compared like any other word. */
static bool agree_on_ssh_word(char *ret, const char *own, const char *ask)
{
	bool asks = skip_ask_prefix(own) != own || skip_ask_prefix(ask) != ask;
	char rest[BINDING_WORD_MAX + 1];

	snprintf(rest, sizeof(rest), "%s", skip_ask_prefix(own));
	if (!agree_on_text(rest, rest, skip_ask_prefix(ask)))
		return false;
	snprintf(ret, BINDING_WORD_MAX + 1, "%s%s%.16s", asks ? ASK : "", asks && *rest ? "," : "", rest);
	return true;
}

static bool agree_on_word(const struct binding *own, const struct binding *ask, char *ret)
{
	return own->as == BINDING_AS_SSH ? agree_on_ssh_word(ret, own->word, ask->word)
					 : agree_on_text(ret, own->word, ask->word);
}

bool binding_meet(const struct binding *own, const struct binding *ask, struct binding *ret)
{
	struct binding out = *own;

	if (!str_eq(own->host, ask->host) || (ask->port && ask->port != own->port))
		return false;
	if (ask->as != BINDING_AS_ANY && (ask->as != own->as || !agree_on_word(own, ask, out.word) ||
					  !agree_on_text(out.user, own->user, ask->user)))
		return false;
	if (is_path_below(own->path, slice_of(ask->path)))
		memcpy(out.path, ask->path, sizeof(out.path));
	else if (!is_path_below(ask->path, slice_of(own->path)))
		return false;
	*ret = out;
	return true;
}

void binding_describe_as(const struct binding *b, struct buf *out)
{
	buf_adds(out, as_names[b->as]);
	if (*b->word)
		buf_addf(out, ":%s", b->word);
	if (*b->user)
		buf_addf(out, " (user %s)", b->user);
}

void binding_describe(const struct binding *b, struct buf *out)
{
	bool brackets = strchr(b->host, ':') != NULL;

	buf_addf(out, brackets ? "[%s]" : "%s", b->host);
	if (b->port && b->port != (b->as == BINDING_AS_SSH ? BINDING_PORT_SSH : BINDING_PORT))
		buf_addf(out, ":%u", b->port);
	if (!str_eq(b->path, "/"))
		buf_adds(out, b->path);
	if (b->as != BINDING_AS_ANY) {
		buf_adds(out, " as ");
		binding_describe_as(b, out);
	}
}

bool binding_allows_sshsig(const struct binding *b)
{
	return b->as == BINDING_AS_SSH && str_eq(skip_ask_prefix(b->word), "sshsig");
}

bool binding_allows_unbound(const struct binding *b)
{
	return b->as == BINDING_AS_SSH && str_eq(skip_ask_prefix(b->word), "unbound");
}

bool binding_asks(const struct binding *b)
{
	return b->as == BINDING_AS_SSH && skip_ask_prefix(b->word) != b->word;
}

int binding_set_ask(struct binding *b, struct err *e)
{
	char word[BINDING_WORD_MAX + 1];

	if (b->as != BINDING_AS_SSH)
		return err_set(e, -EINVAL,
			       "only a key that signs (--as ssh) can require approval for each use");
	if (binding_asks(b))
		return 0;
	snprintf(word, sizeof(word), ASK "%s%.16s", *b->word ? "," : "", b->word);
	memcpy(b->word, word, sizeof(word));
	return 0;
}

bool binding_takes_lines(const struct binding *b)
{
	return b->as == BINDING_AS_BODY || b->as == BINDING_AS_SSH;
}

/* The length of the value after percent-encoding. */
static size_t percent_encoded_len(const unsigned char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += isalnum(s[i]) || strchr("-._~", s[i]) ? 1 : 3;
	return n;
}

bool binding_fits(const struct binding *b, const void *value, size_t len)
{
	switch (b->as) {
	case BINDING_AS_BODY:
	case BINDING_AS_SSH:
	case BINDING_AS_PROXY:
		return true;
	case BINDING_AS_BASIC:
		return (len + BINDING_USER_MAX) * 4 / 3 < BINDING_HEAD_MAX;
	case BINDING_AS_QUERY:
	case BINDING_AS_PATH:
		return percent_encoded_len(value, len) < BINDING_HEAD_MAX;
	default:
		return len < BINDING_HEAD_MAX;
	}
}
