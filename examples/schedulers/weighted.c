/* A scheduler of one's own for Multipath TCP: weighted round robin. WebAssembly or a native object, from this one source. */

#include "weft-block.h"

WEFT_BLOCK(
    "name = \"weighted\"\n"
    "version = \"1.0.0\"\n"
    "summary = \"each subflow in turn, some for more segments than others\"\n"
    "[scheduler]\n"
    "[[parameter]]\n"
    "name = \"weights\"\n"
    "type = \"text\"\n"
    "default = \"1\"\n"
    "live = true\n"
    "doc = \"segments in a row: of the first subflow, the second, and so on; the last number is for those behind it, too\"\n")

enum { WEIGHTS_MAX = 8, TURN = 0, LEFT = 1 };

/* WebAssembly has a memory of its own for each block, so one is enough; native objects need one for each block. */
struct weighted {
    uint32_t count;
    uint32_t weights[WEIGHTS_MAX];
};

#ifdef __wasm__
static struct weighted only;
void *weft_block_new(void) { return &only; }
#else
#include <stdlib.h>
void *weft_block_new(void) { return calloc(1, sizeof(struct weighted)); }
void weft_block_free(void *self) { free(self); }
#endif

/* Numbers from 1 to 1000, between spaces. Returns how many there are; 0: it is something else. */
static uint32_t parse(const weft_value *value, uint32_t *weights) {
    uint32_t count = 0, number = 0;
    for (uint32_t at = 0; at <= value->length; at++) {
        char c = at < value->length ? value->text[at] : ' ';
        if (c >= '0' && c <= '9' && number < 1000) {
            number = number * 10 + (uint32_t)(c - '0');
        } else if (c == ' ' && number >= 1 && number <= 1000 && count < WEIGHTS_MAX) {
            weights[count++] = number;
            number = 0;
        } else {
            return 0;
        }
    }
    return count;
}

int32_t weft_block_check(void *self, uint32_t parameter, const weft_value *value) {
    uint32_t weights[WEIGHTS_MAX];
    (void)self, (void)parameter;
    return parse(value, weights) == 0;
}

void weft_block_set(void *self, uint32_t parameter, const weft_value *value) {
    struct weighted *block = self;
    (void)parameter;
    block->count = parse(value, block->weights);
}

int32_t weft_block_schedule(void *self, weft_question *question, const weft_subflow *subflows, uint32_t count) {
    const struct weighted *block = self;
    uint64_t *turn = &question->memory[TURN], *left = &question->memory[LEFT];
    uint32_t all_backups = 1;
    for (uint32_t at = 0; at < count; at++) all_backups &= subflows[at].backup;
    /* Whose turn it is, or who comes next, or the first. */
    int32_t next = -1, first = -1;
    for (uint32_t at = 0; at < count; at++) {
        if (subflows[at].backup != all_backups) continue;
        if (first < 0) first = (int32_t)at;
        if (next < 0 && subflows[at].index >= *turn) next = (int32_t)at;
    }
    if (next < 0) next = first;
    const weft_subflow *chosen = &subflows[next];
    /* Its congestion window is full: it is waited for, so that the shares are kept. */
    if (chosen->room_bytes == 0) return -1;
    if (chosen->index != *turn || *left == 0) {
        uint32_t last = block->count - 1;
        *turn = chosen->index;
        *left = block->weights[chosen->index < last ? chosen->index : last];
    }
    if (--*left == 0) *turn += 1;
    /* One segment. */
    question->bytes = chosen->mss_bytes > chosen->mapping_bytes ? chosen->mss_bytes - chosen->mapping_bytes : 1;
    return next;
}
