/* Tests of NAME.c without weft: what the block may call is made here. `make test` runs them. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "weft-block.h"

static uint64_t counted;
static uint64_t now(void) { return 0; }
static uint64_t random_number(void) { return 4; }
static void set_timer(uint64_t token, uint64_t delay_ns) { (void)token; (void)delay_ns; }
static void cancel_timer(uint64_t token) { (void)token; }
static void count(uint32_t counter, uint64_t by) { assert(counter == 0); counted += by; }
static void emit(uint32_t port, const weft_frame *frame) { (void)port; (void)frame; }
static void say(const char *text, uint32_t length) { fwrite(text, 1, length, stderr); }
static const weft_host host = {WEFT_BLOCK_INTERFACE, 0, now, random_number, set_timer, cancel_timer, count, emit, say};

int main(void) {
    weft_block_host(&host);
    assert(weft_block_interface() == WEFT_BLOCK_INTERFACE);
    assert(strstr(weft_block_manifest(), "name = \"NAME\""));
    void *block = weft_block_new();
    weft_value every = {.text = "3", .length = 1, .number = 3};
    weft_block_set(block, 0, &every);
    weft_frame frames[4];
    memset(frames, 0, sizeof frames);
    weft_block_process(block, 0, frames, 4);
    assert(frames[0].verdict == WEFT_FORWARD(0) && frames[1].verdict == WEFT_FORWARD(0));
    assert(frames[2].verdict == WEFT_DROP(0) && frames[3].verdict == WEFT_FORWARD(0));
    assert(counted == 4);

    /* Another one takes over: the next but one is the sixth. */
    uint8_t state[64];
    uint32_t length = weft_block_export(block, state, sizeof state);
    void *other = weft_block_new();
    assert(weft_block_import(other, 2, state, length) != 0);
    assert(weft_block_import(other, 1, state, length) == 0);
    weft_block_set(other, 0, &every);
    weft_block_process(other, 0, frames, 2);
    assert(frames[0].verdict == WEFT_FORWARD(0) && frames[1].verdict == WEFT_DROP(0));
    weft_block_free(block);
    weft_block_free(other);
    puts("NAME: all tests passed");
    return 0;
}
