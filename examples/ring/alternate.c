/* Sends alternate packets left and right. The block of docs/tutorial-ring.md, as WebAssembly or as a native object. */

#include "weft-block.h"

WEFT_BLOCK(
    "name = \"alternate-c\"\n"
    "version = \"1.0.0\"\n"
    "summary = \"sends alternate packets left and right (written in C)\"\n"
    "doc = \"Stands after IP, in ip4:lower -> arp:upper. IPv4 packets that go to `left` or `right` are sent to both by turns.\"\n"
    "state_version = 1\n"
    "bytes_max = 0\n"
    "[[input]]\n"
    "name = \"in\"\n"
    "carries = \"link\"\n"
    "doc = \"packets from IP\"\n"
    "[[output]]\n"
    "name = \"out\"\n"
    "carries = \"link\"\n"
    "doc = \"the same packets\"\n"
    "[[parameter]]\n"
    "name = \"left\"\n"
    "type = \"interface\"\n"
    "default = \"left\"\n"
    "live = true\n"
    "doc = \"the interface to the left\"\n"
    "[[parameter]]\n"
    "name = \"left_gateway\"\n"
    "type = \"address\"\n"
    "default = \"\"\n"
    "live = true\n"
    "doc = \"the neighbour there\"\n"
    "[[parameter]]\n"
    "name = \"right\"\n"
    "type = \"interface\"\n"
    "default = \"right\"\n"
    "live = true\n"
    "doc = \"the interface to the right\"\n"
    "[[parameter]]\n"
    "name = \"right_gateway\"\n"
    "type = \"address\"\n"
    "default = \"\"\n"
    "live = true\n"
    "doc = \"the neighbour there\"\n"
    "[[counter]]\n"
    "name = \"Left\"\n"
    "text = \"packets sent left\"\n"
    "[[counter]]\n"
    "name = \"Right\"\n"
    "text = \"packets sent right\"\n")

enum { LEFT, RIGHT };

struct way {
    uint32_t interface;
    uint32_t family;
    uint8_t gateway[16];
};

/* WebAssembly has a memory of its own for each block, so one is enough; native objects need one for each block. */
struct alternate {
    struct way ways[2];
    uint8_t next;
};

#ifdef __wasm__
static struct alternate the_block;
void *weft_block_new(void) { return &the_block; }
#else
#include <stdlib.h>
void *weft_block_new(void) { return calloc(1, sizeof(struct alternate)); }
void weft_block_free(void *self) { free(self); }
#endif

void weft_block_set(void *self, uint32_t parameter, const weft_value *value) {
    struct way *way = &((struct alternate *)self)->ways[parameter / 2];
    if (parameter % 2 == 0) {
        way->interface = (uint32_t)value->number;
        return;
    }
    way->family = value->family;
    for (int i = 0; i < 16; i++) way->gateway[i] = value->address[i];
}

void weft_block_process(void *self, uint32_t input, weft_frame *frames, uint32_t count) {
    struct alternate *block = self;
    (void)input;
    for (uint32_t at = 0; at < count; at++) {
        weft_frame *frame = &frames[at];
        frame->verdict = WEFT_FORWARD(0);
        int goes_around = frame->interface == block->ways[LEFT].interface || frame->interface == block->ways[RIGHT].interface;
        const struct way *way = &block->ways[block->next];
        if (frame->ether_type != 0x0800 || !frame->egress || !goes_around || way->interface == 0 || way->family != 4) continue;
        frame->interface = way->interface;
        frame->next_hop_family = 4;
        for (int i = 0; i < 16; i++) frame->next_hop[i] = way->gateway[i];
        frame->edited = WEFT_EDITED_META;
        weft_count(block->next, 1);
        block->next = !block->next;
    }
}

/* The state is whose turn it is: a new build goes on where the old one was. */
uint32_t weft_block_export(void *self, uint8_t *bytes, uint32_t room) {
    if (room < 1) return 0;
    bytes[0] = ((struct alternate *)self)->next;
    return 1;
}

int32_t weft_block_import(void *self, uint32_t version, const uint8_t *bytes, uint32_t length) {
    if (version != 1 || length != 1 || bytes[0] > RIGHT) return 1;
    ((struct alternate *)self)->next = bytes[0];
    return 0;
}
