/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway reads what an agent's process writes, and cannot be harmed by it. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/agent_status.h"
#include "config/config.h"
#include "suite.h"

TEST(without_a_status_board_no_agent_is_reported)
{
	struct sl_agent_info agent;
	struct sl_server_info server;

	ck_assert_ptr_null(sl_agent_status_server_add(0, "web/a"));
	ck_assert(!sl_agent_status_get(0, &agent) && !sl_agent_status_server_get(0, 0, &server));
}

static void in_a_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		fn();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static void tell(void)
{
	struct sl_agent_status_server *s = sl_agent_status_server_add(1, "web/a");

	sl_agent_status_set(1, &(struct sl_agent_info){.up = 1, .pid = 7, .restarts = 3});
	sl_agent_status_server_set(
		s,
		&(struct sl_server_info){.up = 1, .in_flight = 2, .waiting = 4, .concurrency = 32});
	(void)sl_agent_status_server_add(1, "bad\n\"name");
}

TEST(lines_go_from_process_to_process)
{
	struct sl_agent_info agent;
	struct sl_server_info server;

	ck_assert_int_eq(sl_agent_status_make(), 0);
	in_a_child(tell);
	ck_assert(!sl_agent_status_get(0, &agent));
	ck_assert(sl_agent_status_get(1, &agent));
	ck_assert(agent.up && agent.pid == 7 && agent.restarts == 3);
	ck_assert(sl_agent_status_server_get(1, 0, &server));
	ck_assert_str_eq(server.name, "web/a");
	ck_assert(server.up && server.in_flight == 2 && server.waiting == 4 &&
		  server.concurrency == 32);
	ck_assert(sl_agent_status_server_get(1, 1, &server));
	ck_assert_str_eq(server.name, "bad?\"name");
	ck_assert(!sl_agent_status_server_get(1, 2, &server));
	ck_assert(!sl_agent_status_server_get(1, SL_CFG_MAX_SERVERS, &server));
	ck_assert(!sl_agent_status_get(SL_CFG_MAX_AGENTS, &agent));
	/* It dies. */
	sl_agent_status_set(1, &(struct sl_agent_info){.restarts = 4, .backoff_ms = 50});
	ck_assert(!sl_agent_status_server_get(1, 0, &server));
}
