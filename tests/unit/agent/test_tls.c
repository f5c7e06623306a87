/* SPDX-License-Identifier: Apache-2.0 */
/* Files and names of TLS to servers; netns/agent/tls-server.sh has the connections. */
#include "agent/tls.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

TEST(a_file_that_did_not_arrive_is_an_error)
{
	const struct sl_agent_tls none = {.ca = -1, .certificate = -1, .key = -1};
	struct sl_agent_tls lost = none;
	struct sl_err err = SL_ERR(200);
	struct agent_tls_server s = {0};
	struct sl_list all;

	sl_list_init(&all);
	ck_assert_int_eq(agent_tls_server_init(&s, &all, &none, "a", false), 0);
	ck_assert_ptr_nonnull(s.ctx);
	lost.certificate = lost.key = -2;
	ck_assert(!agent_tls_server_renew(&s, &all, &lost, &err));
	ck_assert_str_eq(err.text, "certificate: Bad file descriptor");
	ck_assert_ptr_nonnull(s.ctx);
	agent_tls_server_fini(&s);
}

TEST(a_name_has_no_dot_at_its_end)
{
	static const char *const names[][2] = {{"a.b.", "a.b"}, {"a", "a"}, {".", "."}};
	const struct sl_agent_tls none = {.ca = -1, .certificate = -1, .key = -1};
	struct agent_tls_server s = {0};
	struct sl_list all;

	sl_list_init(&all);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(agent_tls_server_init(&s, &all, &none, names[i][0], false), 0);
		ck_assert_str_eq(s.name, names[i][1]);
		agent_tls_server_fini(&s);
	}
}

static int empty_file(void)
{
	int fd = memfd_create("empty", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	return fd;
}

/* As when a disk is full: the connection must not go without its certificate. */
TEST(an_empty_certificate_is_not_the_lack_of_one)
{
	const struct sl_agent_tls none = {.ca = -1, .certificate = -1, .key = -1};
	struct sl_agent_tls empty = none;
	struct agent_tls_server without = {0}, s = {0};
	struct sl_list all;

	sl_list_init(&all);
	empty.certificate = empty_file();
	empty.key = empty_file();
	ck_assert_int_eq(agent_tls_server_init(&without, &all, &none, "a", false), 0);
	ck_assert_int_eq(agent_tls_server_init(&s, &all, &empty, "a", false), 0);
	ck_assert_ptr_nonnull(without.ctx);
	ck_assert_ptr_null(s.ctx);
	ck_assert_str_eq(s.error, "certificate: there is none in the file");
	agent_tls_server_fini(&s);
	agent_tls_server_fini(&without);
	close(empty.certificate);
	close(empty.key);
}
