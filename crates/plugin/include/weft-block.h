/*
 * The interface between weft and a loadable block, version 1.
 *
 * One source serves two builds: WebAssembly (isolated, the same results everywhere) and a native object (trusted, fast):
 *
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o block.wasm block.c
 *   cc -O2 -shared -fPIC -o block.so block.c
 *
 * A block implements what is declared below as weft_block_...; those marked "may be left out" need not be there. It may call what is
 * declared as weft_...; native objects only while they are called. Everything that a call changed or asked for happens when it returns.
 * weft makes one call at a time into one block; several native blocks of one object may be called at the same time by several threads,
 * so keep what belongs to a block in what weft_block_new() returned, and nothing in globals. A WebAssembly block has a memory of its own.
 */
#ifndef WEFT_BLOCK_H
#define WEFT_BLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weft refuses a block that was built for another version. */
#define WEFT_BLOCK_INTERFACE 1

/* Verdicts: onward through an output (its place in the manifest, from 0), kept by the block (it ends here), or dropped for a reason
 * (its place among [[drop]] in the manifest). Each frame needs one. */
#define WEFT_FORWARD(port) ((uint32_t)(port))
#define WEFT_CONSUMED 0x100u
#define WEFT_DROP(reason) (0x200u + (uint32_t)(reason))

/* What the block has changed; nothing else is looked at. */
#define WEFT_EDITED_BYTES 1u /* the bytes at data, and length */
#define WEFT_EDITED_META 2u  /* interface, mark, tos, dst_mac, next_hop_family, next_hop */

/* A frame. Numbers are in the machine's order, addresses and bytes as on the wire. */
typedef struct weft_frame {
    uint8_t *data;           /* its first bytes; stays where it is */
    uint32_t length;         /* bytes at data; may be changed up to room if the block sees all of the frame */
    uint32_t room;           /* bytes that fit at data: length or more */
    uint32_t total;          /* bytes of the whole frame: more than length if the manifest's bytes_max is less */
    uint32_t verdict;        /* to be set */
    uint32_t interface;      /* where it came in; of egress frames, where it goes out */
    uint32_t mark;           /* firewall mark */
    uint16_t ether_type;     /* of link frames: 0x0800 IPv4, 0x86dd IPv6, 0x0806 ARP */
    uint16_t src_port;       /* of datagrams */
    uint16_t dst_port;
    uint16_t reserved;
    uint8_t egress;          /* 1: from programs to interfaces, 0: the other way */
    uint8_t edited;          /* to be set: WEFT_EDITED_... */
    uint8_t protocol;        /* IP protocol, where known */
    uint8_t ttl;
    uint8_t tos;             /* DSCP and ECN */
    uint8_t family;          /* of src and dst: 4, 6, or 0 (not known) */
    uint8_t next_hop_family; /* 4, 6, or 0 (none yet) */
    uint8_t reserved_too;
    uint8_t src_mac[6];
    uint8_t dst_mac[6];
    uint8_t src[16];         /* IPv4 in the first 4 bytes */
    uint8_t dst[16];
    uint8_t next_hop[16];    /* the neighbour that it goes to */
} weft_frame;

/* A parameter's value in all its forms. */
typedef struct weft_value {
    const char *text;        /* as text, without a zero at its end */
    uint32_t length;         /* bytes of text */
    uint32_t family;         /* of type address: 4, 6, or 0 (none) */
    uint64_t number;         /* bool: 0, 1; unsigned; duration: ns; rate: bit/s; choice: the word's place; interface: its number, 0 for none */
    double real;             /* float */
    uint8_t address[16];     /* of type address */
} weft_value;

/* A subflow of a connection over several paths, as a scheduler sees it. Distances are bytes since the connection's first one. */
typedef struct weft_subflow {
    uint64_t rtt_ns;           /* smoothed round trip; 0: not measured yet */
    uint64_t rtt_variation_ns; /* its mean deviation, smoothed */
    uint64_t queued_bytes;     /* in its tcp, sent or not, and not acknowledged */
    uint64_t credit_bytes;     /* that its tcp takes now: more than would leave at once; 0: whoever chooses it waits for it */
    uint64_t room_bytes;       /* that would leave at once, in whole segments; 0: its congestion window is full */
    uint64_t next;             /* the farthest data that it was given ends here: distance */
    uint64_t sent_bytes;       /* given to it since it began */
    uint32_t index;            /* its place in the connection, counting those that may not send now, too */
    uint32_t cwnd_bytes;       /* congestion window */
    uint32_t free_bytes;       /* of it, as its tcp last said: bytes that would leave at once */
    uint32_t mss_bytes;        /* segment size; 0: not known yet */
    uint32_t mapping_bytes;    /* so many fewer bytes of data fill the first segment of a piece */
    uint32_t interface;        /* number of the interface that has its address; 0: not known */
    uint32_t backup;           /* 1: to be used only if no other is left */
    uint32_t reserved;
} weft_subflow;

/* What is to be decided, and the answer. */
typedef struct weft_question {
    uint64_t una;              /* the peer has everything before this distance */
    uint64_t next;             /* no subflow has had anything from this distance on: new data begins here */
    uint64_t end;              /* what the program has written ends here */
    uint64_t edge;             /* the peer takes data up to here */
    uint64_t memory[4];        /* the scheduler's own of this connection, 0 at first: as the last call left it; may be changed */
    uint64_t from;             /* answer: the data begins here, una to next (weft has put next here); before next it is a copy */
    uint64_t bytes;            /* answer: so many at most, 1 or more; what window and credit do not let go, or is not there, is left out */
    uint32_t more;             /* 1: the program waits to write more */
    uint32_t again;            /* 1: data from next to end, lost with a subflow, looks for another: only the place counts of the answer */
} weft_question;

#ifdef __wasm__
#define WEFT_EXPORT(name) __attribute__((export_name(#name), visibility("default")))
#define WEFT_IMPORT(name) __attribute__((import_module("weft"), import_name(#name)))
#else
#define WEFT_EXPORT(name) __attribute__((visibility("default")))
#endif

/* ---- what a block implements ---- */

/* returns WEFT_BLOCK_INTERFACE; WEFT_BLOCK(manifest) below defines this one and the next */
WEFT_EXPORT(weft_block_interface) uint32_t weft_block_interface(void);
/* the manifest: TOML, ended by a zero; docs/plugins.md */
WEFT_EXPORT(weft_block_manifest) const char *weft_block_manifest(void);
/* makes a block; what it returns is `self` of all other calls */
WEFT_EXPORT(weft_block_new) void *weft_block_new(void);
/* takes up to 64 frames that came in through an input, edits them in place, and sets each one's verdict; may be left out by a block
 * that has no inputs */
WEFT_EXPORT(weft_block_process) void weft_block_process(void *self, uint32_t input, weft_frame *frames, uint32_t count);

/* the block is gone (native only); may be left out */
WEFT_EXPORT(weft_block_free) void weft_block_free(void *self);
/* it stands in the graph, or edges around it have changed; may be left out */
WEFT_EXPORT(weft_block_started) void weft_block_started(void *self);
/* a timer is due; may be left out */
WEFT_EXPORT(weft_block_timer) void weft_block_timer(void *self, uint64_t token);
/* would this value do for the parameter (its place in the manifest)? 0: yes; changes nothing; may be left out */
WEFT_EXPORT(weft_block_check) int32_t weft_block_check(void *self, uint32_t parameter, const weft_value *value);
/* the parameter has this value now: once for each when the block is made, and whenever it is set, or an interface's number is another;
 * may be left out */
WEFT_EXPORT(weft_block_set) void weft_block_set(void *self, uint32_t parameter, const weft_value *value);
/* writes its state, at most `room` bytes, and returns how many; may be left out if the manifest has no state_version. Counters and
 * timers are handed over by weft itself */
WEFT_EXPORT(weft_block_export) uint32_t weft_block_export(void *self, uint8_t *bytes, uint32_t room);
/* takes over state that was exported by a block of this state_version; 0: done, else nothing has changed */
WEFT_EXPORT(weft_block_import) int32_t weft_block_import(void *self, uint32_t version, const uint8_t *bytes, uint32_t length);

/* which of these subflows, from 0, gets the next data (set question->from and question->bytes); negative: none now. Needed if the manifest
 * has [scheduler]. The same question has the same answer: only question->memory is to change from call to call. Is called again until it
 * says "none", or nothing is left to give; it may not say so while data waits, nothing is in flight on any of the subflows, and one has
 * room. What it calls of weft_... has no effect, and weft_random() has the same numbers each time */
WEFT_EXPORT(weft_block_schedule) int32_t weft_block_schedule(void *self, weft_question *question, const weft_subflow *subflows,
                                                             uint32_t count);

/* ---- what a block may call ---- */

#ifdef __wasm__
/* the node's time, ns; does not move within a call */
WEFT_IMPORT(now) uint64_t weft_now(void);
/* a random number, from the block's own stream: in virtual time the same in every run */
WEFT_IMPORT(random) uint64_t weft_random(void);
/* calls weft_block_timer(self, token) after so many ns; replaces an earlier setting */
WEFT_IMPORT(set_timer) void weft_set_timer(uint64_t token, uint64_t delay_ns);
WEFT_IMPORT(cancel_timer) void weft_cancel_timer(uint64_t token);
/* adds to a counter: its place in the manifest */
WEFT_IMPORT(count) void weft_count(uint32_t counter, uint64_t by);
/* gives out a frame that the block made (its bytes are copied), before those that it forwards */
WEFT_IMPORT(emit) void weft_emit(uint32_t port, const weft_frame *frame);
/* raises the alert `said`, for `weft subscribe` */
WEFT_IMPORT(say) void weft_say(const char *text, uint32_t length);
#else
typedef struct weft_host {
    uint32_t interface; /* WEFT_BLOCK_INTERFACE */
    uint32_t reserved;
    uint64_t (*now)(void);
    uint64_t (*random)(void);
    void (*set_timer)(uint64_t token, uint64_t delay_ns);
    void (*cancel_timer)(uint64_t token);
    void (*count)(uint32_t counter, uint64_t by);
    void (*emit)(uint32_t port, const weft_frame *frame);
    void (*say)(const char *text, uint32_t length);
} weft_host;
/* WEFT_BLOCK_INTERFACE, which weft reads in the file before anything of it runs; WEFT_BLOCK(manifest) defines it */
WEFT_EXPORT(weft_block_interface_number) extern const uint32_t weft_block_interface_number;
/* called once, before everything else but constructors and weft_block_interface; WEFT_BLOCK(manifest) defines it */
WEFT_EXPORT(weft_block_host) void weft_block_host(const weft_host *host);
extern const weft_host *weft_the_host;
static inline uint64_t weft_now(void) { return weft_the_host->now(); }
static inline uint64_t weft_random(void) { return weft_the_host->random(); }
static inline void weft_set_timer(uint64_t token, uint64_t delay_ns) { weft_the_host->set_timer(token, delay_ns); }
static inline void weft_cancel_timer(uint64_t token) { weft_the_host->cancel_timer(token); }
static inline void weft_count(uint32_t counter, uint64_t by) { weft_the_host->count(counter, by); }
static inline void weft_emit(uint32_t port, const weft_frame *frame) { weft_the_host->emit(port, frame); }
static inline void weft_say(const char *text, uint32_t length) { weft_the_host->say(text, length); }
#endif

/* Once in a block's source: WEFT_BLOCK("name = \"mine\"\n" ...). */
#ifdef __wasm__
#define WEFT_BLOCK_HOST
#else
#define WEFT_BLOCK_HOST                                                          \
    const uint32_t weft_block_interface_number = WEFT_BLOCK_INTERFACE;           \
    const weft_host *weft_the_host;                                              \
    void weft_block_host(const weft_host *host) { weft_the_host = host; }
#endif
#define WEFT_BLOCK(manifest)                                                     \
    WEFT_BLOCK_HOST                                                              \
    uint32_t weft_block_interface(void) { return WEFT_BLOCK_INTERFACE; }         \
    const char *weft_block_manifest(void) { return manifest; }

#ifdef __cplusplus
}
#endif
#endif
