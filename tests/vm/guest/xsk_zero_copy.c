/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds an AF_XDP socket with XDP_ZEROCOPY to each of an interface's first queues, then counts the
 * UDP datagrams to one port that each receives. Prints both, and succeeds when every socket is
 * zero-copy, every queue received something, and all expected datagrams came.
 *
 * usage: xsk_zero_copy INTERFACE QUEUES PORT DATAGRAMS SECONDS
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_xdp.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <xdp/xsk.h>

#define QUEUES_MAX 16
#define RING_LEN   XSK_RING_PROD__DEFAULT_NUM_DESCS
#define FRAME_SIZE XSK_UMEM__DEFAULT_FRAME_SIZE
#define BURST      64

struct queue {
	struct xsk_ring_prod fill;
	struct xsk_ring_cons completion;
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx;
	struct xsk_umem *umem;
	struct xsk_socket *socket;
	void *frames;
	unsigned long matched_cnt;
};

static int open_umem(struct queue *q)
{
	const size_t len = (size_t)RING_LEN * FRAME_SIZE;
	const struct xsk_umem_config config = {
		.fill_size = RING_LEN,
		.comp_size = RING_LEN,
		.frame_size = FRAME_SIZE,
	};
	__u32 first;
	int err;

	q->frames = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q->frames == MAP_FAILED)
		return -errno;
	err = xsk_umem__create(&q->umem, q->frames, len, &q->fill, &q->completion, &config);
	if (err)
		return err;
	if (xsk_ring_prod__reserve(&q->fill, RING_LEN, &first) != RING_LEN)
		return -ENOSPC;
	for (__u32 i = 0; i < RING_LEN; i++)
		*xsk_ring_prod__fill_addr(&q->fill, first + i) = (__u64)i * FRAME_SIZE;
	xsk_ring_prod__submit(&q->fill, RING_LEN);
	return 0;
}

static int open_queue(struct queue *q, const char *interface, __u32 index)
{
	const struct xsk_socket_config config = {
		.rx_size = RING_LEN,
		.tx_size = RING_LEN,
		.bind_flags = XDP_ZEROCOPY | XDP_USE_NEED_WAKEUP,
	};
	struct xdp_options options = {0};
	socklen_t len = sizeof(options);
	int err = open_umem(q);

	if (!err)
		err = xsk_socket__create(&q->socket, interface, index, q->umem, &q->rx, &q->tx,
					 &config);
	if (!err && getsockopt(xsk_socket__fd(q->socket), SOL_XDP, XDP_OPTIONS, &options, &len))
		err = -errno;
	if (err) {
		printf("queue %u: bind with XDP_ZEROCOPY refused: %s\n", index, strerror(-err));
		return err;
	}
	if (!(options.flags & XDP_OPTIONS_ZEROCOPY)) {
		printf("queue %u: bound, but the kernel copies\n", index);
		return -EOPNOTSUPP;
	}
	printf("queue %u: zero-copy\n", index);
	return 0;
}

static int is_wanted(const unsigned char *frame, __u32 len, __u16 port)
{
	struct iphdr ip;
	struct udphdr udp;
	size_t at = sizeof(struct ethhdr);

	if (len < at + sizeof(ip) + sizeof(udp))
		return 0;
	memcpy(&ip, frame + at, sizeof(ip));
	if (ip.version != 4 || ip.ihl != 5 || ip.protocol != IPPROTO_UDP)
		return 0;
	memcpy(&udp, frame + at + sizeof(ip), sizeof(udp));
	return udp.dest == htons(port);
}

/* Every received frame goes straight back to the fill ring, which holds them all. */
static unsigned long drain(struct queue *q, __u16 port)
{
	__u32 rx, fill;
	__u32 cnt = xsk_ring_cons__peek(&q->rx, BURST, &rx);
	unsigned long matched = 0;

	if (cnt == 0 || xsk_ring_prod__reserve(&q->fill, cnt, &fill) != cnt)
		return 0;
	for (__u32 i = 0; i < cnt; i++) {
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&q->rx, rx + i);

		matched += (unsigned long)is_wanted(xsk_umem__get_data(q->frames, desc->addr),
						    desc->len, port);
		*xsk_ring_prod__fill_addr(&q->fill, fill + i) =
			xsk_umem__extract_addr(desc->addr) & ~(__u64)(FRAME_SIZE - 1);
	}
	xsk_ring_cons__release(&q->rx, cnt);
	xsk_ring_prod__submit(&q->fill, cnt);
	q->matched_cnt += matched;
	return matched;
}

static void receive(struct queue *queues, __u32 queue_cnt, __u16 port, unsigned long expected_cnt,
		    time_t seconds)
{
	const time_t deadline = time(NULL) + seconds;
	struct pollfd fds[QUEUES_MAX];
	unsigned long received_cnt = 0;

	for (__u32 i = 0; i < queue_cnt; i++)
		fds[i] = (struct pollfd){.fd = xsk_socket__fd(queues[i].socket), .events = POLLIN};
	while (received_cnt < expected_cnt && time(NULL) < deadline) {
		poll(fds, queue_cnt, 100);
		for (__u32 i = 0; i < queue_cnt; i++)
			received_cnt += drain(&queues[i], port);
	}
}

static int report(const struct queue *queues, __u32 queue_cnt, unsigned long expected_cnt)
{
	unsigned long received_cnt = 0;
	int idle = 0;

	for (__u32 i = 0; i < queue_cnt; i++) {
		printf("queue %u: received %lu\n", i, queues[i].matched_cnt);
		received_cnt += queues[i].matched_cnt;
		idle |= queues[i].matched_cnt == 0;
	}
	printf("received %lu of %lu\n", received_cnt, expected_cnt);
	return !idle && received_cnt >= expected_cnt ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	static struct queue queues[QUEUES_MAX];
	__u32 queue_cnt, opened_cnt = 0;
	int err = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	queue_cnt = argc == 6 ? (__u32)atoi(argv[2]) : 0;
	if (queue_cnt < 1 || queue_cnt > QUEUES_MAX) {
		fprintf(stderr, "usage: %s INTERFACE QUEUES PORT DATAGRAMS SECONDS\n", argv[0]);
		return 2;
	}
	while (!err && opened_cnt < queue_cnt) {
		err = open_queue(&queues[opened_cnt], argv[1], opened_cnt);
		opened_cnt += !err;
	}
	if (!err) {
		printf("ready\n");
		receive(queues, queue_cnt, (__u16)atoi(argv[3]), (unsigned long)atol(argv[4]),
			atol(argv[5]));
		err = report(queues, queue_cnt, (unsigned long)atol(argv[4]));
	}
	/* Takes the XDP program off the interface again. */
	for (__u32 i = 0; i < opened_cnt; i++) {
		xsk_socket__delete(queues[i].socket);
		xsk_umem__delete(queues[i].umem);
	}
	return err ? 1 : 0;
}
