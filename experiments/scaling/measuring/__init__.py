"""Training steps measured on several ranks.

points       what is measured: ranks, units, exchange, bucket, windows between exchanges
rank         the program of every rank: steps under the clock, then under torch's profiler
breakdown    the profiler's events as seconds of computing, exchanging, waiting
environment  where that happened
results      a point's JSON file: its repeats, their medians, or why there are none
launching    a point started as ranks, and ended
explanation  the performance model fitted to what was measured
report       that as tables
figure       and as a picture
"""
