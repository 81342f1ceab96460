/* SPDX-License-Identifier: Apache-2.0 */
/* Where the documentation is after `make install`. Each text that sends a reader to one of its files names the file by these. */
#ifndef CLI_DOCS_H
#define CLI_DOCS_H

/* From the build: below the prefix, in the shape of the repository (doc/, examples/). */
#define DOCS_DIR COFFER_DOCDIR
#define DOCS_EGRESS DOCS_DIR "/doc/egress.md"
#define DOCS_NOTIFY DOCS_DIR "/doc/notify.md"
#define DOCS_SECRETS DOCS_DIR "/doc/secrets.md"
#define DOCS_TRIGGERS DOCS_DIR "/doc/triggers.md"
#define DOCS_UI DOCS_DIR "/doc/ui.md"

#endif
