"""A cluster at a reduced scale: nodes are network namespaces, computing is sleep, bytes are real.

scale       how bytes and links are reduced, and what a rank that stands for eight GPUs sends
schedule    gradients as they become ready, in buckets; what that foretells
points      what each part of the study measures
sleeper     a model whose computing is sleep by the clock
rank        a node's rank: does as it is told, turn by turn
ranks       all of them, from outside
machine     what else the machine did meanwhile
gates       which runs count
measuring   the loop: measure, and repeat what was disturbed
record      the file of results, kept run by run
report      the results as Markdown
figures     and as pictures
"""
