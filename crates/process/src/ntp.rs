//! How a node's clock is disciplined: the state behind adjtimex(2), as kernel/time/ntp.c of Linux 6.12 has it. It knows no clock: whoever has one says when a
//! second of it begins, and asks for the rate.

use weft_loader::abi::RATE_ONE;

/// NTP_INTERVAL_FREQ: how often a second Linux adds `tick_length` to its clock. That of the kernels that nodes of kind = "linux" have, as rounding shows it.
const INTERVALS: i64 = 1000;
/// USER_HZ: in what part of a second `tick` is.
const USER_HZ: i64 = 100;
const NANOS: i64 = 1_000_000_000;
const NANOS_PER_MICRO: i64 = 1000;
const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;
/// NTP_SCALE_SHIFT
const SCALE: u32 = 32;
const SHIFT_PLL: i64 = 2;
const SHIFT_FLL: u32 = 2;
/// MAXTC
const CONSTANT_MAX: i64 = 10;
/// MAXPHASE, in nanoseconds.
const PHASE_MAX: i64 = 500_000_000;
/// MAXFREQ, in nanoseconds a second.
const FREQUENCY_MAX: i64 = 500_000;
/// MAXFREQ_SCALED
const FREQUENCY_MAX_SCALED: i64 = FREQUENCY_MAX << SCALE;
/// NTP_PHASE_LIMIT, in microseconds.
const ERROR_MAX: i64 = (PHASE_MAX / NANOS_PER_MICRO) << 5;
/// MAX_TICKADJ, in microseconds a second.
const ADJUST_MAX: i64 = 500;
/// MAX_TAI_OFFSET
const TAI_MAX: i64 = 100_000;
/// MINSEC and MAXSEC
const FLL_SECONDS: (i64, i64) = (256, 2048);
/// PPM_SCALE, PPM_SCALE_INV_SHIFT and PPM_SCALE_INV: `freq` is in parts of a million, with 16 bits behind the point.
const PPM_SCALE: i64 = NANOS_PER_MICRO << (SCALE - 16);
const PPM_SCALE_INVERSE_SHIFT: u32 = 19;
const PPM_SCALE_INVERSE: i64 = (1 << (PPM_SCALE_INVERSE_SHIFT + SCALE)) / PPM_SCALE + 1;

/// No leap second is to come: TIME64_MAX.
const NEVER: i64 = i64::MAX;

const STA_PLL: i32 = 0x0001;
const STA_FLL: i32 = 0x0008;
const STA_INS: i32 = 0x0010;
const STA_DEL: i32 = 0x0020;
const STA_UNSYNC: i32 = 0x0040;
const STA_FREQHOLD: i32 = 0x0080;
const STA_CLOCKERR: i32 = 0x1000;
const STA_NANO: i32 = 0x2000;
const STA_MODE: i32 = 0x4000;
/// STA_PPSSIGNAL, STA_PPSJITTER, STA_PPSWANDER, STA_PPSERROR, STA_CLOCKERR, STA_NANO, STA_MODE, STA_CLK.
const STA_RONLY: i32 = 0x0100 | 0x0200 | 0x0400 | 0x0800 | STA_CLOCKERR | STA_NANO | STA_MODE | 0x8000;

const ADJ_OFFSET: u32 = 0x0001;
const ADJ_FREQUENCY: u32 = 0x0002;
const ADJ_MAXERROR: u32 = 0x0004;
const ADJ_ESTERROR: u32 = 0x0008;
const ADJ_STATUS: u32 = 0x0010;
const ADJ_TIMECONST: u32 = 0x0020;
const ADJ_TAI: u32 = 0x0080;
/// ADJ_SETOFFSET: the date is stepped.
pub(super) const ADJ_SETOFFSET: u32 = 0x0100;
const ADJ_MICRO: u32 = 0x1000;
/// ADJ_NANO: what is told is in nanoseconds.
pub(super) const ADJ_NANO: u32 = 0x2000;
const ADJ_TICK: u32 = 0x4000;
/// ADJ_ADJTIME, of adjtime(3), and what goes with it.
const ADJ_ADJTIME: u32 = 0x8000;
const ADJ_OFFSET_SINGLESHOT: u32 = 0x0001;
const ADJ_OFFSET_READONLY: u32 = 0x2000;

/// What adjtimex(2) returns: TIME_OK and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leap {
    Ok = 0,
    Insert = 1,
    Delete = 2,
    Now = 3,
    Over = 4,
}
/// TIME_ERROR: not synchronized.
const TIME_ERROR: i32 = 5;

/// `struct __kernel_timex`, without what is filled up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Timex {
    pub modes: u32,
    pub offset: i64,
    pub freq: i64,
    pub maxerror: i64,
    pub esterror: i64,
    pub status: i32,
    pub constant: i64,
    pub precision: i64,
    pub tolerance: i64,
    /// Seconds and micro- or nanoseconds.
    pub time: [i64; 2],
    pub tick: i64,
    pub tai: i32,
}

/// Why adjtimex(2) refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// EPERM
    Right,
    /// EINVAL
    Value,
}

impl Timex {
    /// sizeof(struct __kernel_timex)
    pub const BYTES: usize = 208;

    pub fn of(bytes: &[u8; Timex::BYTES]) -> Timex {
        let long = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_ne_bytes);
        let int = |at: usize| long(at) as i32;
        Timex {
            modes: int(0) as u32,
            offset: long(8),
            freq: long(16),
            maxerror: long(24),
            esterror: long(32),
            status: int(40),
            constant: long(48),
            precision: long(56),
            tolerance: long(64),
            time: [long(72), long(80)],
            tick: long(88),
            tai: int(160),
        }
    }

    /// Into the bytes that were told; what is not named here stays, but that of the pulse a second, which nobody has (pps_fill_timex).
    pub fn put(&self, bytes: &mut [u8; Timex::BYTES]) {
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let longs =
            [(8, self.offset), (16, self.freq), (24, self.maxerror), (32, self.esterror), (48, self.constant), (56, self.precision)];
        let more = [(64, self.tolerance), (72, self.time[0]), (80, self.time[1]), (88, self.tick)];
        for (at, value) in longs.into_iter().chain(more) {
            put(at, &value.to_ne_bytes());
        }
        put(40, &self.status.to_ne_bytes());
        // ppsfreq, jitter, shift, stabil, jitcnt, calcnt, errcnt, stbcnt
        for (at, size) in [(96, 8), (104, 8), (112, 4), (120, 8), (128, 8), (136, 8), (144, 8), (152, 8)] {
            put(at, &[0; 8][..size]);
        }
        put(160, &self.tai.to_ne_bytes());
    }

    /// timekeeping_validate_timex. `may`: CAP_SYS_TIME.
    pub fn check(&self, may: bool) -> Result<(), Refused> {
        if self.modes & ADJ_ADJTIME != 0 {
            if self.modes & ADJ_OFFSET_SINGLESHOT == 0 {
                return Err(Refused::Value);
            }
            if self.modes & ADJ_OFFSET_READONLY == 0 && !may {
                return Err(Refused::Right);
            }
        } else {
            if self.modes != 0 && !may {
                return Err(Refused::Right);
            }
            if self.modes & ADJ_TICK != 0 && !(900_000 / USER_HZ..=1_100_000 / USER_HZ).contains(&self.tick) {
                return Err(Refused::Value);
            }
        }
        if self.modes & ADJ_SETOFFSET != 0 {
            if !may {
                return Err(Refused::Right);
            }
            let most = if self.modes & ADJ_NANO != 0 { NANOS } else { MICROS };
            if !(0..most).contains(&self.time[1]) {
                return Err(Refused::Value);
            }
        }
        if self.modes & ADJ_FREQUENCY != 0 && !(i64::MIN / PPM_SCALE..=i64::MAX / PPM_SCALE).contains(&self.freq) {
            return Err(Refused::Value);
        }
        Ok(())
    }
}

/// shift_right: towards zero.
fn shifted(value: i64, by: u32) -> i64 {
    if value < 0 { -(value.wrapping_neg() >> by) } else { value >> by }
}

/// The state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ntp {
    leap: Leap,
    next_leap: i64,
    status: i32,
    /// Nanoseconds of an interval, with [`SCALE`] bits behind the point: what is still to be made good.
    offset: i64,
    constant: i64,
    maxerror: i64,
    esterror: i64,
    /// Nanoseconds a second, with [`SCALE`] bits behind the point.
    frequency: i64,
    /// When `offset` was told last, in seconds of CLOCK_REALTIME.
    reference: i64,
    /// Of adjtime(3), microseconds.
    adjust: i64,
    /// Microseconds.
    tick: i64,
    /// Nanoseconds of an interval, with [`SCALE`] bits behind the point.
    tick_length: i64,
    tick_length_base: i64,
}

impl Default for Ntp {
    fn default() -> Ntp {
        let mut ntp = Ntp {
            leap: Leap::Ok,
            next_leap: NEVER,
            status: STA_UNSYNC,
            offset: 0,
            constant: 2,
            maxerror: ERROR_MAX,
            esterror: ERROR_MAX,
            frequency: 0,
            reference: 0,
            adjust: 0,
            tick: MICROS / USER_HZ,
            tick_length: 0,
            tick_length_base: 0,
        };
        ntp.update_frequency();
        ntp
    }
}

impl Ntp {
    /// By how much the clock runs faster than its crystal, in parts of [`RATE_ONE`].
    pub fn rate(&self) -> i64 {
        let nominal = i128::from((NANOS / INTERVALS) << SCALE);
        // Rounded up: what comes to a whole number of nanoseconds is that, and not one less.
        let rate = -((nominal - i128::from(self.tick_length)) * i128::from(RATE_ONE)).div_euclid(nominal);
        // Ticks are 10 % off at most, and with the rest that is no more than 11 %.
        rate.clamp(-i128::from(RATE_ONE / 4), i128::from(RATE_ONE / 4)) as i64
    }

    /// Does nothing happen at the beginning of a second, but for `maxerror`?
    pub fn rests(&self) -> bool {
        self.leap == Leap::Ok
            && self.status & (STA_INS | STA_DEL) == 0
            && self.adjust == 0
            && self.chunk() == 0
            && self.tick_length == self.tick_length_base
    }

    /// ntp_offset_chunk
    fn chunk(&self) -> i64 {
        shifted(self.offset, (SHIFT_PLL + self.constant) as u32)
    }

    /// ntp_update_frequency
    fn update_frequency(&mut self) {
        let second = ((self.tick * NANOS_PER_MICRO * USER_HZ) << SCALE) + self.frequency;
        let base = second / INTERVALS;
        self.tick_length += base - self.tick_length_base;
        self.tick_length_base = base;
    }

    /// ntp_clear: the date was set.
    pub fn clear(&mut self) {
        self.adjust = 0;
        self.status |= STA_UNSYNC;
        (self.maxerror, self.esterror) = (ERROR_MAX, ERROR_MAX);
        self.update_frequency();
        self.tick_length = self.tick_length_base;
        self.offset = 0;
        self.next_leap = NEVER;
    }

    /// So many seconds have begun in which it rested.
    pub fn pass(&mut self, seconds: u64) {
        let seconds = i64::try_from(seconds).unwrap_or(ERROR_MAX).min(ERROR_MAX);
        self.grow_error(seconds * (FREQUENCY_MAX / NANOS_PER_MICRO));
    }

    fn grow_error(&mut self, by: i64) {
        self.maxerror += by;
        if self.maxerror > ERROR_MAX {
            self.maxerror = ERROR_MAX;
            self.status |= STA_UNSYNC;
        }
    }

    /// second_overflow: a second of CLOCK_REALTIME begins. By how many the clock is to be set on for a leap second.
    pub fn second(&mut self, seconds: i64) -> i64 {
        let mut leap = 0;
        match self.leap {
            Leap::Ok if self.status & STA_INS != 0 => {
                self.leap = Leap::Insert;
                self.next_leap = seconds + DAY - seconds.rem_euclid(DAY);
            }
            Leap::Ok if self.status & STA_DEL != 0 => {
                self.leap = Leap::Delete;
                self.next_leap = seconds + DAY - (seconds + 1).rem_euclid(DAY);
            }
            Leap::Insert if self.status & STA_INS == 0 => (self.leap, self.next_leap) = (Leap::Ok, NEVER),
            Leap::Insert if seconds == self.next_leap => (self.leap, leap) = (Leap::Now, -1),
            Leap::Delete if self.status & STA_DEL == 0 => (self.leap, self.next_leap) = (Leap::Ok, NEVER),
            Leap::Delete if seconds == self.next_leap => (self.leap, self.next_leap, leap) = (Leap::Over, NEVER, 1),
            Leap::Now => (self.leap, self.next_leap) = (Leap::Over, NEVER),
            Leap::Over if self.status & (STA_INS | STA_DEL) == 0 => self.leap = Leap::Ok,
            _ => {}
        }
        self.grow_error(FREQUENCY_MAX / NANOS_PER_MICRO);
        let chunk = self.chunk();
        self.offset -= chunk;
        self.tick_length = self.tick_length_base + chunk;
        let most = ((ADJUST_MAX * NANOS_PER_MICRO) << SCALE) / INTERVALS;
        if self.adjust > ADJUST_MAX {
            self.adjust -= ADJUST_MAX;
            self.tick_length += most;
        } else if self.adjust < -ADJUST_MAX {
            self.adjust += ADJUST_MAX;
            self.tick_length -= most;
        } else {
            self.tick_length += (self.adjust * NANOS_PER_MICRO / INTERVALS) << SCALE;
            self.adjust = 0;
        }
        leap
    }

    /// __do_adjtimex, of a request that [`Timex::check`] has found good. `date`: CLOCK_REALTIME in nanoseconds, `tai`: what CLOCK_TAI shows beyond, in seconds.
    /// What the call returns.
    pub fn adjust(&mut self, request: &mut Timex, date: u64, tai: &mut i32) -> i32 {
        let (seconds, nanos) = ((date / NANOS as u64) as i64, (date % NANOS as u64) as i64);
        if request.modes & ADJ_ADJTIME != 0 {
            let before = self.adjust;
            if request.modes & ADJ_OFFSET_READONLY == 0 {
                self.adjust = request.offset;
                self.update_frequency();
            }
            request.offset = before;
        } else {
            if request.modes != 0 {
                self.change(request, seconds, tai);
            }
            request.offset = shifted(self.offset.saturating_mul(INTERVALS), SCALE);
            if self.status & STA_NANO == 0 {
                request.offset /= NANOS_PER_MICRO;
            }
        }
        let mut result = if self.is_error() { TIME_ERROR } else { self.leap as i32 };
        request.freq = shifted((self.frequency >> PPM_SCALE_INVERSE_SHIFT).saturating_mul(PPM_SCALE_INVERSE), SCALE);
        (request.maxerror, request.esterror) = (self.maxerror, self.esterror);
        (request.status, request.constant) = (self.status, self.constant);
        (request.precision, request.tolerance) = (1, FREQUENCY_MAX_SCALED / PPM_SCALE);
        (request.tick, request.tai) = (self.tick, *tai);
        request.time = [seconds, if self.status & STA_NANO == 0 { nanos / NANOS_PER_MICRO } else { nanos }];
        if seconds >= self.next_leap {
            if self.leap == Leap::Insert && self.status & STA_INS != 0 {
                result = Leap::Now as i32;
                request.tai += 1;
                request.time[0] -= 1;
            }
            if self.leap == Leap::Delete && self.status & STA_DEL != 0 {
                result = Leap::Over as i32;
                request.tai -= 1;
                request.time[0] += 1;
            }
            if self.leap == Leap::Now && seconds == self.next_leap {
                result = Leap::Over as i32;
            }
        }
        result
    }

    /// is_error_status, of a kernel that knows no pulse a second (CONFIG_NTP_PPS).
    fn is_error(&self) -> bool {
        self.status & (STA_UNSYNC | STA_CLOCKERR) != 0
    }

    /// process_adjtimex_modes
    fn change(&mut self, request: &Timex, seconds: i64, tai: &mut i32) {
        let has = |mode: u32| request.modes & mode != 0;
        if has(ADJ_STATUS) {
            if self.status & STA_PLL != 0 && request.status & STA_PLL == 0 {
                (self.leap, self.status, self.next_leap) = (Leap::Ok, STA_UNSYNC, NEVER);
            }
            if self.status & STA_PLL == 0 && request.status & STA_PLL != 0 {
                self.reference = seconds;
            }
            self.status = self.status & STA_RONLY | request.status & !STA_RONLY;
        }
        if has(ADJ_NANO) {
            self.status |= STA_NANO;
        }
        if has(ADJ_MICRO) {
            self.status &= !STA_NANO;
        }
        if has(ADJ_FREQUENCY) {
            self.frequency = request.freq.saturating_mul(PPM_SCALE).clamp(-FREQUENCY_MAX_SCALED, FREQUENCY_MAX_SCALED);
        }
        if has(ADJ_MAXERROR) {
            self.maxerror = request.maxerror.clamp(0, ERROR_MAX);
        }
        if has(ADJ_ESTERROR) {
            self.esterror = request.esterror.clamp(0, ERROR_MAX);
        }
        if has(ADJ_TIMECONST) {
            let shorter = if self.status & STA_NANO == 0 { 4 } else { 0 };
            self.constant = (request.constant.clamp(0, CONSTANT_MAX) + shorter).clamp(0, CONSTANT_MAX);
        }
        if has(ADJ_TAI) && (0..=TAI_MAX).contains(&request.constant) {
            *tai = request.constant as i32;
        }
        if has(ADJ_OFFSET) {
            self.update_offset(request.offset, seconds);
        }
        if has(ADJ_TICK) {
            self.tick = request.tick;
        }
        if has(ADJ_TICK | ADJ_FREQUENCY | ADJ_OFFSET) {
            self.update_frequency();
        }
    }

    /// ntp_update_offset
    fn update_offset(&mut self, offset: i64, now: i64) {
        if self.status & STA_PLL == 0 {
            return;
        }
        let offset = if self.status & STA_NANO == 0 { offset.clamp(-MICROS, MICROS) * NANOS_PER_MICRO } else { offset };
        let offset = offset.clamp(-PHASE_MAX, PHASE_MAX);
        let seconds = if self.status & STA_FREQHOLD != 0 { 0 } else { now.saturating_sub(self.reference) };
        self.reference = now;
        let mut change = i128::from(self.update_offset_fll(offset, seconds));
        let seconds = seconds.min(1 << (SHIFT_PLL + 1 + self.constant));
        change += (i128::from(offset) * i128::from(seconds)) << (i64::from(SCALE) - 2 * (SHIFT_PLL + 2 + self.constant));
        let most = i128::from(FREQUENCY_MAX_SCALED);
        self.frequency = (change + i128::from(self.frequency)).clamp(-most, most) as i64;
        self.offset = (offset << SCALE) / INTERVALS;
    }

    /// ntp_update_offset_fll
    fn update_offset_fll(&mut self, offset: i64, seconds: i64) -> i64 {
        self.status &= !STA_MODE;
        let (least, most) = FLL_SECONDS;
        if seconds < least || self.status & STA_FLL == 0 && seconds <= most {
            return 0;
        }
        self.status |= STA_MODE;
        (offset << (SCALE - SHIFT_FLL)) / seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(ntp: &mut Ntp, request: Timex) -> (i32, Timex) {
        let (mut request, mut tai) = (request, 0);
        request.check(true).unwrap();
        let result = ntp.adjust(&mut request, 1_000_500_000_000, &mut tai);
        (result, request)
    }

    fn ppm(ntp: &Ntp) -> f64 {
        ntp.rate() as f64 / RATE_ONE as f64 * 1e6
    }

    #[test]
    fn a_fresh_clock_runs_as_its_crystal_and_is_not_synchronized() {
        let mut ntp = Ntp::default();
        assert_eq!((ntp.rate(), ntp.rests()), (0, true));
        let (result, told) = changed(&mut ntp, Timex::default());
        assert_eq!(
            (result, told.status, told.maxerror, told.tick, told.tolerance),
            (TIME_ERROR, STA_UNSYNC, 16_000_000, 10_000, 500 << 16)
        );
    }

    #[test]
    fn frequency_and_tick_make_the_rate() {
        let mut ntp = Ntp::default();
        changed(&mut ntp, Timex { modes: ADJ_FREQUENCY, freq: -(40 << 16), ..Timex::default() });
        assert!((ppm(&ntp) + 40.0).abs() < 1e-6 && ntp.rests(), "{}", ppm(&ntp));
        changed(&mut ntp, Timex { modes: ADJ_FREQUENCY | ADJ_TICK, freq: i64::MAX / PPM_SCALE, tick: 11_000, ..Timex::default() });
        assert!((ppm(&ntp) - 100_500.0).abs() < 1e-6, "{}", ppm(&ntp));
    }

    #[test]
    fn adjtime_comes_to_what_was_asked_for() {
        let mut ntp = Ntp::default();
        for asked in [1_234_i64, -1_750, 3, 0] {
            changed(&mut ntp, Timex { modes: ADJ_ADJTIME | ADJ_OFFSET_SINGLESHOT, offset: asked, ..Timex::default() });
            let mut gained = 0.0;
            for second in 0..6 {
                ntp.second(second);
                gained += ppm(&ntp);
            }
            assert!((gained - asked as f64).abs() < 1e-6 && ntp.rests(), "{asked}: {gained}");
        }
    }

    #[test]
    fn a_phase_is_made_good_by_a_part_each_second() {
        let mut ntp = Ntp::default();
        let modes = ADJ_STATUS | ADJ_NANO | ADJ_TIMECONST | ADJ_OFFSET;
        changed(&mut ntp, Timex { modes, status: STA_PLL | STA_FREQHOLD, constant: 0, offset: 1_000_000, ..Timex::default() });
        let mut gained = 0.0;
        for second in 0..300 {
            ntp.second(second);
            if second == 0 {
                assert!((ppm(&ntp) - 250.0).abs() < 0.01, "{}", ppm(&ntp));
            }
            gained += ppm(&ntp);
        }
        assert!((gained - 1000.0).abs() < 1.0 && ntp.rests(), "{gained}");
    }

    #[test]
    fn no_request_comes_to_more_than_a_rate_that_can_be_reckoned_with() {
        let extremes = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX];
        let mut ntp = Ntp::default();
        for (at, offset) in extremes.into_iter().enumerate() {
            for bits in 0..16_u32 {
                let modes = (0..16).filter(|bit| bits >> (bit % 4) & 1 != 0).fold(0, |all, bit| all | 1 << bit);
                let other = extremes[(at + bits as usize) % extremes.len()];
                let request = Timex {
                    modes,
                    offset,
                    freq: other,
                    maxerror: other,
                    esterror: offset,
                    status: offset as i32,
                    constant: other,
                    time: [offset, other],
                    tick: 11_000,
                    ..Timex::default()
                };
                let mut request = request;
                let _ = request.check(true);
                if request.modes & ADJ_TICK != 0 && request.modes & ADJ_ADJTIME != 0 {
                    request.modes &= !ADJ_TICK;
                }
                let mut tai = 0;
                ntp.adjust(&mut request, u64::MAX, &mut tai);
                ntp.second(other / 2);
                assert!(ntp.rate().abs() <= RATE_ONE / 4 && (0..=TAI_MAX as i32).contains(&tai));
            }
        }
        ntp.pass(u64::MAX);
        assert_eq!((ntp.maxerror, ntp.status & STA_UNSYNC), (ERROR_MAX, STA_UNSYNC));
    }
}
