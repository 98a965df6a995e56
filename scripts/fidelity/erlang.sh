#!/bin/sh
# four processes of Erlang that answer 20,000 messages each
exec erl -noshell -eval 'F = fun(F, 0) -> ok; (F, N) -> receive {P, M} -> P ! {self(), M}, F(F, N - 1) end end,
    Ps = [spawn(fun() -> F(F, 60000) end) || _ <- lists:seq(1, 4)],
    [[P ! {self(), X} || P <- Ps] ++ [receive {_, _} -> ok end || _ <- Ps] || X <- lists:seq(1, 20000)], halt().'
