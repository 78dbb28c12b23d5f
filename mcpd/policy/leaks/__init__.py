"""Secrets in what passes: values that mcpd holds, and what looks like one by its shape (n17).

Layer 1 are held values in the forms of `forms`; layer 2 the tokens of known providers (`prefixes`) and
what gives itself away by its structure (`structures`); layer 3 what is assigned to a telling name
(`assignments`), which is only ever warned of. `engine` finds all of them in one pass over bytes: the
literals of every layer are in one automaton, and a rule looks closer only where its literal stands.
`strings` takes JSON text apart and puts it together again, so that what is looked through are the decoded
strings. Two or more encodings on top of each other are out of scope, and so is a value sent backwards.
"""
