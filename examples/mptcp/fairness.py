#!/usr/bin/env python3
"""Two subflows through one bottleneck, beside a NewReno flow: who gets how much of it, by congestion control.

    ./fairness.py [--seeds 30] [--controls lia,olia,balia,wvegas,reno] [--seconds 60] [--linux server] [--out fairness]

Jain's index is 1 when both have the same, and 0.5 when one has all; coupled controls come close to 1, reno with two subflows takes two shares of three.
Linux has none that are coupled, so a phone with it (--linux phone) takes --controls reno.
"""

from worlds import MPTCP, TCP, Mean, all_of, bars, options, parsed, run, table

# Seconds in which both come up to speed, and in which they end.
BEGIN, END = 5, 3


def rate(flow: dict) -> float:
    middle = flow["each"][BEGIN:-END]
    return sum(middle) * 8 / len(middle) / 1e6


def jain(rates: tuple[float, ...]) -> float:
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def main() -> None:
    parser = options(__doc__, "fairness")
    parser.add_argument("--controls", default="lia,olia,balia,wvegas,reno")
    parser.add_argument("--seconds", type=int, default=60)
    args = parsed(parser)

    def rates(control: str, seed: int) -> tuple[float, float]:
        def client(asked: str, port: int, control: str) -> list[str]:
            return ["python3", "/srv/flow.py", "client", asked, "server", str(port), "seconds", str(args.seconds), control]

        sets = {"programs.send.command": client(MPTCP, 5000, control), "programs.send-plain.command": client(TCP, 5001, "reno")}
        world = run(args, "fairness.toml", sets, seed)
        return rate(world.flow()), rate(world.flow("receive-plain"))

    found = all_of(args, args.controls.split(","), rates)
    of = {control: {"MPTCP": Mean(tuple(pair[0] for pair in pairs)), "TCP": Mean(tuple(pair[1] for pair in pairs))} for control, pairs in found.items()}
    index = {control: Mean(tuple(map(jain, pairs))) for control, pairs in found.items()}
    table(args, "fairness", ("control", "MPTCP, Mbit/s", "TCP, Mbit/s", "Jain"), [(control, *of[control].values(), index[control]) for control in of])
    bars(args, "fairness", f"10 Mbit/s, {args.seconds} s, {args.seeds} seeds, 95 % intervals", "goodput, Mbit/s",
         {control: list(pair.items()) for control, pair in of.items()})


if __name__ == "__main__":
    main()
