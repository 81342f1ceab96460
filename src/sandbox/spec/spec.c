/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the modes of a spec, its files, and its release (spec.h). Nothing is judged here but the number
 * and size of the files.
 */
#include "sandbox/spec/spec.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <assert.h>

const char *ws_mode_name(enum ws_mode m)
{
	static const char *const names[] = { "overlay", "ro", "rw", "ephemeral" };

	static_assert(ARRAY_SIZE(names) == WS_MODE_COUNT, "a name for each mode");
	return names[m];
}

const char *root_mode_name(enum root_mode m)
{
	static const char *const names[] = { "host", "dir", "image" };

	static_assert(ARRAY_SIZE(names) == ROOT_MODE_COUNT, "a name for each mode");
	return names[m];
}

const char *net_mode_name(enum net_mode m)
{
	static const char *const names[] = { "none", "observe", "enforce" };

	static_assert(ARRAY_SIZE(names) == NET_MODE_COUNT, "a name for each mode");
	return names[m];
}

int spec_files_add(struct spec_files *l, const char *path, const void *text, size_t len, struct err *e)
{
	struct spec_file f = { .len = len };

	if (l->n == SPEC_FILES_MAX || len > SPEC_FILES_BYTES - l->bytes)
		return err_set(e, -E2BIG, "at most %d files of %u MiB together can be made inside",
			       SPEC_FILES_MAX, SPEC_FILES_BYTES >> 20);
	if (VEC_MORE(l->v, l->n, SPEC_FILES_MAX) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	f.path = strdup(path);
	f.text = malloc(len + 1);
	if (!f.path || !f.text) {
		free(f.path);
		free(f.text);
		return err_set(e, -ENOMEM, "out of memory");
	}
	memcpy(f.text, text, len);
	l->v[l->n++] = f;
	l->bytes += len;
	return 0;
}

void spec_files_release(struct spec_files *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].path);
		free(l->v[i].text);
	}
	free(l->v);
	*l = SPEC_FILES_INIT;
}

void spec_release(struct spec *s)
{
	for (size_t i = 0; i < s->n_binds; i++) {
		fd_close(s->binds[i].fd);
		free(s->binds[i].src);
		free(s->binds[i].dst);
	}
	for (size_t i = 0; i < s->n_masks; i++) {
		free(s->masks[i].path);
		free(s->masks[i].content);
	}
	for (size_t i = 0; i < s->n_lowers; i++) {
		fd_close(s->lowers[i].fd);
		free(s->lowers[i].path);
	}
	spec_files_release(&s->files);
	free(s->profile);
	free(s->policy_digest);
	free(s->known_hosts);
	free(s->ports);
	free(s->restart);
	free(s->lowers);
	free(s->root_name);
	free(s->root_digest);
	free(s->home_dir);
	free(s->binds);
	free(s->masks);
	free(s->name);
	free(s->hostname);
	free(s->cwd);
	free(s->ws_path);
	free(s->run_path);
	free(s->home_path);
	strv_release(&s->argv);
	strv_release(&s->env);
	ids_release(&s->ids);
	fd_close(s->ws_fd);
	fd_close(s->from_fd);
	fd_close(s->run_fd);
	fd_close(s->layers_fd);
	fd_close(s->home_fd);
	fd_close(s->runsc_fd);
	*s = SPEC_INIT;
}
