/* SPDX-License-Identifier: Apache-2.0 */
#include "ud_sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/rand.h"
#include "rpc/transport.h"

enum { RCVBUF = 4 << 20, ASK_MS = 50 };

struct pair {
	struct ud_qp base;
	struct sl_prng rng;
	uint8_t tx[UD_MTU_MAX];
	unsigned polled; /* not put back yet */
	unsigned seat;
	bool broken;
	/* One that waits to be overtaken. */
	uint8_t kept[UD_MTU_MAX];
	uint32_t kept_len, kept_qpn;
};

struct port {
	struct rdma_port base;
	unsigned seat;
	struct sl_list node;
};

static char devices[UD_NOWHERE];
static _Atomic bool down[UD_NOWHERE]; /* ports of these */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list ports = {&ports, &ports};
static struct ud_faults faults;
uint32_t ud_sockets_mtu = UD_MTU_MAX;
uint32_t ud_sockets_way_mtu;
unsigned ud_sockets_seat;
int ud_sockets_sign;
uint8_t ud_sockets_tos;
const uint8_t ud_sockets_gid[16] = {0xfd, [15] = 9};
unsigned ud_sockets_groups[4];
bool ud_sockets_break;
void (*ud_sockets_tap)(const uint8_t *bytes, uint32_t len, uint32_t to_qpn);

static struct pair *pair_of(struct ud_qp *base)
{
	return (struct pair *)base;
}

/* Some tests have a device of their own. */
static unsigned seat_of(const struct rdma_local *l)
{
	return l->device == &devices[1];
}

static struct sockaddr_in address_of(uint32_t qpn)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				    .sin_port = htons((uint16_t)qpn)};
}

static int open_socket(const struct sockaddr *sa, socklen_t len)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, sa, len) < 0) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

/* --- pairs --- */

static struct ud_qp *sockets_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
				  uint32_t tx_cnt, int *rc)
{
	static uint64_t seed;
	struct pair *p = calloc(1, sizeof(*p));
	struct sockaddr_in sa = address_of(0);
	socklen_t len = sizeof(sa);
	int size = RCVBUF;

	(void)rx_cnt, (void)tx_cnt;
	SL_CHECK(p);
	p->seat = seat_of(l);
	p->base.fd = open_socket((struct sockaddr *)&sa, sizeof(sa));
	*rc = p->base.fd < 0 ? -errno : 0;
	if (*rc) {
		free(p);
		return NULL;
	}
	(void)setsockopt(p->base.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (getsockname(p->base.fd, (struct sockaddr *)&sa, &len) < 0)
		abort();
	p->base.qpn = ntohs(sa.sin_port);
	p->base.mtu = ud_sockets_mtu;
	sl_prng_seed(&p->rng, ++seed);
	if (group < SL_ARRAY_LEN(ud_sockets_groups))
		ud_sockets_groups[group]++;
	return &p->base;
}

static void sockets_close(struct ud_qp *base)
{
	SL_CHECK(!pair_of(base)->polled);
	close(base->fd);
	free(base);
}

static uint8_t *sockets_slot(struct ud_qp *base)
{
	return pair_of(base)->tx;
}

static void transmit(const struct pair *p, const uint8_t *bytes, uint32_t len, uint32_t qpn)
{
	struct sockaddr_in sa = address_of(qpn);

	/* Without a receiver, or without room at it, it is lost as on a wire. */
	(void)!sendto(p->base.fd, bytes, len, MSG_DONTWAIT, (struct sockaddr *)&sa, sizeof(sa));
}

static bool dice(struct pair *p, unsigned percent)
{
	return percent && sl_prng_below(&p->rng, 100) < percent;
}

static void sockets_send(struct ud_qp *base, struct ibv_ah *way, uint32_t qpn, uint32_t len)
{
	struct pair *p = pair_of(base);

	(void)way;
	SL_CHECK(len && len <= base->mtu);
	base->unflushed = true;
	if (ud_sockets_tap)
		ud_sockets_tap(p->tx, len, qpn);
	if (down[p->seat] || dice(p, faults.lost))
		return;
	if (!p->kept_len && dice(p, faults.overtaken)) {
		memcpy(p->kept, p->tx, len);
		p->kept_len = len;
		p->kept_qpn = qpn;
		return;
	}
	transmit(p, p->tx, len, qpn);
	if (dice(p, faults.doubled))
		transmit(p, p->tx, len, qpn);
	if (p->kept_len)
		transmit(p, p->kept, p->kept_len, p->kept_qpn);
	p->kept_len = 0;
}

static int sockets_ring(struct ud_qp *base)
{
	struct pair *p = pair_of(base);

	base->unflushed = false;
	p->broken |= ud_sockets_break;
	return p->broken ? -EIO : 0;
}

/* A buffer of its own, so that a sanitizer sees reads behind it. */
static bool receive(const struct pair *p, struct ud_packet *packet)
{
	static uint8_t bytes[UD_MTU_MAX + 1];
	struct sockaddr_in sa = {.sin_family = AF_INET};
	socklen_t len = sizeof(sa);
	ssize_t n;

	do
		n = recvfrom(p->base.fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&sa, &len);
	while (n < 0 && errno != EAGAIN);
	if (n < 0)
		return false;
	*packet = (struct ud_packet){.bytes = malloc((size_t)n + 1),
				     .len = n <= UD_MTU_MAX ? (uint32_t)n : 0,
				     .qpn = ntohs(sa.sin_port)};
	SL_CHECK(packet->bytes);
	memcpy(packet->bytes, bytes, packet->len);
	return true;
}

static int sockets_poll(struct ud_qp *base, struct ud_packet *packets, unsigned max)
{
	struct pair *p = pair_of(base);
	unsigned n = 0;

	SL_CHECK(!p->polled && max <= UD_POLL_MAX);
	while (n < max && receive(p, &packets[n])) {
		if (down[p->seat])
			free(packets[n].bytes);
		else
			n++;
	}
	p->polled = n;
	return (int)n;
}

static int sockets_put_back(struct ud_qp *base, const struct ud_packet *packets, unsigned cnt)
{
	struct pair *p = pair_of(base);

	SL_CHECK(p->polled == cnt);
	for (unsigned i = 0; i < cnt; i++)
		free(packets[i].bytes);
	p->polled = 0;
	return 0;
}

static bool sockets_arm(struct ud_qp *base)
{
	struct pollfd p = {.fd = base->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

static void sockets_take_bell(struct ud_qp *base)
{
	(void)base;
}

/* --- ports --- */

static struct rdma_port *sockets_watch(const struct rdma_local *l, int *rc)
{
	struct port *p = calloc(1, sizeof(*p));

	SL_CHECK(p);
	p->seat = seat_of(l);
	p->base.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	SL_CHECK(p->base.fd >= 0);
	pthread_mutex_lock(&lock);
	p->base.down = down[p->seat];
	sl_list_add_tail(&ports, &p->node);
	pthread_mutex_unlock(&lock);
	*rc = 0;
	return &p->base;
}

static void sockets_unwatch(struct rdma_port *base)
{
	struct port *p = (struct port *)base;

	pthread_mutex_lock(&lock);
	sl_list_del(&p->node);
	pthread_mutex_unlock(&lock);
	close(base->fd);
	free(p);
}

void ud_sockets_port(unsigned seat, bool is_down)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	down[seat] = is_down;
	sl_list_for_each (at, &ports) {
		struct port *p = sl_container_of(at, struct port, node);

		if (p->seat != seat)
			continue;
		p->base.down = is_down;
		(void)eventfd_write(p->base.fd, 1);
	}
	pthread_mutex_unlock(&lock);
}

/* --- ways, questions --- */

static struct rdma_local here(void)
{
	return (struct rdma_local){
		.device = &devices[ud_sockets_seat], .name = "sockets", .port = 1};
}

/* On this machine all are: no test waits for a thread that others keep from the processor. */
static bool is_near(const struct rdma_local *l, const uint8_t gid[16])
{
	(void)l, (void)gid;
	return true;
}

static struct ibv_ah *way_new(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	(void)gid;
	ud_sockets_tos = tos;
	return l->device;
}

static void way_free(struct ibv_ah *way)
{
	(void)way;
}

static int ask(const struct sidr_query *q, struct sidr_result *h, const char **why)
{
	const struct sockaddr_in any = address_of(0);
	int fd = open_socket((const struct sockaddr *)&any, sizeof(any)), rc = -ETIMEDOUT;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct ud_sockets_reply reply;

	if (fd < 0 || connect(fd, (const struct sockaddr *)q->sa, sizeof(struct sockaddr_in)) < 0)
		rc = -errno;
	while (rc == -ETIMEDOUT && sl_now_ns() < q->deadline_ns) {
		(void)!send(fd, "?", 1, 0);
		if (poll(&p, 1, ASK_MS) <= 0)
			continue;
		rc = recv(fd, &reply, sizeof(reply), 0) == sizeof(reply) ? 0 : -errno;
	}
	if (!rc) {
		h->qpn = reply.qpn;
		h->epoch = reply.epoch;
	}
	if (rc == -ECONNREFUSED)
		*why = "connection refused: is the backend running?";
	h->local = here();
	memcpy(h->gid, ud_sockets_gid, sizeof(h->gid));
	h->mtu = ud_sockets_way_mtu;
	if (fd >= 0)
		close(fd);
	return rc;
}

static int sign_new(struct sidr_service **sign, struct sockaddr_storage *sa, bool rc)
{
	int fd;

	(void)rc;
	*sign = NULL;
	if (ud_sockets_seat == UD_NOWHERE)
		return -ENODEV;
	fd = open_socket((struct sockaddr *)sa, sizeof(struct sockaddr_in));
	if (fd < 0)
		return -errno;
	*sign = malloc(sizeof(**sign));
	SL_CHECK(*sign);
	**sign = (struct sidr_service){.fd = fd, .local = here()};
	memcpy((*sign)->local.gid, ud_sockets_gid, sizeof(ud_sockets_gid));
	return 0;
}

static int sign_local(struct sidr_service *s)
{
	(void)s;
	return 0;
}

static int sign_answer(struct sidr_service *s, uint32_t qpn)
{
	const struct ud_sockets_reply reply = {.epoch = sl_rpc_boot_epoch(), .qpn = qpn};
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int rc = ud_sockets_sign;
	char byte;

	ud_sockets_sign = 0;
	while (recvfrom(s->fd, &byte, 1, 0, (struct sockaddr *)&from, &len) == 1 && qpn)
		(void)!sendto(s->fd, &reply, sizeof(reply), 0, (struct sockaddr *)&from, len);
	return rc;
}

static void sign_free(struct sidr_service *s)
{
	close(s->fd);
	free(s);
}

static const struct rdma_device_ops sockets = {
	.open = sockets_open,
	.close = sockets_close,
	.tx_buf = sockets_slot,
	.send = sockets_send,
	.flush = sockets_ring,
	.poll = sockets_poll,
	.repost = sockets_put_back,
	.arm = sockets_arm,
	.ack_event = sockets_take_bell,
	.port_watch = sockets_watch,
	.port_unwatch = sockets_unwatch,
	.ah_create = way_new,
	.neigh_resolved = is_near,
	.ah_destroy = way_free,
	.sidr_resolve = ask,
	.sidr_new = sign_new,
	.sidr_local = sign_local,
	.sidr_reply = sign_answer,
	.sidr_free = sign_free,
};

void ud_sockets_use(struct ud_faults f)
{
	faults = f;
	rdma_device = &sockets;
}
