/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files: content that is handed to another process by descriptor, sealed where it is only to be read. */
#include "sys/memfile.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int memfile_make(const char *name, const void *data, size_t len, bool seal, struct err *e)
{
	autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a memory file");
	r = len ? fd_write_all(fd, data, len) : 0;
	if (r == 0 &&
	    (lseek(fd, 0, SEEK_SET) < 0 ||
	     (seal && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)))
		r = -errno;
	return r < 0 ? err_sys(e, r, "cannot fill a memory file") : TAKE_FD(fd);
}
