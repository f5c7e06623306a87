/* SPDX-License-Identifier: Apache-2.0 */
/* Credit for uploads. */
#include "front/h2/conn.h"
#include "h2_talk.h"
#include "suite.h"

/* Returns what WINDOW_UPDATEs for the stream have added since the last call. */
static uint32_t added_credit(uint32_t stream)
{
	const uint8_t *p = (uint8_t *)m->out;
	uint32_t sum = 0;

	for (size_t len = m->out_len, step; len >= 9; len -= step, p += step) {
		step = 9 + sl_get_be24(p);
		if (p[3] == 8 && sl_get_be32(p + 5) == stream)
			sum += sl_get_be32(p + 9);
	}
	m->out_len = 0;
	return sum;
}

static void open_stream(void)
{
	h2env->cfg.stream_window = 4 * H2_FIRST_WINDOW;
	mock_open(m);
	m->answer = MOCK_LATER;
	m->parts = true;
}

/* The backend takes bytes, at the front's next call. */
static void pass(uint32_t bytes)
{
	m->streams[0].st.passed += bytes;
}

FIXTURE(setup_h2, teardown_h2)

#define FRAME " DATA 0 1 16384*61;"

TEST(credit_follows_the_acknowledgement_of_the_settings)
{
	open_stream();
	talk("HEADERS 4 1 @post;" FRAME FRAME "DATA 0 1 16000*61");
	pass(48768);
	talk("-DATA 0 1 61");
	ck_assert_uint_eq(added_credit(1), 0);
	talk("-SETTINGS 1 0");
	ck_assert_uint_gt(added_credit(1), 0);
	talk("-RST 0 1 00000008");
	ck_sound();
}

TEST(credit_follows_the_first_window_without_an_acknowledgement)
{
	open_stream();
	talk("HEADERS 4 1 @post;" FRAME FRAME FRAME);
	pass(49152);
	talk("-DATA 0 1 61");
	ck_assert_uint_gt(added_credit(1), 0);
	talk("-RST 0 1 00000008");
	ck_sound();
}

/* Padding uses the window, too. */
TEST(credit_follows_a_first_window_with_padding)
{
	open_stream();
	talk("HEADERS 4 1 @post;" FRAME FRAME "DATA 8 1 ff 16000*61 255*00");
	pass(2 * 16384 + 16000);
	talk("-DATA 8 1 7f 127*00"); /* the last 128 bytes of the window */
	ck_assert_uint_gt(added_credit(1), 0);
	talk("-RST 0 1 00000008");
	ck_sound();
}

TEST(credit_is_given_for_whole_frames)
{
	uint32_t sum = 0;

	open_stream();
	talk("SETTINGS 1 0; HEADERS 4 1 @post");
	for (unsigned i = 0; i < 90; i++) {
		uint32_t more;

		talk("-DATA 0 1 1000*61");
		pass(1000);
		talk("-DATA 0 1 61");
		pass(1);
		more = added_credit(1);
		ck_assert_uint_eq(more % 16384, 0);
		sum += more;
	}
	ck_assert_uint_ge(sum, 3 * H2_FIRST_WINDOW); /* of the wider window */
	talk("-RST 0 1 00000008");
	ck_sound();
}
