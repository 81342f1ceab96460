/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the disk space that a run takes, within a budget of files to look at. It only reads. */
#include "cli/common/run_size.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "run/supervise/logtimes.h"
#include "sandbox/state/layers.h"
#include "workspace/view/view.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static void add_layer_size(int run_fd, const char *name, uint64_t *budget, struct run_size *s)
{
	autoclose int fd = openat(run_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t bytes = 0, n = 0;

	if (fd < 0)
		return;
	if (*budget == 0 || workspace_usage(fd, UINT64_MAX, *budget, &bytes, &n, NULL) < 0) {
		s->is_part = true;
		return;
	}
	s->bytes += bytes;
	s->is_part = s->is_part || n > *budget;
	*budget -= n < *budget ? n : *budget;
}

void cli_run_size_read(int run_fd, uint64_t *budget, struct run_size *ret)
{
	static const char *const layers[] = { "upper", LAYERS_ROOT_UPPER, LAYERS_FROM };
	static const char *const files[] = { LAYERS_IMAGE, "output.log", LOGTIMES_FILE, "engine.log" };
	struct run_size s = { 0 };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		add_layer_size(run_fd, layers[i], budget, &s);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (fstatat(run_fd, files[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			s.bytes += (uint64_t)st.st_blocks * 512;
	}
	*ret = s;
}

const char *cli_run_size_format(const struct run_size *s, char out[24])
{
	char text[16];

	snprintf(out, 24, "%s%s", s->is_part ? ">" : "", str_from_size(s->bytes, text));
	return out;
}
