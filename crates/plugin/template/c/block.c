/* The block NAME: lets frames through, and drops every so many of them. Make of it what you need; docs/plugins.md of weft's repository is the reference. */

#include "weft-block.h"

WEFT_BLOCK(
    "name = \"NAME\"\n"
    "version = \"0.1.0\"\n"
    "summary = \"lets frames through, and drops every so many\"\n"
    "state_version = 1\n"
    /* It does not look into frames. Leave this out to see all of them. */
    "bytes_max = 0\n"
    "[[input]]\n"
    "name = \"in\"\n"
    "carries = \"any\"\n"
    "doc = \"any frames\"\n"
    "[[output]]\n"
    "name = \"out\"\n"
    "carries = \"any\"\n"
    "doc = \"those that are not dropped\"\n"
    "[[parameter]]\n"
    "name = \"drop_every\"\n"
    "type = \"unsigned\"\n"
    "default = 0\n"
    "live = true\n"
    "doc = \"drop one of so many frames; 0: none\"\n"
    "[[counter]]\n"
    "name = \"Seen\"\n"
    "text = \"frames that came in\"\n"
    "[[drop]]\n"
    "name = \"Turn\"\n"
    "text = \"it was their turn\"\n")

struct block {
    uint64_t drop_every;
    uint64_t seen;
};

/* WebAssembly has a memory of its own for each block, so one is enough; native objects need one for each block. */
#ifdef __wasm__
static struct block the_block;
void *weft_block_new(void) { return &the_block; }
#else
#include <stdlib.h>
void *weft_block_new(void) { return calloc(1, sizeof(struct block)); }
void weft_block_free(void *self) { free(self); }
#endif

void weft_block_set(void *self, uint32_t parameter, const weft_value *value) {
    if (parameter == 0) ((struct block *)self)->drop_every = value->number;
}

void weft_block_process(void *self, uint32_t input, weft_frame *frames, uint32_t count) {
    struct block *block = self;
    (void)input;
    for (uint32_t at = 0; at < count; at++) {
        block->seen++;
        int turn = block->drop_every != 0 && block->seen % block->drop_every == 0;
        frames[at].verdict = turn ? WEFT_DROP(0) : WEFT_FORWARD(0);
    }
    weft_count(0, count);
}

/* What a new build takes over: 8 bytes, how many frames it has seen. */
uint32_t weft_block_export(void *self, uint8_t *bytes, uint32_t room) {
    if (room < 8) return 0;
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(((struct block *)self)->seen >> (8 * i));
    return 8;
}

int32_t weft_block_import(void *self, uint32_t version, const uint8_t *bytes, uint32_t length) {
    if (version != 1 || length != 8) return 1;
    uint64_t seen = 0;
    for (int i = 0; i < 8; i++) seen |= (uint64_t)bytes[i] << (8 * i);
    ((struct block *)self)->seen = seen;
    return 0;
}
