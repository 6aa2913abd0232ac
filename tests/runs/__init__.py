"""What a run of the tests consists of, how long it took, and what it says at its end.

selection   which cases a run has: quick ones, samples of others, those that failed in a sample not long ago
clock       how long each case took, and what it waited for
report      what was run, sampled and left out; the slowest cases; how to run a failed one again
kept        the folder of what one run keeps for the next
"""
