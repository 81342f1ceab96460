/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports an image from a registry: skopeo(1) fetches it into an OCI layout, which is then imported like any other. Its
 * content is checked again by digests; only the mapping of the registry's name to a digest is taken from skopeo.
 */
#include "base/fd.h"
#include "sandbox/image/image_store.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* The reference for the registry, which accepts a tag or a digest, not both. */
static int skopeo_source(const struct image_ref *ref, char **ret)
{
	return ref->digest[0] ? asprintf(ret, "docker://%s@%s", ref->repo, ref->digest)
			      : asprintf(ret, "docker://%s:%s", ref->repo, ref->tag);
}

static int run_skopeo(const struct image_pull *o, const char *from, const char *to, struct err *e)
{
	char *argv[] = { (char *)"skopeo",
			 (char *)"copy",
			 (char *)"--quiet",
			 (char *)(o->insecure ? "--src-tls-verify=false" : "--src-tls-verify=true"),
			 (char *)from,
			 (char *)to,
			 NULL };
	const int fds[] = { SPAWN_NULL, 2, 2 };
	/* With the caller's environment, which has its proxies and the place of its credentials. */
	const struct spawn s = { .path = argv[0],
				 .argv = argv,
				 .env = environ,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .flags = SPAWN_SAME_ID | SPAWN_KEEP_CWD };
	struct spawned got = SPAWNED_INIT;
	enum spawn_step step;
	int r = spawn_start_step(&s, &got, &step, e);

	if (r == -ENOENT && step == SPAWN_STEP_EXEC) {
		err_set(e, -ENOENT, "skopeo is not installed, and images are fetched by it");
		return err_hint(
			e, -ENOENT,
			"install it (Debian, Ubuntu, Fedora: skopeo), or bring an archive in with coffer image import");
	}
	if (r < 0)
		return r;
	return spawn_wait(&got) == 0 ? 0 : err_set(e, -EIO, "skopeo could not fetch %s", from);
}

int image_pull(struct state *st, const struct image_pull *o, struct image_record *ret,
	       struct image_notes *notes, struct err *e)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	autofree char *from = NULL, *to = NULL;
	char tmp[STORE_TMP_LEN + 1] = "";
	autoclose int tmp_fd = -1;
	struct image_ref ref;
	struct image_import in = { .name = o->ref };
	int r = image_ref_parse(o->ref, &ref, e), rm;

	if (r == 0)
		r = store_open(&s, st, e);
	if (r < 0)
		return r;
	tmp_fd = store_tmp(&s, tmp, e);
	if (tmp_fd < 0)
		return tmp_fd;
	if (skopeo_source(&ref, &from) < 0 || asprintf(&to, "oci:%s/tmp/%s/oci", s.path, tmp) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	r = run_skopeo(o, from, to, e);
	in.path = to + 4;
	in.source = from;
	in.index = ref.digest[0] ? ref.digest : NULL;
	if (r == 0)
		r = image_import(st, &in, ret, notes, e);
	rm = fd_rm_rf(s.tmp, tmp, NULL);
	(void)rm; /* the next sweep removes the rest */
	return r;
}
