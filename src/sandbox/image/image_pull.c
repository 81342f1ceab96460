/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports an image from a registry: skopeo(1) fetches it into an OCI layout, which is then imported like any other, so that
 * every blob is compared with its digest again. Skopeo is trusted for one thing only: that the manifest it chose is the one of the
 * requested tag, or of the requested digest where that is the digest of an index.
 */
#include "base/fd.h"
#include "sandbox/image/image_store.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

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
		return err_hint(e, -ENOENT,
				"install it (Debian, Ubuntu, Fedora: skopeo), or import an archive "
				"with coffer image import");
	}
	if (r < 0)
		return r;
	return spawn_wait(&got) == 0 ? 0 : err_set(e, -EIO, "skopeo could not fetch %s", from);
}

int image_pull(struct state *st, const struct image_pull *o, struct image_record *ret,
	       struct image_notes *notes, struct err *e)
{
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	autofree char *from = NULL, *to = NULL;
	char tmp[STORE_TMP_LEN + 1] = "";
	autoclose int tmp_fd = -1;
	struct image_ref ref;
	struct image_import in = { .name = o->ref };
	int r = image_ref_parse(o->ref, &ref, e), rm;

	if (r == 0)
		r = image_store_open(&s, st, e);
	if (r < 0)
		return r;
	/* In oci:DIR:TAG skopeo takes the first colon for the end of DIR, and would write to another directory. */
	if (strchr(st->path, ':')) {
		err_set(e, -EINVAL, "skopeo cannot write to %s: there is a colon in this path", s.path);
		return err_hint(e, -EINVAL,
				"set COFFER_STATE to a directory without one, or import an archive "
				"with coffer image import");
	}
	tmp_fd = image_store_tmp(&s, tmp, e);
	if (tmp_fd < 0)
		return tmp_fd;
	/* A registry accepts a tag or a digest, not both. */
	if ((ref.digest[0] ? asprintf(&from, "docker://%s@%s", ref.repo, ref.digest)
			   : asprintf(&from, "docker://%s:%s", ref.repo, ref.tag)) < 0 ||
	    asprintf(&to, "oci:%s/tmp/%s/oci", s.path, tmp) < 0)
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
