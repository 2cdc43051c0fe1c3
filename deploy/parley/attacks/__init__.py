"""Attacks on the claim, each tried with its guard and, to show that it is real, without: `parley audit attacks`.

kinds       what an attack is, what a guard is, how one is taken away
registry    all of them
…           one module for each surface that is attacked: its `ATTACKS` and its `GUARDS`
"""
