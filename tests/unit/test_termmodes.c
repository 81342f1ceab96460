/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/term/termmodes.h"
#include "tap.h"

/* All at once and byte by byte must give the same. */
static void check(const char *in, size_t len, const char *want, const char *name)
{
	struct termmodes t = TERMMODES_INIT;
	autobuf struct buf whole = BUF_INIT, bytes = BUF_INIT;

	termmodes_feed(&t, in, len);
	termmodes_restore(&t, &whole);
	t = TERMMODES_INIT;
	for (size_t i = 0; i < len; i++)
		termmodes_feed(&t, in + i, 1);
	termmodes_restore(&t, &bytes);
	if (!CHECKF(strcmp(buf_cstr(&whole), want) == 0 && strcmp(buf_cstr(&bytes), want) == 0,
		    "the modes after '%s' are known", name))
		printf("# got '%s'\n", buf_cstr(&whole));
}

#define CHECK_MODES(in, want, name) check(in, sizeof(in) - 1, want, name)

int main(void)
{
	CHECK_MODES("text \033[31mred\033[0m\n", "", "colours are no modes");
	CHECK_MODES("\033[?1049h\033[?25l", "\033[?1049h\033[?25l", "the alternate screen, and the cursor");
	CHECK_MODES("\033[?25l\033[?1049hx\033[?1049l\033[?25h", "", "switching back leaves no modes");
	CHECK_MODES("\033[?1000;1006;2004h", "\033[?1000h\033[?1006h\033[?2004h", "several at once");
	CHECK_MODES("\033[?7l\033=", "\033[?7l\033=", "wrapping and keypad");
	CHECK_MODES("\033[?1049h\033[?2004h\033c", "", "a full reset");
	CHECK_MODES("\033]0;\033[?1049h\007\033[?25l", "\033[?1049h\033[?25l", "an escape ends a string");
	CHECK_MODES("\033]0;[?1049h\007x\033P?1049h\033\\", "", "what stands in a string is none");
	CHECK_MODES("\033[>1u\033[>5u", "\033[=5;1u", "flags of keys");
	CHECK_MODES("\033[>1u\033[>5u\033[<u", "\033[=1;1u", "popping key flags restores the previous ones");
	CHECK_MODES("\033[>1u\033[<9u\033[>4;2m", "\033[>4;2m", "more than there are");
	CHECK_MODES("\033[?99999999999999h\033[?;;h\033[?h\033[?25", "", "numbers that are none, a cut one");
	CHECK_MODES("\033[?1049\030h\033[?25\033[?7l", "\033[?7l", "one that is broken off");
	CHECK_MODES("\033[?0000000000000000000000000000000000000000025l", "", "one that is too long");
	return tap_done();
}
