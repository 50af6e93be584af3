%% As elect.py; it draws from the time since boot and its process id.
-module(elect).
-export([main/1]).

-define(PORT, 7000).

main([Name | Peers]) ->
    rand:seed(exsss, {erlang:monotonic_time(), list_to_integer(os:getpid()), 1}),
    {ok, Talk} = gen_udp:open(?PORT, [binary, {active, true}]),
    Me = list_to_binary(Name),
    follow(#{talk => Talk, me => Me, peers => Peers, term => 0, voted => none, votes => [], leader => none, known => none, begun => now_ms(),
             next => patience()}).

now_ms() -> erlang:monotonic_time(millisecond).

patience() -> now_ms() + 150 + rand:uniform(150).

tell(Word, To, #{talk := Talk, term := Term, me := Me}) ->
    Text = [Word, " ", integer_to_list(Term), " ", Me],
    [gen_udp:send(Talk, Peer, ?PORT, Text) || Peer <- To].

known(#{known := none} = State) -> State#{known := now_ms()};
known(State) -> State.

follow(#{known := Known, begun := Begun, next := Next, leader := Leader, me := Me, peers := Peers, term := Term} = State) ->
    Now = now_ms(),
    if
        Known =/= none, Now > Known + 2000 ->
            io:format("leader ~s~n", [Leader]),
            halt(0);
        Now >= Begun + 20000 ->
            io:format("nobody leads after ~b terms~n", [Term]),
            halt(1);
        true ->
            receive
                {udp, _, _, _, Text} ->
                    [Word, Other, Who] = binary:split(Text, <<" ">>, [global]),
                    follow(hear(Word, binary_to_integer(Other), Who, State))
            after max(0, Next - Now) ->
                if
                    Leader =:= Me ->
                        tell("lead", Peers, State),
                        follow(State#{next := now_ms() + 50});
                    true ->
                        Asks = State#{term := Term + 1, voted := Me, votes := [Me], leader := none, next := patience()},
                        tell("vote", Peers, Asks),
                        follow(Asks)
                end
            end
    end.

hear(Word, Other, Who, #{term := Term} = State) when Other > Term ->
    hear(Word, Other, Who, State#{term := Other, voted := none, votes := [], leader := none});
hear(_, Other, _, #{term := Term} = State) when Other < Term ->
    State;
hear(<<"vote">>, _, Who, #{voted := Voted} = State) when Voted =:= none; Voted =:= Who ->
    tell("yes", [binary_to_list(Who)], State),
    State#{voted := Who, next := patience()};
hear(<<"yes">>, _, Who, #{votes := Votes, leader := Leader, peers := Peers, me := Me} = State) ->
    All = lists:usort([Who | Votes]),
    case Leader =:= none andalso length(All) > (length(Peers) + 1) div 2 of
        true -> known(State#{votes := All, leader := Me, next := now_ms()});
        false -> State#{votes := All}
    end;
hear(<<"lead">>, _, Who, State) ->
    known(State#{leader := Who, next := patience()});
hear(_, _, _, State) ->
    State.
