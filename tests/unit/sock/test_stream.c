/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of real clients over loopback and Unix sockets. Tests: user/sock/sock.c */
#include "sock/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "sock/reserve.h"
#include "suite.h"

enum { FRAME = 2048, FRAMES = 1024, MANY = 1 << 20, SECONDS = 20 };

/* The layer above, which takes up to `take` bytes of each chunk. */
struct upper {
	struct sl_sock_conn *conn;
	uint8_t *got;
	size_t len, take;
	bool eof, closed, resume_within, reset_within, keep;
	unsigned writables, inputs;
	int32_t held;
	struct sl_frame *kept;
};

static struct sl_umem umem;
static struct sl_sock_set *sock;
static struct sl_sock_config cfg;
static struct upper up;
static struct sl_addr at;
static int listening;
static bool refuses;

static void *on_accepted(void *app, struct sl_sock_conn *c, const struct sl_conn_info *info)
{
	ck_assert_ptr_eq(app, &up);
	ck_assert_int_eq(info->listener, SL_SOCK_BY_ADDRESS);
	ck_assert(sl_addr_equal(&info->local, &at));
	if (refuses)
		return NULL;
	up.conn = c;
	return &up;
}

static size_t on_input(void *user, struct sl_chunk *chunk)
{
	struct upper *u = user;
	size_t n = chunk->len < u->take ? chunk->len : u->take;

	u->inputs++;
	ck_assert_uint_le(u->len + n, MANY);
	memcpy(u->got + u->len, chunk->ptr, n);
	u->len += n;
	if (u->resume_within && u->inputs < 100)
		sl_sock_stream.resume(u->conn);
	if (u->reset_within)
		sl_sock_stream.reset(u->conn);
	if (u->keep && n == chunk->len) {
		chunk->frame->next = u->kept;
		u->kept = chunk->frame;
		chunk->frame = NULL;
	}
	return n;
}

static void on_eof(void *user)
{
	((struct upper *)user)->eof = true;
}

static void on_writable(void *user)
{
	((struct upper *)user)->writables++;
}

static void on_closed(void *user)
{
	((struct upper *)user)->closed = true;
}

static void on_holds(void *user, int32_t frames)
{
	((struct upper *)user)->held += frames;
}

static const struct sl_conn_user events = {
	.input = on_input, .eof = on_eof, .writable = on_writable, .closed = on_closed};
static const struct sl_sock_ops ops = {
	.accepted = on_accepted, .events = &events, .holds = on_holds};

static void turn(void)
{
	sl_sock_poll(sock, sl_now_ns());
	sl_sock_output(sock);
}

#define TURN_UNTIL(cond)                                                                           \
	do {                                                                                       \
		uint64_t until_ns = sl_now_ns() + SECONDS * SL_NS_PER_SEC;                         \
		while (!(cond)) {                                                                  \
			ck_assert_msg(sl_now_ns() < until_ns, "never: %s", #cond);                 \
			turn();                                                                    \
		}                                                                                  \
	} while (0)

static void open_sock(uint32_t id)
{
	struct sl_sock_listener l = {.id = id, .listener = SL_SOCK_BY_ADDRESS};

	sock = sl_sock_create(&umem, &cfg, &ops, &up);
	ck_assert_ptr_nonnull(sock);
	l.fd = fcntl(listening, F_DUPFD_CLOEXEC, 0);
	sl_sock_set_listeners(sock, &l, 1);
}

static void start(void)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	ck_assert_int_eq(sl_umem_init(&umem, FRAME, FRAMES), 0);
	up = (struct upper){.got = malloc(MANY), .take = SIZE_MAX};
	refuses = false;
	ck_assert(sl_addr_parse(&at, "127.0.0.1"));
	listening = sl_sock_reserve(&at, IPPROTO_TCP);
	ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&ss, &len), 0);
	ck_assert(sl_addr_from_sockaddr(&at, (const struct sockaddr *)&ss));
	close(listening); /* with a port that the kernel has chosen it would be lost */
	listening = sl_sock_reserve(&at, IPPROTO_TCP);
	ck_assert_int_eq(sl_sock_listen(listening), 0);
	sl_sock_config_default(&cfg);
	open_sock(1);
}

static void end(void)
{
	sl_frame_put_list(&umem, up.kept);
	sl_sock_destroy(sock);
	close(listening);
	ck_assert_uint_eq(umem.free_cnt, umem.frame_cnt);
	sl_umem_fini(&umem);
	free(up.got);
}

static int connect_client(void)
{
	const struct sockaddr_in from = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	struct sockaddr_storage ss;
	socklen_t len = sl_addr_to_sockaddr(&at, &ss);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&ss, len), 0);
	return fd;
}

static int open_client(void)
{
	int fd = connect_client();

	up.conn = NULL;
	TURN_UNTIL(up.conn);
	return fd;
}

static bool ends(int fd, int error)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return false;
	ck_assert_int_eq(n < 0 ? errno : (int)n, error);
	return true;
}

static struct sl_sock_stats stats(void)
{
	struct sl_sock_stats s;

	sl_sock_stats(sock, &s);
	return s;
}

TEST(bytes_pass_in_both_directions)
{
	char text[8] = "";
	int fd;

	start();
	fd = open_client();
	ck_assert_int_eq(send(fd, "ping", 4, 0), 4);
	TURN_UNTIL(up.len == 4);
	ck_assert_int_eq(memcmp(up.got, "ping", 4), 0);
	ck_assert_uint_eq(sl_sock_stream.write(up.conn, "pong", 4), 4);
	ck_assert_int_eq(up.held, 1);
	turn();
	ck_assert_int_eq(up.held, 0);
	ck_assert_int_eq(recv(fd, text, sizeof(text), 0), 4);
	ck_assert_str_eq(text, "pong");
	ck_assert_uint_eq(stats().reads, 1);
	ck_assert_uint_eq(stats().writes, 1);
	close(fd);
	end();
}

static unsigned interrupted; /* calls of the C library that fail so */

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	if (interrupted) {
		interrupted--;
		errno = EINTR;
		return -1;
	}
	return sendto(fd, bytes, len, flags, NULL, 0);
}

/* The socket has room: no EPOLLOUT would follow. */
TEST(an_interrupted_write_is_repeated)
{
	char text[8] = "";
	int fd;

	start();
	fd = open_client();
	TURN_UNTIL(sl_sock_stream.room(up.conn) != 0);
	for (unsigned i = 0; i < 4; i++) /* no event is left */
		turn();
	interrupted = 1;
	ck_assert_uint_eq(sl_sock_stream.write(up.conn, "pong", 4), 4);
	turn();
	ck_assert_uint_eq(interrupted, 0);
	turn();
	ck_assert_int_eq(recv(fd, text, sizeof(text), MSG_DONTWAIT), 4);
	ck_assert_str_eq(text, "pong");
	close(fd);
	end();
}

/* The pattern has no period that frames have. */
static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

TEST_EACH(a_layer_that_takes_little_gets_all_bytes_in_order, 2)
{
	size_t sent = 0, before;
	int fd;

	start();
	up.take = 700;
	up.resume_within = _i;
	fd = open_client();
	while (up.len < MANY / 4) {
		uint8_t piece[4096];
		size_t n = MANY / 4 - sent < sizeof(piece) ? MANY / 4 - sent : sizeof(piece);
		ssize_t done;

		for (size_t i = 0; i < n; i++)
			piece[i] = pattern(sent + i);
		done = send(fd, piece, n, MSG_DONTWAIT);
		sent += done > 0 ? (size_t)done : 0;
		before = up.len;
		turn();
		turn();
		if (up.len == before && up.conn)
			sl_sock_stream.resume(up.conn);
		ck_assert_int_le(up.held, 32);
	}
	ck_assert_uint_eq(up.len, MANY / 4);
	for (size_t i = 0; i < up.len; i++)
		ck_assert_uint_eq(up.got[i], pattern(i));
	close(fd);
	TURN_UNTIL(up.eof);
	end();
}

TEST(a_layer_can_keep_frames)
{
	uint8_t piece[8 * FRAME] = {0};
	int fd;

	start();
	up.keep = true;
	fd = open_client();
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(send(fd, piece, sizeof(piece), 0), sizeof(piece));
		TURN_UNTIL(up.len == (size_t)(i + 1) * sizeof(piece));
	}
	close(fd);
	end();
}

TEST(a_peer_that_does_not_read_stops_the_writer)
{
	uint8_t piece[8192];
	size_t written = 0, read = 0, n;
	uint8_t buf[65536];
	int fd;

	for (size_t i = 0; i < sizeof(piece); i++)
		piece[i] = pattern(i);
	start();
	fd = open_client();
	for (int idle = 0; idle < 100;) {
		n = sl_sock_stream.write(up.conn, piece, sizeof(piece));
		written += n;
		idle = n ? 0 : idle + 1;
		turn();
		ck_assert_int_le(up.held, (int)(cfg.snd_buf / FRAME) + 2);
		ck_assert_uint_lt(written, 64 << 20);
	}
	ck_assert_uint_gt(sl_sock_stream.unread_frames(up.conn), 0);
	ck_assert_uint_gt(sl_sock_stream.unread_ns(up.conn), 0);
	ck_assert(!sl_sock_stream.room(up.conn));
	n = up.writables;
	while (read < written) {
		ssize_t got = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

		read += got > 0 ? (size_t)got : 0;
		turn();
	}
	ck_assert_uint_gt(up.writables, n);
	ck_assert_int_eq(up.held, 0);
	ck_assert_uint_eq(sl_sock_stream.unread_ns(up.conn), 0);
	ck_assert_uint_eq(sl_sock_stream.read_bytes(up.conn), written);
	close(fd);
	end();
}

TEST(an_end_follows_the_bytes_before_it)
{
	int fd;

	start();
	up.take = 1;
	fd = open_client();
	ck_assert_int_eq(send(fd, "abc", 3, 0), 3);
	shutdown(fd, SHUT_WR);
	TURN_UNTIL(up.len == 1);
	for (int i = 0; i < 20; i++)
		turn();
	ck_assert(!up.eof);
	sl_sock_stream.resume(up.conn);
	ck_assert_uint_eq(up.len, 2);
	sl_sock_stream.resume(up.conn);
	ck_assert_uint_eq(up.len, 3);
	TURN_UNTIL(up.eof);
	/* The other direction still works. */
	ck_assert_uint_eq(sl_sock_stream.write(up.conn, "x", 1), 1);
	sl_sock_stream.close(up.conn);
	TURN_UNTIL(up.closed);
	ck_assert_int_eq(recv(fd, up.got, 2, 0), 1);
	ck_assert_int_eq(recv(fd, up.got, 2, 0), 0);
	close(fd);
	end();
}

TEST(a_close_sends_what_was_written_and_discards_the_rest)
{
	uint8_t piece[4096] = {0};
	size_t sent = 0, read = 0;
	int fd;

	start();
	fd = open_client();
	for (int i = 0; i < 32; i++)
		ck_assert_uint_eq(sl_sock_stream.write(up.conn, piece, sizeof(piece)),
				  sizeof(piece));
	sl_sock_stream.close(up.conn);
	while (sent < MANY) {
		ssize_t n = send(fd, piece, sizeof(piece), MSG_DONTWAIT);

		sent += n > 0 ? (size_t)n : 0;
		turn();
	}
	ck_assert_uint_eq(up.len, 0);
	shutdown(fd, SHUT_WR);
	TURN_UNTIL(up.closed);
	for (ssize_t n; (n = recv(fd, piece, sizeof(piece), 0)) > 0;)
		read += (size_t)n;
	ck_assert_uint_eq(read, 32 * sizeof(piece));
	ck_assert(!up.eof);
	close(fd);
	end();
}

TEST(a_peer_that_goes_on_sending_after_a_close_is_reset)
{
	uint8_t piece[4096] = {0};
	int fd;

	start();
	cfg.discard_max = 100000;
	sl_sock_destroy(sock);
	open_sock(2);
	fd = open_client();
	sl_sock_stream.close(up.conn);
	while (!up.closed) {
		(void)!send(fd, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
		turn();
	}
	ck_assert_uint_eq(stats().resets_out, 1);
	close(fd);
	end();
}

TEST(a_peer_that_never_ends_is_closed_after_a_time)
{
	int fd;

	start();
	cfg.linger_ns = 1;
	sl_sock_destroy(sock);
	open_sock(2);
	fd = open_client();
	sl_sock_stream.close(up.conn);
	ck_assert_uint_lt(sl_sock_next_ns(sock), UINT64_MAX);
	TURN_UNTIL(up.closed);
	ck_assert_uint_eq(stats().timeouts, 1);
	ck_assert_uint_eq(stats().conns, 1); /* until the next poll */
	turn();
	ck_assert_uint_eq(stats().conns, 0);
	close(fd);
	end();
}

TEST(a_reset_by_the_peer_ends_the_connection)
{
	const struct linger at_once = {.l_onoff = 1};
	int fd;

	start();
	up.take = 0; /* not even read */
	fd = open_client();
	ck_assert_int_eq(send(fd, "abc", 3, 0), 3);
	TURN_UNTIL(up.inputs == 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
	TURN_UNTIL(up.closed);
	ck_assert_uint_eq(stats().resets_in, 1);
	ck_assert_int_eq(up.held, 0);
	end();
}

TEST(a_reset_is_possible_within_input)
{
	int fd;

	start();
	up.reset_within = true;
	fd = open_client();
	ck_assert_int_eq(send(fd, "abc", 3, 0), 3);
	TURN_UNTIL(up.inputs == 1);
	for (int i = 0; i < 3; i++)
		turn();
	ck_assert(!up.closed);
	ck_assert(ends(fd, ECONNRESET));
	ck_assert_uint_eq(stats().conns, 0);
	close(fd);
	end();
}

TEST(a_refused_connection_is_reset)
{
	int fd;

	start();
	refuses = true;
	fd = connect_client();
	TURN_UNTIL(stats().refused == 1);
	ck_assert(ends(fd, ECONNRESET));
	turn();
	ck_assert_uint_eq(stats().conns, 0);
	close(fd);
	end();
}

TEST(connections_beyond_the_pool_are_reset)
{
	int fds[3];

	start();
	cfg.max_conns = 2;
	sl_sock_destroy(sock);
	open_sock(2);
	for (int i = 0; i < 3; i++)
		fds[i] = connect_client();
	TURN_UNTIL(stats().refused == 1);
	ck_assert_uint_eq(stats().accepted, 2);
	ck_assert_uint_eq(sl_sock_free_places(sock), 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	TURN_UNTIL(up.eof);
	end();
}

TEST(accepting_pauses_without_descriptors)
{
	struct rlimit before, few;
	unsigned failures;
	int fd;

	start();
	getrlimit(RLIMIT_NOFILE, &before);
	fd = connect_client();
	few = before;
	few.rlim_cur = (rlim_t)fd + 1;
	setrlimit(RLIMIT_NOFILE, &few);
	TURN_UNTIL(stats().accept_failures == 1);
	for (int i = 0; i < 50; i++)
		sl_sock_poll(sock, sl_now_ns());
	failures = (unsigned)stats().accept_failures;
	ck_assert_uint_lt(failures, 25); /* no busy loop */
	ck_assert_uint_lt(sl_sock_next_ns(sock), UINT64_MAX);
	setrlimit(RLIMIT_NOFILE, &before);
	TURN_UNTIL(stats().accepted == 1);
	close(fd);
	end();
}

TEST(without_frames_the_kernel_is_not_read)
{
	struct sl_frame *all = NULL, *f;
	int fd;

	start();
	fd = open_client();
	while ((f = sl_frame_get(&umem, SL_FRAME_HELD, 0))) {
		f->next = all;
		all = f;
	}
	ck_assert_int_eq(send(fd, "abc", 3, 0), 3);
	for (int i = 0; i < 100; i++)
		turn();
	ck_assert_uint_eq(up.len, 0);
	ck_assert_uint_eq(sl_sock_stream.write(up.conn, "x", 1), 0);
	ck_assert(!sl_sock_stream.write_head(up.conn, "x", 1));
	ck_assert_uint_lt(sl_sock_next_ns(sock), UINT64_MAX);
	sl_frame_put_list(&umem, all);
	TURN_UNTIL(up.len == 3);
	TURN_UNTIL(up.writables == 1);
	close(fd);
	end();
}

TEST(a_head_goes_beyond_the_room)
{
	uint8_t piece[8192] = {0}, *laid;
	size_t room;
	int fd;

	start();
	fd = open_client();
	for (int i = 0; i < 2000 && sl_sock_stream.room(up.conn); i++) {
		sl_sock_stream.write(up.conn, piece, sizeof(piece));
		turn();
	}
	ck_assert_uint_eq(sl_sock_stream.write(up.conn, piece, 1), 0);
	ck_assert(sl_sock_stream.fits_head(up.conn, sizeof(piece)));
	ck_assert(sl_sock_stream.write_head(up.conn, piece, sizeof(piece)));
	ck_assert_ptr_null(sl_sock_stream.lay(up.conn, FRAME, false, &room));
	laid = sl_sock_stream.lay(up.conn, FRAME, true, &room);
	ck_assert_ptr_nonnull(laid);
	ck_assert_uint_eq(room, FRAME);
	laid[0] = 'x';
	sl_sock_stream.commit(up.conn, 1);
	close(fd);
	end();
}

TEST(a_removed_listener_keeps_its_connections)
{
	int fd, late;

	start();
	fd = open_client();
	sl_sock_set_listeners(sock, NULL, 0);
	late = connect_client(); /* into the queue of the other descriptor */
	for (int i = 0; i < 20; i++)
		turn();
	ck_assert_uint_eq(stats().accepted, 1);
	ck_assert_int_eq(send(fd, "abc", 3, 0), 3);
	TURN_UNTIL(up.len == 3);
	ck_assert_int_eq(sl_sock_listener(up.conn), SL_SOCK_BY_ADDRESS);
	close(fd);
	close(late);
	end();
}

TEST(a_connection_by_an_excluded_interface_is_reset)
{
	int other = (int)if_nametoindex("lo") + 1, lo[] = {other, other - 1}, fd;

	start();
	sl_sock_exclude(sock, &other, 1);
	close(open_client());
	sl_sock_exclude(sock, lo, 2);
	fd = connect_client();
	TURN_UNTIL(stats().refused == 1);
	ck_assert(ends(fd, ECONNRESET));
	close(fd);
	end();
}
