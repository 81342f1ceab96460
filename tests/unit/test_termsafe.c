/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/term/termsafe.h"
#include "tap.h"

#include <stdlib.h>

/* All at once and byte by byte must give the same. */
static void check(const char *in, size_t len, const char *want, const char *name)
{
	struct termsafe t = TERMSAFE_INIT;
	autobuf struct buf whole = BUF_INIT, bytes = BUF_INIT;

	termsafe_feed(&t, &whole, in, len);
	termsafe_finish(&t, &whole);
	t = TERMSAFE_INIT;
	for (size_t i = 0; i < len; i++)
		termsafe_feed(&t, &bytes, in + i, 1);
	termsafe_finish(&t, &bytes);
	if (!CHECKF(strcmp(buf_cstr(&whole), want) == 0, "%s", name))
		printf("# got '%s'\n", buf_cstr(&whole));
	if (!CHECKF(strcmp(buf_cstr(&bytes), want) == 0, "%s, byte by byte", name))
		printf("# got '%s'\n", buf_cstr(&bytes));
}

#define CHECK_SAFE(in, want, name) check(in, sizeof(in) - 1, want, name)

int main(void)
{
	static const char bidi[] = { (char)0xe2, (char)0x80, (char)0xae, 'x' };

	CHECK_SAFE("plain\ttext\r\n", "plain\ttext\r\n", "text, tab and line ends pass");
	CHECK_SAFE("\033[1;31mred\033[0m", "\033[1;31mred\033[0m", "colours pass");
	CHECK_SAFE("\033[31mred", "\033[31mred\033[0m", "a colour that is left on is reset");
	CHECK_SAFE("\033[38;5;8mgrey\033[m", "\033[38;5;8mgrey\033[m", "colour number 8 is a colour");
	CHECK_SAFE("\033[48;2;8;8;8;1mx\033[m", "\033[48;2;8;8;8;1mx\033[m", "so is one by its parts");
	CHECK_SAFE("\033[8mhidden", "\\x1b[8mhidden", "text cannot be hidden");
	CHECK_SAFE("\033[1;8mhidden", "\\x1b[1;8mhidden", "text cannot be hidden among other attributes");
	CHECK_SAFE("\033[2J\033[H", "\\x1b[2J\\x1b[H", "the screen cannot be cleared");
	CHECK_SAFE("\033]0;title\007", "\\x1b]0;title\\x07", "the window cannot be renamed");
	CHECK_SAFE("\033]52;c;ZXZpbA==\033\\", "\\x1b]52;c;ZXZpbA==\\x1b\\", "the clipboard cannot be set");
	CHECK_SAFE("\033P+q\033\\\033[6n\033c", "\\x1bP+q\\x1b\\\\x1b[6n\\x1bc",
		   "the terminal can neither be queried nor reset");
	CHECK_SAFE("\x9b"
		   "31m \xc2\x9b"
		   "31m",
		   "\\x9b31m \\u{009b}31m", "C1 controls are shown");
	CHECK_SAFE("\b\b\x7f\x0e\0", "\\x08\\x08\\x7f\\x0e\\x00", "other controls are shown");
	CHECK_SAFE("gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80",
		   "UTF-8 passes");
	check(bidi, sizeof(bidi), "\\u{202e}x", "direction overrides are shown");
	CHECK_SAFE("\xc3(\xff\xe2\x82", "\\xc3(\\xff\\xe2\\x82", "invalid UTF-8 is shown");
	CHECK_SAFE("\033", "\\x1b", "a lone escape at the end is shown");
	CHECK_SAFE("\033[31", "\\x1b[31", "so is half a sequence");
	CHECK_SAFE("\033[0000000000000000000000000000000000000000000000000000000000000000031mx",
		   "\\x1b[0000000000000000000000000000000000000000000000000000000000000000031mx",
		   "a sequence without end is shown");
	CHECK_SAFE("\033\033[31mx\033[0m", "\\x1b\033[31mx\033[0m",
		   "an escape before a sequence does not hide it");
	CHECK_SAFE("", "", "nothing is nothing");
	return tap_done();
}
