/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that end, over HTTP/1.1 and HTTP/2 alike, for the bed of agents (agent_bed.h). */
#ifndef SL_TEST_AGENT_ENDS_H
#define SL_TEST_AGENT_ENDS_H

#include "agent_bed.h"
#include "base/clock.h"

/* Ends the server behind its reply to `r`, which the client has yet to read. */
static inline void expect_down_while_read(struct bed_request *r)
{
	struct bed_request *next;

	close(bed.listen_fd);
	bed.listen_fd = -1;
	bed_server_close();
	bed_turns(4);
	next = bed_ask(SL_PROTO_HTTP1, false);
	bed_until(next->ends);
	ck_assert_int_eq(next->error, SL_RPC_REFUSED);
	ck_assert(bed.unready);
	bed_room(r);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	bed_request_free(next);
}

/* Ends each connection at once, as a server with too many does. */
static inline void expect_pauses(void)
{
	enum { TURNS = 100, PAUSE_NS = 20 * 1000000 };
	uint64_t since, cnt = 0;
	int fd;

	bed_server_close();
	bed_turns(1); /* the next connection begins, and ends before the agent looks */
	since = sl_now_ns();
	for (unsigned i = 0; i < TURNS; i++) {
		while ((fd = accept4(bed.listen_fd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
			close(fd);
			cnt++;
		}
		bed_turns(1);
	}
	ck_assert_uint_gt(cnt, 0);
	ck_assert_uint_le(cnt, 3 + (sl_now_ns() - since) / PAUSE_NS);
}

#endif
