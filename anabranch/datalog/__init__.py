"""A small Datalog: facts are tuples, rules are data, and the fixed point keeps derivations."""
