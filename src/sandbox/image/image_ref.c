/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses references to images (image_ref.h). Pure.
 */
#include "sandbox/image/image_ref.h"

#include <errno.h>
#include <stdio.h>

static int refuse_image_name(const char *text, struct err *e)
{
	char shown[160];

	err_set(e, -EINVAL, "'%s' is not the name of an image", str_safe(text, shown, sizeof(shown)));
	return err_hint(e, -EINVAL, "NAME, NAME:TAG, or NAME:TAG@sha256:DIGEST");
}

static bool has_only_name_chars(const char *s, size_t len, const char *more)
{
	for (size_t i = 0; i < len; i++) {
		bool plain = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9');

		if (!plain && !strchr(more, s[i]))
			return false;
	}
	return len > 0;
}

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* A path of names, of which the first may be a host with a port. */
static bool is_repository(const char *s, size_t len)
{
	if (!has_only_name_chars(s, len, UPPER "._-/:") || s[0] == '/' || s[0] == '.' || s[0] == '-' ||
	    s[len - 1] == '/')
		return false;
	for (size_t i = 0; i + 1 < len; i++) {
		if (s[i] == '/' && (s[i + 1] == '/' || s[i + 1] == '.' || s[i + 1] == '-'))
			return false;
	}
	return true;
}

/* Would the first of several names be taken for a host? */
static bool begins_with_host(const char *s, size_t len)
{
	const char *slash = memchr(s, '/', len);
	const size_t n = slash ? (size_t)(slash - s) : 0;

	return n && (memchr(s, '.', n) || memchr(s, ':', n) || (n == 9 && memcmp(s, "localhost", 9) == 0));
}

/* The short form of a name on Docker Hub: without the host, and without "library/" before a single name. What is left must be read
 * as the same name again, so nothing is left out where the rest would begin with a host. */
static const char *shorten_repository(const char *repo, size_t *len)
{
	static const char *const fronts[] = { "docker.io/", "index.docker.io/" };

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(fronts[i]);

		if (*len > n && memcmp(repo, fronts[i], n) == 0 && !begins_with_host(repo + n, *len - n)) {
			repo += n;
			*len -= n;
			break;
		}
	}
	if (*len > 8 && memcmp(repo, "library/", 8) == 0 && !memchr(repo + 8, '/', *len - 8)) {
		repo += 8;
		*len -= 8;
	}
	return repo;
}

int image_ref_parse(const char *text, struct image_ref *ret, struct err *e)
{
	struct image_ref r = { 0 };
	const char *at = strchr(text, '@'), *slash, *colon, *repo;
	size_t whole = at ? (size_t)(at - text) : strlen(text), len = whole;

	if (at && !oci_is_digest(at + 1))
		return err_hint(e, refuse_image_name(text, e),
				"after @ comes sha256: and 64 hexadecimal digits");
	if (at)
		memcpy(r.digest, at + 1, OCI_DIGEST_LEN + 1);
	slash = memrchr(text, '/', whole);
	colon = memchr(slash ? slash : text, ':', whole - (slash ? (size_t)(slash - text) : 0));
	if (colon) {
		size_t tag_len = whole - (size_t)(colon - text) - 1;

		if (tag_len > IMAGE_TAG_MAX || !has_only_name_chars(colon + 1, tag_len, UPPER "._-") ||
		    colon[1] == '.' || colon[1] == '-')
			return refuse_image_name(text, e);
		memcpy(r.tag, colon + 1, tag_len);
		len = (size_t)(colon - text);
	} else if (!at) {
		memcpy(r.tag, "latest", 7);
	}
	repo = shorten_repository(text, &len);
	if (len > IMAGE_REPO_MAX || !is_repository(repo, len))
		return refuse_image_name(text, e);
	memcpy(r.repo, repo, len);
	*ret = r;
	return 0;
}

char *image_ref_name(const struct image_ref *r, char out[IMAGE_NAME_MAX + 1])
{
	if (r->tag[0])
		snprintf(out, IMAGE_NAME_MAX + 1, "%s:%s", r->repo, r->tag);
	else
		snprintf(out, IMAGE_NAME_MAX + 1, "%s@%s", r->repo, r->digest);
	return out;
}
