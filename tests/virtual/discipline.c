/* settimeofday, clock_settime, adjtimex and clock_adjtime, and every way to read a clock. See discipline.h. */
#include "discipline.h"

/* What is refused, and with what. */
static void part_refused(void)
{
    char *nowhere = (char *)8;
    int clocks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 100, -1, -2, -3, -4, -5, -6, (~0 << 3) | 2, (~0 << 3) | 6, (~999999 << 3) | 2};
    for (unsigned at = 0; at < sizeof clocks / sizeof *clocks; at++) {
        struct timespec good = spec(real()), bad = {-1, 0};
        struct timex t = {.modes = 0};
        printf("clock %d:", clocks[at]);
        long result = syscall(SYS_clock_settime, clocks[at], nowhere);
        printf(" %s", came(result));
        result = syscall(SYS_clock_settime, clocks[at], &bad);
        printf(" %s", came(result));
        result = syscall(SYS_clock_settime, clocks[at], &good);
        printf(" %s", came(result));
        result = syscall(SYS_clock_adjtime, clocks[at], nowhere);
        printf(", %s", came(result));
        result = syscall(SYS_clock_adjtime, clocks[at], &t);
        printf(" %s\n", came(result));
    }
    long limit = 9223372036L - 30L * 365 * 86400;
    struct timespec dates[] = {{0, 0}, {1, 0}, {-1, 0}, {0, -1}, {2000000000, 1000000000}, {2000000000, 999999999}, {2000000000, -1}, {9223372036L, 0}, {limit, 0},
                               {INT64_MAX, 0}, {INT64_MIN, 0}, {show(CLOCK_MONOTONIC) / SECOND - 1, 0}};
    for (unsigned at = 0; at < sizeof dates / sizeof *dates; at++) {
        ns before = real(), own = mono();
        long result = syscall(SYS_clock_settime, 0, &dates[at]);
        ns moved = real() - before - (mono() - own);
        printf("date %u: %s, %s\n", at, came(result), moved / MS ? "moved" : "stays");
        step(-moved);
        struct timeval old = {dates[at].tv_sec, dates[at].tv_nsec / 1000};
        before = real(), own = mono();
        result = syscall(SYS_settimeofday, &old, 0);
        moved = real() - before - (mono() - own);
        printf("the same with microseconds: %s, %s\n", came(result), moved / MS ? "moved" : "stays");
        step(-moved);
    }
    struct timeval odd[] = {{2000000000, 1000000}, {2000000000, 1000001}, {2000000000, -1}};
    for (int at = 0; at < 3; at++) {
        long result = syscall(SYS_settimeofday, &odd[at], 0);
        printf("odd %d: %s\n", at, came(result));
    }
    long result = syscall(SYS_settimeofday, nowhere, 0);
    printf("settimeofday nowhere %s", came(result));
    result = syscall(SYS_settimeofday, 0, nowhere);
    printf(" %s", came(result));
    result = syscall(SYS_settimeofday, 0, 0);
    printf(" %s", came(result));
    struct timezone zone = {15 * 60 + 1, 0};
    result = syscall(SYS_settimeofday, 0, &zone);
    printf(" %s", came(result));
    zone.tz_minuteswest = -15 * 60 - 1;
    result = syscall(SYS_settimeofday, 0, &zone);
    printf(" %s\n", came(result));
    result = syscall(SYS_adjtimex, nowhere);
    printf("adjtimex nowhere %s\n", came(result));
    struct { const char *name; struct timex t; } rows[] = {
        {"tick too short", {.modes = ADJ_TICK, .tick = 8999}}, {"shortest", {.modes = ADJ_TICK, .tick = 9000}}, {"longest", {.modes = ADJ_TICK, .tick = 11000}},
        {"tick too long", {.modes = ADJ_TICK, .tick = 11001}}, {"tick", {.modes = ADJ_TICK, .tick = 10000}},
        {"micros below", {.modes = ADJ_SETOFFSET, .time = {0, -1}}}, {"micros above", {.modes = ADJ_SETOFFSET, .time = {0, 1000000}}},
        {"nanos above", {.modes = ADJ_SETOFFSET | ADJ_NANO, .time = {0, 1000000000}}}, {"before the boot", {.modes = ADJ_SETOFFSET, .time = {-9000000000, 0}}},
        {"too late", {.modes = ADJ_SETOFFSET, .time = {9223372036, 0}}}, {"far too late", {.modes = ADJ_SETOFFSET, .time = {INT64_MAX, 0}}},
        {"far too early", {.modes = ADJ_SETOFFSET, .time = {INT64_MIN, 0}}},
        {"frequency overflows", {.modes = ADJ_FREQUENCY, .freq = INT64_MAX}}, {"and below", {.modes = ADJ_FREQUENCY, .freq = INT64_MIN}},
        {"adjtime and more", {.modes = 0x8000}}, {"adjtime", {.modes = ADJ_OFFSET_SINGLESHOT, .offset = 7}},
        {"adjtime read", {.modes = ADJ_OFFSET_SS_READ}}, {"adjtime off", {.modes = ADJ_OFFSET_SINGLESHOT, .offset = 0}},
        {"adjtime and a step", {.modes = ADJ_OFFSET_SINGLESHOT | ADJ_SETOFFSET, .offset = 0, .time = {0, -1}}},
        {"unknown modes", {.modes = 0x0e00}}, {"tai", {.modes = ADJ_TAI, .constant = 37}}, {"tai below", {.modes = ADJ_TAI, .constant = -1}},
        {"tai above", {.modes = ADJ_TAI, .constant = 100001}}, {"no tai", {.modes = ADJ_TAI, .constant = 0}},
    };
    for (int round = 0; round < 2; round++) {
        if (round && setuid(1000))
            return;
        for (unsigned at = 0; at < sizeof rows / sizeof *rows; at++) {
            struct timex t = rows[at].t;
            result = adjtimex(&t);
            printf("%s: %s %ld, offset %ld tick %ld tai %d modes %x\n", rows[at].name, came(result), result, t.offset, t.tick, t.tai, t.modes);
        }
        struct timex t = {.modes = 0};
        result = adjtimex(&t);
        printf("read: %ld\n", result);
    }
    struct timespec good = spec(real()), bad = {-1, 0};
    struct timeval coarse = {real() / SECOND, 0};
    result = clock_settime(0, &good);
    printf("nobody: %s", came(result));
    result = clock_settime(0, &bad);
    printf(" %s", came(result));
    result = syscall(SYS_settimeofday, &coarse, 0);
    printf(" %s", came(result));
    zone = (struct timezone){0, 0};
    result = syscall(SYS_settimeofday, 0, &zone);
    printf(" %s", came(result));
    zone.tz_minuteswest = 5000;
    result = syscall(SYS_settimeofday, 0, &zone);
    printf(" %s", came(result));
    result = syscall(SYS_settimeofday, 0, 0);
    printf(" %s\n", came(result));
}

/* settimeofday's zone. */
static void part_zone(void)
{
    struct timezone zone = {-60, 7}, got;
    struct timeval now;
    ns before = real(), own = mono();
    printf("zone %s", came(syscall(SYS_settimeofday, 0, &zone)));
    printf(", the first sets the clock by %ld", hundredths(real() - before - (mono() - own)) / 100);
    syscall(SYS_gettimeofday, &now, &got);
    printf(", %d %d", got.tz_minuteswest, got.tz_dsttime);
    gettimeofday(&now, &got);
    printf(", %d %d", got.tz_minuteswest, got.tz_dsttime);
    zone.tz_minuteswest = 120;
    before = real(), own = mono();
    printf(", another %s", came(syscall(SYS_settimeofday, 0, &zone)));
    printf(" by %ld\n", hundredths(real() - before - (mono() - own)) / 100);
}

static void tell(const char *what, int result, const struct timex *t)
{
    printf("%s: %d, offset %ld freq %ld maxerror %ld esterror %ld status %x constant %ld precision %ld tolerance %ld tick %ld tai %d zero %ld %ld %d %ld %ld %ld %ld %ld\n",
           what, result, t->offset, t->freq, t->maxerror, t->esterror, t->status, t->constant, t->precision, t->tolerance, t->tick, t->tai, t->ppsfreq, t->jitter,
           t->shift, t->stabil, t->jitcnt, t->calcnt, t->errcnt, t->stbcnt);
}

/* The words of adjtimex, one after the other. */
static void part_words(void)
{
    struct timex t;
    fresh();
    middle();
    memset(&t, 0x11, sizeof t);
    tell("read", adjust(&t, 0), &t);
    long freqs[] = {65536, -65536, 1, -1, 12345678, 500 << 16, (500 << 16) + 1, 600 << 16, -(600 << 16), 3276800, 0};
    for (unsigned at = 0; at < sizeof freqs / sizeof *freqs; at++) {
        t.freq = freqs[at];
        tell("frequency", adjust(&t, ADJ_FREQUENCY), &t);
    }
    long errors[] = {0, 1, -1, 16000000, 16000001, 123456};
    for (unsigned at = 0; at < sizeof errors / sizeof *errors; at++) {
        t.maxerror = t.esterror = errors[at];
        tell("errors", adjust(&t, ADJ_MAXERROR | ADJ_ESTERROR), &t);
    }
    int states[] = {STA_PLL, STA_PLL | STA_FLL, STA_PLL | STA_FREQHOLD, STA_PPSFREQ, STA_PPSTIME, STA_INS, STA_DEL, 0, 0xffff, STA_PLL | STA_NANO, STA_UNSYNC, 0};
    for (unsigned at = 0; at < sizeof states / sizeof *states; at++) {
        t.status = states[at];
        tell("status", adjust(&t, ADJ_STATUS), &t);
    }
    long constants[] = {0, 6, 7, 10, 11, -1, 2};
    for (int nano = 0; nano < 2; nano++)
        for (unsigned at = 0; at < sizeof constants / sizeof *constants; at++) {
            t.constant = constants[at];
            tell("constant", adjust(&t, ADJ_TIMECONST | (nano ? ADJ_NANO : ADJ_MICRO)), &t);
        }
    t.status = STA_PLL;
    adjust(&t, ADJ_STATUS | ADJ_MICRO);
    long offsets[] = {1000, -1000, 1, -1, 499999, 500001, 2000000, -2000000, 0};
    for (int nano = 0; nano < 2; nano++)
        for (unsigned at = 0; at < sizeof offsets / sizeof *offsets; at++) {
            t.offset = offsets[at] * (nano ? 777 : 1);
            tell("offset", adjust(&t, ADJ_OFFSET | (nano ? ADJ_NANO : ADJ_MICRO)), &t);
        }
    t.status = 0;
    tell("no PLL", adjust(&t, ADJ_STATUS | ADJ_MICRO), &t);
    t.offset = 5000;
    tell("offset without PLL", adjust(&t, ADJ_OFFSET), &t);
    t.constant = 37;
    tell("tai", adjust(&t, ADJ_TAI), &t);
    printf("tai is %lld ahead\n", (show(CLOCK_TAI) - real() + SECOND / 2) / SECOND);
    /* A step takes back what is disciplined, but not the rate. */
    t.status = STA_PLL, t.offset = 100000, t.freq = 65536 * 20, t.tick = 10001;
    adjust(&t, ADJ_STATUS | ADJ_OFFSET | ADJ_FREQUENCY | ADJ_TICK | ADJ_MAXERROR);
    adjust(&t, 0);
    tell("before a step", 0, &t);
    step(5 * SECOND);
    tell("behind a step", adjust(&t, 0), &t);
    t.time.tv_sec = -5, t.time.tv_usec = 0;
    tell("set back", adjust(&t, ADJ_SETOFFSET), &t);
    ns before = real(), own = mono();
    t.time.tv_sec = 1, t.time.tv_usec = 500000000;
    tell("set on", adjust(&t, ADJ_SETOFFSET | ADJ_NANO), &t);
    printf("by %ld\n", hundredths(real() - before - (mono() - own)));
    t.time.tv_sec = -2, t.time.tv_usec = 500000;
    adjust(&t, ADJ_SETOFFSET | ADJ_MICRO);
    printf("and back %ld\n", hundredths(real() - before - (mono() - own)));
    fresh();
}

/* What seconds do: errors that grow, the phase, adjtime. */
static void part_seconds(void)
{
    struct timex t = {0};
    fresh();
    middle();
    t.maxerror = 1000, t.status = 0;
    adjust(&t, ADJ_MAXERROR | ADJ_STATUS);
    for (int second = 0; second < 3; second++) {
        rest(SECOND);
        tell("a second", adjust(&t, 0), &t);
    }
    t.maxerror = 16000000 - 700;
    adjust(&t, ADJ_MAXERROR);
    for (int second = 0; second < 3; second++) {
        rest(SECOND);
        tell("too far off", adjust(&t, 0), &t);
    }
    fresh();
    middle();
    t.status = STA_PLL, t.constant = 2;
    adjust(&t, ADJ_STATUS | ADJ_TIMECONST | ADJ_NANO);
    t.offset = 100000;
    adjust(&t, ADJ_OFFSET | ADJ_NANO);
    for (int second = 0; second < 6; second++) {
        rest(SECOND);
        tell("phase", adjust(&t, 0), &t);
    }
    /* The loop: another offset some seconds later changes the frequency. */
    t.offset = -50000000;
    tell("loop", adjust(&t, ADJ_OFFSET), &t);
    rest(10 * SECOND);
    tell("and on", adjust(&t, 0), &t);
    t.offset = 20000;
    tell("loop", adjust(&t, ADJ_OFFSET), &t);
    rest(300 * SECOND);
    t.offset = 30000, t.status = STA_PLL | STA_FLL;
    tell("frequency loop", adjust(&t, ADJ_OFFSET | ADJ_STATUS), &t);
    rest(20 * SECOND);
    tell("frequency loop, and on", adjust(&t, 0), &t);
    fresh();
    middle();
    t.offset = 1800;
    adjust(&t, ADJ_OFFSET_SINGLESHOT);
    for (int second = 0; second < 5; second++) {
        int result = adjust(&t, ADJ_OFFSET_SS_READ);
        printf("left %ld: %d\n", t.offset, result);
        rest(SECOND);
    }
    t.offset = -700;
    adjust(&t, ADJ_OFFSET_SINGLESHOT);
    for (int second = 0; second < 3; second++) {
        adjust(&t, ADJ_OFFSET_SS_READ);
        printf("left %ld\n", t.offset);
        rest(SECOND);
    }
    fresh();
}

/* Whatever is asked for, at random. */
static uint64_t drawn = 20300101;
static uint64_t draw(uint64_t below)
{
    drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
    return (drawn >> 33) % below;
}
static long any(long most)
{
    const long odd[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_MAX / 2, 1L << 32, -(1L << 32), 500000, -500000, 32768000, -32768000};
    return draw(8) ? (long)draw(2 * most + 1) - most : odd[draw(sizeof odd / sizeof *odd)];
}
static void part_random(void)
{
    fresh();
    stay_awake();
    for (int round = 0; round < 40; round++) {
        middle();
        for (int at = 0; at < 20; at++) {
            const int bits[] = {ADJ_OFFSET, ADJ_FREQUENCY, ADJ_MAXERROR, ADJ_ESTERROR, ADJ_STATUS, ADJ_TIMECONST, ADJ_TAI, ADJ_MICRO, ADJ_NANO, ADJ_TICK, ADJ_SETOFFSET};
            struct timex t = {.offset = any(1000000), .freq = any(40000000), .maxerror = any(20000000), .esterror = any(20000000), .status = any(70000),
                              .constant = any(20), .tick = draw(4) ? 10000 + (long)draw(3) - 1 : any(12000), .tai = 5};
            for (int bit = 0; bit < (int)(sizeof bits / sizeof *bits); bit++)
                t.modes |= draw(3) ? 0 : bits[bit];
            if (draw(8) == 0)
                t.modes = draw(2) ? ADJ_OFFSET_SINGLESHOT : draw(2) ? ADJ_OFFSET_SS_READ : draw(65536);
            /* Leap seconds have a part of their own, and the boot is not at the same time for all. */
            t.status &= ~(STA_INS | STA_DEL);
            t.time.tv_sec = draw(4) ? (long)draw(200) - 100 : draw(2) ? 9000000000 : -9000000000;
            t.time.tv_usec = draw(4) ? 0 : any(2000000) | 1L << 40;
            int modes = t.modes, result = adjtimex(&t);
            printf("%x: %d %s", modes, result, came(result));
            tell("", result, &t);
        }
    }
    fresh();
    may_sleep();
}

/* How fast the clock runs. */
static void part_rates(void)
{
    struct timex t = {0};
    stay_awake();
    fresh();
    printf("as the crystal %ld\n", ppm(10 * SECOND));
    long freqs[] = {100 << 16, -(500 << 16), 500 << 16};
    for (int at = 0; at < 3; at++) {
        t.freq = freqs[at];
        adjust(&t, ADJ_FREQUENCY);
        printf("frequency %ld: %ld\n", freqs[at] >> 16, ppm(10 * SECOND));
    }
    t.freq = 0, t.tick = 10100;
    adjust(&t, ADJ_FREQUENCY | ADJ_TICK);
    printf("tick 10100: %ld\n", ppm(10 * SECOND));
    t.tick = 9000;
    adjust(&t, ADJ_TICK);
    printf("tick 9000: %ld\n", ppm(10 * SECOND));
    t.tick = 11000, t.freq = 500 << 16;
    adjust(&t, ADJ_TICK | ADJ_FREQUENCY);
    printf("fastest: %ld\n", ppm(10 * SECOND));
    fresh();
    middle();
    t.offset = 100000;
    adjust(&t, ADJ_OFFSET_SINGLESHOT);
    rest(SECOND);
    printf("adjtime on: %ld\n", ppm(10 * SECOND));
    t.offset = -100000;
    adjust(&t, ADJ_OFFSET_SINGLESHOT);
    rest(SECOND);
    printf("adjtime back: %ld\n", ppm(10 * SECOND));
    fresh();
    middle();
    t.offset = 100;
    adjust(&t, ADJ_OFFSET_SINGLESHOT);
    rest(SECOND / 4);
    ns raw = show(CLOCK_MONOTONIC_RAW), own = mono();
    rest(3 * SECOND);
    ns gained = mono() - own - (show(CLOCK_MONOTONIC_RAW) - raw);
    printf("adjtime of 100 us gains %lld us\n", (gained + 25000) / 50000 * 50);
    fresh();
    middle();
    t.status = STA_PLL | STA_FREQHOLD, t.constant = 0;
    adjust(&t, ADJ_STATUS | ADJ_TIMECONST | ADJ_NANO);
    t.offset = 10000000;
    adjust(&t, ADJ_OFFSET);
    rest(SECOND / 4);
    for (int second = 0; second < 3; second++) {
        raw = show(CLOCK_MONOTONIC_RAW), own = mono();
        rest(SECOND);
        gained = mono() - own - (show(CLOCK_MONOTONIC_RAW) - raw);
        printf("phase of 10 ms gains %lld us\n", (gained + 50000) / 100000 * 100);
    }
    fresh();
    may_sleep();
}

/* A leap second comes and goes. */
static void leaps(int status)
{
    struct timex t = {0};
    fresh();
    ns midnight = 1924992000 * SECOND;
    set(midnight - 4 * SECOND - SECOND / 2);
    t.status = STA_PLL | status;
    printf("asked for: %d\n", adjust(&t, ADJ_STATUS | ADJ_MICRO));
    t.constant = 30;
    adjust(&t, ADJ_TAI);
    for (int round = 0; round < 8; round++) {
        rest(SECOND);
        int result = adjust(&t, 0);
        ns date = real();
        printf("%d: told %ld.%02ld tai %d, clock %lld.%02lld, tai clock %lld, status %x\n", result, t.time.tv_sec - 1924992000, t.time.tv_usec / 10000, t.tai,
               (date - midnight + 86400 * SECOND) / SECOND, date % SECOND / (10 * MS), (show(CLOCK_TAI) - midnight + 86400 * SECOND) / SECOND, t.status);
    }
    t.status = STA_PLL;
    adjust(&t, ADJ_STATUS);
    rest(SECOND);
    printf("over: %d\n", adjust(&t, 0));
    fresh();
}
static void part_leap(void)
{
    leaps(STA_INS);
    leaps(STA_DEL);
}

/* Reading: between two looks at a clock, whichever way shows what the clock does, to what it has of it. */
static ns at_first;
static void shows(const char *what, ns value, clockid_t clock, ns part)
{
    ns now = show(clock), least = at_first / part * part;
    if (value < least || value > now)
        printf("%s: %lld is not from %lld to %lld\n", what, value, least, now), failing = 1;
}
static ns raw_show(clockid_t clock)
{
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}
static ns number_in(const char *file, const char *before, ns unit)
{
    char text[8192];
    int fd = open(file, O_RDONLY);
    long bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *at = strstr(text, before);
    return at ? (ns)(strtod(at + strlen(before), 0) * (SECOND / unit) + 0.5) * unit : -1;
}
static ns left_of(int fd)
{
    struct itimerspec left;
    timerfd_gettime(fd, &left);
    return left.it_value.tv_sec * SECOND + left.it_value.tv_nsec;
}
static void readings(void)
{
    struct timespec t;
    struct timeval v;
    struct timex x = {.modes = 0};
    struct sysinfo info;
    const clockid_t dates[] = {CLOCK_REALTIME, CLOCK_REALTIME_ALARM}, ups[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_BOOTTIME_ALARM};
    for (int at = 0; at < 2 && show(dates[at]) >= 0; at++) {
        at_first = real(), shows("a date", show(dates[at]), 0, 1);
        at_first = real(), shows("a date, by a call", raw_show(dates[at]), 0, 1);
    }
    /* A machine without a battery's clock has none of the alarms. */
    for (int at = 0; at < 3 && show(ups[at]) >= 0; at++) {
        at_first = mono(), shows("since the boot", show(ups[at]), 1, 1);
        at_first = mono(), shows("since the boot, by a call", raw_show(ups[at]), 1, 1);
    }
    at_first = show(4), shows("raw, by a call", raw_show(4), 4, 1);
    at_first = raw_show(4), shows("raw", show(4), 4, 1);
    at_first = real(), shows("coarse", show(CLOCK_REALTIME_COARSE), 0, 10 * MS);
    at_first = mono(), shows("coarse monotonic", show(CLOCK_MONOTONIC_COARSE), 1, 10 * MS);
    adjtimex(&x);
    at_first = real(), shows("tai", show(CLOCK_TAI) - x.tai * SECOND, 0, 1);
    at_first = real(), gettimeofday(&v, 0), shows("gettimeofday", v.tv_sec * SECOND + v.tv_usec * 1000, 0, 1000);
    at_first = real(), syscall(SYS_gettimeofday, &v, 0), shows("gettimeofday by a call", v.tv_sec * SECOND + v.tv_usec * 1000, 0, 1000);
    at_first = real(), shows("time", time(0) * SECOND, 0, SECOND);
    at_first = real(), shows("time by a call", syscall(SYS_time, 0) * SECOND, 0, SECOND);
    at_first = real(), adjtimex(&x), shows("adjtimex", x.time.tv_sec * SECOND + x.time.tv_usec * (x.status & STA_NANO ? 1 : 1000), 0, 1000);
    /* The second that has begun. */
    at_first = mono(), sysinfo(&info), shows("sysinfo", (info.uptime - 1) * SECOND, 1, SECOND);
    at_first = mono(), shows("/proc/uptime", number_in("/proc/uptime", "", 10 * MS), 1, 10 * MS);
    int fd = timerfd(CLOCK_REALTIME, TFD_TIMER_ABSTIME, real() + 3600 * SECOND, 0);
    ns until = real() + 1800 * SECOND;
    struct itimerspec times = {{0, 0}, spec(until)};
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &times, 0);
    at_first = real(), shows("timerfd", until - left_of(fd), 0, 1);
    step(-7 * SECOND);
    at_first = real(), shows("timerfd behind a step", until - left_of(fd), 0, 1);
    step(7 * SECOND);
    close(fd);
    until = mono() + 1800 * SECOND, fd = timerfd(CLOCK_MONOTONIC, TFD_TIMER_ABSTIME, until, 0);
    at_first = mono(), shows("timerfd monotonic", until - left_of(fd), 1, 1);
    step(-7 * SECOND);
    at_first = mono(), shows("timerfd monotonic behind a step", until - left_of(fd), 1, 1);
    step(7 * SECOND);
    close(fd);
    /* What does not tick: how far they are from each other. */
    ns apart = real() - mono(), booted = number_in("/proc/stat", "btime ", SECOND);
    if (booted > apart + 10000 || booted < apart - SECOND - 10000)
        printf("btime %lld, and booted at %lld\n", booted, apart), failing = 1;
    clock_getres(CLOCK_REALTIME, &t);
#ifdef __x86_64__
    if (exact) {
        at_first = show(4);
        shows("rdtsc", __builtin_ia32_rdtsc(), 4, 1);
    }
#endif
}
static void part_readings(void)
{
    struct timex t = {0};
    fresh();
    readings();
    step(86400 * SECOND + 123456789);
    readings();
    step(-86400 * SECOND - 123456789);
    long ticks[] = {11000, 9000};
    for (int at = 0; at < 2; at++) {
        t.tick = ticks[at], t.freq = 12345678;
        adjust(&t, ADJ_TICK | ADJ_FREQUENCY);
        rest(1234567);
        readings();
    }
    fresh();
    t.status = STA_PLL;
    adjust(&t, ADJ_STATUS | ADJ_NANO);
    t.offset = 300000000;
    adjust(&t, ADJ_OFFSET);
    for (int second = 0; second < 3; second++)
        rest(SECOND), readings();
    fresh();
    printf("readings agree: %s\n", failing ? "no" : "yes");
}

/* When what came was there: between its sending and its reading. */
static void stamp(const char *what, int option, int value)
{
    char data[8], control[256];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bind(fd, (void *)&to, sizeof to);
    getsockname(fd, (void *)&to, &length);
    setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
    at_first = real();
    sendto(fd, "x", 1, 0, (void *)&to, sizeof to);
    struct iovec one = {data, sizeof data};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    printf("%s: %s", what, came(recvmsg(fd, &message, 0)));
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        long words[2];
        memcpy(words, CMSG_DATA(head), sizeof words);
        int micro = head->cmsg_type == SCM_TIMESTAMP;
        printf(" type %d", head->cmsg_type);
        shows(what, words[0] * SECOND + words[1] * (micro ? 1000 : 1), 0, micro ? 1000 : 1);
    }
    printf("\n");
    close(fd);
}
static void stamps(void)
{
    stamp("SO_TIMESTAMP", SO_TIMESTAMP, 1);
    stamp("SO_TIMESTAMPNS", SO_TIMESTAMPNS, 1);
    /* SOF_TIMESTAMPING_RX_SOFTWARE, SOF_TIMESTAMPING_SOFTWARE */
    stamp("SO_TIMESTAMPING", SO_TIMESTAMPING, 1 << 3 | 1 << 4);
}
static void part_stamps(void)
{
    struct timex t = {.tick = 11000};
    fresh();
    stamps();
    step(1000 * SECOND);
    stamps();
    adjust(&t, ADJ_TICK);
    rest(SECOND);
    stamps();
    fresh();
    step(-1000 * SECOND);
}

static const struct part parts[] = {
    {"readings", part_readings}, {"stamps", part_stamps}, {"refused", part_refused}, {"zone", part_zone}, {"words", part_words}, {"seconds", part_seconds}, {"random", part_random}, {"rates", part_rates}, {"leap", part_leap},
};

int main(int argc, char **argv)
{
    return run_parts(parts, sizeof parts / sizeof *parts, argc, argv);
}
