/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reasons for which a packet, connection or request is discarded.
 *
 * The indices are ABI: entries are appended to their block and never reordered.
 *
 * X(NAME, "metric_name", "description")
 */
#ifndef SLUICE_DROP_H
#define SLUICE_DROP_H

/* Verdicts of the XDP program: each packet counts in exactly one. */
#define SL_RX_VERDICTS(X)                                                                          \
	X(RX_REDIRECT, "redirect", "handed to an AF_XDP socket")                                   \
	X(RX_PASS_OTHER, "pass_other", "not IP, or no TCP, UDP or ICMP error: left to the kernel") \
	X(RX_PASS_NO_LISTENER, "pass_no_listener", "no listener matches: left to the kernel")      \
	X(RX_PASS_FRAGMENT, "pass_fragment",                                                       \
	  "later IP fragment, or of no TCP or UDP: left to the kernel")                            \
	X(RX_PASS_TRUNCATED, "pass_truncated", "headers exceed the frame: left to the kernel")     \
	X(RX_NO_SOCKET, "no_socket", "no AF_XDP socket on this queue: dropped")                    \
	X(RX_SHED_CONNECTION, "shed_connection", "SYN refused: the service is overloaded")         \
	X(RX_SHED_DATAGRAM, "shed_datagram", "datagram refused: the service is overloaded")        \
	X(RX_SHED_QUEUE, "shed_queue",                                                             \
	  "SYN or datagram refused: half of the queue waits for its worker")                       \
	X(RX_PASS_VLAN, "pass_vlan",                                                               \
	  "of another VLAN than the interface serves: left to the kernel")                         \
	X(RX_DENIED, "denied", "dropped: the longest prefix of its source is denied")              \
	X(RX_PASS_OTHER_HOST, "pass_other_host",                                                   \
	  "destination MAC is not the interface's: left to the kernel")                            \
	X(RX_FRAGMENT, "fragment", "first IP fragment of a packet for a listener: dropped")        \
	X(RX_OFFENDER, "offender", "dropped: limits refused its source too often (penalty)")

/* Discards in user space, in the order of the checks. */
#define SL_DROPS(X)                                                                                \
	X(ETH_TRUNCATED, "eth_truncated", "frame shorter than its Ethernet header")                \
	X(ETH_ADDRESS, "eth_address", "MAC: group destination, or group, zero or own source")      \
	X(ETH_TYPE, "eth_type", "EtherType is neither IPv4 nor IPv6")                              \
	X(IP_HEADER, "ip_header", "malformed IPv4 or IPv6 header")                                 \
	X(IP_LENGTH, "ip_length", "IP length exceeds the frame")                                   \
	X(IP_CHECKSUM, "ip_checksum", "wrong IPv4 header checksum")                                \
	X(IP_FRAGMENT, "ip_fragment", "IP fragment")                                               \
	X(IP_SOURCE, "ip_source", "source address is multicast, broadcast, loopback or ours")      \
	X(IP_PROTOCOL, "ip_protocol", "neither TCP, UDP nor ICMP")                                 \
	X(IP6_EXTENSION, "ip6_extension", "too many or malformed IPv6 extension headers")          \
	X(NO_LISTENER, "no_listener", "address and port are not served")                           \
	X(ICMP_MALFORMED, "icmp_malformed", "ICMP error without a usable embedded header")         \
	X(ICMP_IGNORED, "icmp_ignored", "ICMP error that fails the RFC 5927 checks")               \
	X(TCP_HEADER, "tcp_header", "malformed TCP header")                                        \
	X(TCP_CHECKSUM, "tcp_checksum", "wrong TCP checksum")                                      \
	X(TCP_OPTIONS, "tcp_options", "malformed TCP options")                                     \
	X(TCP_NO_CONN, "tcp_no_conn", "segment for no connection")                                 \
	X(TCP_BACKLOG, "tcp_backlog", "SYN over the half-open limit, no cookie possible")          \
	X(TCP_SYN_COOKIE, "tcp_syn_cookie", "ACK with an invalid SYN cookie")                      \
	X(TCP_CONN_LIMIT, "tcp_conn_limit", "connection table full")                               \
	X(TCP_REFUSED, "tcp_refused", "refused by the application")                                \
	X(TCP_SEQUENCE, "tcp_sequence", "segment outside the window")                              \
	X(TCP_PAWS, "tcp_paws", "timestamp older than the last one, RFC 7323")                     \
	X(TCP_ACK, "tcp_ack", "unacceptable acknowledgement")                                      \
	X(TCP_RST, "tcp_rst", "RST that is not exactly at rcv_nxt, RFC 5961")                      \
	X(TCP_SYN_IN_CONN, "tcp_syn_in_conn", "SYN in a synchronised state, RFC 5961")             \
	X(TCP_FLAGS, "tcp_flags", "impossible combination of flags")                               \
	X(TCP_DUPLICATE, "tcp_duplicate", "no new bytes")                                          \
	X(TCP_WINDOW, "tcp_window", "bytes beyond the receive window")                             \
	X(TCP_OOO_LIMIT, "tcp_ooo_limit", "out-of-order queue full")                               \
	X(TCP_CLOSED, "tcp_closed", "bytes after the connection was closed")                       \
	X(CHALLENGE_LIMIT, "challenge_limit", "challenge ACK suppressed by the rate limit")        \
	X(RST_LIMIT, "rst_limit", "RST suppressed by the rate limit")                              \
	X(UDP_HEADER, "udp_header", "malformed UDP header or length")                              \
	X(UDP_CHECKSUM, "udp_checksum", "wrong or missing UDP checksum")                           \
	X(DGRAM_MALFORMED, "dgram_malformed", "datagram is no sluice request")                     \
	X(DGRAM_DUPLICATE, "dgram_duplicate", "retry of a request that is being answered")         \
	X(DGRAM_AMPLIFY, "dgram_amplify", "reply larger than its unproven source may get")         \
	X(NO_FRAME, "no_frame", "frame pool exhausted")                                            \
	X(TX_FULL, "tx_full", "transmit ring full")                                                \
	X(HANDOVER_FULL, "handover_full", "ring to the owning worker full")                        \
	X(IP_SOURCE_ROUTE, "ip_source_route", "IPv4 source route (LSRR, SSRR)")                    \
	X(NO_NEIGHBOUR, "no_neighbour", "to a server whose next hop the kernel has not resolved")  \
	X(DGRAM_TOO_LARGE, "dgram_too_large", "reply larger than its path MTU or 4,096 bytes")

#define X(name, metric, help) SL_##name,
enum sl_rx_verdict { SL_RX_VERDICTS(X) SL_RX_VERDICT_CNT };
#undef X

#define X(name, metric, help) SL_DROP_##name,
enum sl_drop { SL_DROPS(X) SL_DROP_CNT };
#undef X

#endif
