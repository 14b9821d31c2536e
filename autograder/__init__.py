"""Points: the judge that asks, the checks that know the rules, and nbgrader around them."""
