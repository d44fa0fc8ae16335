"""The vocabulary of the gov component: proposals, deposits, votes, and changes of parameters."""
