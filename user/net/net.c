/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/rand.h"
#include "net/net.h"
#include "net/route.h"
#include "xio/rss.h"

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint8_t process_key[16];
static int key_err;

static void draw_key(void)
{
	key_err = sl_rand_bytes(process_key, sizeof(process_key));
}

int sl_net_init(struct sl_net *n, struct sl_umem *umem)
{
	memset(n, 0, sizeof(*n));
	n->umem = umem;
	n->raw_fd[0] = n->raw_fd[1] = -1;
	pthread_once(&key_once, draw_key);
	memcpy(n->hash_key, process_key, sizeof(n->hash_key));
	return key_err;
}

int sl_net_add_port(struct sl_net *n, struct sl_port *p)
{
	if (n->port_cnt == SL_MAX_PORTS || p->index != n->port_cnt || p->umem != n->umem)
		return -EINVAL;
	n->ports[n->port_cnt++] = p;
	return 0;
}

void sl_net_fini(struct sl_net *n)
{
	for (unsigned i = 0; i < n->port_cnt; i++) {
		for (unsigned k = 0; k < n->tx[i].cnt; k++)
			sl_frame_tx_done(n->umem, n->tx[i].frames[k]);
	}
	free(n->listeners);
	sl_routes_put(n->routes);
	sl_rss_list_put(n->rss);
	if (n->umem)
		sl_net_close_kernel_tx(n);
	memset(n, 0, sizeof(*n));
}
