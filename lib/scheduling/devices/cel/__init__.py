"""CEL, in which selectors of devices are written (`selectors.py` asks for their values).

`library.py` reads an expression by Google's library, `syntax.py` decodes what it has read, and `compile.py`
checks that. `run.py` evaluates it: with the operators and functions that `declarations.py` names, at the cost
that `cost.py` counts. Values that Python doesn't have are in `values.py`.
"""
