/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=4096 */
/*
 * A server of HTTP/2 that says anything to an agent, while clients ask, leave, send and do not read.
 * Whatever comes, each call ends once, none that has ended counts, nothing is left of it, and no
 * reply looks whole that is not.
 *
 * Input: steps of a byte that says what (enum step, and in the upper bits of which call), with its
 * bytes.
 */
#include <fcntl.h>

#include "agent_h2_bed.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum step {
	SAY,    /* the server: a byte says how much */
	ASK,    /* a call: a bit for gRPC, one for a stream */
	DATA_,  /* from a stream's client */
	END,    /* end of its body */
	CANCEL, /* the client leaves */
	FULL,   /* or does not read */
	ROOM,   /* or does again */
	GREET,  /* SETTINGS and their ACK */
	STEPS
};

static void data(struct bed_call *k, size_t n)
{
	struct origin_call *call = k->view.own;
	static const uint8_t zeros[256];

	if (k->open && k->stream && !k->ended_body && call->conn && call->body.flows)
		origin_call_data(call, zeros, n, 0);
}

static void end(struct bed_call *k)
{
	struct origin_call *call = k->view.own;

	if (!k->open || !k->stream || k->ended_body || !call->conn || !call->body.flows)
		return;
	k->ended_body = true;
	origin_call_data_end(call);
}

static void step(uint8_t what, uint8_t more)
{
	static const uint8_t greeting[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0};
	struct bed_call *k = &bed.calls[(what >> 4) % BED_CALLS];

	switch ((enum step)(what % STEPS)) {
	case ASK: (void)bed_ask(more & 1, more & 2); break;
	case DATA_: data(k, more); break;
	case END: end(k); break;
	case CANCEL:
		if (k->open)
			origin_call_fail(k->view.own, SL_RPC_CANCELLED);
		break;
	case FULL: k->full = true; break;
	case ROOM: bed_room(k); break;
	default: bed_feed(greeting, sizeof(greeting)); break;
	}
	bed_turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	bed_open();
	(void)bed_ask(true, false);
	for (size_t at = 0; at + 1 < len;) {
		uint8_t what = bytes[at], more = bytes[at + 1];
		size_t n = len - at - 2 < more ? len - at - 2 : more;

		at += 2;
		if (what % STEPS == SAY) {
			bed_feed(bytes + at, n);
			at += n;
		} else {
			step(what, more);
		}
	}
	bed_close();
	return 0;
}
