/* SPDX-License-Identifier: Apache-2.0 */
/* Files of API keys: what is found again, and each mistake with its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/num.h"
#include "config/api_keys.h"
#include "config/diagnostics.h"
#include "suite.h"

#define A "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
#define B "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
#define C "D4735E3A265E16EEE03F59718B9B5D03019C07D8B6C51F90DA3A666EEC13AB35"

static struct sl_err err = SL_ERR(4096);
static struct conf_diags mistakes;

static const struct sl_api_key *find(const struct sl_api_keys *k, const char *hex)
{
	uint8_t hash[SL_API_KEY_HASH];

	for (size_t i = 0; i < sizeof(hash); i++)
		hash[i] = (uint8_t)(sl_hex_digit((uint8_t)hex[2 * i]) << 4 |
				    sl_hex_digit((uint8_t)hex[2 * i + 1]));
	return sl_api_keys_find(k, hash);
}

TEST(keys_are_found_by_their_hash)
{
	struct sl_api_keys *k;
	const struct sl_api_key *a, *b, *c;

	mistakes.file = "keys";
	k = sl_api_keys_parse("# NAME HASH\n\n  alice\t" A " rate=10/s  burst=30 max_requests=2 \n"
			      "bob " B "\n\t# " B "\nalice " C " rate=60/min",
			      &mistakes);
	ck_assert_uint_eq(mistakes.cnt, 0);
	a = find(k, A);
	b = find(k, B);
	c = find(k, C);
	ck_assert(a && b && c);
	ck_assert_str_eq(a->name, "alice");
	ck_assert_uint_eq(a->bucket.token_ns, SL_NS_PER_SEC / 10);
	ck_assert_uint_eq(a->bucket.depth_ns, 3 * SL_NS_PER_SEC);
	ck_assert_uint_eq(a->max_requests, 2);
	ck_assert_str_eq(b->name, "bob");
	ck_assert_uint_eq(b->bucket.tokens, 0);
	ck_assert_uint_eq(b->max_requests, 0);
	ck_assert(a->id == c->id && a->id != b->id); /* a key that is being exchanged */
	ck_assert_uint_eq(c->bucket.burst, 1);
	ck_assert_ptr_null(
		find(k, "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d9"));
	ck_assert_ptr_null(
		find(k, "0000000000000000000000000000000000000000000000000000000000000000"));
	sl_api_keys_free(k);
}

TEST(many_keys_are_each_found)
{
	enum { MANY = 10000 };
	char *text = malloc(MANY * 100), *at = text, hex[65];
	struct sl_api_keys *k;

	for (unsigned i = 0; i < MANY; i++)
		at += sprintf(at, "k%u %08x%056x\n", i, i * 2654435761u, i);
	k = sl_api_keys_parse(text, &mistakes);
	ck_assert_uint_eq(mistakes.cnt, 0);
	for (unsigned i = 0; i < MANY; i++) {
		char name[16];

		sprintf(hex, "%08x%056x", i * 2654435761u, i);
		sprintf(name, "k%u", i);
		ck_assert_str_eq(find(k, hex)->name, name);
		hex[63] ^= 1;
		hex[10] = '1';
		ck_assert_ptr_null(find(k, hex));
	}
	sl_api_keys_free(k);
	free(text);
}

static const struct {
	const char *text, *mistake;
} bad[] = {
	{"", "keys:0: found no key; allowed: at least one"},
	{"# none\n", "keys:1: found no key; allowed: at least one"},
	{"a b\" " A, "keys:1: found key \"a\" with an invalid hash; allowed: its SHA-256 in 64"},
	{"ok " A "\nal/ice " B, "keys:2: found an invalid name; allowed: up to 64 letters"},
	{"alice", "keys:1: found key \"alice\" with no hash; allowed: its SHA-256 in 64"},
	{"alice s3cr3t", "keys:1: found key \"alice\" with an invalid hash; allowed: its SHA-256"},
	{"alice " A "0", "keys:1: found key \"alice\" with an invalid hash; allowed: its SHA-256"},
	{"alice " A "\r\n", "keys:1: found key \"alice\" with an invalid hash; allowed: its"},
	{"alice " A " " B,
	 "keys:1: found key \"alice\" with another word behind its hash; allowed:"},
	{"alice " A " rate=5", "keys:1: found key \"alice\" with another word behind its hash;"},
	{"alice " A " rate=5/s rate=6/s", "keys:1: found key \"alice\" with another word behind"},
	{"alice " A " rate=5/s burst=0", "keys:1: found key \"alice\" with another word behind"},
	{"alice " A " max_requests=65536", "keys:1: found key \"alice\" with another word behind"},
	{"alice " A " burst=5",
	 "keys:1: found key \"alice\" with burst but no rate; allowed: both"},
	{"alice " A " rate=1/d burst=400",
	 "keys:1: found key \"alice\" whose burst takes more than"},
	{"alice " A "\n\nbob " B "\ncarol " A,
	 "keys:4: found the hash of line 1 again; allowed: each"},
};

TEST_EACH(each_mistake_has_its_line, SL_ARRAY_LEN(bad))
{
	struct sl_api_keys *k;

	mistakes.file = "keys";
	k = sl_api_keys_parse(bad[_i].text, &mistakes);
	conf_diags_print(&mistakes, &err);
	ck_assert_msg(strncmp(err.text, bad[_i].mistake, strlen(bad[_i].mistake)) == 0, "%s",
		      err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
	ck_assert_ptr_null(strstr(err.text, "s3cr3t")); /* what could be a key is not shown */
	conf_diags_free(&mistakes);
	sl_api_keys_free(k);
}

static char path[64];

static struct sl_config *config_of(const char *text, mode_t mode)
{
	char conf[200];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/test-api-keys-%d", getpid());
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(path, mode), 0);
	snprintf(conf, sizeof(conf), "\nkeys clients { file = \"%s\" }\n", path);
	return sl_config_parse(conf, "t.conf", &err);
}

TEST(a_file_is_loaded)
{
	struct sl_config *c = config_of("alice " A "\n", 0640);

	ck_assert_msg(sl_api_keys_load(c, &err) == 0, "%s", err.text);
	ck_assert_str_eq(find(c->keys[0].keys, A)->name, "alice");
	sl_config_free(c);
	unlink(path);
}

static const struct {
	mode_t mode;
	const char *text, *mistake;
} files[] = {
	{0644, "alice " A, "as a file that other accounts can read; allowed: chmod 640"},
	{0660, "alice " A, "as a file that its group may write (mode 660); allowed: one that only"},
	{0600, "alice", ":1: found key \"alice\" with no hash; allowed: its SHA-256"},
};

TEST_EACH(a_file_that_others_can_use_is_refused, SL_ARRAY_LEN(files))
{
	struct sl_config *c = config_of(files[_i].text, files[_i].mode);

	ck_assert_int_eq(sl_api_keys_load(c, &err), -1);
	ck_assert_msg(strstr(err.text, files[_i].mistake), "%s", err.text);
	ck_assert_ptr_nonnull(strstr(err.text, _i == 2 ? path : "t.conf:2: found file \""));
	sl_config_free(c);
	unlink(path);
	c = config_of("", 0600);
	unlink(path);
	ck_assert_int_eq(sl_api_keys_load(c, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "as no readable file (No such file or directory)"));
	sl_config_free(c);
}

static const struct {
	const char *text, *mistake;
} blocks[] = {
	{"keys a { }", "t.conf:1: found keys \"a\" without file; allowed: file = PATH"},
	{"keys a { file = keys }", "t.conf:1: found file = \"keys\"; allowed: the absolute path"},
	{"keys a { file = /k header = Host }", "t.conf:1: found header = \"host\" for keys;"},
	{"keys a { file = /k header = x-forwarded-for }",
	 "t.conf:1: found header = \"x-forwarded-for"},
	{"keys a { file = /k header = Sluice-Client-Key }",
	 "t.conf:1: found header = \"sluice-client"},
	{"keys a { file = /k }\nkeys a { file = /k }", "t.conf:2: found the name \"a\" twice;"},
	{"keys \"a b\" { file = /k }", "t.conf:1: found keys \"a b\"; allowed: a name of up to 64"},
	{"route / { respond { } keys = b }", "t.conf:1: found keys = \"b\"; allowed: none, there"},
	{"keys a { file = /k }\nroute / { respond { } keys = b }",
	 "t.conf:2: found keys = \"b\"; allowed: the name of a keys block"},
	{"quota q { by = key rate = 1/s }\nroute / { respond { } quotas = {q} }",
	 "t.conf:2: found quotas = \"q\" with by = key on a route without keys; allowed: keys ="},
};

TEST_EACH(mistakes_of_blocks_have_their_lines, SL_ARRAY_LEN(blocks))
{
	ck_assert_ptr_null(sl_config_parse(blocks[_i].text, "t.conf", &err));
	ck_assert_msg(strncmp(err.text, blocks[_i].mistake, strlen(blocks[_i].mistake)) == 0, "%s",
		      err.text);
}

TEST(a_route_names_keys_anywhere_in_the_file)
{
	struct sl_config *c = sl_config_parse(
		"route / { respond { } keys = b quotas = {q} }\nquota q { by = key }\n"
		"keys a { file = /a header = X-Key forward = yes }\nkeys b { file = /b }\n",
		"t.conf", &err);

	ck_assert_msg(c != NULL, "%s", err.text);
	ck_assert_ptr_eq(c->routes[0].keys, &c->keys[1]);
	ck_assert(c->keys[1].bearer && !c->keys[1].forward);
	ck_assert(!c->keys[0].bearer && c->keys[0].forward);
	ck_assert_str_eq(c->keys[0].header, "x-key");
	sl_config_free(c);
}
