"""Words in definitions that tell a model what to do instead of what a tool does (n18): shown to whoever
approves, and never a reason by themselves.

`rule` is what a rule is, `words` are what several are made of, `orders`, `ruses` and `harm` are the rules,
`find` tries them. They cannot tell quoting from doing (search-and-leaks reference 3.1).
"""
