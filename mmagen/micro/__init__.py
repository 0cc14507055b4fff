"""Every MMA operation of the registry executed once and checked: many in one translation unit, judged one by one.

A kernel here is the operation's own `fma` and nothing else. Which thread owns which element comes from the registry's
thread-value layouts, which lay out registers and shared memory before the launch and read D after it; so a right result
says that instruction and layouts are both right.
"""
