/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses index, manifest and configuration of images (oci.h). Pure, over hostile JSON: types, counts and lengths are checked
 * before anything is copied.
 */
#include "sandbox/image/oci.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "crypto/hash.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#define TEXT_MAX 32768u /* bytes of one string */

static void oci_json_freep(json_t **j)
{
	json_decref(*j);
}

static int refuse_image_json(struct err *e, const char *what, const char *why)
{
	return err_set(e, -EBADMSG, "the image's %s %s", what, why);
}

bool oci_is_digest(const char *s)
{
	unsigned char raw[HASH_LEN];

	return strlen(s) == OCI_DIGEST_LEN && str_starts(s, "sha256:") &&
	       hash_unhex(s + 7, HASH_LEN, raw) == 0;
}

const char *oci_own_arch(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
	return "unknown";
#endif
}

static int load_oci_json(const char *data, size_t len, const char *what, json_t **ret, struct err *e)
{
	json_error_t why;
	int r;

	if (len > OCI_JSON_MAX)
		return refuse_image_json(e, what, "is too large");
	r = jsonget_load(data, len, ret, &why);
	if (r == -EBADMSG)
		return err_set(e, r, "the image's %s is not JSON that can be read (line %d)", what, why.line);
	return r < 0 ? err_sys(e, r, "cannot read the image's %s", what) : 0;
}

/* A string member of at most `max` bytes; NULL when there is none. */
static const char *oci_member_text(const json_t *obj, const char *key, size_t max)
{
	const char *s = jsonget_text_or_null(obj, key);

	return s && strlen(s) <= max ? s : NULL;
}

static void copy_oci_text(char *to, size_t cap, const json_t *obj, const char *key)
{
	const char *s = oci_member_text(obj, key, cap - 1);

	snprintf(to, cap, "%s", s ? s : "");
}

static int parse_descriptor(const json_t *obj, const char *what, struct oci_desc *ret, struct err *e)
{
	const char *digest = oci_member_text(obj, "digest", OCI_DIGEST_LEN),
		   *type = oci_member_text(obj, "mediaType", 255), *ref;
	const json_t *size = json_object_get(obj, "size"), *platform = json_object_get(obj, "platform");
	const json_t *notes = json_object_get(obj, "annotations");

	if (!json_is_object(obj) || !digest || !oci_is_digest(digest))
		return refuse_image_json(e, what, "names something without a sha256 digest");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return refuse_image_json(e, what, "names something without a size");
	memcpy(ret->digest, digest, OCI_DIGEST_LEN + 1);
	ret->size = (uint64_t)json_integer_value(size);
	ret->is_index =
		type && (str_ends(type, ".image.index.v1+json") || str_ends(type, ".manifest.list.v2+json"));
	copy_oci_text(ret->os, sizeof(ret->os), platform, "os");
	copy_oci_text(ret->arch, sizeof(ret->arch), platform, "architecture");
	ref = oci_member_text(notes, "io.containerd.image.name", 512);
	if (!ref)
		ref = oci_member_text(notes, "org.opencontainers.image.ref.name", 512);
	ret->ref = ref ? strdup(ref) : NULL;
	return ref && !ret->ref ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static int parse_descriptors(const json_t *arr, const char *what, size_t max, struct oci_index *ret,
			     struct err *e)
{
	size_t n = json_array_size(arr);

	if (!json_is_array(arr))
		return refuse_image_json(e, what, "lacks a list that it must have");
	if (n > max)
		return err_set(e, -E2BIG, "the image's %s names %zu things; at most %zu", what, n, max);
	ret->v = calloc(n ? n : 1, sizeof(*ret->v));
	if (!ret->v)
		return err_set(e, -ENOMEM, "out of memory");
	for (; ret->n < n; ret->n++) {
		int r = parse_descriptor(json_array_get(arr, ret->n), what, &ret->v[ret->n], e);

		if (r < 0)
			return r;
	}
	return 0;
}

/* A list of strings; a missing or null list is empty. */
static int parse_string_list(const json_t *arr, const char *what, struct strv *ret, struct err *e)
{
	size_t n = json_array_size(arr);

	if (arr && !json_is_null(arr) && !json_is_array(arr))
		return refuse_image_json(e, what, "has a member that is not a list");
	if (n > OCI_LIST_MAX)
		return refuse_image_json(e, what, "has a list that is too long");
	for (size_t i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(arr, i));

		if (!s || strlen(s) > TEXT_MAX)
			return refuse_image_json(e, what, "has something in a list that is not a short text");
		if (strv_add(ret, s) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

int oci_parse_index(const char *data, size_t len, struct oci_index *ret, struct err *e)
{
	CLEANUP(oci_json_freep) json_t *root = NULL;
	CLEANUP(oci_index_release) struct oci_index x = { 0 };
	int r = load_oci_json(data, len, "index", &root, e);

	if (r == 0)
		r = parse_descriptors(json_object_get(root, "manifests"), "index", OCI_LIST_MAX, &x, e);
	if (r < 0)
		return r;
	*ret = x;
	x = (struct oci_index){ 0 };
	return 0;
}

int oci_parse_manifest(const char *data, size_t len, struct oci_manifest *ret, struct err *e)
{
	CLEANUP(oci_json_freep) json_t *root = NULL;
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	int r = load_oci_json(data, len, "manifest", &root, e);

	if (r == 0 && json_integer_value(json_object_get(root, "schemaVersion")) != 2)
		r = refuse_image_json(e, "manifest", "is not of version 2");
	if (r == 0)
		r = parse_descriptor(json_object_get(root, "config"), "manifest", &m.config, e);
	if (r == 0)
		r = parse_descriptors(json_object_get(root, "layers"), "manifest", OCI_LAYERS_MAX, &m.layers,
				      e);
	if (r < 0)
		return r;
	*ret = m;
	m = (struct oci_manifest){ 0 };
	return 0;
}

static int parse_environment(const json_t *arr, struct oci_config *c, struct err *e)
{
	int r = parse_string_list(arr, "configuration", &c->env, e);

	for (size_t i = 0; r == 0 && i < c->env.n; i++) {
		const char *eq = strchr(c->env.v[i], '=');

		if (!eq || eq == c->env.v[i])
			return refuse_image_json(e, "configuration", "sets a variable without a name");
	}
	return r;
}

static int parse_optional_text(const json_t *obj, const char *key, size_t max, char **ret, struct err *e)
{
	const json_t *v = json_object_get(obj, key);
	const char *s = oci_member_text(obj, key, max);

	if (!v || json_is_null(v) || (s && !*s))
		return 0;
	if (!s)
		return refuse_image_json(e, "configuration",
					 "has a user or directory that is not a short text");
	*ret = strdup(s);
	return *ret ? 0 : err_set(e, -ENOMEM, "out of memory");
}

int oci_parse_config(const char *data, size_t len, struct oci_config *ret, struct err *e)
{
	CLEANUP(oci_json_freep) json_t *root = NULL;
	CLEANUP(oci_config_release) struct oci_config c = { 0 };
	int r = load_oci_json(data, len, "configuration", &root, e);
	const json_t *config;

	if (r < 0)
		return r;
	config = json_object_get(root, "config");
	copy_oci_text(c.os, sizeof(c.os), root, "os");
	copy_oci_text(c.arch, sizeof(c.arch), root, "architecture");
	r = parse_string_list(json_object_get(json_object_get(root, "rootfs"), "diff_ids"), "configuration",
			      &c.diff_ids, e);
	for (size_t i = 0; r == 0 && i < c.diff_ids.n; i++) {
		if (!oci_is_digest(c.diff_ids.v[i]))
			r = refuse_image_json(e, "configuration", "names a layer without a sha256 digest");
	}
	if (r == 0)
		r = parse_environment(json_object_get(config, "Env"), &c, e);
	if (r == 0)
		r = parse_string_list(json_object_get(config, "Entrypoint"), "configuration", &c.entrypoint,
				      e);
	if (r == 0)
		r = parse_string_list(json_object_get(config, "Cmd"), "configuration", &c.cmd, e);
	if (r == 0)
		r = parse_optional_text(config, "User", 255, &c.user, e);
	if (r == 0)
		r = parse_optional_text(config, "WorkingDir", 4095, &c.workdir, e);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct oci_config){ 0 };
	return 0;
}

static bool has_docker_tag(const json_t *image, const char *tag)
{
	const json_t *tags = json_object_get(image, "RepoTags");
	size_t n = json_array_size(tags);

	for (size_t i = 0; i < n && i < OCI_LIST_MAX; i++) {
		const char *s = json_string_value(json_array_get(tags, i));

		if (s && str_eq(s, tag))
			return true;
	}
	return false;
}

int oci_parse_docker(const char *data, size_t len, const char *tag, struct oci_docker *ret, struct err *e)
{
	CLEANUP(oci_json_freep) json_t *root = NULL;
	CLEANUP(oci_docker_release) struct oci_docker d = { 0 };
	const json_t *image;
	int r = load_oci_json(data, len, "manifest.json", &root, e);

	if (r < 0)
		return r;
	image = json_array_get(root, 0);
	for (size_t i = 0; tag && i < json_array_size(root); i++) {
		if (has_docker_tag(json_array_get(root, i), tag))
			image = json_array_get(root, i);
	}
	if (!json_is_object(image) || !oci_member_text(image, "Config", 4095))
		return refuse_image_json(e, "manifest.json", "names no image");
	d.config = strdup(oci_member_text(image, "Config", 4095));
	if (!d.config)
		return err_set(e, -ENOMEM, "out of memory");
	r = parse_string_list(json_object_get(image, "Layers"), "manifest.json", &d.layers, e);
	if (r == 0)
		r = parse_string_list(json_object_get(image, "RepoTags"), "manifest.json", &d.tags, e);
	if (r == 0 && d.layers.n > OCI_LAYERS_MAX)
		r = err_set(e, -E2BIG, "the image has %zu layers; at most %d", d.layers.n, OCI_LAYERS_MAX);
	if (r < 0)
		return r;
	*ret = d;
	d = (struct oci_docker){ 0 };
	return 0;
}

const struct oci_desc *oci_choose(const struct oci_index *x, struct err *e)
{
	for (size_t i = 0; i < x->n; i++) {
		if (str_eq(x->v[i].os, "linux") && str_eq(x->v[i].arch, oci_own_arch()))
			return &x->v[i];
	}
	if (x->n == 1 && (!x->v[0].arch[0] || str_eq(x->v[0].arch, oci_own_arch())))
		return &x->v[0];
	for (size_t i = 0; i < x->n; i++) {
		if (!x->v[i].arch[0])
			return &x->v[i];
	}
	err_set(e, -ENOENT, "the image has no variant for linux/%s", oci_own_arch());
	return NULL;
}

void oci_index_release(struct oci_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->v[i].ref);
	free(x->v);
	*x = (struct oci_index){ 0 };
}

void oci_manifest_release(struct oci_manifest *m)
{
	free(m->config.ref);
	oci_index_release(&m->layers);
	*m = (struct oci_manifest){ 0 };
}

void oci_config_release(struct oci_config *c)
{
	strv_release(&c->diff_ids);
	strv_release(&c->env);
	strv_release(&c->entrypoint);
	strv_release(&c->cmd);
	free(c->user);
	free(c->workdir);
	*c = (struct oci_config){ 0 };
}

void oci_docker_release(struct oci_docker *d)
{
	free(d->config);
	strv_release(&d->layers);
	strv_release(&d->tags);
	*d = (struct oci_docker){ 0 };
}
