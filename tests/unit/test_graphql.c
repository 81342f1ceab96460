/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "codec/body/graphql.h"
#include "tap.h"

#include <errno.h>

static struct graphql_doc doc;
static struct err err;

static int parse(const char *text, const char *name)
{
	err = ERR_INIT;
	return graphql_parse(text, strlen(text), name, name ? strlen(name) : 0, &doc, &err);
}

/* "mutation:a,b" of the operation that would run. */
static const char *root_of(const char *text, const char *name)
{
	static char out[1024];
	const struct graphql_op *op;
	size_t n;

	if (parse(text, name) < 0)
		return err.msg;
	op = &doc.ops[doc.selected];
	n = (size_t)snprintf(out, sizeof(out), "%s:", graphql_type_name(op->type));
	for (unsigned i = 0; i < op->n_fields; i++) {
		struct slice f = doc.fields[op->first_field + i];

		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%.*s", i ? "," : "", (int)f.len, f.p);
	}
	return out;
}

static void test_roots(void)
{
	CHECK_STR(root_of("{ viewer { login } }", NULL), "query:viewer");
	CHECK_STR(root_of("query { a b c }", NULL), "query:a,b,c");
	CHECK_STR(
		root_of("mutation M($id: ID! = \"x\", $l: [[Int!]!]! @d) @d(x: 1) { mergePullRequest(input: "
			"{pullRequestId: $id, l: [1, -2.5e+3, \"}\", true, null, ENUM, {a: []}]}) { clientMutationId } }",
			NULL),
		"mutation:mergePullRequest");
	CHECK_STR(root_of("subscription S { s }", NULL), "subscription:s");
	CHECKF(!strcmp(root_of("mutation { addStar: deleteRepository(id: 1) { x } }", NULL),
		       "mutation:deleteRepository"),
	       "an alias does not hide a field");
	CHECK_STR(root_of("mutation { a: x b: x x }", NULL), "mutation:x");
	CHECK_STR(root_of("{ a @skip(if: true) b @include(if: $no) { c } }", NULL), "query:a,b");
	CHECK_STR(root_of("query query { query mutation on fragment }", NULL),
		  "query:query,mutation,on,fragment");
	CHECK_STR(root_of("\xef\xbb\xbf{ __typename,,,a }", NULL), "query:__typename,a");
}

static void test_fragments(void)
{
	CHECK_STR(root_of("mutation { ...F } fragment F on Mutation { b ...G } fragment G on Mutation { c }",
			  NULL),
		  "mutation:b,c");
	CHECK_STR(
		root_of("mutation { a ... on Mutation { b ... @d { c ...F } } } fragment F on Mutation { d }",
			NULL),
		"mutation:a,b,c,d");
	CHECKF(!strcmp(root_of("{ ...A } fragment A on Q { a ...B } fragment B on Q { b ...A }", NULL),
		       "query:a,b"),
	       "fragments that use each other come to an end");
	CHECKF(!strcmp(root_of("{ a { ...F } } fragment F on X { deep }", NULL), "query:a"),
	       "a fragment below the root is not at the root");
	CHECK(parse("{ ...F }", NULL) == -EINVAL && doc.n_ops == 0);
	CHECK(parse("{ ...F } fragment F on Q { a } fragment F on Q { b }", NULL) == -EINVAL);
	CHECKF(parse("{ ...A } fragment A on Q { ...A }", NULL) == -EINVAL,
	       "a root without a field is refused");
}

static void test_hidden(void)
{
	CHECK_STR(root_of("{ a # } mutation { b }\n }", NULL), "query:a");
	CHECK_STR(root_of("{ a # comment\r b }", NULL), "query:a,b");
	CHECK_STR(root_of("{ a(s: \"} { # \\\" \\u0041 \\u{1F600} \\\\\") b }", NULL), "query:a,b");
	CHECK_STR(root_of("{ a(s: \"\"\" } \" \"\" \\\"\"\" \n # \"\"\") b }", NULL), "query:a,b");
	CHECK_STR(root_of("{ a(s: \"\") b(s: \"\"\"\"\"\") c }", NULL), "query:a,b,c");
	CHECK_STR(root_of("{ a(s: \"\xc3\xa9\") #\xc3\xa9\n b }", NULL), "query:a,b");
}

static void test_selection(void)
{
	static const char two[] = "query A { a } mutation B { b }";

	CHECK_STR(root_of(two, "A"), "query:a");
	CHECK_STR(root_of(two, "B"), "mutation:b");
	CHECK(doc.n_ops == 2 && doc.selected == 1 && slice_eq(doc.ops[0].name, "A"));
	CHECK(parse(two, NULL) == -EINVAL && parse(two, "") == -EINVAL && parse(two, "C") == -EINVAL);
	CHECK(parse("query A { a }", NULL) == 0 && parse("query A { a }", "B") == -EINVAL);
	CHECK(parse("{ a } query B { b }", "B") == -EINVAL &&
	      parse("query A { a } query A { b }", "A") == -EINVAL);
}

static void test_refused(void)
{
	static const char *const bad[] = {
		"",
		"   ",
		"{",
		"{}",
		"}",
		"{ a",
		"{ a } }",
		"{ a }}",
		"{ a: }",
		"{ a: b: c }",
		"{ a() }",
		"{ a(b) }",
		"{ a(b:) }",
		"{ a(b: $) }",
		"{ a {} }",
		"{ ... }",
		"{ ... on }",
		"{ ... on X }",
		"{ @d }",
		"{ a @ }",
		"{ 1 }",
		"{ \"a\" }",
		"{ a(b: 01) }",
		"{ a(b: 1.) }",
		"{ a(b: 1x) }",
		"{ a(b: -) }",
		"{ a(b: 1e) }",
		"{ a(b: \"x) }",
		"{ a(b: \"x\ny\") }",
		"{ a(b: \"\\x\") }",
		"{ a(b: \"\\u12\") }",
		"{ a(b: \"\\u{}\") }",
		"{ a(b: \"\\",
		"{ a(b: \"\"\"x\"\") }",
		"{ a(b: [1) }",
		"{ a(b: {c}) }",
		"{ a.b }",
		"{ a .. b }",
		"{ a; b }",
		"{ a \x01 }",
		"{ a # \x01\n }",
		"{ \xc3\xa9 }",
		"query",
		"query ()",
		"query ($a) { a }",
		"query ($a: ) { a }",
		"query ($a: [Int) { a }",
		"query (a: Int) { a }",
		"query A B { a }",
		"fragment F on X { a }",
		"{ a } fragment on on X { a }",
		"{ a } fragment F X { a }",
		"{ a } fragment F on X",
		"type A { a: Int }",
		"{ a } extend type A { a: Int }",
		"schema { query: Q }",
		"\"describes\" { a }",
		"QUERY { a }",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(parse(bad[i], NULL) == -EINVAL && err.msg[0], "the document '%s' is refused", bad[i]);
	CHECKF(graphql_parse("{ a\0b }", 7, NULL, 0, &doc, NULL) == -EINVAL,
	       "a document with a NUL is refused");
}

static void repeat(struct buf *b, const char *head, const char *part, int n, const char *tail)
{
	buf_clear(b);
	buf_adds(b, head);
	while (n--)
		buf_adds(b, part);
	buf_adds(b, tail);
}

static void test_limits(void)
{
	autobuf struct buf b = BUF_INIT;

	repeat(&b, "{a", "{a", 63, "");
	for (int i = 0; i < 64; i++)
		buf_addc(&b, '}');
	CHECK(parse(b.data, NULL) == 0);
	repeat(&b, "{a", "{a", 64, "");
	CHECK(parse(b.data, NULL) == -E2BIG);
	repeat(&b, "{a(b:", "[", 100000, "");
	CHECK(parse(b.data, NULL) == -E2BIG);
	repeat(&b, "query($a:", "[", 100000, "");
	CHECK(parse(b.data, NULL) == -E2BIG);
	repeat(&b, "{", "a ", GRAPHQL_TOKENS_MAX - 2, "}");
	CHECK(parse(b.data, NULL) == 0 && doc.n_fields == 1);
	repeat(&b, "{", "a ", GRAPHQL_TOKENS_MAX - 1, "}");
	CHECK(parse(b.data, NULL) == -E2BIG);
	buf_clear(&b);
	buf_addc(&b, '{');
	for (int i = 0; i <= GRAPHQL_FIELDS_MAX; i++)
		buf_addf(&b, "a%d ", i);
	buf_addc(&b, '}');
	CHECK(parse(b.data, NULL) == -E2BIG);
	buf_clear(&b);
	for (int i = 0; i <= GRAPHQL_OPS_MAX; i++)
		buf_addf(&b, "query q%d{a}", i);
	CHECK(parse(b.data, "q1") == -E2BIG);
	buf_clear(&b);
	buf_adds(&b, "{a}");
	for (int i = 0; i <= GRAPHQL_FRAGMENTS_MAX; i++)
		buf_addf(&b, "fragment f%d on X{a}", i);
	CHECK(parse(b.data, NULL) == -E2BIG);
	/* Many operations that each follow the same large fragment. */
	repeat(&b, "fragment F on X {", "a ", 10000, "}");
	for (int i = 0; i < GRAPHQL_OPS_MAX; i++)
		buf_addf(&b, "query q%d{...F}", i);
	CHECK(parse(b.data, "q1") == -E2BIG);
}

int main(void)
{
	test_roots();
	test_fragments();
	test_hidden();
	test_selection();
	test_refused();
	test_limits();
	return tap_done();
}
