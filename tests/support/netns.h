/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network of a test's own: it ends with the test's process, whatever ends that.
 */
#ifndef SL_TESTS_SUPPORT_NETNS_H
#define SL_TESTS_SUPPORT_NETNS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Moves the calling process into new network and mount namespaces with lo up and a BPF file system
 * of its own on /sys/fs/bpf. Returns 0 or -errno.
 */
int test_netns_enter(void);

/* Runs a shell command; returns its exit status. Output goes to stderr. */
int test_sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A veth pair a-b, both up, with `queues` queues each, no IPv6 chatter. Returns 0 or not. */
int test_veth(const char *a, const char *b, unsigned queues);

/* A packet socket on the interface for all protocols, or -errno. */
int test_packet_socket(const char *ifname);

#endif
