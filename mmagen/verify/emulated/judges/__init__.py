"""How inputs are drawn and results judged: each module has a `judge(task)`, and Trials.judge names it."""
